//! What goes out of a large call: packets framed in a buffer, and handed to the kernel together.

use super::{LargeCall, locked};
use crate::client::datagram::{Ended, now};
use crate::error::{CallError, SendError};
use std::io;
use stoop_exchange::Instant;
use stoop_exchange::bulk::Run;
use stoop_exchange::caller::Framing;
use stoop_marshal::Pieces;
use stoop_net::udp::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, SegmentsSending, Sending};
use stoop_wire::{HEADER_LEN, PACKET_DATA};

impl LargeCall<'_, '_, '_, '_> {
    /// A call of one packet leaves as it always does.
    pub(super) fn send_if_small(&mut self) -> Result<(), Ended> {
        if self.len > PACKET_DATA {
            return Ok(());
        }
        let (lane, len) = (&mut *self.lane, self.len);
        self.unsent = false;
        match lane.socket.send(&lane.call[..HEADER_LEN + len]) {
            Ok(Sending::Sent) => Ok(()),
            outcome => lane.not_sent(outcome, len),
        }
    }

    /// Whether parts of the call have not arrived yet, as far as is known.
    pub(super) fn is_sending(&self) -> bool {
        self.len > PACKET_DATA && !self.lane.exchange.last_was_acknowledged()
    }

    /// Sends the next packets of the call, if there are some to be sent now.
    pub(super) fn send_run(&mut self, clock: Instant) -> Result<bool, Ended> {
        if !self.is_sending() {
            return Ok(false);
        }
        let mut path = locked(self.path);
        let most = (MAX_SEGMENTS * (HEADER_LEN + path.fragment() as usize)).min(MAX_SEGMENTS_LEN);
        let Some(run) = self.lane.exchange.next_run(clock, &mut path, most) else { return Ok(false) };
        let is_probe = run.fragment > path.fragment();
        drop(path);
        let inline = &self.lane.call[HEADER_LEN..HEADER_LEN + self.len - self.pieces.lent_len()];
        let framing = self.lane.exchange.framing(clock);
        let len = frame(&run, &framing, self.pieces, inline, &mut self.large.datagrams);
        let outcome = self.hand_over(len, HEADER_LEN + run.fragment as usize, is_probe);
        match outcome {
            Err(error) if self.unsent => {
                self.lane.exchange.abandon(now());
                Err(Ended::With(CallError::NotSent(SendError::Io(error))))
            }
            // What is not sent later is like what is lost.
            _ => {
                self.unsent = false;
                Ok(true)
            }
        }
    }

    /// Hands the kernel the first `len` bytes of the buffer, packets of `packet` bytes.
    fn hand_over(&mut self, len: usize, packet: usize, is_probe: bool) -> io::Result<()> {
        let socket = &self.lane.socket;
        if self.large.one_by_one {
            return self.hand_over_singly(len, packet);
        }
        if is_probe {
            // What the network cuts apart and puts together again proves nothing.
            socket.set_dont_fragment(true)?;
        }
        let mut sending = socket.send_segments(&self.large.datagrams[..len], packet);
        if let Ok(SegmentsSending::Refused) = sending {
            // Stale news, perhaps: asked again, the system says whether the port still is closed.
            sending = socket.send_segments(&self.large.datagrams[..len], packet);
        }
        if is_probe {
            socket.set_dont_fragment(false)?;
        }
        match sending? {
            SegmentsSending::Sent | SegmentsSending::Refused => Ok(()),
            SegmentsSending::TooLong => {
                let largest = socket.largest_datagram()?.saturating_sub(HEADER_LEN);
                locked(self.path).set_largest(u32::try_from(largest).unwrap_or(u32::MAX));
                if is_probe { Ok(()) } else { self.hand_over_singly(len, packet) }
            }
            SegmentsSending::Unsupported => {
                self.large.one_by_one = true;
                self.hand_over_singly(len, packet)
            }
        }
    }

    #[cold]
    fn hand_over_singly(&mut self, len: usize, packet: usize) -> io::Result<()> {
        for packet in self.large.datagrams[..len].chunks(packet) {
            self.lane.socket.send(packet)?;
        }
        Ok(())
    }
}

/// Puts the packets of a run behind each other and returns their length.
fn frame(
    run: &Run,
    framing: &Framing,
    pieces: &Pieces<'_, '_>,
    inline: &[u8],
    datagrams: &mut [u8],
) -> usize {
    let (fragment, end) = (run.fragment, run.offset + run.len);
    let (mut offset, mut transmission) = (run.offset, run.transmission);
    for packet in datagrams.chunks_mut(HEADER_LEN + fragment as usize) {
        let (header, payload) = packet.split_first_chunk_mut().expect("a packet has a header");
        let len = fragment.min(end - offset);
        framing.stamp(header, offset, transmission);
        pieces.gather(inline, offset as usize, &mut payload[..len as usize]);
        (offset, transmission) = (offset + len, transmission.wrapping_add(1));
        if offset == end {
            break;
        }
    }
    run.len as usize + run.len.div_ceil(fragment) as usize * HEADER_LEN
}
