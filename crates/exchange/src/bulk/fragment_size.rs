//! Finds the fragment size of a path: packetization layer path MTU discovery (RFC 8899) with fragments of real data as
//! probes.
//!
//! Sizes are those of a fragment's payload. A path begins with the size that every Ethernet carries. From time to time
//! one fragment of the next larger size is sent among the others; if it arrives, that becomes the size. If nothing
//! arrives any more, the size becomes smaller: a *black hole* drops larger packets without a report (§4.3).

use crate::Instant;
use core::time::Duration;
use stoop_wire::{HEADER_LEN, PACKET_DATA};

/// With our header it is within the base of RFC 8899 §5.1.2 (BASE_PLPMTU: 1200 bytes behind the UDP header), which
/// every working path carries.
const LEAST: u32 = 1152;

/// The payload that an Ethernet carries (§5.1.2 lets a known path begin above the base).
const ETHERNET: u32 = PACKET_DATA as u32;

/// The payload that an Ethernet with jumbo frames carries, over either version of IP.
const JUMBO: u32 = 9000 - 40 - 8 - HEADER_LEN as u32;

/// The payload of the longest IPv4 datagram, which a loopback interface carries.
const GREATEST: u32 = 65_535 - 20 - 8 - HEADER_LEN as u32;

/// An interface that reports less than this behind our header is taken not to know its size.
const ABSURD: u32 = 256;

/// RFC 8899 §5.1.2 MAX_PROBES.
const MOST_PROBES: u8 = 3;

/// RFC 8899 §5.1.1 PMTU_RAISE_TIMER.
const RAISE: Duration = Duration::from_secs(600);

/// Consecutive waits without a useful receipt that indicate a black hole (§4.3).
const SILENT_WAITS: u32 = 3;

/// The fragment size of a path.
#[derive(Debug)]
pub(super) struct FragmentSize {
    size: u32,
    /// The payload that an Ethernet carries, less the checksum if there is one.
    ethernet: u32,
    /// The payload that the interface carries.
    largest: u32,
    /// Whether a probe is outstanding.
    probing: bool,
    /// Lost probes of the next larger size.
    failed: u8,
    /// No probe is sent before this time.
    not_before: Instant,
}

