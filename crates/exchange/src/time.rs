//! A point in time, told by whoever drives the protocol: a real clock or a simulated one.

use core::ops::Add;
use core::time::Duration;

/// Nanoseconds since a moment of the driver's choice. Enough for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than any other.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the driver's zero.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the driver's zero.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to this moment; zero if that is later. For the fast path: a `Duration` is made and
    /// taken apart by divisions.
    #[inline]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `nanos` nanoseconds later. Saturates at [`Instant::NEVER`].
    #[inline]
    pub const fn after_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Time from `earlier` to this moment; zero if that is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::NEVER`].
    #[inline]
    fn add(self, later: Duration) -> Self {
        let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}
