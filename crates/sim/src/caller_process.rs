//! A caller's process in the simulation: what the runtime does around a binder and its lanes.

mod binding;
mod calling;
mod cancelling;
mod flow;
mod large;
mod refused;

use crate::events::{Event, Place, ThreadId};
use crate::network::Socket;
use crate::world::{Call, CallerProcess, Thread};
use crate::{Address, CallId, Sabotage, Side, Sim, Told};
use core::time::Duration;
use stoop_calls::life::{self, Life, Said};
use stoop_wire::{Kind, LaneId};

/// Time for which a caller tries to bind.
const BIND_LIMIT: Duration = Duration::from_secs(7);

/// Where the binder receives; the threads' ports follow.
const BINDER_PORT: u16 = 1000;

impl Sim {
    pub(crate) fn thread(&mut self, at: ThreadId) -> &mut Thread {
        &mut self.callers[at.caller].threads[at.thread]
    }

    pub(crate) fn call_of(&mut self, at: ThreadId) -> Option<&mut Call> {
        self.thread(at).call.as_mut()
    }

    /// The thread's call, if it is still that one.
    fn call_named(&mut self, at: ThreadId, id: CallId) -> Option<&mut Call> {
        let any = self.sabotage == Sabotage::IgnoresCallIds;
        self.call_of(at).filter(|call| call.id == id || any)
    }

    /// The threads of a caller.
    pub(crate) fn threads_of(&self, caller: usize) -> impl Iterator<Item = ThreadId> + Clone + use<> {
        (0..self.scenario.threads).map(move |thread| ThreadId { caller, thread })
    }

    pub(crate) fn caller_starts(&mut self, caller: usize) {
        let process = &mut self.callers[caller];
        if process.up {
            return;
        }
        *process = CallerProcess {
            life: process.life + 1,
            up: true,
            host: process.host,
            threads: std::mem::take(&mut process.threads),
            ..CallerProcess::default()
        };
        let life = process.life;
        for at in self.threads_of(caller) {
            self.plan_within(self.scenario.think, Event::ThreadWakes(at, life));
        }
        if let Some(up) = self.scenario.caller_up
            && self.has_traffic()
        {
            self.plan_within(up, Event::CallerCrashes { caller, life });
        }
    }

    pub(crate) fn caller_crashes(&mut self, caller: usize) {
        let now = self.caller_is_judged_at(caller);
        let process = &mut self.callers[caller];
        process.up = false;
        process.flow = None;
        process.held.clear();
        self.report.caller_crashes += 1;
        for thread in &mut process.threads {
            thread.own = None;
            thread.socket = Socket::default();
            (thread.drains_at, thread.timer_at) = (None, None);
            if let Some(call) = thread.call.take().filter(|call| !call.cancelled) {
                self.ledger.ends(call.id, Told::Crashed, now);
                self.report.count_end(Told::Crashed);
            }
        }
        self.plan_within((Duration::ZERO, Duration::from_millis(20)), Event::CallerStarts { caller });
    }

    /// The caller's packets come from another address from now on, and what is sent to the old one is lost.
    pub(crate) fn caller_moves(&mut self, caller: usize) {
        self.hosts += 1;
        self.callers[caller].host = self.hosts;
        self.report.moves += 1;
        if let Some(moves) = self.scenario.moves
            && self.has_traffic()
        {
            self.plan_within(moves, Event::CallerMoves { caller });
        }
    }

    /// A thread begins its next call.
    pub(crate) fn thread_wakes(&mut self, at: ThreadId) {
        let thread = &mut self.callers[at.caller].threads[at.thread];
        if thread.call.is_some() || thread.calls_left == 0 {
            return;
        }
        thread.calls_left -= 1;
        let (wish, cancelled) = self.scenario.wish(&mut self.random);
        let id = self.begin_call(at, wish);
        if let Some(after) = cancelled {
            let life = self.callers[at.caller].life;
            self.events.plan(self.now + after, Event::CallCancelled(at, life, id));
        }
    }

    /// The caller, on a machine that runs, whose socket has that address, and the thread; without one it is that of the binder.
    fn socket_at(&self, to: Address) -> Option<(usize, Option<ThreadId>)> {
        let up = |process: &CallerProcess| process.up && process.host == to.host;
        let caller =
            self.callers.iter().position(up).filter(|caller| !self.is_stopped(self.machine_of(*caller)))?;
        let thread = (to.port - BINDER_PORT).checked_sub(1).map(usize::from);
        Some((caller, thread.map(|thread| ThreadId { caller, thread })))
    }

