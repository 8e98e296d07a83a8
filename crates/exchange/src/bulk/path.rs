//! One direction of a binding's network path: the state that all its long messages share.

use super::congestion::{Congestion, LAN};
use super::fragment_size::FragmentSize;
use super::pacing::{Pacing, Rate};
use super::round_trip::Estimate;
use crate::retransmit::Jitter;
use crate::{Instant, RoundTrip};
use core::time::Duration;
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
    /// Latest time of sending among the packets that have arrived.
    newest_arrival: Instant,
    /// Length of the trailer behind each packet.
    trailer_len: usize,
}

impl Path {
    /// A path on which no long message has been sent. `largest`: the largest payload behind our header that the
    /// interface can carry and that fits one [`Outgoing::next_run`](super::Outgoing::next_run). `round_trip`: as
    /// measured by single-packet calls.
    pub fn new(largest: u32, round_trip: RoundTrip, seed: u64) -> Self {
        Self::of(BindingId::NONE, largest, round_trip, seed)
    }

    /// As [`new`](Self::new), for packets of `binding`, which may have trailers.
    pub fn of(binding: BindingId, largest: u32, round_trip: RoundTrip, seed: u64) -> Self {
        let size = FragmentSize::new(binding.packet_data() as u32, largest);
        let measured = round_trip.measured_nanos().map(|(smoothed, _)| Duration::from_nanos(smoothed));
        Self {
            congestion: Congestion::new(u64::from(size.get()), measured),
            round_trip: Estimate::new(round_trip),
            size,
            pacing: Pacing::default(),
            jitter: Jitter::new(seed),
            newest_arrival: Instant::default(),
            trailer_len: binding.trailer_len(),
        }
    }

    /// Longest wait for a receipt before a packet is sent again.
    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.round_trip.wait_after(u32::MAX))
    }

    /// How long to wait for a receipt after so many fruitless waits, in nanoseconds.
    pub(crate) fn wait_after(&self, times: u32) -> u64 {
        self.round_trip.wait_after(times)
    }

    /// Length of a packet with `fragment` bytes of a message, with header and trailer.
    #[inline]
    pub fn packet_len(&self, fragment: u32) -> usize {
        HEADER_LEN + fragment as usize + self.trailer_len
    }

    /// Number of packets with fragments of this size that fit into `most_bytes`.
    pub(super) fn packets(&self, most_bytes: usize, fragment: u32) -> u32 {
        u32::try_from(most_bytes / self.packet_len(fragment)).unwrap_or(u32::MAX)
    }

    /// Bytes of a message in one fragment, except in probes of a larger size.
    #[inline]
    pub fn fragment(&self) -> u32 {
        self.size.get()
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.congestion.window()
    }

    /// Bytes in flight: sent, and neither acknowledged nor counted as lost.
    pub fn in_flight(&self) -> u64 {
        self.congestion.in_flight()
    }

    /// Packets that may be sent now.
    pub fn room(&self) -> usize {
        usize::try_from(self.congestion.room() / self.packet()).unwrap_or(usize::MAX)
    }

    /// Sets the largest payload that the interface carries, after it has changed or has rejected a larger packet.
    pub fn set_largest(&mut self, largest: u32) {
        self.size.set_largest(largest);
    }

    pub(super) fn packet(&self) -> u64 {
        u64::from(self.size.get())
    }

    /// How many of `most` bytes, for which the window has space, may be sent now, or when to ask again (RFC 9002 §7.7).
    #[inline]
    pub(super) fn paced(&mut self, now: Instant, most: u32) -> Result<u32, Instant> {
        let congestion = &self.congestion;
        let rate = Rate::new(congestion.window(), congestion.in_slow_start(), self.round_trip.smoothed());
        match rate {
            None => Ok(most),
            Some(rate) => {
                let allowed = self.pacing.allowed(now, rate, self.packet(), u64::from(most))?;
                Ok(u32::try_from(allowed).unwrap_or(u32::MAX).min(most))
            }
        }
    }

    /// Whether the way there and back is known to be short, as that of a LAN is.
    pub(super) fn is_short(&self) -> bool {
        (1..LAN.as_nanos() as u64).contains(&self.round_trip.smoothed())
    }

    /// Records that `bytes` are sent now.
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.congestion.on_sent(u64::from(bytes));
        self.pacing.on_sent(u64::from(bytes));
    }

    /// A random lengthening of a wait, so that messages that lost packets together do not retransmit together.
    pub(super) fn spread(&mut self) -> u8 {
        self.jitter.draw()
    }

    /// Records that a packet sent at `sent` has arrived.
    pub(super) fn on_arrival(&mut self, sent: Instant) {
        self.newest_arrival = self.newest_arrival.max(sent);
    }

    /// All packets of a message that were sent between these moments are lost. RFC 9002 §7.6.2: if that time is long
    /// enough, and no packet of another message that was sent in it has arrived, the congestion is persistent.
    pub(super) fn on_silence_between(&mut self, from: Instant, until: Instant) {
        if until.nanos_since(from) >= self.round_trip.persistent() && self.newest_arrival < from {
            let packet = self.packet();
            self.congestion.on_persistent_congestion(packet);
        }
    }

    /// Sets the fragment size to that of a probe that has arrived.
    pub(super) fn on_probe_acknowledged(&mut self, size: u32) {
        self.size.on_probe_acknowledged(size);
        let packet = self.packet();
        self.congestion.set_packet(packet);
    }
}
