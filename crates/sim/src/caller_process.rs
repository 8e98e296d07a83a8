//! A caller's process in the simulation: what the runtime does around [`Binder`] and [`Lane`].

mod binding;
mod calling;
mod cancelling;
mod large;

use crate::errand::Manner;
use crate::events::{Event, Life, ThreadId};
use crate::ledger::CallId;
use crate::network::Socket;
use crate::{Address, Side, Sim, Told};
use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;
use stoop_exchange::binder::{Binder, Bound};
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{CompactCall, Lane};
use stoop_exchange::outcome::Sent;
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::MAX_DATAGRAM;

/// How long a caller tries to bind.
const BIND_LIMIT: Duration = Duration::from_secs(7);

/// How long a lane is left alone after a call whose outcome is unknown.
const RETIREMENT: Duration = Duration::from_secs(60);

/// Where the binder receives; the threads' ports follow.
const BINDER_PORT: u16 = 1000;

/// One binding after another, as a process gets them.
type Generation = u32;

#[derive(Debug, Default)]
pub(crate) struct CallerProcess {
    pub(crate) life: Life,
    pub(crate) up: bool,
    pub(crate) host: u16,
    pub(crate) threads: Vec<Thread>,
    binding: Option<Rc<Granted>>,
    bulk: Option<Rc<RefCell<Path>>>,
    generation: Generation,
    binder: Option<Binder>,
    path: RoundTrip,
    next_lane: u16,
    retired: Vec<(Instant, OwnLane)>,
}

/// A binding, and when its caller read that it was granted.
#[derive(Debug)]
struct Granted {
    bound: Bound,
    read: Instant,
}

/// A lane and which of its process's bindings it is of.
#[derive(Debug)]
struct OwnLane {
    generation: Generation,
    granted: Rc<Granted>,
    /// What all long calls of the binding share.
    path: Rc<RefCell<Path>>,
    lane: Lane,
    /// Where half of the short calls begin, as with a driver that has many on their way.
    brief: CompactCall,
    /// What is known of the way to the server by those.
    way: RoundTrip,
}

impl OwnLane {
    /// The lane, which knows of its call from now on.
    fn lane(&mut self) -> &mut Lane {
        self.lane.expand(&mut self.brief, self.way);
        &mut self.lane
    }

