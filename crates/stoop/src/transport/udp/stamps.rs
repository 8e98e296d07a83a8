//! Whether the kernel's time stamps of packets can be believed.
//!
//! When a socket is asked for time stamps, the kernel has none of the packets that are in its buffer already, and for some
//! milliseconds of none that come. It says that such packets have come when they are read. These are the oldest: they came before
//! the backlog was noticed.

use crate::transport::packet::link::UNKNOWN_AGE;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stoop_net::clock;

/// The time stamps of a socket.
#[derive(Debug, Default)]
pub(super) struct TimeStamps {
    on: AtomicBool,
    /// When they were switched on.
    since_ns: AtomicU64,
    /// All packets have true ones.
    known: AtomicBool,
}

/// A packet that has waited for so long has a true time stamp, and so have those behind it.
const TRUE_AGE_NS: u64 = 1_000_000;

/// If the buffer has been found empty so long after the time stamps were switched on, the packets that come have true ones.
const ALL_STAMPED_NS: u64 = 50_000_000;

impl TimeStamps {
    #[inline]
    pub(super) fn are_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Switches them on or off. `false`: they were so already.
    pub(super) fn switch(&self, on: bool) -> bool {
        if self.are_on() == on || self.on.swap(on, Ordering::Relaxed) == on {
            return false;
        }
        self.known.store(false, Ordering::Relaxed);
        self.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        true
    }

    /// The age of packets of which the kernel says that they came so long ago. `None`: no packet was there.
    pub(super) fn age_ns(&self, told_ns: Option<u64>) -> u64 {
        if self.known.load(Ordering::Relaxed) {
            return told_ns.unwrap_or(0);
        }
        let known = match told_ns {
            Some(told_ns) => told_ns >= TRUE_AGE_NS,
            None => clock::now_ns().saturating_sub(self.since_ns.load(Ordering::Relaxed)) >= ALL_STAMPED_NS,
        };
        self.known.store(known, Ordering::Relaxed);
        told_ns.filter(|_| known).unwrap_or(UNKNOWN_AGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_unknown_until_one_can_only_be_true() {
        let stamps = TimeStamps::default();
        assert!(stamps.switch(true) && !stamps.switch(true));
        assert_eq!(stamps.age_ns(Some(900)), UNKNOWN_AGE);
        assert_eq!(stamps.age_ns(None), UNKNOWN_AGE, "packets that come at once have none");
        assert_eq!(stamps.age_ns(Some(3 * TRUE_AGE_NS)), 3 * TRUE_AGE_NS);
        assert_eq!(stamps.age_ns(Some(900)), 900);
        assert!(stamps.switch(false) && stamps.switch(true));
        assert_eq!(stamps.age_ns(Some(900)), UNKNOWN_AGE, "it begins anew");
        stamps.since_ns.store(0, Ordering::Relaxed);
        stamps.age_ns(None);
        assert_eq!(stamps.age_ns(Some(900)), 900);
    }
}
