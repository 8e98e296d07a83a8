//! What happens when the client is gone while there are handles of calls.

use super::Calls;
use crate::client::flight::datagram::Flight;
use crate::client::flight::datagram::slot::{Owner, Slot, Stage};
use std::sync::Arc;

/// What remains for those who have handles when the client is gone.
pub(super) struct Closed {
    /// They keep it.
    flight: Arc<Flight>,
    /// How many they are.
    handles: usize,
}

impl Calls {
    /// No call is begun any more, and the calls that have handles keep the flight. Gives it back if there are none.
    pub(in super::super) fn close(&mut self, flight: Arc<Flight>) -> Option<Arc<Flight>> {
        self.board.close(&mut self.free);
        for call in &self.free {
            self.slots[*call as usize].stage = Stage::Free;
        }
        let has_handle = |slot: &&Slot| slot.stage != Stage::Free && slot.owner == Owner::Handle;
        let handles = self.slots.iter().filter(has_handle).count();
        if handles == 0 {
            return Some(flight);
        }
        self.closed = Some(Closed { flight, handles });
        None
    }

    /// A handle gives its call back. Gives what no handle keeps any more, to be dropped without the lock.
    #[inline]
    pub(in super::super) fn hand_back(&mut self) -> Option<Arc<Flight>> {
        let closed = self.closed.as_mut()?;
        closed.handles -= 1;
        if closed.handles > 0 {
            return None;
        }
        self.closed.take().map(|closed| closed.flight)
    }
}
