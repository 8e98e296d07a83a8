//! The round trip of a path as measured by messages of many packets, and the waits that follow from it (RFC 9002 §5,
//! §6).

use super::RECEIPT_DELAY_NANOS;
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
    /// The least sample; 0 before the first.
    least: u64,
    /// How long to wait for a receipt.
    wait: u64,
}

impl Estimate {
    /// Begins with the estimate of single-packet calls.
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

    /// Takes a sample: the time from a transmission to its receipt, and the delay that the receiver reports in it.
    pub(super) fn sample(&mut self, elapsed: u64, delay: u64) {
        let elapsed = elapsed.max(1);
        if self.least == 0 {
            // RFC 9002 §5.2, §5.3
            *self =
                Self { smoothed: elapsed, variation: elapsed / 2, last: elapsed, least: elapsed, wait: 0 };
            return self.follow();
        }
        self.least = self.least.min(elapsed);
        // §5.3: a delay that would make the sample less than the least sample is ignored.
        let sample = if elapsed >= self.least.saturating_add(delay) { elapsed - delay } else { elapsed };
        self.last = sample;
        self.variation = self.variation - self.variation / 4 + self.smoothed.abs_diff(sample) / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
        self.follow();
    }

    fn follow(&mut self) {
        // §6.2.1: of messages, the receiver delays no receipt on purpose, so there is no max_ack_delay. The lower bound is that of
        // single-packet calls; otherwise a thread that waits for a processor would look like a loss.
        self.wait = self.base().clamp(SHORTEST.as_nanos() as u64, self.longest(2));
    }

    /// §6.2.1: the probe timeout, without bounds.
    fn base(&self) -> u64 {
        self.smoothed.saturating_add(self.variation.saturating_mul(4).max(GRANULARITY))
    }

    /// §6.2.1: the least wait for the receipt of a pipe, which may come as much later.
    #[inline]
    pub(super) fn with_delay(&self) -> u64 {
        self.base().min(self.longest(2)).saturating_add(RECEIPT_DELAY_NANOS)
    }

    /// So many round trips, but not less than the longest wait of single-packet calls. RFC 9002 has no such bound: one
    /// sample of a second would make the variation, which §6.2.1 multiplies by four, a thousand round trips of a LAN,
    /// and for seconds the sender would notice no loss that receipts do not show. A shorter wait than the clause asks
    /// for does not harm the network: it lets one or two packets go (§6.2.4) and concludes neither loss nor congestion
    /// (§6.2).
    fn longest(&self, round_trips: u64) -> u64 {
        self.smoothed.saturating_mul(round_trips).max(LONGEST.as_nanos() as u64)
    }

    /// The smoothed round trip; 0 before the first sample.
    #[inline]
    pub(super) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// §6.2.1: the wait for a receipt, doubled after each of `times` waits without one, within another bound that RFC
    /// 9002 does not have: a path that works again after seconds is used again within half a second, or within four
    /// round trips.
    #[inline]
    pub(super) fn wait_after(&self, times: u32) -> u64 {
        let most = self.longest(4).max(self.wait);
        self.wait.saturating_mul(1 << times.min(16)).min(most)
    }

    /// §6.1.2: a packet sent this long ago is lost if a later one has arrived.
    pub(super) fn loss_delay(&self) -> u64 {
        let longer = self.smoothed.max(self.last);
        longer.saturating_add(longer / 8).max(GRANULARITY)
    }

    /// §7.6.1: congestion is persistent if all packets sent in this time are lost.
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
    fn the_estimate_begins_with_that_of_single_packet_calls() {
        assert!(measured(20).smoothed.abs_diff(20 * MILLI) < MILLI / 10);
        assert!((21 * MILLI..24 * MILLI).contains(&measured(20).wait_after(0)), "{:?}", measured(20));
        assert_eq!(Estimate::new(RoundTrip::default()).wait_after(0), 50 * MILLI);
    }

    #[test]
    fn the_wait_on_a_slow_path_exceeds_every_single_packet_timeout() {
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
    fn one_sample_of_a_second_does_not_make_later_waits_long() {
        let mut path = measured(1);
        path.sample(1_000 * MILLI, 0);
        assert!(path.variation * 4 > 900 * MILLI, "the clause alone would wait a second, and then four");
        assert_eq!(path.wait_after(0), 400 * MILLI);
        assert!(path.wait_after(9) <= 510 * MILLI, "{}", path.wait_after(9));
        // A path that is always slow has a longer wait.
        (0..20).for_each(|_| path.sample(1_000 * MILLI, 0));
        assert!(path.wait_after(0) > 1_000 * MILLI && path.wait_after(9) > 3_000 * MILLI, "{path:?}");
    }

    #[test]
    fn an_impossible_delay_is_ignored() {
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
