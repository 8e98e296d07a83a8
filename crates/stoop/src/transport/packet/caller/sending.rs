//! What goes out of a large call: packets framed in a buffer, and handed to the kernel together.

use crate::error::{CallError, SendError};
use crate::transport::packet::caller::lane::Ended;
use crate::transport::packet::caller::large::{LargeCall, locked};
use crate::transport::packet::caller::now;
use crate::transport::packet::checksum;
use std::io::{self, IoSlice};
use stoop_exchange::Instant;
use stoop_exchange::bulk::Run;
use stoop_exchange::caller::Framing;
use stoop_marshal::GatherList;
use stoop_net::prefetch;
use stoop_net::udp::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, SegmentsSending, Sending};
use stoop_wire::HEADER_LEN;

/// From this many bytes of a fragment on the kernel takes the bytes of a packet from where they are, without their being
/// copied to stand behind the header. Below, the lists that say where they are cost more (`stoop-net`'s example `gather`).
const GATHERED_MIN: u32 = 8 * 1024;

/// Bytes from what is copied to what is asked for: arguments of this size are not in a cache any more.
const AHEAD: usize = 6 * 1024;

impl LargeCall<'_, '_, '_, '_> {
    /// Sends a call of one packet, or the first packets of a longer one.
    pub(crate) fn send_first(&mut self, begun: Instant) -> Result<(), Ended> {
        if self.is_large() {
            // What follows is sent before anything is looked for: nothing can have come yet.
            return self.send_run(begun).map(|_| ());
        }
        let (lane, len) = (&mut *self.lane, self.len);
        self.unsent = false;
        match checksum::send(&lane.socket, &lane.call[..HEADER_LEN + len]) {
            Ok(Sending::Sent) => Ok(()),
            outcome => lane.not_sent(outcome, len),
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        self.len > self.lane.exchange.packet_data()
    }

    fn checksum_len(&self) -> usize {
        self.lane.session.bound.binding.checksum_len()
    }

    /// Whether parts of the call have not arrived yet, as far as is known.
    pub(crate) fn is_sending(&self) -> bool {
        self.is_large() && !self.lane.exchange.last_was_acknowledged()
    }

    /// Sends the next packets of the call, if there are some to be sent now.
    pub(crate) fn send_run(&mut self, clock: Instant) -> Result<bool, Ended> {
        if !self.is_sending() {
            return Ok(false);
        }
        let mut path = locked(self.path);
        let packet = path.packet_len(path.fragment());
        let most = (MAX_SEGMENTS * packet).min(MAX_SEGMENTS_LEN);
        let Some(run) = self.lane.exchange.next_run(clock, &mut path, most) else { return Ok(false) };
        let is_probe = run.fragment > path.fragment();
        drop(path);
        let framing = self.lane.exchange.framing(clock);
        match self.hand_over(&run, &framing, is_probe) {
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

    fn hand_over(&mut self, run: &Run, framing: &Framing, is_probe: bool) -> io::Result<()> {
        if self.large.one_by_one {
            return self.send_singly(run, framing);
        }
        if is_probe {
            // What the network cuts apart and puts together again proves nothing.
            self.lane.socket.set_dont_fragment(true)?;
        }
        let mut sending = self.send_together(run, framing);
        if let Ok(SegmentsSending::Refused) = sending {
            // Stale news, perhaps: asked again, the system says whether the port still is closed.
            sending = self.send_together(run, framing);
        }
        if is_probe {
            self.lane.socket.set_dont_fragment(false)?;
        }
        match sending? {
            SegmentsSending::Sent | SegmentsSending::Refused => return Ok(()),
            SegmentsSending::TooLong => {
                let largest = self.lane.session.bound.binding.data_in(self.lane.socket.largest_datagram()?);
                locked(self.path).set_largest(u32::try_from(largest).unwrap_or(u32::MAX));
                if is_probe {
                    return Ok(());
                }
            }
            SegmentsSending::Unsupported => self.large.one_by_one = true,
        }
        self.send_singly(run, framing)
    }

    fn send_together(&mut self, run: &Run, framing: &Framing) -> io::Result<SegmentsSending> {
        let packet = HEADER_LEN + run.fragment as usize + self.checksum_len();
        // A checksum is made of what is in a cache.
        if run.fragment >= GATHERED_MIN && !self.lane.has_checksum() {
            return gathered(run, framing, self.pieces, self.inline(), |pieces| {
                self.lane.socket.send_gathered(pieces, packet)
            });
        }
        let len = self.frame(run, framing);
        self.lane.socket.send_segments(&self.large.datagrams[..len], packet)
    }

    #[cold]
    fn send_singly(&mut self, run: &Run, framing: &Framing) -> io::Result<()> {
        let len = self.frame(run, framing);
        let packet = HEADER_LEN + run.fragment as usize + self.checksum_len();
        for packet in self.large.datagrams[..len].chunks(packet) {
            self.lane.socket.send(packet)?;
        }
        Ok(())
    }

    /// The arguments that are in the call packet.
    fn inline(&self) -> &[u8] {
        &self.lane.call[HEADER_LEN..HEADER_LEN + self.len - self.pieces.borrowed_len()]
    }

    fn frame(&mut self, run: &Run, framing: &Framing) -> usize {
        let inline = &self.lane.call[HEADER_LEN..HEADER_LEN + self.len - self.pieces.borrowed_len()];
        let checksum_len = self.checksum_len();
        frame(run, framing, self.pieces, inline, checksum_len, &mut self.large.datagrams)
    }
}

/// Gives `send` the packets of a run as the pieces of memory that they consist of.
fn gathered<T>(
    run: &Run,
    framing: &Framing,
    pieces: &GatherList<'_, '_>,
    inline: &[u8],
    send: impl FnOnce(&[IoSlice<'_>]) -> T,
) -> T {
    let mut headers = [[0; HEADER_LEN]; MAX_SEGMENTS_LEN.div_ceil(GATHERED_MIN as usize)];
    let end = run.offset + run.len;
    let offsets = (run.offset..end).step_by(run.fragment as usize);
    for ((header, offset), transmission) in headers.iter_mut().zip(offsets.clone()).zip(run.transmission..) {
        framing.stamp(header, (offset, run.fragment.min(end - offset)), transmission);
    }
    let mut list = Vec::with_capacity(2 * headers.len());
    for (header, offset) in headers.iter().zip(offsets) {
        list.push(IoSlice::new(header));
        let end = end.min(offset + run.fragment);
        pieces.slices(inline, offset as usize, end as usize, |stretch| list.push(IoSlice::new(stretch)));
    }
    send(&list)
}

/// Puts the packets of a run behind each other, with their checksums if they have any, and returns their length.
fn frame(
    run: &Run,
    framing: &Framing,
    pieces: &GatherList<'_, '_>,
    inline: &[u8],
    checksum_len: usize,
    datagrams: &mut [u8],
) -> usize {
    let (fragment, end) = (run.fragment, run.offset + run.len);
    let message_len = inline.len() + pieces.borrowed_len();
    let (mut offset, mut transmission) = (run.offset, run.transmission);
    for packet in datagrams.chunks_mut(HEADER_LEN + fragment as usize + checksum_len) {
        let (header, payload) = packet.split_first_chunk_mut().expect("a packet has a header");
        let len = fragment.min(end - offset);
        framing.stamp(header, (offset, len), transmission);
        let ahead = (offset as usize + AHEAD).min(message_len);
        pieces.slices(inline, ahead, (ahead + len as usize).min(message_len), prefetch);
        pieces.gather(inline, offset as usize, &mut payload[..len as usize]);
        if checksum_len > 0 {
            checksum::seal(packet, HEADER_LEN + len as usize);
        }
        (offset, transmission) = (offset + len, transmission.wrapping_add(1));
        if offset == end {
            break;
        }
    }
    run.len as usize + run.len.div_ceil(fragment) as usize * (HEADER_LEN + checksum_len)
}
