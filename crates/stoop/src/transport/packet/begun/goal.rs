//! What a thread that receives for a binding's begun calls waits for.

use crate::pipes::queue::{Awaited, PipeQueue};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::link::PacketLink;
use stoop_exchange::Instant;

/// What a thread waits for.
pub(crate) enum Goal<'a> {
    /// The end of one of these calls.
    Calls(&'a [u32]),
    /// Something of a pipe.
    Pipe(&'a PipeQueue, Awaited),
}

impl<'a> Goal<'a> {
    /// The calls that it waits for.
    #[inline]
    pub(super) fn calls(&self) -> &'a [u32] {
        match self {
            Self::Calls(wanted) => wanted,
            Self::Pipe(..) => &[],
        }
    }
}

impl<L: PacketLink> Calls<L> {
    /// Whether it has come; of calls, the index of one that has ended.
    #[inline]
    pub(super) fn reached(&self, goal: &Goal<'_>) -> Option<usize> {
        match goal {
            Goal::Calls(wanted) => self.ended(wanted),
            Goal::Pipe(queue, awaited) => queue.has(*awaited).then_some(0),
        }
    }

    /// A time until which nothing is due for it.
    pub(super) fn earliest_for(&self, goal: &Goal<'_>) -> Instant {
        match goal {
            Goal::Calls(wanted) => self.earliest(wanted),
            Goal::Pipe(..) => self.next().due(),
        }
    }
}
