//! When a call begins, and when it ends at the latest.

use crate::context::{begin_cheaply, bounded_deadline};
use stoop_net::clock;

/// When a call begins, and its deadline.
#[derive(Clone, Copy)]
pub(crate) struct CallTimes {
    pub(crate) begun_ns: u64,
    pub(crate) deadline: Deadline,
}

/// A deadline of which an earlier time may be known later, if the call began by the coarse clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    /// The deadline is not later; the server takes it to be this.
    pub(crate) latest_ns: u64,
    timeout_ns: u64,
}

impl Deadline {
    /// A deadline that is known exactly.
    #[inline]
    pub(crate) fn exact(deadline_ns: u64) -> Self {
        Self { latest_ns: deadline_ns, timeout_ns: u64::MAX }
    }

    /// The deadline as far as it is known when the precise clock shows `clock_ns`, at the beginning of the wait: never too early. The
    /// clock is read then anyway, while the call is on its way.
    #[inline]
    pub(crate) fn at(self, clock_ns: u64) -> u64 {
        clock_ns.saturating_add(self.timeout_ns).min(self.latest_ns)
    }
}

impl CallTimes {
    /// A call that begins now, by the precise clock; `None` if the deadline that it inherits has passed.
    #[inline]
    pub(crate) fn begin(timeout_ns: u64) -> Option<Self> {
        let begun_ns = clock::now_ns();
        let latest_ns = bounded_deadline(begun_ns, timeout_ns);
        (latest_ns > begun_ns).then(|| Self::exact(begun_ns, latest_ns))
    }

    /// As [`begin`](Self::begin), by the coarse clock where that is [exact enough](begin_cheaply).
    #[inline]
    pub(crate) fn begin_cheaply(timeout_ns: u64) -> Option<Self> {
        let (begun_ns, latest_ns) = begin_cheaply(timeout_ns)?;
        Some(Self { begun_ns, deadline: Deadline { latest_ns, timeout_ns } })
    }

    /// A call whose times are known by the precise clock.
    #[inline]
    pub(crate) fn exact(begun_ns: u64, deadline_ns: u64) -> Self {
        Self { begun_ns, deadline: Deadline::exact(deadline_ns) }
    }
}
