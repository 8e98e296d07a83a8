//! The counters of a lane, which one thread at a time sets and any thread reads.

use crate::calling::counters::{CallCounters, PacketCallCounters};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of a lane as of the end of a call. A reader at that moment may see some of them as of the call before.
#[repr(align(64))]
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
    /// All zero.
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

    /// Stores the counters.
    #[inline]
    pub(crate) fn set(&self, counters: CallCounters) {
        let CallCounters { calls, fast, ignored, spun, slept, packet, skipped_callbacks: _ } = counters;
        self.calls.store(calls, Relaxed);
        self.fast.store(fast, Relaxed);
        self.retransmissions.store(packet.retransmissions, Relaxed);
        self.probes.store(packet.probes, Relaxed);
        self.ignored.store(ignored, Relaxed);
        self.spun.store(spun, Relaxed);
        self.slept.store(slept, Relaxed);
    }

    /// The counters that were stored last.
    pub(crate) fn get(&self) -> CallCounters {
        CallCounters {
            calls: self.calls.load(Relaxed),
            fast: self.fast.load(Relaxed),
            ignored: self.ignored.load(Relaxed),
            spun: self.spun.load(Relaxed),
            slept: self.slept.load(Relaxed),
            packet: PacketCallCounters {
                retransmissions: self.retransmissions.load(Relaxed),
                probes: self.probes.load(Relaxed),
                // The binding counts these: they are rare.
                corrupt: 0,
            },
            skipped_callbacks: 0,
        }
    }
}
