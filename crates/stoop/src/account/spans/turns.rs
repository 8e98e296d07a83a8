//! One call in so many becomes a span.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts calls, and tells whose turn it is: the first, and then one in so many.
pub(super) struct Turns {
    one_in: u32,
    /// Calls until it is the turn of one.
    left: AtomicU32,
}

impl Turns {
    pub(super) fn new(one_in: u32) -> Self {
        Self { one_in, left: AtomicU32::new(1) }
    }

    /// Counts a call. Returns whether it is its turn.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.left.load(Relaxed);
        // Two threads at the same time may count their calls as one.
        self.left.store(if left > 1 { left - 1 } else { self.one_in }, Relaxed);
        left <= 1
    }
}
