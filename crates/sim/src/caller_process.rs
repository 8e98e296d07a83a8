//! A caller's process in the simulation: what the runtime does around [`Binder`] and [`Lane`].

use crate::events::{Event, Life, ThreadId};
use crate::ledger::CallId;
use crate::server_process::{ERRAND_LEN, Errand, Manner, interface};
use crate::{Address, Sabotage, Side, Sim, Told};
use core::time::Duration;
use std::rc::Rc;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::caller::{Due, Heard, Lane};
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::bind::HostFacts;
use stoop_wire::{HEADER_LEN, Header, Kind, LaneId, RefusalCode};

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
    binding: Option<Rc<Bound>>,
    generation: Generation,
    binder: Option<Binder>,
    path: RoundTrip,
    next_lane: u16,
    retired: Vec<(Instant, OwnLane)>,
}

/// A lane and which of its process's bindings it is of.
#[derive(Debug)]
struct OwnLane {
    generation: Generation,
    bound: Rc<Bound>,
    lane: Lane,
}

#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) calls_left: u32,
    own: Option<OwnLane>,
    call: Option<Call>,
}

/// A call in the making.
#[derive(Debug)]
struct Call {
    id: CallId,
    deadline: Instant,
    procedure: u16,
    idempotent: bool,
    packet: Vec<u8>,
    stage: Stage,
    /// It is idempotent and was sent again although it may have run: a later refusal no longer says that it did not.
    may_have_run: bool,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Waits for a binding. If it was sent before on one that the server did not know, it matters when.
    Waiting { sent: Option<Sent> },
    /// Sent on the thread's lane.
    Calling { first_sent: Instant },
}

