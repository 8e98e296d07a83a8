//! Calls that wait until a call that arrived before them has returned.

use crate::transport::stream::server::call::StreamCall;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoop_net::owner_lock::{Key, OwnerGuard, OwnerLock};

/// Calls that wait, for every worker to take.
pub(super) struct PendingCalls {
    /// The worker that has the receive role locks it for each call; other workers hardly ever do.
    calls: OwnerLock<VecDeque<StreamCall>>,
    count: AtomicUsize,
}

impl Default for PendingCalls {
    fn default() -> Self {
        Self { calls: OwnerLock::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }
}

impl PendingCalls {
    /// For one more worker.
    pub(super) fn key(&self) -> Key {
        self.calls.key()
    }

    /// How many calls wait.
    #[inline]
    pub(super) fn count(&self) -> usize {
        // Only saves taking the lock, under which the calls are read.
        self.count.load(Ordering::Relaxed)
    }

    fn note_count(&self, calls: &OwnerGuard<'_, VecDeque<StreamCall>>) {
        self.count.store(calls.len(), Ordering::Relaxed);
    }

    /// Moves calls that have arrived here.
    pub(super) fn append(&self, key: &mut Key, arrived: &mut VecDeque<StreamCall>) {
        let mut calls = self.calls.lock(key);
        calls.append(arrived);
        self.note_count(&calls);
    }

    /// Takes the first call, if `is_wanted`.
    #[inline]
    pub(super) fn take_first(
        &self,
        key: &mut Key,
        is_wanted: impl FnOnce(&StreamCall) -> bool,
    ) -> Option<StreamCall> {
        if self.count() == 0 { None } else { self.lock_and_take(key, is_wanted) }
    }

    /// Whether a call waits and `is_wanted` says so of the first.
    pub(super) fn is_first(&self, key: &mut Key, is_wanted: impl FnOnce(&StreamCall) -> bool) -> bool {
        self.count() > 0 && self.calls.lock(key).front().is_some_and(is_wanted)
    }

    #[inline(never)]
    fn lock_and_take(
        &self,
        key: &mut Key,
        is_wanted: impl FnOnce(&StreamCall) -> bool,
    ) -> Option<StreamCall> {
        let mut calls = self.calls.lock(key);
        if !calls.front().is_some_and(is_wanted) {
            return None;
        }
        let first = calls.pop_front();
        self.note_count(&calls);
        first
    }
}