impl FragmentSize {
    /// `ethernet`: the payload that an Ethernet carries.
    pub(super) fn new(ethernet: u32, largest: u32) -> Self {
        let largest = largest.clamp(ABSURD, GREATEST);
        let size = ethernet.min(largest);
        Self { size, ethernet, largest, probing: false, failed: 0, not_before: Instant::default() }
    }

    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.size
    }

    /// Sets the size that the interface carries now; larger packets could not be sent.
    pub(super) fn set_largest(&mut self, largest: u32) {
        let largest = largest.clamp(ABSURD, GREATEST);
        if largest > self.largest {
            (self.failed, self.not_before) = (0, Instant::default());
        }
        self.largest = largest;
        self.size = self.size.min(largest);
    }

    /// The next size to probe, if there is one and it is time.
    #[inline]
    pub(super) fn wanted(&self, now: Instant) -> Option<u32> {
        if self.size >= self.largest || self.probing || now < self.not_before {
            return None;
        }
        self.larger()
    }

    fn larger(&self) -> Option<u32> {
        [LEAST, self.ethernet, JUMBO - (ETHERNET - self.ethernet), self.largest]
            .into_iter()
            .filter(|&size| size > self.size && size <= self.largest)
            .min()
    }

    pub(super) fn on_probe_sent(&mut self) {
        self.probing = true;
    }

    /// The probe of `size` bytes has arrived (§5.3.1).
    pub(super) fn on_probe_acknowledged(&mut self, size: u32) {
        self.size = self.size.max(size.min(self.largest));
        (self.probing, self.failed) = (false, 0);
    }

    /// The probe was lost, because of its size or by chance (§5.3.1). That is no sign of congestion (§3 item 7; RFC
    /// 9000 §14.4).
    pub(super) fn on_probe_lost(&mut self, now: Instant) {
        self.probing = false;
        self.failed += 1;
        if self.failed >= MOST_PROBES {
            (self.failed, self.not_before) = (0, now + RAISE);
        }
    }

    /// The message that carried the probe is no longer sent.
    pub(super) fn on_probe_forgotten(&mut self) {
        self.probing = false;
    }

    /// Nothing new of a message has been reported as arrived for `waits` waits in a row.
    pub(super) fn on_silence(&mut self, waits: u32) {
        if waits == 0 || !waits.is_multiple_of(SILENT_WAITS) {
            return;
        }
        // §4.3: first back to the Ethernet size, then to the least. The next probe finds out whether it was a black
        // hole, or whether the path carries nothing at all.
        self.size = if self.size > self.ethernet { self.ethernet } else { self.size.min(LEAST) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// Probes until no probe is wanted, on a path that carries `carries` bytes.
    fn search(size: &mut FragmentSize, now: Instant, carries: u32) -> u32 {
        let mut probes = 0;
        while let Some(probe) = size.wanted(now) {
            probes += 1;
            size.on_probe_sent();
            assert_eq!(size.wanted(now), None, "one probe at a time");
            match probe <= carries {
                true => size.on_probe_acknowledged(probe),
                false => size.on_probe_lost(now),
            }
        }
        probes
    }

    #[test]
    fn an_ethernet_is_not_probed() {
        assert_eq!(FragmentSize::new(ETHERNET, 1440).wanted(at(0)), None);
        assert_eq!(FragmentSize::new(ETHERNET, 1420).get(), 1420);
    }

    #[test]
    fn larger_sizes_are_probed_step_by_step() {
        let mut size = FragmentSize::new(ETHERNET, u32::MAX);
        assert_eq!(size.get(), ETHERNET);
        assert_eq!(search(&mut size, at(0), u32::MAX), 2);
        assert_eq!(size.get(), GREATEST);
    }

    #[test]
    fn a_lost_size_is_probed_three_times_and_again_after_ten_minutes() {
        let mut size = FragmentSize::new(ETHERNET, 8940);
        assert_eq!(search(&mut size, at(1), 2000), 3);
        assert_eq!(search(&mut size, at(600), 9000), 0);
        assert_eq!(search(&mut size, at(601), 9000), 2);
        assert_eq!(size.get(), 8940);
    }

    #[test]
    fn a_black_hole_reduces_the_size_to_ethernet_and_then_to_the_least() {
        let mut size = FragmentSize::new(ETHERNET, u32::MAX);
        search(&mut size, at(0), u32::MAX);
        let after: [u32; 7] = core::array::from_fn(|waits| {
            size.on_silence(waits as u32);
            size.get()
        });
        assert_eq!(after, [GREATEST, GREATEST, GREATEST, ETHERNET, ETHERNET, ETHERNET, LEAST]);
        assert_eq!(size.wanted(at(0)), Some(ETHERNET), "and it may be found to carry more");
    }

    #[test]
    fn the_size_follows_a_change_of_the_interface() {
        let mut size = FragmentSize::new(ETHERNET, u32::MAX);
        search(&mut size, at(0), u32::MAX);
        size.set_largest(5000);
        assert_eq!((size.get(), size.wanted(at(0))), (5000, None));
        size.set_largest(9000);
        assert_eq!(size.wanted(at(0)), Some(JUMBO));
    }

    #[test]
    fn an_absurd_interface_size_is_ignored() {
        assert_eq!(FragmentSize::new(ETHERNET, 0).get(), ABSURD);
    }

    #[test]
    fn a_checksum_reduces_the_data_of_each_fragment() {
        let mut size = FragmentSize::new(ETHERNET - 8, u32::MAX);
        assert_eq!(size.get(), 1432);
        assert_eq!(search(&mut size, at(0), 9000), 4);
        assert_eq!(size.get(), JUMBO - 8);
    }
}
