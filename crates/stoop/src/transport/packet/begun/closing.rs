//! The end of a client while calls go on: calls with handles, and detached calls.

use crate::calling::begun::OutstandingCalls;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::link::PacketLink;
use std::sync::Arc;

/// Keeps the calls of a client that was dropped, and so the binding, until the last of them has ended.
pub(crate) struct Closed {
    calls: Arc<dyn OutstandingCalls>,
    /// Calls whose handles have not given them back, and detached calls that have not ended.
    left: usize,
}

impl Slot {
    /// Whether its call keeps the binding: a cancelled call does not.
    fn keeps_binding(&self) -> bool {
        match self.owner {
            Owner::Handle => self.stage != Stage::Free,
            Owner::Detached => !matches!(self.stage, Stage::Free | Stage::Ended),
            Owner::Cancelled => false,
        }
    }
}

impl<L: PacketLink> Calls<L> {
    /// No call is begun any more. The calls that go on keep `calls`; returns it if there are none.
    pub(crate) fn close(&mut self, calls: Arc<dyn OutstandingCalls>) -> Option<Arc<dyn OutstandingCalls>> {
        self.completions.close(&mut self.free);
        for call in &self.free {
            self.slots[*call as usize].stage = Stage::Free;
        }
        let left = self.slots.iter().filter(|slot| slot.keeps_binding()).count();
        if left == 0 {
            return Some(calls);
        }
        self.closed = Some(Closed { calls, left });
        None
    }

    /// A handle has given its call back, or a detached call has ended. After the last one, returns the calls, to be dropped when the
    /// lock is released.
    #[inline]
    pub(crate) fn hand_back(&mut self) -> Option<Arc<dyn OutstandingCalls>> {
        let closed = self.closed.as_mut()?;
        closed.left -= 1;
        if closed.left > 0 {
            return None;
        }
        self.closed.take().map(|closed| closed.calls)
    }
}
