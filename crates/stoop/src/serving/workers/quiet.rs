//! Refuses the calls of quiet bindings that wait in the queue.
//!
//! A binding over a network is quiet when nothing has been heard on it for several of a caller's longest waits: its caller has ended, or is
//! cut off. Its calls would run for no caller, and keep their places and their arguments until then.

use crate::serving::workers::{Endpoint, WorkerPool};
use std::time::Duration;
use stoop_wire::{RefusalCode, RetryAfter};

/// Time between two looks for quiet bindings while the background thread is awake, or calls wait.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const LOOK_INTERVAL_NS: u64 = LOOK_INTERVAL.as_nanos() as u64;

/// When the background thread looks for quiet bindings.
#[derive(Debug, Default)]
pub(super) struct QuietWatch {
    next_ns: u64,
    /// Since this moment every look came in time. If one came late, the server may not have received either, and silence
    /// before that proves nothing.
    since_ns: u64,
}

impl QuietWatch {
    /// Whether a look is due.
    fn is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        if now_ns >= self.next_ns.saturating_add(LOOK_INTERVAL_NS) {
            self.since_ns = now_ns;
        }
        self.next_ns = now_ns + LOOK_INTERVAL_NS;
        true
    }
}

impl<E: Endpoint> WorkerPool<E> {
    /// Sees, if a look is due, which bindings that hold much are quiet.
    pub(super) fn look_for_quiet(&self, worker: &mut E::WorkerState, watch: &mut QuietWatch, now_ns: u64) {
        if watch.is_due(now_ns) {
            self.endpoint.look_at_memory(now_ns);
            if !self.queue.is_empty() {
                self.refuse_quiet_calls(worker, watch.since_ns, now_ns);
            }
        }
    }

    /// Refuses the calls of quiet bindings. Only of owners that have much of the queue: a few calls may wait as long as they like.
    fn refuse_quiet_calls(&self, worker: &mut E::WorkerState, since_ns: u64, now_ns: u64) {
        let mut bindings = self.queue.with(|queue| queue.bindings_of_large_owners());
        bindings.retain(|(_, binding)| self.endpoint.is_quiet(*binding, now_ns, since_ns));
        for binding in bindings {
            for call in self.queue.take(|queue| queue.take_all_of(binding)) {
                let again = RetryAfter::from_nanos(LOOK_INTERVAL_NS);
                self.refuse(worker, call, RefusalCode::Overloaded, again);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_before_a_late_look_proves_nothing() {
        let mut watch = QuietWatch::default();
        let second = LOOK_INTERVAL_NS;
        assert!(watch.is_due(10 * second) && watch.since_ns == 10 * second);
        assert!(!watch.is_due(11 * second - 1));
        assert!(watch.is_due(12 * second - 1) && watch.since_ns == 10 * second);
        assert!(watch.is_due(20 * second) && watch.since_ns == 20 * second);
    }
}
