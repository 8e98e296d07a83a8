//! Round-trip estimates, and how long to wait before a call is sent again.

use crate::Instant;
use core::time::Duration;

/// Shortest wait. RFC 6298 §2.4 asks for one second, which is too long for a LAN: Firefly §5 lost a packet a second and
/// waited 600 ms for each. One scheduling tick is the least that tells a lost packet from a delayed thread.
pub(crate) const SHORTEST: Duration = Duration::from_millis(4);

/// Longest wait between two transmissions of one call, where the round trip is known to be at most half of it.
pub(crate) const LONGEST: Duration = Duration::from_millis(400);

/// Longest wait on any path. After an outage, or a sample without sense, a lost packet must not cost a minute.
const LONGEST_OF_ALL: Duration = Duration::from_secs(4);

/// Wait before the first measurement.
const UNMEASURED: Duration = Duration::from_millis(50);

/// The measured round-trip time of a path: smoothed, with its variation (RFC 6298 §2).
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// Smoothed round trip and its mean deviation, in nanoseconds; `None` before the first sample.
    measured: Option<(u64, u64)>,
    /// Wait before the first retransmission: computed from `measured`, or longer while a sample is wanted.
    timeout_nanos: u64,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self { measured: None, timeout_nanos: UNMEASURED.as_nanos() as u64 }
    }
}

impl RoundTrip {
    /// Takes a sample: the round trip of a packet that was sent once (Karn's rule, RFC 6298 §3), less the time that the
    /// call spent at the server according to the server.
    pub fn sample(&mut self, round_trip: Duration) {
        self.sample_nanos(u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX));
    }

    /// As [`sample`](Self::sample), in nanoseconds.
    #[inline]
    pub(crate) fn sample_nanos(&mut self, sample: u64) {
        let (smooth, deviation) = match self.measured {
            None => (sample, sample / 2),
            Some((smooth, deviation)) => {
                (smooth - smooth / 8 + sample / 8, deviation - deviation / 4 + sample.abs_diff(smooth) / 4)
            }
        };
        self.measured = Some((smooth, deviation));
        // On a quiet path the deviation goes to zero, and the wait must not go to the round trip itself.
        let timeout = smooth.saturating_add(deviation.saturating_mul(4).max(smooth / 8));
        // As nearly always: no longest wait is shorter.
        self.timeout_nanos = match timeout <= SHORTEST.as_nanos() as u64 {
            true => SHORTEST.as_nanos() as u64,
            false => timeout.min(self.longest_nanos()),
        };
    }

    /// Takes note of a call that was answered within `longest`, the time that it spent at the server not included, but only
    /// after `transmissions`. Which of them was answered is unknown, so the call is no sample. If the path has become slower
    /// than the wait, no later call would be a sample either, so the wait stays as long as it has become until there is one
    /// (Karn's algorithm, RFC 6298 §5.7), or as the longest possible round trip requires if that is less.
    pub(crate) fn answered_after(&mut self, transmissions: u32, longest: Duration) {
        let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let enough = longest.saturating_add((longest / 8).max(SHORTEST.as_nanos() as u64));
        let doubled = self.timeout_nanos.saturating_mul(1 << doublings(transmissions));
        let enough = enough.min(LONGEST_OF_ALL.as_nanos() as u64);
        self.timeout_nanos = self.timeout_nanos.max(doubled.min(enough));
    }

    /// Longest wait: two round trips if that is more than [`LONGEST`], up to [`LONGEST_OF_ALL`].
    #[inline]
    fn longest_nanos(&self) -> u64 {
        let two_trips = self.measured.map_or(0, |(smooth, _)| smooth.saturating_mul(2));
        two_trips.clamp(LONGEST.as_nanos() as u64, LONGEST_OF_ALL.as_nanos() as u64)
    }

    /// Wait before the first retransmission (RFC 6298 §2.3), within bounds that suit a LAN.
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_nanos)
    }

    /// As [`timeout`](Self::timeout), in nanoseconds.
    #[inline]
    pub(crate) fn timeout_nanos(&self) -> u64 {
        self.timeout_nanos
    }

    /// Smoothed round trip and its mean deviation, in nanoseconds, if there was a sample.
    pub(crate) fn measured_nanos(&self) -> Option<(u64, u64)> {
        self.measured
    }

    /// Wait after `transmissions` of one call without an answer: doubled each time (RFC 6298 §5.5).
    pub fn timeout_after(&self, transmissions: u32) -> Duration {
        let doubled = self.timeout_nanos.saturating_mul(1 << doublings(transmissions));
        Duration::from_nanos(doubled.min(self.longest_nanos().max(self.timeout_nanos)))
    }
}

