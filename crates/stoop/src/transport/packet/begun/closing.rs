//! The end of a client while calls go on: those that have handles, and those that are detached.

use crate::calling::begun::OutstandingCalls;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use std::sync::Arc;

/// Keeps the flight, and so the binding, for the calls that go on after the client was dropped.
pub(crate) struct Closed {
    flight: Arc<dyn OutstandingCalls>,
    /// Calls whose handles have not given them back, and detached calls that have not ended.
    calls: usize,
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

impl Calls {
    /// No call is begun any more. The calls that go on keep the flight; gives it back if there are none.
    pub(crate) fn close(&mut self, flight: Arc<dyn OutstandingCalls>) -> Option<Arc<dyn OutstandingCalls>> {
        self.completions.close(&mut self.free);
        for call in &self.free {
            self.slots[*call as usize].stage = Stage::Free;
        }
        let calls = self.slots.iter().filter(|slot| slot.keeps_binding()).count();
        if calls == 0 {
            return Some(flight);
        }
        self.closed = Some(Closed { flight, calls });
        None
    }

    /// A handle has given its call back, or a detached call has ended. After the last one, gives the flight, to be dropped
    /// without the lock.
    #[inline]
    pub(crate) fn hand_back(&mut self) -> Option<Arc<dyn OutstandingCalls>> {
        let closed = self.closed.as_mut()?;
        closed.calls -= 1;
        if closed.calls > 0 {
            return None;
        }
        self.closed.take().map(|closed| closed.flight)
    }
}
