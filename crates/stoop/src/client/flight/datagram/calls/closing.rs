//! The end of a client while calls go on: those that have handles, and those that are detached.

use super::Calls;
use crate::client::flight::datagram::Flight;
use crate::client::flight::datagram::slot::{Owner, Slot, Stage};
use std::sync::Arc;

/// Keeps the flight, and so the binding, for the calls that go on after the client was dropped.
pub(super) struct Closed {
    flight: Arc<Flight>,
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
    pub(in super::super) fn close(&mut self, flight: Arc<Flight>) -> Option<Arc<Flight>> {
        self.board.close(&mut self.free);
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
    pub(in super::super) fn hand_back(&mut self) -> Option<Arc<Flight>> {
        let closed = self.closed.as_mut()?;
        closed.calls -= 1;
        if closed.calls > 0 {
            return None;
        }
        self.closed.take().map(|closed| closed.flight)
    }
}