fn doublings(transmissions: u32) -> u32 {
    transmissions.saturating_sub(1).min(16)
}

/// Random lengthening of waits, so that callers that lost packets at the same time do not retransmit at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter(u32);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed ^ seed >> 32) as u32 | 1)
    }

    /// `wait` after `now`, lengthened by up to a quarter.
    pub(crate) fn after(&mut self, now: Instant, wait: Duration) -> Instant {
        now + wait + wait / 4 * u32::from(self.draw()) / 256
    }

    /// The next pseudo-random number.
    #[inline]
    pub(crate) fn draw(&mut self) -> u8 {
        // Xorshift (Marsaglia 2003): the quality of the randomness does not matter here.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(samples: &[u64]) -> RoundTrip {
        let mut path = RoundTrip::default();
        samples.iter().for_each(|&us| path.sample(Duration::from_micros(us)));
        path
    }

    #[test]
    fn an_unmeasured_path_has_a_longer_wait_than_a_lan_needs() {
        assert_eq!(measured(&[]).timeout(), UNMEASURED);
    }

    #[test]
    fn the_wait_on_a_fast_path_is_one_scheduling_tick() {
        assert_eq!(measured(&[5; 100]).timeout(), SHORTEST);
    }

    #[test]
    fn the_wait_on_a_slow_path_is_longer_than_its_round_trip() {
        let path = measured(&[80_000; 50]);
        assert!(path.timeout() >= Duration::from_millis(79), "{:?}", path.timeout());
        assert!(path.timeout() < Duration::from_millis(100), "{:?}", path.timeout());
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let path = measured(&[5; 100]);
        assert_eq!(path.timeout_after(1), path.timeout());
        assert_eq!(path.timeout_after(2), path.timeout() * 2);
        assert_eq!(path.timeout_after(40), LONGEST);
    }

    #[test]
    fn on_a_path_longer_than_the_bound_waits_double_up_to_two_round_trips() {
        let path = measured(&[500_000; 50]);
        assert!(path.timeout() > Duration::from_millis(500), "{:?}", path.timeout());
        assert_eq!(path.timeout_after(40), Duration::from_secs(1));
    }

    #[test]
    fn a_path_slower_than_the_wait_is_measured_after_a_few_calls() {
        for trip in (1..=500).chain([1_000, 2_000]).map(Duration::from_millis) {
            for mut path in [RoundTrip::default(), measured(&[10; 20])] {
                let mut calls = 0;
                while path.timeout() <= trip {
                    let (mut sent, mut transmissions) = (Duration::ZERO, 1);
                    while sent + path.timeout_after(transmissions) < trip {
                        sent += path.timeout_after(transmissions);
                        transmissions += 1;
                    }
                    path.answered_after(transmissions + 1, trip);
                    calls += 1;
                }
                assert!(calls <= 3, "{calls} calls until {trip:?} is known");
            }
        }
    }

    #[test]
    fn after_a_lost_packet_the_next_sample_restores_the_wait() {
        let mut path = measured(&[100; 20]);
        let before = path.timeout();
        path.answered_after(2, before + Duration::from_micros(100));
        assert!(path.timeout() > before && path.timeout() <= before * 2, "{:?}", path.timeout());
        path.sample(Duration::from_micros(100));
        assert_eq!(path.timeout(), before);
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut path = RoundTrip::default();
        for _ in 0..200 {
            path.sample(Duration::MAX);
            path.sample(Duration::ZERO);
        }
        path.answered_after(u32::MAX, Duration::MAX);
        assert!(path.timeout() <= LONGEST_OF_ALL && path.timeout_after(u32::MAX) <= LONGEST_OF_ALL);
    }

    #[test]
    fn after_an_outage_of_an_hour_the_next_loss_costs_seconds() {
        let mut path = measured(&[100; 20]);
        path.answered_after(9_000, Duration::from_secs(3600));
        assert_eq!(path.timeout(), LONGEST_OF_ALL);
        path.sample(Duration::from_micros(100));
        assert_eq!(path.timeout(), SHORTEST);
    }

    #[test]
    fn jitter_lengthens_by_at_most_a_quarter() {
        let mut jitter = Jitter::new(0);
        for _ in 0..1000 {
            let wait = jitter.after(Instant::from_nanos(0), Duration::from_nanos(4096)).as_nanos();
            assert!((4096..=5120).contains(&wait), "{wait}");
        }
    }
}
