//! The packets of a large call, which are written to memory of the link and sent together.
//!
//! That memory stays in the processor's cache, so that copying there is cheap. Where packets are large enough, the link takes the
//! bytes from the caller's memory.

use crate::transport::packet::link::{CallerEndpoint, HandedOver, MAX_SEGMENTS, MAX_SEGMENTS_LEN, Room};
use crate::transport::packet::protection::Protection;
use crate::transport::packet::session::Session;
use std::io::{self, IoSlice};
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::bulk::Run;
use stoop_exchange::caller::{self, Framing};
use stoop_marshal::GatherList;
use stoop_net::prefetch;
use stoop_wire::HEADER_LEN;

/// Fragments of at least this many bytes are not copied: the system gathers them. For shorter ones a gather list costs more than
/// copying (`stoop-net`'s example `gather`).
pub(crate) const GATHERED_MIN: u32 = 8 * 1024;

/// Bytes from the byte that is copied to the one that is prefetched: arguments of this size are not in a cache any more. Within a long
/// fragment the processor looks ahead by itself.
const AHEAD: usize = 6 * 1024;

/// The arguments of a call, and where they are.
pub(crate) struct Arguments<'a, 'p, 'm> {
    /// Those in the call's own buffer.
    pub(crate) inline: &'a [u8],
    /// Those in the caller's memory.
    pub(crate) gather: &'a GatherList<'p, 'm>,
}

impl<'a> Arguments<'a, '_, '_> {
    /// The bytes from there on, if they lie in one piece.
    fn piece(&self, offset: u32, len: u32) -> Option<&'a [u8]> {
        let mut piece = None;
        let (begin, end) = (offset as usize, (offset + len) as usize);
        self.gather.slices(self.inline, begin, end, |bytes| {
            piece.get_or_insert(bytes);
        });
        piece.filter(|piece| piece.len() == len as usize)
    }
}

/// Packets of a large call that are to be sent now.
pub(crate) struct PacketRun {
    run: Run,
    framing: Framing,
    /// Bytes of each packet, but for the last.
    packet_len: usize,
    /// They are longer than the largest packet that the path is known to carry.
    is_probe: bool,
}

/// Packets that have been written to a room.
pub(crate) struct Framed {
    /// They are longer than the largest packet that the path is known to carry.
    pub(crate) is_probe: bool,
    pub(crate) session: Arc<Session>,
}

impl Framed {
    /// Sends them.
    pub(crate) fn send<E: CallerEndpoint>(&self, endpoint: &E, room: &mut E::Room) -> io::Result<()> {
        note_largest(endpoint.send_room(room, self.is_probe)?, &self.session, endpoint)
    }
}

impl PacketRun {
    /// Whether they are longer than the largest packet that the path is known to carry.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// The next packets of the call of `lane`, as many as one system call takes; `None` if there are none for now.
    pub(crate) fn next(
        lane: &mut caller::Lane,
        session: &Session,
        endpoint: &impl CallerEndpoint,
        clock: Instant,
    ) -> Option<Self> {
        let mut path = session.path(endpoint, lane.path());
        let most = (MAX_SEGMENTS * path.packet_len(path.fragment())).min(MAX_SEGMENTS_LEN);
        let run = lane.next_run(clock, &mut path, most)?;
        let (packet_len, is_probe) = (path.packet_len(run.fragment), run.fragment > path.fragment());
        drop(path);
        Some(Self { framing: lane.framing(clock), run, packet_len, is_probe })
    }

