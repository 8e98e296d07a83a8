//! Assignments that no lane holds, kept for reuse.

use super::assignment::Assignment;
use super::lane::LaneState;
use super::shares::{Share, Shares};
use alloc::vec::Vec;

/// Most assignments that are kept for reuse.
const MOST: usize = 64;

/// Assignments that no lane holds, kept so that the next call on a new lane allocates nothing.
#[derive(Debug)]
pub(super) struct Recycled<P>(Vec<Assignment<P>>);

impl<P> Default for Recycled<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P: Copy> Recycled<P> {
    /// An assignment for a call of a lane that has none. Its answer will be retained if the binding may have one more.
    #[cold]
    #[inline(never)]
    pub(super) fn take(
        &mut self,
        peer: &P,
        lane: &mut LaneState<P>,
        shares: &mut Shares,
        share: &mut Share,
    ) -> Assignment<P> {
        lane.is_retainable = shares.take_packet(share);
        self.0.pop().unwrap_or_else(|| Assignment::blank(*peer))
    }
}

impl<P> Recycled<P> {
    /// Keeps an assignment for another call, unless there are enough.
    pub(super) fn keep(&mut self, assignment: Assignment<P>) {
        if self.0.len() < MOST {
            self.0.push(assignment.wiped());
        }
    }

    /// Bytes of memory in use.
    pub(super) fn bytes_held(&self) -> usize {
        self.0.iter().map(Assignment::bytes_held).sum()
    }
}
