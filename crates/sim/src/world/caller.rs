//! The state of a caller's process, of its threads and of their calls.

use crate::events::{Life, Place};
use crate::ledger::CallId;
use crate::network::Socket;
use core::ops::DerefMut;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use stoop_calls::life::{self, Why};
use stoop_exchange::binder::{Binder, Bound};
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{CompactCall, Lane, Lanes, Way};
use stoop_exchange::outcome::{Sent, Unbound};
use stoop_exchange::retry::RetryBudget;
use stoop_exchange::{Flow, Instant, RoundTrip};
use stoop_wire::{CallNumber, HEADER_LEN, MAX_DATAGRAM, PACKET_DATA, Refused};

/// One binding after another, as a process gets them.
pub(crate) type Generation = u32;

#[derive(Debug, Default)]
pub(crate) struct CallerProcess {
    pub(crate) life: Life,
    pub(crate) up: bool,
    pub(crate) host: u16,
    pub(crate) threads: Vec<Thread>,
    pub(crate) binding: Option<Rc<Granted>>,
    pub(crate) bulk: Option<Rc<RefCell<Path>>>,
    pub(crate) generation: Generation,
    pub(crate) binder: Option<Binder>,
    /// The server to which it binds, or has bound.
    pub(crate) place: Place,
    /// When it began to try to bind the last time.
    pub(crate) attempted: Instant,
    /// The refusal because of which it tries.
    pub(crate) because: Option<Unbound>,
    /// Until when it tries to bind, to one server after the other.
    pub(crate) binds_until: Instant,
    /// How many calls may be under way, if the callers of the scenario keep to credits.
    pub(crate) flow: Option<Flow>,
    /// Until when the server reserves the credit that it was granted, by the time of the world.
    pub(crate) reserved_until: Instant,
    /// The largest credit that it was ever granted.
    pub(crate) largest_credit: u32,
    /// Threads whose calls wait until they may leave, and perhaps others; the oldest call first.
    pub(crate) held: VecDeque<(usize, CallId)>,
    /// Calls sent, each as often as it was begun on a lane.
    pub(crate) begun: u64,
    pub(crate) budget: Option<RetryBudget>,
    pub(crate) path: RoundTrip,
    /// Lanes of the present binding that no thread has.
    pub(crate) lanes: Lanes,
}

impl CallerProcess {
    /// A process that has not started: so many threads, each of which makes so many calls.
    pub(crate) fn new(host: u16, threads: usize, calls: u32) -> Self {
        let thread = || Thread { calls_left: calls, ..Thread::default() };
        Self { host, threads: std::iter::repeat_with(thread).take(threads).collect(), ..Self::default() }
    }

    /// The server at its place has granted a binding. `path`: the round trip to it, and the state that long calls share.
    pub(crate) fn is_bound(&mut self, now: Instant, bound: Bound, (path, bulk): (RoundTrip, Path)) {
        (self.path, self.bulk, self.binder) = (path, Some(Rc::new(RefCell::new(bulk))), None);
        let granted = Granted { bound, place: self.place, read: now, closed: Cell::default() };
        self.binding = Some(Rc::new(granted));
        (self.generation, self.lanes) = (self.generation + 1, Lanes::default());
    }

    /// The credit of the binding, if callers keep to credits. `own`: results that its own buffer holds.
    pub(crate) fn begin_credit(&mut self, keeps: bool, own: u32) {
        let Some(granted) = &self.binding else { return };
        let credit = granted.bound.credit;
        (self.largest_credit, self.reserved_until) = (credit.max(self.largest_credit), Instant::default());
        match &mut self.flow {
            Some(flow) => flow.begin_again(credit, self.path),
            None if keeps => self.flow = Some(Flow::new(credit, own, self.path)),
            None => {}
        }
    }

    /// A result grants more credit to its call, which was sent at `asked`, and the server reserves it until then.
    pub(crate) fn take_grant(&mut self, now: Instant, credit: u16, (asked, until): (Instant, Instant)) {
        let Some(flow) = &mut self.flow else { return };
        flow.on_grant(now, credit, asked);
        self.reserved_until = until.max(self.reserved_until);
        self.largest_credit = self.largest_credit.max(credit.into());
    }

    /// What the calls of one packet know together about the round trip: what a result has just shown, or that the path is slower than
    /// the wait.
    pub(crate) fn learn_path(&mut self, of_call: RoundTrip, has_result: bool) {
        if self.flow.is_some() && (has_result || of_call.timeout() > self.path.timeout()) {
            self.path = of_call;
        }
    }

    /// The thread of the oldest call that waits until it may leave.
    pub(crate) fn first_held(&mut self) -> Option<usize> {
        let waits = |(thread, id): &(usize, _)| {
            let call = self.threads[*thread].call.as_ref();
            call.is_some_and(|call| call.id == *id && matches!(call.stage, Stage::Held))
        };
        while self.held.front().is_some_and(|first| !waits(first)) {
            self.held.pop_front();
        }
        self.held.front().map(|(thread, _)| *thread)
    }

    /// Whether it has heard that the server of its binding shuts down.
    pub(crate) fn is_closing(&self) -> bool {
        self.binding.as_ref().is_some_and(|granted| granted.closed.get().is_some())
    }
}

/// A binding, and when its caller read that it was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) bound: Bound,
    pub(crate) place: Place,
    pub(crate) read: Instant,
    /// When it heard that the server shuts down.
    pub(crate) closed: Cell<Option<Instant>>,
}

