//! Counters that one thread at a time sets and any thread reads.

use crate::calling::counters::CallCounters;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a lane has seen, as it was last told. Each number is right; read while they are set, they may be of two calls.
pub(crate) struct LaneCounters {
    calls: AtomicU64,
    fast: AtomicU64,
    retransmissions: AtomicU64,
    probes: AtomicU64,
    ignored: AtomicU64,
    spun: AtomicU64,
    slept: AtomicU64,
}

impl LaneCounters {
    /// Nothing seen.
    pub(crate) const fn zero() -> Self {
        Self {
            calls: AtomicU64::new(0),
            fast: AtomicU64::new(0),
            retransmissions: AtomicU64::new(0),
            probes: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            spun: AtomicU64::new(0),
            slept: AtomicU64::new(0),
        }
    }

    /// Tells what has been seen.
    #[inline]
    pub(crate) fn set(&self, counters: CallCounters) {
        let CallCounters { calls, fast, retransmissions, probes, ignored, corrupt: _, spun, slept } =
            counters;
        self.calls.store(calls, Relaxed);
        self.fast.store(fast, Relaxed);
        self.retransmissions.store(retransmissions, Relaxed);
        self.probes.store(probes, Relaxed);
        self.ignored.store(ignored, Relaxed);
        self.spun.store(spun, Relaxed);
        self.slept.store(slept, Relaxed);
    }

    /// What was last told.
    pub(crate) fn get(&self) -> CallCounters {
        CallCounters {
            calls: self.calls.load(Relaxed),
            fast: self.fast.load(Relaxed),
            retransmissions: self.retransmissions.load(Relaxed),
            probes: self.probes.load(Relaxed),
            ignored: self.ignored.load(Relaxed),
            // Counted for a whole binding: it hardly ever happens.
            corrupt: 0,
            spun: self.spun.load(Relaxed),
            slept: self.slept.load(Relaxed),
        }
    }
}
