//! One begun call, and the lane that it is on.

use crate::calling::detached::OrderedCall;
use crate::calling::fate::{Fate, Loss};
use crate::calling::waiting_thread::WaitingThread;
use crate::error::{CallError, UnknownCause};
use crate::transport::packet::begun::call_pipes::SlotPipes;
use crate::transport::packet::link::CallerEndpoint;
use crate::transport::packet::now;
use crate::transport::packet::session::Session;
use crate::transport::packet::steps::{Steps, Way};
use std::sync::Arc;
use std::task::Waker;
use stoop_calls::life::Why;
use stoop_exchange::caller::{self, CompactCall};
use stoop_exchange::outcome::Unbound;
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::HEADER_LEN;

/// A lane, and one call after the other on it.
// The fields that a compact call needs come first, in one cache line: the slots of hundreds of calls are larger than the
// first-level cache.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// A call of which only the result is expected, in one packet: it has a handle, and no thread or task sleeps until it ends. In any
    /// other case the call is [expanded](Self::expand).
    pub(crate) compact: CompactCall,
    pub(crate) stage: Stage,
    pub(crate) owner: Owner,
    /// The procedure's number in the interface.
    pub(crate) procedure: u16,
    // A compact call does not use the fields from here on.
    pub(crate) lane: caller::Lane,
    pub(crate) session: Arc<Session>,
    /// It counts among the calls that are under way. A compact call that is outstanding always does.
    pub(crate) is_under_way: bool,
    /// The call has many packets.
    pub(crate) is_large: bool,
    /// Parts of its result have arrived.
    pub(crate) is_receiving: bool,
    /// The call's attempts so far.
    pub(crate) fate: Fate,
    pub(crate) begun: Instant,
    /// When the call was first sent on its session.
    pub(crate) sent: Instant,
    /// While the call waits for another session: how the server refused it, if it did.
    pub(crate) refusal: Option<Unbound>,
    /// While the call waits to be sent again after a refusal, or because the server's port was closed: its error if that fails.
    pub(crate) refused: Option<Box<CallError>>,
    pub(crate) deadline: Instant,
    /// The call packet, until the call has ended; its header is written when it is sent again.
    pub(crate) call: Vec<u8>,
    /// The result without its header.
    pub(crate) result: Vec<u8>,
    /// The reason why there is no result.
    pub(crate) error: Option<Box<CallError>>,
    /// A thread that waits for the call while another thread receives.
    pub(crate) thread: Option<Arc<WaitingThread>>,
    /// A task that waits for the call.
    pub(crate) waker: Option<Waker>,
    /// Of a detached call: the ordered one-way call that it is, if it is one.
    pub(crate) ordered: Option<OrderedCall>,
    /// The call was detached, and a thread waits for it: its owner is a handle again.
    pub(crate) is_reclaimed: bool,
    /// The pipes of its call, while something leaves or arrives by them.
    pub(crate) pipes: Option<Box<SlotPipes>>,
}

const _: () = assert!(std::mem::offset_of!(Slot, lane) <= 64, "a compact call uses one line");
const _: () = assert!(size_of::<Slot>() <= 512, "each outstanding call has one");

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The slot has no call.
    Free,
    /// The call is in the submission queue of that number, or the slot is reserved for one that may come.
    HeldBack(u32),
    /// The call has begun and waits until the flow control lets it leave.
    Waiting,
    /// The call was sent.
    Sent,
    /// The server does not know the session, or shuts down; the background thread binds again.
    Unbound,
    /// Another thread makes the call at the next server.
    Apart,
    /// A call with pipes that was on this lane has been answered, and has its outcome in another slot: the rest of its pipe comes.
    Draining,
    /// The server is overloaded and has refused the call, which is sent again later.
    Postponed,
    /// The call has a result or an error, which the handle has not taken.
    Ended,
}

/// The owner of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Handle,
    /// None: the call is detached.
    Detached,
    /// The call was cancelled; the lane tells the server.
    Cancelled,
}

impl Slot {
    pub(crate) fn new(lane: caller::Lane, session: Arc<Session>) -> Self {
        Self {
            compact: lane.compact_call(),
            stage: Stage::Free,
            owner: Owner::Handle,
            procedure: 0,
            lane,
            session,
            is_under_way: false,
            is_large: false,
            is_receiving: false,
            fate: Fate::default(),
            begun: Instant::default(),
            sent: Instant::default(),
            refusal: None,
            refused: None,
            deadline: Instant::default(),
            call: Vec::new(),
            result: Vec::new(),
            error: None,
            thread: None,
            waker: None,
            ordered: None,
            is_reclaimed: false,
            pipes: None,
        }
    }

