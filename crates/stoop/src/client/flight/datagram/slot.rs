//! One call in flight, and the lane that it is on.

use super::batch::Batch;
use crate::client::Teller;
use crate::client::datagram::Session;
use crate::error::CallError;
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;
use stoop_exchange::caller::{self, Brief};
use stoop_exchange::outcome::Unbound;
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::HEADER_LEN;

/// A place for a call, with its packets; another call takes it when this one has been taken.
// What a call needs that goes well comes first, and is one line of memory: the slots of hundreds of calls together are more
// than the nearest cache holds.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// The call while it goes well: on its way with nothing more to its end than its result. Nobody sleeps until then, it is its
    /// handle's, and neither call nor result has many packets. For anything else it is [taken up](Self::take_up).
    pub(super) brief: Brief,
    pub(super) stage: Stage,
    pub(super) owner: Owner,
    /// The procedure's number in the interface.
    pub(super) procedure: u16,
    /// What the call does not have that is in brief.
    pub(super) lane: caller::Lane,
    pub(super) session: Arc<Session>,
    /// It has many packets.
    pub(super) is_large: bool,
    /// Parts of its result have come.
    pub(super) is_receiving: bool,
    /// It has been sent to a server that has forgotten, but is idempotent.
    pub(super) may_have_run: bool,
    /// When it was begun, and when it was first sent on this session; not of a call in brief.
    pub(super) begun: Instant,
    pub(super) sent: Instant,
    /// While it waits for another session: how it was refused, if it was itself.
    pub(super) refusal: Option<Unbound>,
    pub(super) deadline: Instant,
    /// The call packet, until the call has ended; its header is written when it is sent again.
    pub(super) call: Vec<u8>,
    /// The result without its header, when it has.
    pub(super) result: Vec<u8>,
    /// Or why there is none.
    pub(super) error: Option<Box<CallError>>,
    /// A thread that sleeps until it ends.
    pub(super) thread: Option<Thread>,
    /// A task that does.
    pub(super) waker: Option<Waker>,
    /// Of a detached call: the thread whose ordered one-way call it is, if any's.
    pub(super) teller: Option<Teller>,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Free,
    /// It is on the list of this batch, or will be.
    Reserved(u32),
    /// It is in this batch.
    HeldBack(u32),
    /// It is out.
    Sent,
    /// The server does not know the binding; the housekeeper binds again.
    Unbound,
    /// Its result, or why there is none, can be taken.
    Ended,
}

/// Who is interested in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Handle,
    /// Nobody, but it goes on.
    Detached,
    /// Nobody, and the server is being told.
    Cancelled,
}

impl Slot {
    pub(super) fn new(lane: caller::Lane, session: Arc<Session>) -> Self {
        Self {
            brief: lane.brief(),
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
            teller: None,
        }
    }

    /// It is for a call that goes with that batch, whose handle there will be.
    #[inline]
    pub(super) fn reserve(&mut self, held_in: u32) {
        self.stage = Stage::Reserved(held_in);
        self.owner = Owner::Handle;
    }

    /// A call of the procedure of that number in the interface begins, at a time and with a deadline, and not in brief. Gives
    /// its number on the binding.
    pub(super) fn note(&mut self, procedure: u16, (begun, deadline): (Instant, Instant)) -> u16 {
        self.procedure = procedure;
        self.may_have_run = false;
        (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
        self.session.bound.procedures[usize::from(procedure)]
    }

    /// Keeps the arguments of a call in brief, of which there are any: where they are when it is sent again.
    #[inline]
    pub(super) fn keep_arguments(&mut self, arguments: &[u8]) {
        self.call.resize(HEADER_LEN + arguments.len(), 0);
        self.call[HEADER_LEN..].copy_from_slice(arguments);
    }

    /// It is no longer enough to know the call in brief, if there is one: its lane has it from now on, on a way of which that
    /// much is known.
    pub(super) fn take_up(&mut self, path: RoundTrip) -> &mut Self {
        if self.lane.take_up(&mut self.brief, path) {
            let (begun, deadline) = self.brief.times();
            (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
            self.may_have_run = false;
            // One without arguments has kept nothing.
            self.call.resize(HEADER_LEN + self.brief.arguments_len(), 0);
        }
        self
    }

    /// Deadline of its call, or of the last.
    pub(super) fn last_deadline(&self) -> Instant {
        if self.brief.is_out() { self.brief.times().1 } else { self.deadline }
    }

    /// There is another lane for its calls.
    pub(super) fn change_lane(&mut self, lane: caller::Lane) {
        self.brief = lane.brief();
        self.lane = lane;
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// The batch with which it is held back.
    #[inline]
    pub(super) fn batch(&self) -> u32 {
        match self.stage {
            Stage::Reserved(batch) | Stage::HeldBack(batch) => batch,
            _ => Batch::NONE,
        }
    }
}
