//! How long a procedure takes, as its calls have shown.

use crate::serving::terms::LONG_NANOS;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use stoop_net::clock;

/// The time that a procedure takes.
#[derive(Debug, Default)]
pub(crate) struct ProcedureTime {
    /// The time of its last calls in nanoseconds; see [`took`](Self::took).
    last_ns: AtomicU32,
    long: LongTimes,
}

/// The mean time of a procedure whose calls take long.
#[derive(Debug, Default)]
pub(crate) struct LongTimes {
    mean_ns: AtomicU64,
    /// When its last call ended, by the coarse clock.
    noted_ns: AtomicU64,
}

/// About the cost of a write to a socket: an answer may wait for another one that is ready after so short a time.
const SHORT_NANOS: u32 = 10_000;

/// Stands in place of a procedure's time if each of its calls must be counted.
const COUNTED: u32 = u32::MAX;

/// The least time that each call takes: to receive it, and to answer it.
const SHORTEST_NS: u64 = 1_000;

/// If no call of a procedure has ended for its mean time and this time, only half of the mean counts. Otherwise the calls of a procedure
/// that was slow once would be passed over for ever while other calls wait, and give no new times.
const UNPROVED_NS: u64 = 250_000_000;

/// A call counts as at most so many times the mean before it, and the first as at most [`FIRST_MOST_NS`]. The scheduler may have stopped
/// the procedure for seconds; if such a time counted whole, hundreds of calls that have time enough would be passed over.
const TIMES_MOST: u64 = 8;
const FIRST_MOST_NS: u64 = 10_000_000;

impl ProcedureTime {
    /// The time of a procedure each of whose calls has to be counted, like one that takes long, because the number of those that run at
    /// once is limited.
    pub(crate) fn counted() -> Self {
        Self { last_ns: AtomicU32::new(COUNTED), ..Self::default() }
    }

    /// Whether it takes so long that another worker should receive meanwhile.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        u64::from(self.last_ns.load(Ordering::Relaxed)) > LONG_NANOS
    }

    /// Whether it is known to take so little time that another answer can wait for it.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        (1..SHORT_NANOS).contains(&self.last_ns.load(Ordering::Relaxed))
    }

    /// Remembers how long a call of it took. The scheduler may have stopped one that took long once: it counts as long
    /// after two long times in a row, and as short after one short time.
    #[inline]
    pub(crate) fn took(&self, nanos: u64) {
        let mean = self.last_ns.load(Ordering::Relaxed);
        if nanos > LONG_NANOS || mean == COUNTED {
            return self.took_long(mean, nanos);
        }
        // A lost update loses one of many samples.
        self.last_ns.store(mean_with(mean, nanos), Ordering::Relaxed);
    }

    #[cold]
    fn took_long(&self, mean: u32, nanos: u64) {
        self.long.note(nanos, clock::coarse_now_ns());
        if mean != COUNTED {
            self.last_ns.store(mean_with(mean, nanos), Ordering::Relaxed);
        }
    }

    /// How long its next call is expected to take.
    pub(crate) fn work_ns(&self) -> u64 {
        match self.is_long() {
            true => self.long.mean_at(clock::coarse_now_ns()),
            false => u64::from(self.last_ns.load(Ordering::Relaxed)).max(SHORTEST_NS),
        }
    }
}

impl LongTimes {
    /// Notes how long a call took.
    #[cold]
    pub(crate) fn note(&self, nanos: u64, now_ns: u64) {
        let mean = match self.mean_ns.load(Ordering::Relaxed) {
            0 => nanos.min(FIRST_MOST_NS),
            mean => mean - mean / 8 + nanos.min(mean.saturating_mul(TIMES_MOST)) / 8,
        };
        self.mean_ns.store(mean, Ordering::Relaxed);
        self.noted_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The mean time of a call.
    pub(crate) fn mean_at(&self, now_ns: u64) -> u64 {
        let mean_ns = self.mean_ns.load(Ordering::Relaxed);
        let silent_ns = now_ns.saturating_sub(self.noted_ns.load(Ordering::Relaxed));
        let halvings = (silent_ns / mean_ns.saturating_add(UNPROVED_NS)).min(63);
        (mean_ns >> halvings).max(SHORTEST_NS)
    }
}

/// The mean with another time in it. A single one, however long, does not make a short mean long.
#[inline]
fn mean_with(mean: u32, nanos: u64) -> u32 {
    let newest = nanos.min(3 * LONG_NANOS) as u32;
    if newest < mean { newest } else { mean + (newest - mean) / 4 }
}

#[cfg(test)]
mod tests {
    use crate::serving::procedure_time::*;

    #[test]
    fn a_procedure_is_long_after_two_long_times_in_a_row_and_not_after_one() {
        for mean in [0, 600, 60_000] {
            let once = mean_with(mean, u64::MAX);
            assert!(u64::from(once) <= LONG_NANOS, "{mean} becomes {once}");
            assert!(u64::from(mean_with(once, u64::MAX)) > LONG_NANOS);
            assert_eq!(mean_with(once, 500), 500, "and short as soon as it was");
        }
    }

    #[test]
    fn a_slow_procedure_is_tried_again_some_time_after_its_last_call_and_however_many_were_refused() {
        let second = 1_000_000_000;
        let times =
            LongTimes { mean_ns: AtomicU64::new(10 * second), noted_ns: AtomicU64::new(100 * second) };
        (0..1_000_000).for_each(|_| assert_eq!(times.mean_at(101 * second), 10 * second));
        assert_eq!(times.mean_at(111 * second), 5 * second);
        assert!(times.mean_at(160 * second) < second);
        assert_eq!(times.mean_at(u64::MAX), SHORTEST_NS);
        times.note(10 * second, 160 * second);
        assert_eq!(times.mean_at(160 * second), 10 * second);
    }

    #[test]
    fn one_call_that_the_scheduler_has_stopped_says_little_and_ten_slow_ones_are_believed() {
        let (times, ms) = (LongTimes::default(), 1_000_000);
        times.note(20_000 * ms, 0);
        assert_eq!(times.mean_at(0), 10 * ms);
        (0..100).for_each(|_| times.note(ms, 0));
        times.note(20_000 * ms, 0);
        assert!(times.mean_at(0) < 2 * ms, "{}", times.mean_at(0));
        (0..10).for_each(|_| times.note(500 * ms, 0));
        assert!(times.mean_at(0) > 250 * ms, "{}", times.mean_at(0));
    }
}
