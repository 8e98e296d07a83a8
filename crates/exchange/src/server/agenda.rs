//! What a server sends without being asked, and when it looks at a lane again.

use super::large::Large;
use crate::Instant;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use stoop_wire::{BindingId, LaneId};

/// Names a lane of a binding.
pub(super) type LaneKey = (BindingId, LaneId);

/// Lanes for which the server has something to send without being asked.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Lanes that may have something to send, in the order in which they send.
    pub(super) ready: VecDeque<LaneKey>,
    /// Lanes that owe a receipt, to be sent when nothing more has arrived.
    pub(super) owing: Vec<LaneKey>,
    /// Lanes whose receipts are to be sent now.
    pub(super) receipts: Vec<LaneKey>,
    /// Lanes whose callers have asked about an answer that is on its way.
    pub(super) questions: Vec<LaneKey>,
    /// At most one for each lane.
    pub(super) timers: BTreeSet<(Instant, BindingId, LaneId)>,
}

impl Agenda {
    pub(super) fn next_timer(&self) -> Instant {
        self.timers.first().map_or(Instant::NEVER, |(at, ..)| *at)
    }

    /// Sets the timer of a lane to `at`, unless `present` is earlier: the server then sets it again.
    pub(super) fn set_timer(&mut self, present: &mut Instant, at: Instant, (binding, lane): LaneKey) {
        if at < *present {
            self.timers.remove(&(*present, binding, lane));
            self.timers.insert((at, binding, lane));
            *present = at;
        }
    }

    pub(super) fn enqueue<P>(&mut self, large: &mut Large<P>, lane: LaneKey) {
        if !core::mem::replace(&mut large.queued, true) {
            self.ready.push_back(lane);
        }
    }
}
