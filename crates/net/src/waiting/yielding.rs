//! The decision to yield the processor and look again, where both ends share one.

/// Decides whether a thread yields between two looks instead of sleeping. Where both ends share a
/// processor, a yield gives it to the other end in one system call; a sleep and a wake-up take two at
/// each end.
///
/// Yielding is right only while no other thread wants the processor. Beside a busy third, one yield in a
/// few takes a time slice (4 ms), and so does a yield to a peer that is busy with something else. So there
/// is an account of time. A wait that yielding made shorter adds what it gained. A wait that yielding made
/// longer takes out what it lost. When the account is overdrawn, there is no yielding for a hundred times
/// the debt: fruitless yields cost a hundredth of the time at most.
#[derive(Clone, Debug)]
pub struct Yielding {
    credit_ns: u64,
    not_before_ns: u64,
    began_ns: u64,
}

/// Longest time to yield. A wait that takes longer was not only for the other end of the call.
const YIELDING_MAX_NS: u64 = 50_000;
/// Gain of a shorter wait: a sleep and a wake-up.
const GAIN_NS: u64 = 500;
/// Highest cost of a wait: a time slice.
const COST_MAX_NS: u64 = 4_000_000;
const CREDIT_MAX_NS: u64 = 2 * COST_MAX_NS;
const PAUSE_FACTOR: u64 = 100;

impl Default for Yielding {
    /// An account that bears two time slices.
    fn default() -> Self {
        Self { credit_ns: CREDIT_MAX_NS, not_before_ns: 0, began_ns: 0 }
    }
}

impl Yielding {
    /// A wait begins at `now_ns`. Returns whether to yield in it.
    #[inline]
    pub fn begin(&mut self, now_ns: u64) -> bool {
        self.began_ns = now_ns;
        now_ns >= self.not_before_ns
    }

    /// A look found nothing, and the time of the last yield is `now_ns`. Returns whether to yield again.
    #[inline]
    pub fn goes_on(&mut self, now_ns: u64) -> bool {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        let goes_on = took_ns < YIELDING_MAX_NS;
        if !goes_on {
            // Nothing came: the time that a yield took beyond the limit was not lost to a call.
            self.draw(YIELDING_MAX_NS, now_ns);
        }
        goes_on
    }

    /// A wait with yields is over at `now_ns`.
    #[inline]
    pub fn arrived(&mut self, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        match took_ns < YIELDING_MAX_NS {
            true => self.credit_ns = (self.credit_ns + GAIN_NS).min(CREDIT_MAX_NS),
            false => self.draw(took_ns, now_ns),
        }
    }

    #[cold]
    fn draw(&mut self, took_ns: u64, now_ns: u64) {
        let cost_ns = took_ns.min(COST_MAX_NS);
        let debt_ns = cost_ns.saturating_sub(self.credit_ns);
        self.credit_ns = self.credit_ns.saturating_sub(cost_ns);
        self.not_before_ns = now_ns.saturating_add(PAUSE_FACTOR * debt_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = COST_MAX_NS;

    /// A wait from `now_ns` on that ends after `took_ns`. Returns whether there was any yielding, and when it is over.
    fn wait(yielding: &mut Yielding, now_ns: u64, took_ns: u64) -> (bool, u64) {
        let yields = yielding.begin(now_ns);
        if yields {
            yielding.arrived(now_ns + took_ns);
        }
        (yields, now_ns + took_ns)
    }

    #[test]
    fn short_waits_always_yield() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 1);
        for _ in 0..100_000 {
            let (yields, then_ns) = wait(&mut yielding, now_ns, 2_000);
            assert!(yields);
            now_ns = then_ns;
        }
    }

    #[test]
    fn yielding_beside_a_busy_third_loses_a_hundredth_of_the_time() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 1);
        let mut lost_ns = 0;
        // Every second yield loses the processor for a slice; a wait asleep does not.
        for n in 0..1_000_000 {
            let took_ns = if n % 2 == 0 { SLICE_NS } else { 2_000 };
            if yielding.begin(now_ns) {
                now_ns += took_ns;
                yielding.arrived(now_ns);
                lost_ns += took_ns;
            } else {
                now_ns += 3_000;
            }
        }
        assert!(lost_ns < now_ns / 100 + CREDIT_MAX_NS + SLICE_NS, "{lost_ns} of {now_ns}");
        assert!(lost_ns > now_ns / 200, "it is tried again: {lost_ns} of {now_ns}");
    }

    #[test]
    fn gains_of_short_waits_pay_for_a_slice_lost_now_and_then() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 1);
        for n in 1..100_000 {
            let took_ns = if n % 10_000 == 0 { SLICE_NS } else { 2_000 };
            let (yields, then_ns) = wait(&mut yielding, now_ns, took_ns);
            assert!(yields);
            now_ns = then_ns;
        }
    }

    #[test]
    fn a_stop_of_the_thread_costs_no_more_than_a_slice() {
        let mut yielding = Yielding::default();
        let (_, now_ns) = wait(&mut yielding, 1, 3_600_000_000_000);
        assert!(yielding.begin(now_ns));
    }

    #[test]
    fn yielding_ends_after_fifty_microseconds_without_a_result() {
        let mut yielding = Yielding::default();
        assert!(yielding.begin(1));
        assert!(yielding.goes_on(1 + YIELDING_MAX_NS - 1));
        assert!(!yielding.goes_on(1 + YIELDING_MAX_NS));
    }

    #[test]
    fn a_stop_of_the_thread_during_a_fruitless_wait_costs_no_more_than_the_wait() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 1);
        // A hundred calls, and then stopped for an hour.
        for n in 1..10_000 {
            if n % 100 == 0 {
                assert!(yielding.begin(now_ns));
                now_ns += 3_600_000_000_000;
                assert!(!yielding.goes_on(now_ns));
            }
            let (yields, then_ns) = wait(&mut yielding, now_ns, 2_000);
            assert!(yields);
            now_ns = then_ns;
        }
    }
}