/// A lane and which of its process's bindings it is of.
#[derive(Debug)]
pub(crate) struct OwnLane {
    pub(crate) generation: Generation,
    pub(crate) granted: Rc<Granted>,
    /// State that all long calls of the binding share.
    pub(crate) path: Rc<RefCell<Path>>,
    pub(crate) lane: Lane,
    /// Where half of the short calls begin, as with a driver that has many on their way.
    pub(crate) compact: CompactCall,
    /// The round trip to the server, as short calls have measured it.
    pub(crate) way: RoundTrip,
    /// The phase of the sealed binding in which its last call began.
    pub(crate) phase: u32,
}

impl OwnLane {
    pub(crate) fn new(
        generation: Generation,
        granted: Rc<Granted>,
        path: Rc<RefCell<Path>>,
        lane: Lane,
    ) -> Self {
        let (compact, way) = (lane.compact_call(), lane.path());
        Self { generation, granted, path, lane, compact, way, phase: 0 }
    }

    /// The lane, which knows of its call from now on.
    pub(crate) fn lane(&mut self) -> &mut Lane {
        self.lane.expand(&mut self.compact, self.way);
        &mut self.lane
    }

    /// The number of its call, or of the last.
    pub(crate) fn number(&self) -> CallNumber {
        if self.compact.is_outstanding() { self.compact.number() } else { self.lane.number() }
    }

    pub(crate) fn next_timeout(&self) -> Instant {
        match self.compact.is_outstanding() {
            true => self.compact.next_timeout(&self.way),
            false => self.lane.next_timeout(),
        }
    }
}

/// Takes the packets of one step of a call.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) path: Rc<RefCell<Path>>,
    pub(crate) packets: Vec<Vec<u8>>,
}

impl Way for Outbox {
    fn send(&mut self, packet: &[u8]) -> bool {
        self.packets.push(packet.to_vec());
        true
    }

    fn path(&mut self, _: RoundTrip) -> impl DerefMut<Target = Path> {
        self.path.borrow_mut()
    }

    fn known_path(&mut self) -> Option<impl DerefMut<Target = Path>> {
        Some(self.path.borrow_mut())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) socket: Socket,
    /// When a look is planned at what it owes once its socket is drained.
    pub(crate) drains_at: Option<Instant>,
    /// When its lane's timer was last due, and how often at that moment.
    pub(crate) looked: (Instant, u32),
    /// When its lane's timer is planned.
    pub(crate) timer_at: Option<Instant>,
    pub(crate) calls_left: u32,
    pub(crate) own: Option<OwnLane>,
    pub(crate) call: Option<Call>,
}

impl Thread {
    /// The parts of its call are not under way any more.
    pub(crate) fn settle(&mut self) {
        if let Some(own) = &mut self.own {
            own.lane.settle(&mut own.path.borrow_mut());
        }
    }

    /// None of its calls is under way in parts.
    pub(crate) fn sends_nothing(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.cancelled || call.packet.len() <= MAX_DATAGRAM)
    }
}

/// A call in the making.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) begun: Instant,
    pub(crate) deadline: Instant,
    pub(crate) procedure: u16,
    pub(crate) idempotent: bool,
    pub(crate) packet: Vec<u8>,
    /// The parts of a long result that are here.
    pub(crate) result: Vec<u8>,
    /// Bytes of the arguments that the server has asked for so far.
    pub(crate) limit: usize,
    /// The program no longer waits for it.
    pub(crate) cancelled: bool,
    pub(crate) stage: Stage,
    /// While it waits to be sent again after a refusal: that.
    pub(crate) refused: Option<Refused>,
    /// Its attempts so far.
    pub(crate) life: life::Life,
    /// It counts among the calls that are under way.
    pub(crate) under_way: bool,
}

impl Call {
    /// A call from `begun` to `deadline` that has not been sent.
    pub(crate) fn new(
        id: CallId,
        (begun, deadline): (Instant, Instant),
        procedure: u16,
        idempotent: bool,
        packet: Vec<u8>,
    ) -> Self {
        Self {
            id,
            begun,
            deadline,
            procedure,
            idempotent,
            packet,
            result: Vec::new(),
            limit: 0,
            cancelled: false,
            stage: Stage::Waiting { sent: None },
            refused: None,
            life: life::Life::default(),
            under_way: false,
        }
    }

    /// Whether it is one packet.
    pub(crate) fn is_short(&self) -> bool {
        self.packet.len() <= HEADER_LEN + PACKET_DATA
    }

    /// Whether it waits for a session, or until it may leave on the one that is there.
    pub(crate) fn waits_for_session(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. } | Stage::Held)
    }

    /// Why it waits for another session than the one on which it was sent.
    pub(crate) fn why(&self) -> Option<Why> {
        match (self.refused, &self.stage) {
            (Some(_), _) => Some(Why::Leave),
            (None, Stage::Waiting { sent: Some((_, sent)) }) => Some(Why::Judge(sent.refusal)),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Waits for a binding. If it was sent before on one that the server did not know, it matters how.
    Waiting { sent: Option<(Rc<Granted>, Sent)> },
    /// Waits until the flow control lets it leave.
    Held,
    /// The server was overloaded and has refused it; it is sent again later.
    Postponed,
    /// Sent on the thread's lane.
    Calling { first_sent: Instant },
}