    /// Writes the packets to `room`, protected.
    pub(crate) fn frame(
        &self,
        arguments: &Arguments<'_, '_, '_>,
        protection: &Protection,
        room: &mut impl Room,
    ) {
        let Arguments { inline, gather } = *arguments;
        let (fragment, end) = (self.run.fragment, self.run.offset + self.run.len);
        let trailer_len = self.packet_len - HEADER_LEN - fragment as usize;
        let message_len = inline.len() + gather.borrowed_len();
        let packets = self.run.len.div_ceil(fragment) as usize;
        let all_len = self.run.len as usize + packets * (HEADER_LEN + trailer_len);
        let (mut offset, mut transmission) = (self.run.offset, self.run.transmission);
        for packet in room.packets(all_len, self.packet_len) {
            let header = packet.first_chunk_mut().expect("a packet has a header");
            let len = fragment.min(end - offset);
            self.framing.stamp(header, (offset, len), transmission);
            if fragment < GATHERED_MIN {
                let ahead = (offset as usize + AHEAD).min(message_len);
                gather.slices(inline, ahead, (ahead + len as usize).min(message_len), prefetch);
            }
            let piece = if trailer_len > 0 { arguments.piece(offset, len) } else { None };
            if !piece.is_some_and(|piece| protection.frame_from(packet, piece)) {
                let (_, payload) = packet.split_at_mut(HEADER_LEN);
                gather.gather(inline, offset as usize, &mut payload[..len as usize]);
                if trailer_len > 0 {
                    protection.frame(packet, HEADER_LEN + len as usize);
                }
            }
            (offset, transmission) = (offset + len, transmission.wrapping_add(1));
        }
    }

    /// Sends the packets; copies them to `room` before if they are short.
    pub(crate) fn send<E: CallerEndpoint>(
        &self,
        arguments: &Arguments<'_, '_, '_>,
        session: &Session,
        endpoint: &E,
        room: &mut E::Room,
    ) -> io::Result<()> {
        // Trailers are computed over bytes in a cache.
        if self.run.fragment < GATHERED_MIN || session.bound.binding.has_trailer() {
            endpoint.lend(room);
            self.frame(arguments, &session.protection, room);
            return self.send_framed(session, endpoint, room);
        }
        let sent =
            self.gathered(arguments, |list| endpoint.send_gathered(list, self.packet_len, self.is_probe));
        note_largest(sent?, session, endpoint)
    }

    /// Sends the packets, which have been written to `room`.
    pub(crate) fn send_framed<E: CallerEndpoint>(
        &self,
        session: &Session,
        endpoint: &E,
        room: &mut E::Room,
    ) -> io::Result<()> {
        note_largest(endpoint.send_room(room, self.is_probe)?, session, endpoint)
    }

    /// Passes the packets to `send` as a gather list.
    fn gathered<T>(&self, arguments: &Arguments<'_, '_, '_>, send: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let Run { offset, len, fragment, transmission, .. } = self.run;
        let mut headers = [[0; HEADER_LEN]; MAX_SEGMENTS_LEN.div_ceil(GATHERED_MIN as usize)];
        let end = offset + len;
        let offsets = (offset..end).step_by(fragment as usize);
        for ((header, offset), transmission) in headers.iter_mut().zip(offsets.clone()).zip(transmission..) {
            self.framing.stamp(header, (offset, fragment.min(end - offset)), transmission);
        }
        let mut list = Vec::with_capacity(2 * headers.len());
        for (header, offset) in headers.iter().zip(offsets) {
            list.push(IoSlice::new(header));
            let end = end.min(offset + fragment);
            let Arguments { inline, gather } = *arguments;
            gather.slices(inline, offset as usize, end as usize, |bytes| list.push(IoSlice::new(bytes)));
        }
        send(&list)
    }
}

/// Notes the largest packet that the path carries, if some were longer.
fn note_largest(sent: HandedOver, session: &Session, endpoint: &impl CallerEndpoint) -> io::Result<()> {
    if sent == HandedOver::TooLong {
        let largest = session.bound.binding.data_in(endpoint.largest_packet()?);
        let mut path = session.path(endpoint, stoop_exchange::RoundTrip::default());
        path.set_largest(u32::try_from(largest).unwrap_or(u32::MAX));
    }
    Ok(())
}
