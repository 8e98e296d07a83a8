//! Waiting on a processor that both ends share: letting the other run, and looking again.

/// Whether to let others run and look again, instead of sleeping: where both ends share a processor, that hands it over in one
/// system call, where sleep and wake-up take two at each end.
///
/// It is right only while nobody else wants the processor: beside a busy third, one yield in a few takes a time slice (4 ms), as
/// does one to a peer that is busy with something else. So there is an account: a wait that yielding has made shorter pays in what it
/// has gained; one at whose late end there was something to do draws what it took; and when the account is overdrawn there is no
/// yielding for a hundred times the debt, so that attempts in vain take a hundredth of the time at most.
#[derive(Clone, Debug)]
pub struct Yielding {
    credit_ns: u64,
    not_before_ns: u64,
    began_ns: u64,
}

/// A wait that takes longer was no mere handing over. Also how long to yield where nobody wants the processor.
const YIELDING_MAX_NS: u64 = 50_000;
/// What a wait gains that ends sooner: a sleep and a wake-up less.
const GAIN_NS: u64 = 500;
/// What a wait may cost: a time slice.
const COST_MAX_NS: u64 = 4_000_000;
const CREDIT_MAX_NS: u64 = 2 * COST_MAX_NS;
const PAUSE_FACTOR: u64 = 100;

impl Default for Yielding {
    /// An account for two attempts.
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

    /// Others have run, it is `now_ns`, and the wait is not over. Returns whether to yield again.
    #[inline]
    pub fn goes_on(&mut self, now_ns: u64) -> bool {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        let goes_on = took_ns < YIELDING_MAX_NS;
        if !goes_on {
            // Nobody has waited for what this end would have done. If it was stopped meanwhile, it does not matter either.
            self.draw(YIELDING_MAX_NS, now_ns);
        }
        goes_on
    }

    /// A wait in which it [`goes_on`](Self::goes_on) is over at `now_ns`.
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
    fn hand_overs_go_on_for_ever() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 1);
        for _ in 0..100_000 {
            let (yields, then_ns) = wait(&mut yielding, now_ns, 2_000);
            assert!(yields);
            now_ns = then_ns;
        }
    }

    #[test]
    fn beside_a_busy_third_a_hundredth_of_the_time_is_lost() {
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
    fn a_slice_lost_now_and_then_is_paid_by_the_hand_overs_in_between() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 1);
        for n in 1..100_000 {
            let took_ns = if n % 10_000 == 0 { SLICE_NS } else { 2_000 };
            let (yields, then_ns) = wait(&mut yielding, now_ns, took_ns);
            assert!(yields);
            now_ns = then_ns;
        }
    }

    #[test]
    fn to_have_been_stopped_costs_no_more_than_a_slice() {
        let mut yielding = Yielding::default();
        let (_, now_ns) = wait(&mut yielding, 1, 3_600_000_000_000);
        assert!(yielding.begin(now_ns));
    }

    #[test]
    fn where_nothing_comes_yielding_ends() {
        let mut yielding = Yielding::default();
        assert!(yielding.begin(1));
        assert!(yielding.goes_on(1 + YIELDING_MAX_NS - 1));
        assert!(!yielding.goes_on(1 + YIELDING_MAX_NS));
    }

    #[test]
    fn who_is_stopped_while_it_waits_for_nothing_loses_no_more_than_who_waits_for_nothing() {
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
