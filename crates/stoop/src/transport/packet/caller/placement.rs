//! What comes in for a large call: packets taken from the kernel together, and their bytes put where they belong.

use crate::error::{CallError, Failure, FailureCode};
use crate::transport::packet::caller::lane::{Ended, PacketLane, ended_by};
use crate::transport::packet::caller::large::{LargeCall, locked};
use crate::transport::packet::checksum;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::bulk::Span;
use stoop_exchange::caller::{Heard, Part};
use stoop_marshal::GatherList;
use stoop_net::prefetch;
use stoop_net::udp::Segments;
use stoop_wire::{HEADER_LEN, Header};

/// Where a payload that lands is taken up again: its first bytes are in the caller's memory, and those after them keep
/// their alignment.
const ALIGNED: usize = 16;

impl LargeCall<'_, '_, '_, '_> {
    /// Takes packets that have arrived together; `true` when the result is here.
    pub(crate) fn take(&mut self, clock: Instant, segments: Segments) -> Result<bool, Ended> {
        let datagrams = &mut self.large.datagrams[..segments.len];
        if self.lane.has_checksum() {
            let struck = checksum::strike_out(datagrams, segments.segment);
            self.lane.session.corrupt.fetch_add(struck, Ordering::Relaxed);
        }
        let mut rest = &*datagrams;
        while !rest.is_empty() {
            let lane = &mut *self.lane;
            if let Some(scatter_len) = self.scatter_len
                && let Some(stretch) = lane.exchange.take_parts(clock, rest, segments.segment)
            {
                place_together(lane, self.pieces, scatter_len, &stretch, rest);
                rest = &rest[stretch.datagrams_len()..];
                continue;
            }
            let (datagram, behind) = rest.split_at(segments.segment.max(1).min(rest.len()));
            rest = behind;
            for packet in Header::parts_in(datagram) {
                match lane.exchange.handle_packet(clock, packet) {
                    Heard::Part(part) => {
                        place(lane, self.pieces, &mut self.scatter_len, &part, packet)?;
                        if part.complete {
                            return self.has_ended(clock, &part).map(|()| true);
                        }
                    }
                    Heard::Receipt => lane.exchange.take_receipt(clock, packet, &mut locked(self.path)),
                    Heard::Result { len, .. } => {
                        let packet = &packet[..HEADER_LEN + len];
                        lane.result[..packet.len()].copy_from_slice(packet);
                        lane.result_len = len;
                        return Ok(true);
                    }
                    Heard::Prove(proof) => {
                        // What it does not take before, it is sent again.
                        drop(checksum::send(&lane.socket, &proof));
                        if self.len <= lane.exchange.packet_data() {
                            let packet = &mut lane.call[..HEADER_LEN + self.len];
                            lane.exchange.stamp_again(clock, packet);
                            drop(checksum::send(&lane.socket, packet));
                        }
                    }
                    // All of the call is there: what was on its way no longer is.
                    Heard::Progress
                        if self.len > lane.exchange.packet_data()
                            && lane.exchange.last_was_acknowledged() =>
                    {
                        lane.exchange.settle(&mut locked(self.path));
                    }
                    Heard::Progress | Heard::Ignored => {}
                    heard @ (Heard::Refused(_) | Heard::Unbound { .. } | Heard::Failed(_)) => {
                        return Err(ended_by(heard, packet));
                    }
                }
            }
        }
        Ok(false)
    }

    /// Puts a part of the result where it belongs.
    pub(crate) fn place(&mut self, part: &Part, packet: &[u8]) -> Result<(), Ended> {
        place(self.lane, self.pieces, &mut self.scatter_len, part, packet)
    }

    /// All of the result is here.
    pub(crate) fn has_ended(&mut self, clock: Instant, part: &Part) -> Result<(), Ended> {
        self.send_receipt(clock);
        let scatter_len = self.scatter_len.unwrap_or(0);
        let elsewhere = scatter_len - scatter_len % ALIGNED;
        self.lane.result_len = part.message_len - elsewhere;
        self.lane.scattered = (scatter_len > 0).then_some(scatter_len - elsewhere);
        Ok(())
    }
}

/// Puts the bytes of a part into the caller's memory as far as they land there, and the others into the result packet.
fn place(
    lane: &mut PacketLane,
    pieces: &mut GatherList<'_, '_>,
    scatter_len: &mut Option<usize>,
    part: &Part,
    packet: &[u8],
) -> Result<(), Ended> {
    let scatter_len = match *scatter_len {
        Some(scatter_len) => scatter_len,
        None => *scatter_len.insert(make_room(lane, pieces, part)?),
    };
    place_at(lane, pieces, scatter_len, part.offset, &packet[HEADER_LEN..HEADER_LEN + part.len]);
    Ok(())
}

/// Puts `payload`, which begins at `offset` of the result, where it belongs.
fn place_at(
    lane: &mut PacketLane,
    pieces: &mut GatherList<'_, '_>,
    scatter_len: usize,
    offset: usize,
    payload: &[u8],
) {
    let end = offset + payload.len();
    if offset < scatter_len {
        pieces.scatter(offset, payload);
    }
    if end > scatter_len {
        let from = offset.max(scatter_len);
        let at = HEADER_LEN + from - (scatter_len - scatter_len % ALIGNED);
        lane.result[at..at + end - from].copy_from_slice(&payload[from - offset..]);
    }
}

/// [`place`], of parts that have come together.
#[inline]
fn place_together(
    lane: &mut PacketLane,
    pieces: &mut GatherList<'_, '_>,
    scatter_len: usize,
    stretch: &Span,
    datagrams: &[u8],
) {
    let (from, to) = (stretch.offset, stretch.offset + stretch.len);
    if from >= scatter_len {
        let at = HEADER_LEN + from - (scatter_len - scatter_len % ALIGNED);
        return stretch.copy_to(&mut lane.result[at..], datagrams, prefetch);
    }
    if let Some(memory) = pieces.memory_at(from, to) {
        return stretch.copy_to(memory, datagrams, prefetch);
    }
    // Over the edge of what lands in one place.
    for (offset, payload) in stretch.parts(datagrams) {
        place_at(lane, pieces, scatter_len, offset, payload);
    }
}

/// Makes the result packet long enough for what does not land in the caller's memory, and tells how much does.
#[cold]
fn make_room(lane: &mut PacketLane, pieces: &GatherList<'_, '_>, part: &Part) -> Result<usize, Ended> {
    if part.message_len > lane.longest_result {
        let detail = format!(
            "it has {} bytes, and `BindOptions::max_message` allows {}",
            part.message_len, lane.longest_result
        );
        return Err(Ended::With(CallError::Failed(Failure { code: FailureCode::ResultTooLarge, detail })));
    }
    // A result that is shorter than what should land is none; whoever reads it will say so.
    let scatter_len = if part.message_len >= pieces.scatter_end() { pieces.scatter_end() } else { 0 };
    let room = HEADER_LEN + part.message_len - (scatter_len - scatter_len % ALIGNED);
    if lane.result.len() < room {
        // From the system as zeros that take no memory until something arrives there.
        lane.result = stoop_exchange::zeroed(room).ok_or_else(|| {
            let detail = crate::message_buffer::no_memory_for_result(part.message_len);
            Ended::With(CallError::Failed(Failure { code: FailureCode::ResultTooLarge, detail }))
        })?;
    }
    Ok(scatter_len)
}
