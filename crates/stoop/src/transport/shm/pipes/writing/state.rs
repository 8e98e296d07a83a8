//! The state of an end at which items are written into the ring.

use crate::pipes::contract::Close;
use crate::pipes::error::PipeError;
use std::collections::VecDeque;
use std::task::Waker;
use stoop_shm::pipe::Writing;

/// What the lock guards.
pub(super) struct State {
    pub(super) ring: Writing,
    /// The offset behind the last byte that was appended.
    pub(super) appended: u64,
    pub(super) limit: u64,
    /// Bytes that were appended, and from `at` on have found no room in the ring.
    pub(super) rest: Vec<u8>,
    pub(super) at: usize,
    /// Items that wait for room, each the newest of its key.
    pub(super) kept: VecDeque<Kept>,
    /// How the program has closed it, and whether the peer knows.
    pub(super) closed: Option<Close>,
    pub(super) has_closed: bool,
    pub(super) over: Option<PipeError>,
    pub(super) waker: Option<Waker>,
    /// A thread writes a long item, and waits for room meanwhile without the lock.
    pub(super) is_writing: bool,
}

/// An item that waits for room.
pub(super) struct Kept {
    pub(super) key: u64,
    pub(super) item: Vec<u8>,
    pub(super) skipped: u32,
}

impl State {
    /// Nothing more can be sent, and what was not written is forgotten.
    pub(super) fn end(&mut self, why: PipeError) {
        self.over = Some(why);
        (self.rest, self.at) = (Vec::new(), 0);
        self.kept.clear();
    }

    /// Whether an item may begin, as far as the reader allows.
    #[inline]
    pub(super) fn may_begin(&mut self, segment: &stoop_shm::Segment) -> bool {
        if self.appended >= self.limit {
            self.limit = self.limit.max(self.ring.limit(segment));
        }
        self.appended < self.limit
    }

    /// Whether something that was sent waits for room.
    pub(super) fn has_items(&self) -> bool {
        !self.rest.is_empty() || !self.kept.is_empty()
    }

    pub(super) fn is_owing(&self) -> bool {
        self.has_items() || self.closed.is_some() && !self.has_closed
    }
}