/// How a call was sent on a binding that was lost.
#[derive(Clone, Debug)]
struct Sent {
    on: Rc<Bound>,
    first: Instant,
    acknowledged: bool,
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
        let process = &mut self.callers[caller];
        process.up = false;
        self.report.caller_crashes += 1;
        for thread in &mut process.threads {
            thread.own = None;
            if let Some(call) = thread.call.take() {
                self.ledger.ends(call.id, Told::Crashed, self.now);
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
        self.begin_call(at, work, manner, limit, idempotent);
    }

    pub(crate) fn begin_call(
        &mut self,
        at: ThreadId,
        work: Duration,
        manner: Manner,
        limit: Duration,
        idempotent: bool,
    ) -> CallId {
        let deadline = self.now + limit;
        let id = self.ledger.begin(deadline, idempotent);
        let more = if self.random.chance(self.scenario.long) { 1440 - ERRAND_LEN } else { 0 };
        let mut packet = vec![0; HEADER_LEN + ERRAND_LEN + more];
        Errand { id, work, manner }.write(&mut packet[HEADER_LEN..]);
        let procedure = self.random.below(u64::from(self.scenario.procedures)) as u16;
        let stage = Stage::Waiting { sent: None };
        let call = Call { id, deadline, procedure, idempotent, packet, stage, may_have_run: false };
        let process = &mut self.callers[at.caller];
        process.threads[at.thread].call = Some(call);
        if process.binding.is_some() {
            self.send_call(at);
        } else {
            self.wait_for_binding(at);
        }
        id
    }

    fn wait_for_binding(&mut self, at: ThreadId) {
        let life = self.callers[at.caller].life;
        let call = self.callers[at.caller].threads[at.thread].call.as_ref().expect("it has a call");
        self.events.plan(call.deadline, Event::WaitEnds(at, life));
        self.bind(at.caller);
    }

    fn bind(&mut self, caller: usize) {
        let process = &mut self.callers[caller];
        if process.binder.is_none() {
            let interface = interface(self.scenario.procedures);
            let nonce = self.random.nonce();
            let until = self.now + BIND_LIMIT;
            process.binder = Some(Binder::new(self.now, until, interface, HostFacts::default(), nonce));
            self.drive_binder(caller);
        }
    }

    pub(crate) fn binder_timer(&mut self, caller: usize) {
        let binder = self.callers[caller].binder.as_ref();
        if binder.is_some_and(|binder| binder.next_timeout() <= self.now) {
            self.drive_binder(caller);
        }
    }

    /// Sends what the binder has to send, and comes back when it has more.
    fn drive_binder(&mut self, caller: usize) {
        let (now, life) = (self.now, self.callers[caller].life);
        let Some(binder) = &mut self.callers[caller].binder else { return };
        if binder.has_expired(now) {
            self.callers[caller].binder = None;
            return self.binding_fails(caller);
        }
        let packet = binder.transmit(now);
        self.events.plan(binder.next_timeout(), Event::BinderTimer { caller, life });
        if let Some(packet) = packet {
            let host = self.callers[caller].host;
            self.send_to_server(Address { host, port: BINDER_PORT }, &packet);
        }
    }

    /// A packet reaches a caller's machine.
    pub(crate) fn caller_receives(&mut self, to: Address, packet: &mut [u8]) {
        let up = |process: &CallerProcess| process.up && process.host == to.host;
        let Some(caller) = self.callers.iter().position(up) else { return };
        if to.port == BINDER_PORT {
            return self.binder_receives(caller, packet);
        }
        let at = ThreadId { caller, thread: usize::from(to.port - BINDER_PORT - 1) };
        self.thread_receives(at, packet);
    }

    fn binder_receives(&mut self, caller: usize, packet: &[u8]) {
        let Some(binder) = &mut self.callers[caller].binder else { return };
        match binder.handle_packet(self.now, packet) {
            BindStep::Continue => self.drive_binder(caller),
            BindStep::Bound(bound) => {
                let path = binder.path();
                let process = &mut self.callers[caller];
                process.path = path;
                process.binder = None;
                process.binding = Some(Rc::new(bound));
                process.generation += 1;
                process.next_lane = 0;
                process.retired.clear();
                self.report.bindings += 1;
                for thread in 0..self.scenario.threads {
                    self.binding_is_there(ThreadId { caller, thread });
                }
            }
            BindStep::Refused(..) => {
                self.callers[caller].binder = None;
                self.report.binds_refused += 1;
                self.binding_fails(caller);
            }
            BindStep::Mismatch { procedure, .. } => {
                self.ledger.complain(format!("procedure {procedure} does not match itself"));
            }
        }
    }

    /// Whoever waits for a binding stops waiting.
    fn binding_fails(&mut self, caller: usize) {
        for thread in 0..self.scenario.threads {
            self.stop_waiting(ThreadId { caller, thread });
        }
    }

    /// Ends the call of a thread that waits for a binding. If it was never sent, it did not run.
    fn stop_waiting(&mut self, at: ThreadId) {
        let call = self.callers[at.caller].threads[at.thread].call.as_ref();
        match call.map(|call| &call.stage) {
            Some(Stage::Waiting { sent: None }) => self.end_call(at, Told::DidNotRun),
            Some(Stage::Waiting { sent: Some(_) }) => self.end_call(at, Told::Unknown),
            Some(Stage::Calling { .. }) | None => {}
        }
    }

    pub(crate) fn wait_ends(&mut self, at: ThreadId) {
        let call = self.callers[at.caller].threads[at.thread].call.as_ref();
        if call.is_some_and(|call| call.deadline <= self.now) {
            self.stop_waiting(at);
        }
    }

    /// A binding has been granted: may a call that the server refused under another one be sent under this?
    fn binding_is_there(&mut self, at: ThreadId) {
        let process = &mut self.callers[at.caller];
        let Some(Call { stage: Stage::Waiting { sent }, idempotent, .. }) = &process.threads[at.thread].call
        else {
            return;
        };
        let (sent, idempotent) = (sent.clone(), *idempotent);
        let bound = process.binding.as_ref().expect("it is there");
        let may_be_sent = sent.as_ref().is_none_or(|sent| match self.sabotage {
            Sabotage::ResendAnyway => true,
            Sabotage::ResendHoweverOld => sent.on.incarnation == bound.incarnation,
            _ => bound.shows_not_run(&sent.on, sent.first, self.now, sent.acknowledged),
        });
        if let Some(call) = &mut process.threads[at.thread].call {
            call.may_have_run |= !may_be_sent;
        }
        if may_be_sent || idempotent {
            self.report.sent_again += u64::from(sent.is_some());
            self.send_call(at);
        } else {
            self.report.unknown_by_restart += 1;
            self.end_call(at, Told::Unknown);
        }
    }

    /// A lane for a thread: its own, or one that has been left alone long enough, or a new one.
    fn lane_for(&mut self, at: ThreadId) {
        let now = self.now;
        let process = &mut self.callers[at.caller];
        let generation = process.generation;
        if process.threads[at.thread].own.as_ref().is_some_and(|own| own.generation == generation) {
            return;
        }
        let rested =
            process.retired.iter().position(|(until, own)| *until <= now && own.generation == generation);
        let own = match rested {
            Some(position) => process.retired.remove(position).1,
            None => {
                let bound = process.binding.as_ref().expect("a lane is one of a binding");
                let number = process.next_lane;
                process.next_lane += 1;
                self.report.lanes_opened = self.report.lanes_opened.max(usize::from(number) + 1);
                let mut lane = Lane::new(bound.binding, LaneId(number), process.path, self.random.bits());
                lane.set_silence_limit(self.scenario.silence_limit);
                OwnLane { generation, bound: Rc::clone(bound), lane }
            }
        };
        process.threads[at.thread].own = Some(own);
    }

    fn send_call(&mut self, at: ThreadId) {
        let now = self.now;
        self.lane_for(at);
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let (Some(OwnLane { lane, .. }), Some(call)) = (&mut thread.own, &mut thread.call) else { return };
        let bound = process.binding.as_ref().expect("it is sent on a binding");
        let procedure = bound.procedures[usize::from(call.procedure)];
        lane.start(now, call.deadline, procedure, &mut call.packet);
        call.stage = Stage::Calling { first_sent: now };
        let packet = call.packet.clone();
        self.send_from(at, &packet);
        self.plan_lane_timer(at);
    }

    fn send_from(&mut self, at: ThreadId, packet: &[u8]) {
        let port = BINDER_PORT + 1 + at.thread as u16;
        let host = self.callers[at.caller].host;
        self.send_to_server(Address { host, port }, packet);
    }

    fn send_to_server(&mut self, from: Address, packet: &[u8]) {
        let arrivals = self.network.arrivals(self.now, Side::Caller, packet, &mut self.random);
        for at in arrivals.into_iter().flatten() {
            self.events.plan(at, Event::ToServer { from, packet: packet.to_vec() });
        }
    }

    fn plan_lane_timer(&mut self, at: ThreadId) {
        let process = &self.callers[at.caller];
        if let Some(own) = &process.threads[at.thread].own {
            self.events.plan(own.lane.next_timeout(), Event::LaneTimer(at, process.life));
        }
    }

    fn thread_receives(&mut self, at: ThreadId, packet: &mut [u8]) {
        let now = self.now;
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let Some(OwnLane { lane, .. }) = &mut thread.own else { return };
        let before = lane.next_timeout();
        match lane.handle_packet(now, packet) {
            Heard::Result { .. } => {
                let call = thread.call.as_ref().expect("a result ends a call");
                let (_, result) = Header::parse(packet).expect("the lane parsed it");
                let says = CallId(u64::from_le_bytes(result.try_into().expect("results are eight bytes")));
                self.ledger.result(call.id, says);
                self.end_call(at, Told::Result);
            }
            Heard::Refused(RefusalCode::UnknownBinding) => self.on_unknown_binding(at),
            Heard::Refused(code) => {
                self.report.count_refusal(code);
                self.end_call(at, Told::DidNotRun);
            }
            Heard::Failed(code) => {
                self.report.count_failure(code);
                self.end_call(at, Told::Failed);
            }
            Heard::Prove(proof) => {
                self.report.proofs += 1;
                let call = thread.call.as_ref().expect("only a call is challenged").packet.clone();
                self.send_from(at, &proof);
                self.send_from(at, &call);
                self.plan_lane_timer(at);
            }
            Heard::Progress => {
                self.report.acknowledged += 1;
                self.plan_lane_timer(at);
            }
            Heard::Ignored => {
                if lane.next_timeout() != before {
                    self.ledger.complain("a packet that is ignored moves a timer".into());
                }
            }
        }
    }

    /// The server does not know the binding of this thread's lane. Unless another thread has already got a new one, one
    /// is asked for.
    fn on_unknown_binding(&mut self, at: ThreadId) {
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let (Some(own), Some(call)) = (thread.own.take(), &mut thread.call) else { return };
        let Stage::Calling { first_sent } = call.stage else { return };
        let acknowledged = own.lane.last_was_acknowledged();
        call.stage = Stage::Waiting { sent: Some(Sent { on: own.bound, first: first_sent, acknowledged }) };
        self.report.unknown_bindings += 1;
        if process.generation == own.generation {
            process.binding = None;
        }
        if process.binding.is_some() {
            self.binding_is_there(at);
        } else {
            self.wait_for_binding(at);
        }
    }

    pub(crate) fn lane_timer(&mut self, at: ThreadId) {
        let now = self.now;
        let thread = &mut self.callers[at.caller].threads[at.thread];
        let (Some(OwnLane { lane, .. }), Some(call)) = (&mut thread.own, &mut thread.call) else { return };
        if lane.next_timeout() > now {
            return;
        }
        match lane.handle_timeout(now, &mut call.packet) {
            Due::Nothing => self.ledger.complain("a lane's timer is due, and nothing is due".into()),
            Due::Retransmit => {
                self.report.retransmissions += 1;
                let packet = call.packet.clone();
                self.lane_goes_on(at, &packet);
            }
            Due::Probe(probe) => {
                self.report.probes += 1;
                self.lane_goes_on(at, &probe);
            }
            Due::GiveUp(lost) => {
                self.report.count_lost(lost);
                self.end_call(at, Told::Unknown);
            }
        }
    }

    fn lane_goes_on(&mut self, at: ThreadId, packet: &[u8]) {
        self.send_from(at, packet);
        let own = &self.callers[at.caller].threads[at.thread].own;
        if own.as_ref().is_some_and(|own| own.lane.next_timeout() <= self.now) {
            self.ledger.complain("a lane's timer does not advance".into());
        }
        self.plan_lane_timer(at);
    }

    /// The caller's machine hears that nobody listens at the server's port.
    pub(crate) fn port_is_closed(&mut self, to: Address) {
        let up = |process: &CallerProcess| process.up && process.host == to.host;
        let Some(caller) = self.callers.iter().position(up) else { return };
        if to.port == BINDER_PORT {
            return;
        }
        let at = ThreadId { caller, thread: usize::from(to.port - BINDER_PORT - 1) };
        let thread = &mut self.callers[caller].threads[at.thread];
        let Some(OwnLane { lane, .. }) = &mut thread.own else { return };
        match lane.handle_unreachable(self.now) {
            Due::GiveUp(lost) => {
                self.report.count_lost(lost);
                self.end_call(at, Told::Unknown);
            }
            _ => self.plan_lane_timer(at),
        }
    }

    /// The call of a thread has ended; the thread thinks and goes on.
    fn end_call(&mut self, at: ThreadId, told: Told) {
        let now = self.now;
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let call = thread.call.take().expect("a call that ends has begun");
        let told = if told == Told::DidNotRun && call.may_have_run { Told::Unknown } else { told };
        self.ledger.ends(call.id, told, now);
        self.report.count_end(told);
        if let Some(mut own) = thread.own.take() {
            own.lane.abandon(now);
            match told == Told::Unknown && self.scenario.retires_lanes {
                true => process.retired.push((now + RETIREMENT, own)),
                false => thread.own = Some(own),
            }
        }
        let life = process.life;
        let mut think = self.random.between(self.scenario.think);
        if self.random.chance(self.scenario.nap) {
            think *= 1000;
        }
        self.events.plan(now + think, Event::ThreadWakes(at, life));
    }

    /// Sends the unbind packet of an orderly caller.
    pub(crate) fn unbind(&mut self, caller: usize) {
        let process = &mut self.callers[caller];
        if let Some(bound) = process.binding.take() {
            process.threads.iter_mut().for_each(|thread| thread.own = None);
            let packet = Header::bare(Kind::Unbind, bound.binding, LaneId(0), stoop_wire::CallNumber::ZERO);
            let from = Address { host: process.host, port: BINDER_PORT };
            self.send_to_server(from, &packet.to_bytes());
        }
    }
}