    fn next_timeout(&self) -> Instant {
        match self.brief.is_out() {
            true => self.brief.next_timeout(&self.way),
            false => self.lane.next_timeout(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Thread {
    socket: Socket,
    /// When a look is planned at what it owes once its socket is drained.
    drains_at: Option<Instant>,
    /// When parts were last sent again, and how often at that moment.
    resumed: (Instant, u32),
    /// When its lane's timer is planned.
    timer_at: Option<Instant>,
    pub(crate) calls_left: u32,
    own: Option<OwnLane>,
    call: Option<Call>,
}

impl Thread {
    /// None of its calls is under way in parts.
    fn sends_nothing(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.cancelled || call.packet.len() <= MAX_DATAGRAM)
    }
}

/// A call that somebody wants made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) work: Duration,
    pub(crate) manner: Manner,
    /// To the deadline.
    pub(crate) limit: Duration,
    pub(crate) idempotent: bool,
    /// Bytes of the arguments, or as many as are needed.
    pub(crate) arguments: usize,
    /// Bytes of the result, or as many as are needed.
    pub(crate) result: usize,
}

/// A call in the making.
#[derive(Debug)]
struct Call {
    id: CallId,
    deadline: Instant,
    procedure: u16,
    idempotent: bool,
    packet: Vec<u8>,
    /// The parts of a long result that are here.
    result: Vec<u8>,
    /// Bytes of the arguments that the server has asked for so far.
    limit: usize,
    /// The program no longer waits for it.
    cancelled: bool,
    stage: Stage,
    /// It is idempotent and was sent again although it may have run: a later refusal no longer says that it did not.
    may_have_run: bool,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Waits for a binding. If it was sent before on one that the server did not know, it matters how.
    Waiting { sent: Option<(Rc<Granted>, Sent)> },
    /// Sent on the thread's lane.
    Calling { first_sent: Instant },
}

impl Sim {
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
        for thread in 0..self.scenario.threads {
            let wakes = self.now + self.random.between(self.scenario.think);
            self.events.plan(wakes, Event::ThreadWakes(ThreadId { caller, thread }, life));
        }
        if let Some(up) = self.scenario.caller_up
            && self.has_traffic()
        {
            let crashes = self.now + self.random.between(up);
            self.events.plan(crashes, Event::CallerCrashes { caller, life });
        }
    }

    pub(crate) fn caller_crashes(&mut self, caller: usize) {
        let now = self.caller_is_judged_at(caller);
        let process = &mut self.callers[caller];
        process.up = false;
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
        let back = self.now + self.random.between((Duration::ZERO, Duration::from_millis(20)));
        self.events.plan(back, Event::CallerStarts { caller });
    }

    /// The caller's packets come from another address from now on, and what is sent to the old one is lost.
    pub(crate) fn caller_moves(&mut self, caller: usize) {
        self.hosts += 1;
        self.callers[caller].host = self.hosts;
        self.report.moves += 1;
        if let Some(moves) = self.scenario.moves
            && self.has_traffic()
        {
            let next = self.now + self.random.between(moves);
            self.events.plan(next, Event::CallerMoves { caller });
        }
    }

    /// A thread begins its next call.
    pub(crate) fn thread_wakes(&mut self, at: ThreadId) {
        let thread = &mut self.callers[at.caller].threads[at.thread];
        if thread.call.is_some() || thread.calls_left == 0 {
            return;
        }
        thread.calls_left -= 1;
        let scenario = &self.scenario;
        let random = &mut self.random;
        let work =
            if random.chance(scenario.instant) { Duration::ZERO } else { random.between(scenario.work) };
        let manner = if random.chance(scenario.panics) {
            Manner::Panics
        } else if random.chance(scenario.bad_arguments) {
            Manner::BadArguments
        } else {
            Manner::Returns
        };
        let limit = random.between(scenario.deadline);
        let idempotent = random.chance(scenario.idempotent);
        let arguments = if random.chance(scenario.long) { 1440 } else { random.size(scenario.arguments) };
        let result = random.size(scenario.results);
        let cancelled = random.chance(scenario.cancels).then(|| match scenario.cancel_after {
            Some(span) => random.between(span),
            // Most of them early, where there is more to go wrong.
            None => random.between((Duration::ZERO, limit)) / random.pick(&[1, 10, 100, 1000]),
        });
        let id = self.begin_call(at, Wish { work, manner, limit, idempotent, arguments, result });
        if let Some(after) = cancelled {
            let life = self.callers[at.caller].life;
            self.events.plan(self.now + after, Event::CallCancelled(at, life, id));
        }
    }

    /// A packet reaches a caller's machine, and waits in its thread's socket if that is slow.
    pub(crate) fn reaches_caller(&mut self, to: Address, mut packet: Vec<u8>) {
        let up = |process: &CallerProcess| process.up && process.host == to.host;
        let Some(caller) = self.callers.iter().position(up) else { return };
        if self.is_stopped(self.machine_of(caller)) {
            return;
        }
        if to.port == BINDER_PORT {
            return self.binder_receives(caller, &packet);
        }
        let at = ThreadId { caller, thread: usize::from(to.port - BINDER_PORT - 1) };
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

    fn send_to_server(&mut self, from: Address, packet: &[u8]) {
        let arriving = self.network.send(self.now, Side::Caller, packet.to_vec(), &mut self.random);
        if self.traced && arriving.is_empty() {
            let Address { host, port } = from;
            println!("{:>16} ns  what {host}:{port} sends is lost", self.now.as_nanos());
        }
        for (at, packet) in arriving {
            self.events.plan(at, Event::ToServer { from, packet });
        }
    }

    /// The call of a thread has ended; the thread thinks and goes on.
    fn end_call(&mut self, at: ThreadId, told: Told) {
        let (now, judged_at) = (self.caller_now(at.caller), self.caller_is_judged_at(at.caller));
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let call = thread.call.take().expect("a call that ends has begun");
        let told = if told == Told::DidNotRun && call.may_have_run { Told::Unknown } else { told };
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
            match told == Told::Unknown && self.scenario.retires_lanes {
                true => process.retired.push((now + RETIREMENT, own)),
                false => thread.own = Some(own),
            }
            if in_flight > 0 && process.threads.iter().all(Thread::sends_nothing) {
                self.ledger.complain(format!("{in_flight} bytes are in flight when no call is being sent"));
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