    /// Begins a call of many packets, which are in `call`.
    #[cold]
    pub(crate) fn begin_large(
        &mut self,
        procedure: u16,
        (begun, deadline): (Instant, Instant),
        call: Vec<u8>,
    ) {
        (self.procedure, self.call) = (procedure, call);
        self.forget_attempts();
        (self.begun, self.deadline) = (begun, deadline);
        self.start_large(begun);
    }

    /// Registers a call of many packets with its lane.
    #[cold]
    fn start_large(&mut self, clock: Instant) {
        let len = u32::try_from(self.call.len() - HEADER_LEN).expect("a message is shorter than 4 GiB");
        (self.is_large, self.sent) = (true, clock);
        let number = self.session.bound.number(self.procedure);
        self.lane.start_large(clock, self.deadline, number, len, self.session.bound.window);
        self.lane.update_compact(&mut self.compact);
    }

    /// How the call is lost if it may have run on a session that the server does not know any more.
    #[cold]
    pub(crate) fn loss(&self) -> Loss {
        Loss { cause: UnknownCause::ServerRestarted, transmissions: self.lane.last_transmissions() }
    }

    /// The error of a call with pipes if the server does not know the session any more.
    #[cold]
    pub(crate) fn lost_with_session(&self) -> CallError {
        let Loss { cause, transmissions } = self.loss();
        let waited = now().since(self.begun);
        CallError::Unknown { transmissions, waited, cause, callee: None }
    }

    /// The reason why the call waits for another session. If the call was refused, it has not run.
    pub(crate) fn why_unbound(&self) -> Why {
        match self.refused {
            Some(_) => Why::Leave,
            None => Why::Judge(self.refusal.unwrap_or(Unbound::ANOTHER_VERSION)),
        }
    }

    /// Registers the call with the lane of another session, to be sent again.
    #[cold]
    pub(crate) fn start_again(&mut self, clock: Instant) {
        if self.is_large {
            return self.start_large(clock);
        }
        self.sent = clock;
        let number = self.session.bound.number(self.procedure);
        self.lane.start(clock, self.deadline, number, &mut self.call);
        self.lane.update_compact(&mut self.compact);
    }

    /// Begins a call that cannot leave yet.
    pub(crate) fn hold(&mut self, procedure: u16, (begun, deadline): (Instant, Instant), arguments: &[u8]) {
        self.keep_arguments(arguments);
        (self.procedure, self.stage) = (procedure, Stage::Waiting);
        (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
        self.forget_attempts();
    }

    /// Another call begins.
    fn forget_attempts(&mut self) {
        self.fate = Fate::default();
    }

    /// Stores the arguments of a compact call, for a retransmission.
    #[inline]
    pub(crate) fn keep_arguments(&mut self, arguments: &[u8]) {
        self.call.resize(HEADER_LEN + arguments.len(), 0);
        self.call[HEADER_LEN..].copy_from_slice(arguments);
    }

    /// Expands a compact call, if there is one: registers it with its lane. `path`: the round trip known so far.
    pub(crate) fn expand(&mut self, path: RoundTrip) -> &mut Self {
        if self.lane.expand(&mut self.compact, path) {
            self.is_under_way = true;
            let (begun, deadline) = self.compact.times();
            (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
            self.forget_attempts();
            // Of a call without arguments nothing was stored.
            self.call.resize(HEADER_LEN + self.compact.arguments_len(), 0);
        }
        self
    }

    /// The call, which is expanded, for the next step of the exchange.
    pub(crate) fn steps<'a, E: CallerEndpoint>(&'a mut self, endpoint: &'a E, window: u32) -> Steps<'a, E> {
        let Self { lane, session, call, is_large, .. } = self;
        Steps { lane, way: Way { session, endpoint }, packet: call, is_large: *is_large, window }
    }

    /// Deadline of its call, or of the last.
    pub(crate) fn last_deadline(&self) -> Instant {
        if self.compact.is_outstanding() { self.compact.times().1 } else { self.deadline }
    }

    /// Moves the slot to another lane.
    pub(crate) fn change_lane(&mut self, lane: caller::Lane) {
        self.compact = lane.compact_call();
        self.lane = lane;
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }
}
