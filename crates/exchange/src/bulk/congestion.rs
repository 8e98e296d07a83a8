//! The congestion window, which bounds the outstanding bytes: the NewReno of RFC 9002 §7 and its appendix B, in payload
//! bytes.

use crate::Instant;
use core::time::Duration;

/// A path with a shorter round trip is a LAN, for the initial window and for pacing.
pub(super) const LAN: Duration = Duration::from_millis(1);

/// Most bytes that the kernel sends in one call (UDP GSO).
const GSO_MAX: u64 = 64 * 1024;

/// RFC 9002 §7.2 kMinimumWindow, in packets.
const LEAST_PACKETS: u64 = 2;

/// The congestion window of one path, and the bytes in flight on it (RFC 9002 §2).
#[derive(Debug)]
pub(super) struct Congestion {
    window: u64,
    /// Below it the window doubles each round trip (slow start).
    threshold: u64,
    in_flight: u64,
    /// When the window was last reduced. A loss of packets sent before that is no new signal (§7.3.2).
    recovery: Option<Instant>,
    /// Bytes acknowledged towards the next packet of the window (§7.3.3).
    credit: u64,
    /// Whether the window ended the last run, rather than the end of the data (§7.8).
    full: bool,
}

impl Congestion {
    pub(super) fn new(packet: u64, round_trip: Option<Duration>) -> Self {
        // §7.2: ten packets, at most 14,720 bytes.
        let published = (10 * packet).min(14_720.max(2 * packet));
        // Departs from §7.2 where the measured round trip is below one millisecond: the window is one GSO send. Slow
        // start from ten packets would pass that rate within three milliseconds anyway. If the path turns out to be
        // slow, the cost is one recovery of less than 64 KiB, once for a binding.
        let window =
            if round_trip.is_some_and(|time| time < LAN) { published.max(GSO_MAX) } else { published };
        Self { window, threshold: u64::MAX, in_flight: 0, recovery: None, credit: 0, full: false }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Bytes that may be sent now (§7: not more than a window in flight).
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.window.saturating_sub(self.in_flight)
    }

    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// Records whether the window ended the last run.
    #[inline]
    pub(super) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    /// Forgets bytes that are neither acknowledged nor lost, because their message is no longer sent.
    pub(super) fn on_forgotten(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Records that `bytes`, sent at `sent`, have arrived (§B.5).
    #[inline]
    pub(super) fn on_acknowledged(&mut self, bytes: u64, sent: Instant, packet: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        // §7.8: an unused window does not grow. §7.3.2: nor does it in recovery, which ends when a packet sent after
        // its beginning is acknowledged.
        if !self.full || self.recovery.is_some_and(|since| sent <= since) {
            return;
        }
        if self.in_slow_start() {
            // §7.3.1
            self.window = self.window.saturating_add(bytes);
            return;
        }
        // §7.3.3: one packet for each window of bytes acknowledged, counted as RFC 3465 §2.1 does.
        self.credit += bytes;
        while self.credit >= self.window {
            self.credit -= self.window;
            self.window = self.window.saturating_add(packet);
        }
    }

    /// Records that `bytes`, sent at `sent`, were lost (§B.6, §B.8).
    pub(super) fn on_lost(&mut self, now: Instant, bytes: u64, sent: Instant, packet: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        // §7.3.2: one reduction for each round trip.
        if self.recovery.is_some_and(|since| sent <= since) {
            return;
        }
        self.recovery = Some(now);
        // §7.3.2, kLossReductionFactor (§B.1) of a half; §7.2, never below the minimum.
        self.threshold = (self.window / 2).max(LEAST_PACKETS * packet);
        self.window = self.threshold;
        self.credit = 0;
    }

    /// Begins again with the minimum window: everything was lost for so long that the network must have changed
    /// (§7.6.2).
    pub(super) fn on_persistent_congestion(&mut self, packet: u64) {
        self.window = LEAST_PACKETS * packet;
        self.recovery = None;
        self.credit = 0;
    }

    /// Sets the packet size (§7.2: the minimum window follows it).
    pub(super) fn set_packet(&mut self, packet: u64) {
        self.window = self.window.max(LEAST_PACKETS * packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1440;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn wide() -> Congestion {
        Congestion::new(PACKET, Some(Duration::from_millis(50)))
    }

    /// Sends and acknowledges a window.
    fn round(path: &mut Congestion, now: u64) {
        let window = path.room();
        path.on_sent(window);
        path.set_full(true);
        path.on_acknowledged(window, at(now), PACKET);
    }

    #[test]
    fn the_initial_window_is_that_of_the_rfc_except_on_a_lan() {
        assert_eq!(wide().window(), 14_400);
        assert_eq!(Congestion::new(PACKET, None).window(), 14_400, "nothing is known");
        assert_eq!(Congestion::new(PACKET, Some(Duration::from_micros(999))).window(), GSO_MAX);
        assert_eq!(Congestion::new(8_900, None).window(), 17_800);
        assert_eq!(Congestion::new(65_000, None).window(), 130_000);
    }

    #[test]
    fn slow_start_doubles_the_window_each_round_trip() {
        let mut path = wide();
        (1..4).for_each(|now| round(&mut path, now));
        assert_eq!(path.window(), 8 * 14_400);
    }

    #[test]
    fn a_loss_halves_the_window_once_a_round_trip_and_then_it_grows_by_a_packet() {
        let mut path = wide();
        path.on_sent(14_400);
        for _ in 0..3 {
            path.on_lost(at(60), PACKET, at(10), PACKET);
        }
        assert_eq!((path.window(), path.in_flight()), (7_200, 14_400 - 3 * PACKET));
        path.set_full(true);
        path.on_acknowledged(7 * PACKET, at(10), PACKET);
        assert_eq!(path.window(), 7_200, "sent before the reduction");
        round(&mut path, 70);
        assert_eq!(path.window(), 7_200 + PACKET);
        path.on_sent(PACKET);
        path.on_lost(at(130), PACKET, at(70), PACKET);
        assert_eq!(path.window(), (7_200 + PACKET) / 2);
    }

    #[test]
    fn the_window_is_never_below_two_packets() {
        let mut path = wide();
        for now in 1..20 {
            path.on_sent(PACKET);
            path.on_lost(at(2 * now + 1), PACKET, at(2 * now), PACKET);
        }
        assert_eq!(path.window(), 2 * PACKET);
        path.set_packet(9000);
        assert_eq!(path.window(), 18_000);
    }

    #[test]
    fn an_unused_window_is_not_raised() {
        let mut path = wide();
        path.on_sent(PACKET);
        path.set_full(false);
        path.on_acknowledged(PACKET, at(1), PACKET);
        assert_eq!(path.window(), 14_400);
    }

    #[test]
    fn persistent_congestion_begins_anew_with_slow_start_up_to_half() {
        let mut path = wide();
        path.on_sent(14_400);
        path.on_lost(at(60), 14_400, at(10), PACKET);
        path.on_persistent_congestion(PACKET);
        assert_eq!(path.window(), 2 * PACKET);
        round(&mut path, 70);
        assert_eq!(path.window(), 4 * PACKET);
        round(&mut path, 80);
        assert!(!path.in_slow_start());
    }
}