    /// A packet reaches a caller's machine, and waits in its thread's socket if that is slow.
    pub(crate) fn reaches_caller(&mut self, to: Address, mut packet: Vec<u8>) {
        let Some((caller, thread)) = self.socket_at(to) else { return };
        let Some(at) = thread else { return self.binder_receives(caller, &packet) };
        let at = self.behind_one_socket(at, &packet);
        let (room, drain) = (self.scenario.caller_buffer, self.scenario.caller_drain);
        if drain.is_zero() {
            return self.thread_receives(at, &mut packet);
        }
        let process = &mut self.callers[caller];
        match process.threads[at.thread].socket.arrives(self.now, packet.len(), room, drain) {
            Some(taken) => self.events.plan(taken, Event::ThreadTakes { at, life: process.life, packet }),
            None => self.report.overflows += 1,
        }
    }

    /// The thread for which a packet is that has come to the socket of another one, or the other. The runtime's begun calls have one socket, and
    /// a server sends acknowledgements that no packet asks for to where one of the calls came from.
    fn behind_one_socket(&self, at: ThreadId, packet: &[u8]) -> ThreadId {
        let process = &self.callers[at.caller];
        let is_acknowledgement = packet.get(2) == Some(&(Kind::Acknowledgement as u8));
        if process.flow.is_none() || !is_acknowledgement {
            return at;
        }
        let lane = LaneId::of_packet(packet);
        let of = |thread: &Thread| thread.own.as_ref().map(|own| own.lane.id());
        let thread = process.threads.iter().position(|thread| of(thread) == lane);
        ThreadId { thread: thread.unwrap_or(at.thread), ..at }
    }

    fn send_to_server(&mut self, from: Address, to: Place, packet: &[u8]) {
        let Some(packet) = self.sealed(Side::Caller, packet.to_vec()) else { return };
        self.is_seen(Side::Caller, (from, to), &packet);
        let arriving = self.network.send(self.now, Side::Caller, packet, &mut self.random);
        if self.traced && arriving.is_empty() {
            let Address { host, port } = from;
            println!("{:>16} ns  what {host}:{port} sends is lost", self.now.as_nanos());
        }
        for (at, packet) in arriving {
            self.events.plan(at, Event::ToServer { from, to, packet });
        }
    }

    /// The call of a thread ends with an error that says `said`; `told`: which one its caller gets.
    fn fail(&mut self, at: ThreadId, told: life::Told, said: Said) {
        let call = self.call_of(at).expect("a call that fails has begun");
        let mut attempts = call.life;
        if self.sabotage == Sabotage::ForgetsLostAttempts {
            attempts = Life::default();
        }
        let told = match (attempts.transmissions_of_unknown(told, said), said) {
            (Some(_), _) | (None, Said::Unknown(_)) => Told::Unknown,
            (None, Said::Other) => Told::Failed,
            (None, Said::NotSent | Said::Refused) => Told::DidNotRun,
        };
        self.end_call(at, told);
    }

    /// The call of a thread has ended; the thread thinks and goes on.
    fn end_call(&mut self, at: ThreadId, told: Told) {
        let (now, judged_at) = (self.caller_now(at.caller), self.caller_is_judged_at(at.caller));
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let call = thread.call.take().expect("a call that ends has begun");
        if let Some(flow) = process.flow.as_mut().filter(|_| call.under_way) {
            flow.on_forgotten(1);
        }
        if self.traced {
            println!("{:>16} ns  {:?} of {at:?} ends: {told:?}", now.as_nanos(), call.id);
        }
        if call.cancelled {
            self.ledger.settled(call.id, told, judged_at);
        } else {
            self.ledger.ends(call.id, told, judged_at);
        }
        self.report.count_end(told);
        if let Some(mut own) = thread.own.take() {
            own.lane().abandon(now);
            own.lane.settle(&mut own.path.borrow_mut());
            let in_flight = own.path.borrow().in_flight();
            if told != Told::Unknown || !self.scenario.retires_lanes {
                thread.own = Some(own);
            } else if own.generation == process.generation {
                process.lanes.rest(now, own.lane);
            }
            if in_flight > 0 && process.threads.iter().all(Thread::sends_nothing) {
                self.ledger.complain(format!("{in_flight} bytes are in flight while no call is being sent"));
            }
        }
        let life = process.life;
        let is_done = |thread: &Thread| thread.calls_left == 0 && thread.call.is_none();
        if process.threads.iter().all(is_done) && self.random.chance(self.scenario.unbinds) {
            return self.unbind(at.caller);
        }
        let mut think = self.random.between(self.scenario.think);
        if self.random.chance(self.scenario.nap) {
            think *= 1000;
        }
        self.events.plan(self.now + think, Event::ThreadWakes(at, life));
    }
}
