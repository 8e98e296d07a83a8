//! One call in flight, and the lane that it is on.

use super::batch::Batch;
use crate::client::datagram::Session;
use crate::error::CallError;
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;
use stoop_exchange::{Instant, caller};

/// A place for a call, with its packets; another call takes it when this one has been taken.
pub(super) struct Slot {
    pub(super) lane: caller::Lane,
    pub(super) session: Arc<Session>,
    pub(super) stage: Stage,
    pub(super) owner: Owner,
    /// The procedure's number in the interface.
    pub(super) procedure: u16,
    /// It has many packets.
    pub(super) is_large: bool,
    /// Parts of its result have come.
    pub(super) is_receiving: bool,
    /// It has been sent to a server that has forgotten, but is idempotent.
    pub(super) may_have_run: bool,
    /// When it was begun, and when it was first sent on this session.
    pub(super) begun: Instant,
    pub(super) sent: Instant,
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
            lane,
            session,
            stage: Stage::Free,
            owner: Owner::Handle,
            procedure: 0,
            is_large: false,
            is_receiving: false,
            may_have_run: false,
            begun: Instant::default(),
            sent: Instant::default(),
            deadline: Instant::default(),
            call: Vec::new(),
            result: Vec::new(),
            error: None,
            thread: None,
            waker: None,
        }
    }

    /// It is for a call that goes with that batch, whose handle there will be.
    #[inline]
    pub(super) fn reserve(&mut self, held_in: u32) {
        self.stage = Stage::Reserved(held_in);
        self.owner = Owner::Handle;
    }

    /// A call of the procedure of that number in the interface begins, at a time and with a deadline. Gives its number on
    /// the binding.
    #[inline(always)]
    pub(super) fn note(&mut self, procedure: u16, (begun, deadline): (Instant, Instant)) -> u16 {
        self.procedure = procedure;
        self.may_have_run = false;
        (self.begun, self.sent, self.deadline) = (begun, begun, deadline);
        self.session.bound.procedures[usize::from(procedure)]
    }

    /// As [`note`](Self::note), of a call of one packet, in which its arguments are.
    #[inline(always)]
    pub(super) fn begin(&mut self, procedure: u16, (begun, deadline): (Instant, Instant), packet: &mut [u8]) {
        let number = self.note(procedure, (begun, deadline));
        self.lane.start(begun, deadline, number, packet);
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether it is on its way, with nothing more to its end than its result: nobody sleeps until then, and neither call
    /// nor result has many packets.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.stage == Stage::Sent
            && self.owner == Owner::Handle
            && !self.is_large
            && !self.is_receiving
            && self.thread.is_none()
            && self.waker.is_none()
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
