//! One call in flight, and the lane that it is on.

use crate::calling::detached::CallingThread;
use crate::error::CallError;
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::caller::Session;
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;
use stoop_exchange::caller::{self, CompactCall};
use stoop_exchange::outcome::Unbound;
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::HEADER_LEN;

/// A place for a call, with its packets; another call takes it when this one has been taken.
// What a call needs that goes well comes first, and is one line of memory: the slots of hundreds of calls together are more
// than the nearest cache holds.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// The call while it goes well: on its way with nothing more to its end than its result. Nobody sleeps until then, it is its
    /// handle's, and neither call nor result has many packets. For anything else it is [taken up](Self::expand).
    pub(crate) brief: CompactCall,
    pub(crate) stage: Stage,
    pub(crate) owner: Owner,
    /// The procedure's number in the interface.
    pub(crate) procedure: u16,
    /// What the call does not have that is in brief.
    pub(crate) lane: caller::Lane,
    pub(crate) session: Arc<Session>,
    /// It has many packets.
    pub(crate) is_large: bool,
    /// Parts of its result have come.
    pub(crate) is_receiving: bool,
    /// It has been sent to a server that has forgotten, but is idempotent.
    pub(crate) may_have_run: bool,
    /// When it was begun, and when it was first sent on this session; not of a call in brief.
    pub(crate) begun: Instant,
    pub(crate) sent: Instant,
    /// While it waits for another session: how it was refused, if it was itself.
    pub(crate) refusal: Option<Unbound>,
    pub(crate) deadline: Instant,
    /// The call packet, until the call has ended; its header is written when it is sent again.
    pub(crate) call: Vec<u8>,
    /// The result without its header, when it has.
    pub(crate) result: Vec<u8>,
    /// Or why there is none.
    pub(crate) error: Option<Box<CallError>>,
    /// A thread that sleeps until it ends.
    pub(crate) thread: Option<Thread>,
    /// A task that does.
    pub(crate) waker: Option<Waker>,
    /// Of a detached call: the thread whose ordered one-way call it is, if any's.
    pub(crate) calling_thread: Option<CallingThread>,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is none.
    Free,
    /// It is on the list of this batch, or will be.
    Reserved(u32),
    /// It is in this batch.
    HeldBack(u32),
    /// It is out.
    Sent,
    /// The server does not know the binding; the background binds again.
    Unbound,
    /// Its result, or why there is none, can be taken.
    Ended,
}

/// Who is interested in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Handle,
    /// Nobody, but it goes on.
    Detached,
    /// Nobody, and the server is being told.
    Cancelled,
}

impl Slot {
    pub(crate) fn new(lane: caller::Lane, session: Arc<Session>) -> Self {
        Self {
            brief: lane.compact_call(),
            stage: Stage::Free,
            owner: Owner::Handle,
            procedure: 0,
            lane,
            session,
            is_large: false,
            is_receiving: false,
            may_have_run: false,
            begun: Instant::default(),
            sent: Instant::default(),
            refusal: None,
            deadline: Instant::default(),
            call: Vec::new(),
            result: Vec::new(),
            error: None,
            thread: None,
            waker: None,
            calling_thread: None,
        }
    }

    /// It is for a call that goes with that batch, whose handle there will be.
    #[inline]
    pub(crate) fn reserve(&mut self, held_in: u32) {
        self.stage = Stage::Reserved(held_in);
        self.owner = Owner::Handle;
    }

    /// A call of the procedure of that number in the interface begins, at a time and with a deadline, and not in brief. Gives
    /// its number on the binding.
    pub(crate) fn note(&mut self, procedure: u16, (begun, deadline): (Instant, Instant)) -> u16 {
        self.procedure = procedure;
        self.may_have_run = false;
        (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
        self.session.bound.procedures[usize::from(procedure)]
    }

    /// Keeps the arguments of a call in brief, of which there are any: where they are when it is sent again.
    #[inline]
    pub(crate) fn keep_arguments(&mut self, arguments: &[u8]) {
        self.call.resize(HEADER_LEN + arguments.len(), 0);
        self.call[HEADER_LEN..].copy_from_slice(arguments);
    }

    /// It is no longer enough to know the call in brief, if there is one: its lane has it from now on, on a way of which that
    /// much is known.
    pub(crate) fn expand(&mut self, path: RoundTrip) -> &mut Self {
        if self.lane.expand(&mut self.brief, path) {
            let (begun, deadline) = self.brief.times();
            (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
            self.may_have_run = false;
            // One without arguments has kept nothing.
            self.call.resize(HEADER_LEN + self.brief.arguments_len(), 0);
        }
        self
    }

    /// Deadline of its call, or of the last.
    pub(crate) fn last_deadline(&self) -> Instant {
        if self.brief.is_outstanding() { self.brief.times().1 } else { self.deadline }
    }

    /// There is another lane for its calls.
    pub(crate) fn change_lane(&mut self, lane: caller::Lane) {
        self.brief = lane.compact_call();
        self.lane = lane;
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// The batch with which it is held back.
    #[inline]
    pub(crate) fn batch(&self) -> u32 {
        match self.stage {
            Stage::Reserved(batch) | Stage::HeldBack(batch) => batch,
            _ => Batch::NONE,
        }
    }
}
