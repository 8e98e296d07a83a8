//! A bound on the memory for OUT arguments.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory for OUT arguments of all calls together. Callers ask for it with a few bytes, so it is bounded.
#[derive(Debug)]
pub(super) struct OutBudget {
    bytes: AtomicUsize,
    most: usize,
}

impl OutBudget {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), most }
    }

    /// Takes `bytes` from the budget, if it has them.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
