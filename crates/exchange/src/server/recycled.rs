//! Assignments that no lane holds, kept for reuse.

use super::assignment::Assignment;
use super::lane::LaneState;
use super::retained::Freed;
use super::shares::{Share, Shares};
use crate::Instant;
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
        now: Instant,
        peer: &P,
        lane: &mut LaneState<P>,
        shares: &mut Shares,
        share: &mut Share,
    ) -> Assignment<P> {
        lane.begin_without_packet(now, || shares.take_packet(share));
        self.0.pop().unwrap_or_else(|| Assignment::blank(*peer))
    }
}

impl<P> Recycled<P> {
    /// Takes back what a lane retained or kept, and its unit of the pool of packets.
    pub(super) fn free(&mut self, freed: Freed<P>, shares: &mut Shares, share: &mut Share) {
        shares.give_answer_back(share, freed.large_bytes());
        if let Freed::Packet(assignment) = freed {
            self.keep(assignment);
        }
    }

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
