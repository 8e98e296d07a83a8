//! How a lane retains the answers of its calls: in the packet of the call, or as a copy of the answer's bytes.
//!
//! A lane that is used often keeps its packet, in which its next answer is made. A lane that is used now and then retains a copy,
//! which is mostly far shorter; its packet goes to the calls of other lanes.

use super::assignment::Assignment;
use crate::Instant;
use alloc::boxed::Box;
use core::time::Duration;

/// What becomes of the answer of a lane's call. Unless it is `Nothing`, a unit of the pool of packets is held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    /// It is not retained.
    Nothing,
    /// A copy is retained.
    Copy,
    /// It is retained in its packet, which is then kept for the lane's next answer.
    Packet,
}

/// A lane is used often if its calls follow each other within this time.
pub(super) const OFTEN: Duration = Duration::from_secs(1);

/// A copy of an answer, and what its lane has to know about its call.
#[derive(Debug)]
pub(super) struct Copied<P> {
    /// The peer to which it went.
    pub(super) peer: P,
    pub(super) deadline: Instant,
    pub(super) arrived: Instant,
    pub(super) answer: Box<[u8]>,
}

impl<P: Copy> Copied<P> {
    pub(super) fn of(answered: &Assignment<P>) -> Self {
        let (deadline, arrived) = (answered.deadline, answered.arrived);
        Self { peer: answered.peer, deadline, arrived, answer: answered.answer().into() }
    }
}

impl<P> Copied<P> {
    /// Bytes of memory in use.
    pub(super) fn bytes_held(&self) -> usize {
        size_of::<Self>() + self.answer.len()
    }
}

/// An answer that a lane no longer retains, or a packet that it no longer keeps.
#[derive(Debug)]
#[must_use = "its unit of the pool of packets has to be given back"]
pub(super) enum Freed<P> {
    Packet(Assignment<P>),
    Copy,
}

impl<P> Freed<P> {
    /// Bytes of it beyond an ordinary packet.
    pub(super) fn large_bytes(&self) -> usize {
        match self {
            Self::Packet(assignment) => assignment.large_bytes(),
            Self::Copy => 0,
        }
    }
}
