//! One direction of a binding's way through the network: what all messages that are sent there share.

use super::congestion::Congestion;
use super::fragment_size::FragmentSize;
use super::pacing::{ClockPacing, Pacing};
use super::round_trip::Estimate;
use crate::retransmit::Jitter;
use crate::{Instant, RoundTrip};
use stoop_wire::{BindingId, HEADER_LEN};

/// The congestion window of a path (RFC 9002 §7), its round trip, the fragment size it carries (RFC 8899) and how many
/// bytes are in flight on it.
#[derive(Debug)]
pub struct Path {
    pub(super) congestion: Congestion,
    pub(super) round_trip: Estimate,
    pub(super) size: FragmentSize,
    pacing: Pacing,
    jitter: Jitter,
    /// When that was sent which was sent last of all that has arrived.
    newest_arrival: Instant,
    /// Bytes of the checksum behind each packet.
    checksum_len: usize,
}

impl Path {
    /// A path that nothing long has been sent on. `largest`: bytes of the largest payload behind our header that the
    /// interface could carry and that has room in a call of [`Outgoing::next_run`](super::Outgoing::next_run);
    /// `round_trip`: as single-packet calls have measured it.
    pub fn new(largest: u32, round_trip: RoundTrip, seed: u64) -> Self {
        Self::of(BindingId::NONE, largest, round_trip, seed)
    }

    /// The same, for packets of that binding, which may have checksums.
    pub fn of(binding: BindingId, largest: u32, round_trip: RoundTrip, seed: u64) -> Self {
        let size = FragmentSize::new(binding.packet_data() as u32, largest);
        let measured =
            round_trip.measured_nanos().map(|(smoothed, _)| core::time::Duration::from_nanos(smoothed));
        Self {
            congestion: Congestion::new(u64::from(size.get()), measured),
            round_trip: Estimate::new(round_trip),
            size,
            pacing: Pacing::default(),
            jitter: Jitter::new(seed),
            newest_arrival: Instant::default(),
            checksum_len: binding.checksum_len(),
        }
    }

    /// Bytes of a packet that carries so many of a message, with header and checksum.
    #[inline]
    pub fn packet_len(&self, fragment: u32) -> usize {
        HEADER_LEN + fragment as usize + self.checksum_len
    }

    /// How many packets with fragments of this size are not longer than `most_bytes` together.
    pub(super) fn packets(&self, most_bytes: usize, fragment: u32) -> u32 {
        u32::try_from(most_bytes / self.packet_len(fragment)).unwrap_or(u32::MAX)
    }

    /// Bytes of a message that a fragment carries, but for probes of a larger size.
    #[inline]
    pub fn fragment(&self) -> u32 {
        self.size.get()
    }

    /// Bytes that may be in flight at the same time.
    pub fn window(&self) -> u64 {
        self.congestion.window()
    }

    /// Bytes in flight: sent, and neither acknowledged nor taken for lost.
    pub fn in_flight(&self) -> u64 {
        self.congestion.in_flight()
    }

    /// Packets that may be sent now.
    pub fn room(&self) -> usize {
        usize::try_from(self.congestion.room() / self.packet()).unwrap_or(usize::MAX)
    }

    /// The interface carries payloads of at most `largest` bytes now, or a larger one was refused by it.
    pub fn set_largest(&mut self, largest: u32) {
        self.size.set_largest(largest);
    }

    pub(super) fn packet(&self) -> u64 {
        u64::from(self.size.get())
    }

    /// How many of `most` bytes, which the window has room for, may go now, or when to ask again (RFC 9002 §7.7).
    #[inline]
    pub(super) fn paced(&mut self, now: Instant, most: u32) -> Result<u32, Instant> {
        let congestion = &self.congestion;
        let pace =
            ClockPacing::new(congestion.window(), congestion.in_slow_start(), self.round_trip.smoothed());
        match pace {
            None => Ok(most),
            Some(pace) => {
                let allowed = self.pacing.allowed(now, pace, self.packet(), u64::from(most))?;
                Ok(u32::try_from(allowed).unwrap_or(u32::MAX).min(most))
            }
        }
    }

    /// `bytes` go out now.
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.congestion.on_sent(u64::from(bytes));
        self.pacing.on_sent(u64::from(bytes));
    }

    /// How much longer a wait is than it should be, so that messages that were lost together are not sent again together.
    pub(super) fn spread(&mut self) -> u8 {
        self.jitter.draw()
    }

    /// What was sent at `sent` has arrived.
    pub(super) fn on_arrival(&mut self, sent: Instant) {
        self.newest_arrival = self.newest_arrival.max(sent);
    }

    /// All of a message is lost that was sent between these moments. RFC 9002 §7.6.2: so long a time of it, with nothing of other
    /// messages arriving that was sent then, is persistent congestion.
    pub(super) fn on_silence_between(&mut self, from: Instant, until: Instant) {
        if until.nanos_since(from) >= self.round_trip.persistent() && self.newest_arrival < from {
            let packet = self.packet();
            self.congestion.on_persistent_congestion(packet);
        }
    }

    /// A probe of this size has arrived: that is the fragment size now.
    pub(super) fn on_probe_acknowledged(&mut self, size: u32) {
        self.size.on_probe_acknowledged(size);
        let packet = self.packet();
        self.congestion.set_packet(packet);
    }
}
