//! The speed at which a queue empties: nanoseconds of expected run time that leave it in each nanosecond.
//!
//! With Little's law (*A Proof for the Queuing Formula L = λW*, Operations Research 9(3), 1961) it tells how long a call will wait. It is
//! measured, because neither the number of workers nor that of processors says it: procedures that sleep run all at once, procedures
//! that compute share the processors. Each call that leaves the queue is a sample: the work that was ahead of it when it came, and the
//! time that it has waited for that work.

/// The measurement.
#[derive(Debug, Default)]
pub(super) struct Power {
    /// Sums over the calls of late, in which earlier calls count less and less; 0 before the first.
    ahead_ns: f64,
    waited_ns: f64,
}

/// A call counts by so much less with each that leaves the queue after it. Together the last thirty count most.
const FADING: f64 = 31.0 / 32.0;

/// A call may wait so long for other reasons than the work ahead of it, as for a thread that is woken. Without it, a wait of milliseconds for
/// a microsecond of work would say that all work takes thousands of times as long as expected.
const BESIDE_NS: u64 = 1_000_000;

/// Work is never taken to last longer than so many times what is expected: one call that waited for a stuck one says nothing of others.
const SLOWEST: u64 = 16;

impl Power {
    /// A call leaves the queue that has waited for so much work ahead of it, for so long.
    pub(super) fn note(&mut self, ahead_ns: u64, waited_ns: u64) {
        if ahead_ns > 0 {
            let ahead_ns = ahead_ns.saturating_add(BESIDE_NS);
            let waited_ns = waited_ns.min(ahead_ns.saturating_mul(SLOWEST));
            self.ahead_ns = self.ahead_ns * FADING + ahead_ns as f64;
            self.waited_ns = self.waited_ns * FADING + waited_ns as f64;
        }
    }

    /// Time in which so much work leaves, while `running` calls keep workers busy.
    pub(super) fn time_for_ns(&self, work_ns: u64, running: usize) -> u64 {
        // Before the first sample: as if each worker had a processor of its own. Too low an estimate is corrected when the call
        // leaves the queue; too high a one would refuse calls in vain.
        match self.ahead_ns > 0.0 {
            true => (work_ns as f64 * (self.waited_ns / self.ahead_ns)) as u64,
            false => work_ns / running.max(1) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_wait_follows_the_calls_that_leave_and_not_the_number_of_workers() {
        let mut power = Power::default();
        assert_eq!(power.time_for_ns(640 * MS, 64), 10 * MS);
        // One processor: a call of 2 ms leaves every 2 ms, however many workers there are.
        (1..=50).for_each(|ahead| power.note(ahead * 2 * MS, ahead * 2 * MS));
        let wait = power.time_for_ns(640 * MS, 64) / MS;
        assert!((620..=640).contains(&wait), "{wait} ms for 640 ms of work");
        // Now the calls are known to take 128 ms each, because 64 share the processor.
        (1..=200).for_each(|_| power.note(50 * 128 * MS, 50 * 2 * MS));
        let wait = power.time_for_ns(10 * 128 * MS, 64) / MS;
        assert!((20..=24).contains(&wait), "{wait} ms for ten calls");
    }

    #[test]
    fn too_high_an_estimate_is_corrected_by_the_few_calls_that_still_wait() {
        let mut power = Power::default();
        (0..100).for_each(|_| power.note(100 * MS, 1000 * MS));
        // Only calls behind one other are let in from now on; each waits for 2 ms.
        (0..200).for_each(|_| power.note(100 * MS, 2 * MS));
        let wait = power.time_for_ns(1000 * MS, 1) / MS;
        assert!(wait < 50, "{wait} ms");
    }

    #[test]
    fn calls_that_wait_long_for_little_work_do_not_condemn_those_behind_them() {
        let mut power = Power::default();
        (0..100).for_each(|_| power.note(2_000, 50 * MS));
        let wait = power.time_for_ns(MS, 1) / MS;
        assert!(wait <= 16, "{wait} ms for a thousand calls of a microsecond");
        power.note(2_000, 20_000 * MS);
        assert!(power.time_for_ns(MS, 1) / MS <= 16, "one was behind a stuck call");
    }

    #[test]
    fn a_call_that_waits_for_no_other_is_no_sample() {
        let mut power = Power::default();
        power.note(0, 50 * MS);
        assert_eq!(power.time_for_ns(8 * MS, 4), 2 * MS);
    }
}
