//! The round trip of a path while messages of many packets use it, and the waits that follow from it (RFC 9002 §5, §6).

use crate::RoundTrip;
use crate::retransmit::{LONGEST, SHORTEST};

/// RFC 9002 §6.1.2 kGranularity.
const GRANULARITY: u64 = 1_000_000;

/// RFC 9002 §7.6.1 kPersistentCongestionThreshold.
const PERSISTENT: u64 = 3;

/// Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Estimate {
    smoothed: u64,
    variation: u64,
    /// The last sample.
    last: u64,
    /// The least; 0 before there is a sample.
    least: u64,
    /// How long a receipt is waited for.
    wait: u64,
}

impl Estimate {
    /// Begins with what single-packet calls have measured.
    pub(super) fn new(round_trip: RoundTrip) -> Self {
        let (smoothed, variation, least) = match round_trip.measured_nanos() {
            Some((smoothed, variation)) => (smoothed, variation, smoothed),
            None => (0, 0, 0),
        };
        let mut estimate =
            Self { smoothed, variation, last: smoothed, least, wait: round_trip.timeout_nanos() };
        if least > 0 {
            estimate.follow();
        }
        estimate
    }

    /// Takes the time from a transmission to the receipt that tells it, and how much of that the receiver says it kept
    /// the news.
    pub(super) fn sample(&mut self, elapsed: u64, delay: u64) {
        let elapsed = elapsed.max(1);
        if self.least == 0 {
            // RFC 9002 §5.2, §5.3
            *self =
                Self { smoothed: elapsed, variation: elapsed / 2, last: elapsed, least: elapsed, wait: 0 };
            return self.follow();
        }
        self.least = self.least.min(elapsed);
        // §5.3: a delay that would make the sample less than the least is not believed.
        let sample = if elapsed >= self.least.saturating_add(delay) { elapsed - delay } else { elapsed };
        self.last = sample;
        self.variation = self.variation - self.variation / 4 + self.smoothed.abs_diff(sample) / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
        self.follow();
    }

    fn follow(&mut self) {
        // §6.2.1: the receiver delays no receipt on purpose, so there is no max_ack_delay. The lower bound is that of
        // single-packet calls: a thread that has to wait for its processor looks like a loss otherwise.
        self.wait = self.base().clamp(SHORTEST.as_nanos() as u64, self.longest(2));
    }

    /// §6.2.1: the probe timeout, without bounds.
    fn base(&self) -> u64 {
        self.smoothed.saturating_add(self.variation.saturating_mul(4).max(GRANULARITY))
    }

    /// So many round trips, but not less than what single-packet calls wait at most. A bound that RFC 9002 does not have: one
    /// straggler of a second makes the variation, which §6.2.1 multiplies by four, a thousand round trips of a LAN, and for
    /// seconds a loss would be waited for that nothing else tells of. To wait less than the clause says does no harm to the
    /// network: a wait in vain lets a packet or two go (§6.2.4) and concludes neither loss nor congestion (§6.2).
    fn longest(&self, round_trips: u64) -> u64 {
        self.smoothed.saturating_mul(round_trips).max(LONGEST.as_nanos() as u64)
    }

    /// Smoothed; 0 before there is a sample.
    #[inline]
    pub(super) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// §6.2.1: the wait for a receipt, after `times` waits in vain doubled as often, within a bound that RFC 9002 does not
    /// have, either: a path that comes back after seconds is used again within half of one, or within four round trips.
    #[inline]
    pub(super) fn wait_after(&self, times: u32) -> u64 {
        let most = self.longest(4).max(self.wait);
        self.wait.saturating_mul(1 << times.min(16)).min(most)
    }

    /// §6.1.2: a packet that was sent so long ago is lost when a later one has arrived.
    pub(super) fn loss_delay(&self) -> u64 {
        let longer = self.smoothed.max(self.last);
        longer.saturating_add(longer / 8).max(GRANULARITY)
    }

    /// §7.6.1: when all is lost that was sent in so long a time, congestion is persistent.
    pub(super) fn persistent(&self) -> u64 {
        self.base().max(SHORTEST.as_nanos() as u64).saturating_mul(PERSISTENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const MILLI: u64 = 1_000_000;

    fn measured(millis: u64) -> Estimate {
        let mut round_trip = RoundTrip::default();
        (0..50).for_each(|_| round_trip.sample(Duration::from_millis(millis)));
        Estimate::new(round_trip)
    }

    #[test]
    fn single_packet_calls_have_measured_it_already() {
        assert!(measured(20).smoothed.abs_diff(20 * MILLI) < MILLI / 10);
        assert!((21 * MILLI..24 * MILLI).contains(&measured(20).wait_after(0)), "{:?}", measured(20));
        assert_eq!(Estimate::new(RoundTrip::default()).wait_after(0), 50 * MILLI);
    }

    #[test]
    fn a_path_slower_than_any_timeout_of_single_packets_is_waited_for() {
        let path = measured(900);
        assert!(path.wait_after(0) > 900 * MILLI);
        assert!(path.wait_after(1) > 1800 * MILLI);
        assert_eq!(path.wait_after(2), path.wait_after(20));
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let path = measured(0);
        assert_eq!(path.wait_after(0), 4 * MILLI);
        assert_eq!(path.wait_after(3), 32 * MILLI);
        assert_eq!(path.wait_after(u32::MAX), 400 * MILLI);
    }

    #[test]
    fn a_straggler_of_a_second_is_not_waited_for_by_all_that_follow() {
        let mut path = measured(1);
        path.sample(1_000 * MILLI, 0);
        assert!(path.variation * 4 > 900 * MILLI, "the clause alone would wait a second, and then four");
        assert_eq!(path.wait_after(0), 400 * MILLI);
        assert!(path.wait_after(9) <= 510 * MILLI, "{}", path.wait_after(9));
        // A path that is slow is waited for: it is no straggler.
        (0..20).for_each(|_| path.sample(1_000 * MILLI, 0));
        assert!(path.wait_after(0) > 1_000 * MILLI && path.wait_after(9) > 3_000 * MILLI, "{path:?}");
    }

    #[test]
    fn a_delay_that_cannot_be_is_not_believed() {
        let mut path = measured(10);
        path.sample(12 * MILLI, 11 * MILLI);
        assert_eq!(path.last, 12 * MILLI);
        path.sample(18 * MILLI, 3 * MILLI);
        assert_eq!(path.last, 15 * MILLI);
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut path = measured(10);
        for _ in 0..200 {
            path.sample(u64::MAX, 0);
            path.sample(0, u64::MAX);
            path.sample(u64::MAX, u64::MAX);
            assert!(path.loss_delay() >= GRANULARITY && path.persistent() > 0 && path.wait_after(9) > 0);
        }
    }
}
