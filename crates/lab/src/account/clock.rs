//! The cycle counter and the kernel's clock on one time axis.

use rustix::time::{ClockId, clock_gettime};
use stoop_probe::cycles;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) cycles: u64,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW, which no daemon adjusts.
    pub(super) raw_ns: u64,
}

/// Readings of which the one that took the least time counts.
const READINGS: u32 = 64;

impl Moment {
    /// Now, to within half the time of reading the kernel's clock (some ten nanoseconds).
    pub(super) fn now() -> Self {
        let reading = || {
            let before = cycles();
            let raw_ns = raw_now_ns();
            let after = cycles();
            (after - before, Moment { cycles: before + (after - before) / 2, raw_ns })
        };
        (0..READINGS).map(|_| reading()).min_by_key(|(took, _)| *took).expect("there are readings").1
    }
}

fn raw_now_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A stretch of time, known on both clocks at its two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

impl Axis {
    /// Cycles in a nanosecond.
    pub(super) fn cycles_per_ns(&self) -> f64 {
        (self.to.cycles - self.from.cycles) as f64 / (self.to.raw_ns - self.from.raw_ns).max(1) as f64
    }

    /// The cycle counter when the kernel's clock was at `raw_ns`.
    pub(super) fn cycles_at(&self, raw_ns: u64) -> u64 {
        let since_ns = raw_ns as i64 - self.from.raw_ns as i64;
        self.from.cycles.wrapping_add_signed((since_ns as f64 * self.cycles_per_ns()).round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_the_ends_are_interpolated() {
        let axis =
            Axis { from: Moment { cycles: 1000, raw_ns: 500 }, to: Moment { cycles: 3000, raw_ns: 1500 } };
        assert_eq!(axis.cycles_per_ns(), 2.0);
        assert_eq!([400, 500, 1000, 1500].map(|ns| axis.cycles_at(ns)), [800, 1000, 2000, 3000]);
    }

    #[test]
    fn a_moment_lies_between_its_neighbours_on_both_clocks() {
        let (one, other) = (Moment::now(), Moment::now());
        assert!(one.cycles < other.cycles && one.raw_ns <= other.raw_ns);
    }
}
