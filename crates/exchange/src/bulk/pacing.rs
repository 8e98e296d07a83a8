//! Spreads a window over the round trip of a long path: a token bucket that fills at the path's rate (RFC 9002 §7.7).
//!
//! On a LAN nothing is paced: a window is sent before a timer could expire.

use super::congestion::LAN;
use crate::Instant;

/// Nanoseconds whose bytes may be sent in one burst, because timers are late. A burst has at least ten packets, the
/// initial window (§7.7).
const BURST: u64 = 4_000_000;
const BURST_PACKETS: u64 = 10;

/// The bucket. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    /// Bytes in the bucket at that moment.
    bytes: u64,
    at: Option<Instant>,
}

/// The rate of a path: so many bytes in so many nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    pub(super) bytes: u64,
    pub(super) nanos: u64,
}

impl Rate {
    /// §7.7: N windows in a round trip. N is 2 in slow start, otherwise the window could not double; else it is 5/4.
    pub(super) fn new(window: u64, in_slow_start: bool, round_trip: u64) -> Option<Self> {
        let bytes = if in_slow_start { window.saturating_mul(2) } else { window.saturating_add(window / 4) };
        (round_trip >= LAN.as_nanos() as u64).then_some(Self { bytes: bytes.max(1), nanos: round_trip })
    }

    fn bytes_in(self, nanos: u64) -> u64 {
        (u128::from(self.bytes) * u128::from(nanos) / u128::from(self.nanos)) as u64
    }

    fn time_of(self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.nanos)).div_ceil(u128::from(self.bytes)) as u64
    }

    /// The longest time in which no more than `bytes` are sent.
    fn time_before(self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.nanos) / u128::from(self.bytes)) as u64
    }

    fn burst(self, packet: u64) -> u64 {
        self.bytes_in(BURST.min(self.nanos)).max(BURST_PACKETS * packet)
    }
}

impl Pacing {
    /// How many of `most` bytes may be sent now, or when to ask again. They are whole packets, or all.
    pub(super) fn allowed(
        &mut self,
        now: Instant,
        rate: Rate,
        packet: u64,
        most: u64,
    ) -> Result<u64, Instant> {
        let burst = rate.burst(packet);
        match self.at {
            None => (self.bytes, self.at) = (burst, Some(now)),
            Some(at) => {
                let added = rate.bytes_in(now.nanos_since(at));
                self.bytes = self.bytes.saturating_add(added);
                // The remainder below one byte stays in the time. Otherwise a sender that asks often would wait for
                // ever.
                self.at = Some(at.after_nanos(rate.time_before(added)));
                if self.bytes >= burst {
                    (self.bytes, self.at) = (burst, Some(now));
                }
            }
        }
        if most <= self.bytes {
            return Ok(most);
        }
        let whole = self.bytes - self.bytes % packet;
        if whole > 0 {
            return Ok(whole);
        }
        // A quarter of a burst at a time, and not each packet alone.
        let enough = most.min(packet.max(burst / 4));
        Err(now.after_nanos(rate.time_of(enough - self.bytes)))
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1440;
    const MILLI: u64 = 1_000_000;

    fn rate() -> Rate {
        Rate::new(1_000_000, false, 50 * MILLI).expect("it is no LAN")
    }

    #[test]
    fn a_lan_is_not_paced() {
        assert!(Rate::new(1_000_000, true, MILLI - 1).is_none());
    }

    #[test]
    fn a_window_is_spread_over_four_fifths_of_a_round_trip() {
        let (mut pacing, mut now, mut sent) = (Pacing::default(), Instant::from_nanos(0), 0);
        let mut waits = 0;
        while sent < 1_000_000 {
            match pacing.allowed(now, rate(), PACKET, 1_000_000 - sent) {
                Ok(bytes) => {
                    pacing.on_sent(bytes);
                    sent += bytes;
                }
                Err(later) => {
                    assert!(later > now);
                    (now, waits) = (later, waits + 1);
                }
            }
        }
        assert!((35 * MILLI..=40 * MILLI).contains(&now.as_nanos()), "{now:?}");
        assert!(waits < 60, "{waits} timers");
    }

    #[test]
    fn an_idle_path_saves_no_more_than_one_burst() {
        let mut pacing = Pacing::default();
        let ask = |pacing: &mut Pacing, at| pacing.allowed(Instant::from_nanos(at), rate(), PACKET, u64::MAX);
        let burst = ask(&mut pacing, 0).expect("the first is free");
        assert!((99_000..=100_000).contains(&burst), "{burst}");
        assert_eq!(ask(&mut pacing, u64::MAX / 2), Ok(burst));
    }

    /// Found by the simulator: less than a byte was added each time, and lost.
    #[test]
    fn asking_often_does_not_lengthen_the_wait() {
        let mut pacing = Pacing::default();
        let slow = Rate { bytes: 34_200, nanos: 46_012_087 };
        let mut now = Instant::from_nanos(0);
        let burst = pacing.allowed(now, slow, PACKET, u64::MAX).expect("the first is free");
        pacing.on_sent(burst);
        let asks = (1..).find(|_| {
            now = now.after_nanos(89);
            pacing.allowed(now, slow, PACKET, PACKET).is_ok()
        });
        let took = 89 * asks.expect("it is allowed some time");
        assert!((1_930_000..1_950_000).contains(&took), "{took} ns for a packet");
    }

    #[test]
    fn absurd_rates_do_not_overflow() {
        for (window, round_trip) in [(0, u64::MAX), (u64::MAX, MILLI), (u64::MAX, u64::MAX)] {
            let (mut pacing, rate) =
                (Pacing::default(), Rate::new(window, true, round_trip).expect("no LAN"));
            for at in [0, 1, u64::MAX] {
                if let Ok(bytes) = pacing.allowed(Instant::from_nanos(at), rate, PACKET, u64::MAX) {
                    pacing.on_sent(bytes);
                }
            }
        }
    }
}
