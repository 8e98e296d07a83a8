//! Splits a datagram that contains several parts of a message.

use crate::{HEADER_LEN, Header, Kind, flags};
use core::ops::Range;

/// The packets of a datagram that may contain several parts of one message, one behind the other. When a kernel has
/// been told to stop coalescing datagrams, it can still deliver some that it had coalesced, without their boundaries.
/// Any other datagram is one packet. Bytes behind the last part are padding.
#[derive(Clone, Debug)]
pub struct PartsIn<'a>(pub(crate) Option<&'a [u8]>);

impl<'a> Iterator for PartsIn<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let packet = self.0.take()?;
        let (first, behind) = packet.split_at(end_of_part(packet).unwrap_or(packet.len()));
        // The header fields that parts of one message share, except flags and the field of the procedure number.
        let same = |range: Range<usize>| behind.get(range.clone()) == packet.get(range);
        if behind.len() > HEADER_LEN && same(0..3) && same(4..6) && same(8..24) {
            self.0 = Some(behind);
        }
        Some(first)
    }
}

/// End of a datagram that begins with a part, if its header tells.
#[inline]
fn end_of_part(datagram: &[u8]) -> Option<usize> {
    let is_sized = *datagram.get(3)? & flags::SIZED != 0;
    // Nearly all packets have neither flags nor an offset.
    if !is_sized && datagram.get(24..28)? == [0; 4] {
        return None;
    }
    let (header, payload) = Header::parse(datagram).ok()?;
    let is_part = matches!(header.kind, Kind::Call | Kind::Result);
    is_part.then_some(HEADER_LEN + payload.len())
}
