//! The speed at which a queue empties: nanoseconds of expected run time that leave it in each nanosecond.
//!
//! With Little's law (*A Proof for the Queuing Formula L = λW*, Operations Research 9(3), 1961) it tells how long a call will wait. It is
//! measured, because neither the number of workers nor that of processors says it: procedures that sleep run all at once, procedures
//! that compute share the processors.

/// A measurement that goes on as long as calls wait.
#[derive(Debug, Default)]
pub(super) struct Power {
    /// Work that leaves in a nanosecond, by the last measurement; 0 before the first.
    measured: f64,
    since_ns: u64,
    work_ns: u64,
    calls: u32,
}

/// Shortest time of a measurement, and fewest calls.
const WINDOW_NS: u64 = 50_000_000;
const CALLS_MIN: u32 = 8;

impl Power {
    /// The queue was empty, and a call has come.
    pub(super) fn start(&mut self, now_ns: u64) {
        (self.since_ns, self.work_ns, self.calls) = (now_ns, 0, 0);
    }

    /// A call has left the queue to run; calls have waited all the time since [`start`](Self::start).
    pub(super) fn note(&mut self, now_ns: u64, work_ns: u64) {
        self.work_ns += work_ns;
        self.calls += 1;
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns >= WINDOW_NS && self.calls >= CALLS_MIN {
            let newest = self.work_ns as f64 / elapsed_ns as f64;
            // The first is the best that is known; later ones are smoothed.
            self.measured = if self.measured == 0.0 { newest } else { (self.measured + newest) / 2.0 };
            self.start(now_ns);
        }
    }

    /// Time in which so much work leaves, while `running` calls keep workers busy.
    pub(super) fn time_for_ns(&self, work_ns: u64, running: usize) -> u64 {
        // Before the first measurement: as if each worker had a processor of its own. Too low an estimate is corrected when the call
        // leaves the queue; too high a one would refuse calls in vain.
        let power = if self.measured == 0.0 { running.max(1) as f64 } else { self.measured };
        (work_ns as f64 / power.max(f64::MIN_POSITIVE)) as u64
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
        power.start(0);
        // One processor: a call of 2 ms leaves every 2 ms, however many workers there are.
        (1..=50).for_each(|call| power.note(call * 2 * MS, 2 * MS));
        assert_eq!(power.time_for_ns(640 * MS, 64) / MS, 640);
        // Now the calls are known to take 128 ms each, because 64 share the processor.
        (51..=250).for_each(|call| power.note(call * 2 * MS, 128 * MS));
        let wait = power.time_for_ns(10 * 128 * MS, 64) / MS;
        assert!((18..=24).contains(&wait), "{wait} ms for ten calls");
    }

    #[test]
    fn a_few_calls_are_no_measurement() {
        let mut power = Power::default();
        power.start(0);
        (1..CALLS_MIN).for_each(|call| power.note(u64::from(call) * 1000 * MS, MS));
        assert_eq!(power.time_for_ns(8 * MS, 4), 2 * MS);
    }
}
