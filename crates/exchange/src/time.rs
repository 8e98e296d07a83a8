//! Points in time, which the driver of the protocol reads from a real or a simulated clock.

use core::ops::Add;
use core::time::Duration;

/// Nanoseconds since a moment that the driver chooses; enough for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than every other instant.
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

    /// Nanoseconds from `earlier` to this moment; zero if `earlier` is later. The fast path uses this because a
    /// `Duration` costs divisions.
    #[inline]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `nanos` nanoseconds later. Saturates at [`Instant::NEVER`].
    #[inline]
    pub const fn after_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Time from `earlier` to this moment; zero if `earlier` is later.
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
