//! The queues of what a server sends on its own initiative, and its timers.

use super::large::Large;
use super::pipe_state::{CallKey, PipeDue};
use crate::Instant;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use stoop_wire::{BindingId, LaneId};

/// Names a lane of a binding.
pub(super) type LaneKey = (BindingId, LaneId);

/// Lanes for which the server has something to send on its own initiative.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Lanes that may have something to send, in order.
    pub(super) ready: VecDeque<LaneKey>,
    /// Lanes that owe a receipt, to be sent when nothing more has arrived.
    pub(super) owing: Vec<LaneKey>,
    /// Lanes whose receipts are to be sent now.
    pub(super) receipts: Vec<LaneKey>,
    /// Lanes whose callers have asked about an answer that is being sent.
    pub(super) questions: Vec<LaneKey>,
    /// Calls for whose pipes something is due that the driver does.
    pub(super) due_pipes: Vec<(CallKey, PipeDue)>,
    /// Timers, at most one for each lane.
    pub(super) timers: BTreeSet<(Instant, BindingId, LaneId)>,
}

impl Agenda {
    pub(super) fn next_timer(&self) -> Instant {
        self.timers.first().map_or(Instant::NEVER, |(at, ..)| *at)
    }

    /// Sets the timer of a lane to `at`, unless `present` is earlier: the server sets it again when that expires.
    pub(super) fn set_timer(&mut self, present: &mut Instant, at: Instant, (binding, lane): LaneKey) {
        if at < *present {
            self.timers.remove(&(*present, binding, lane));
            self.timers.insert((at, binding, lane));
            *present = at;
        }
    }

    /// Removes the timer of a lane whose state is dropped.
    pub(super) fn clear_timer(&mut self, present: Instant, (binding, lane): LaneKey) {
        if present != Instant::NEVER {
            self.timers.remove(&(present, binding, lane));
        }
    }

    pub(super) fn enqueue<P>(&mut self, large: &mut Large<P>, lane: LaneKey) {
        if !core::mem::replace(&mut large.queued, true) {
            self.ready.push_back(lane);
        }
    }
}
