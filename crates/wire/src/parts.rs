//! Parts of a message that came in one datagram.

use crate::{HEADER_LEN, Header, Kind, flags};
use core::ops::Range;

/// The packets of a datagram that may hold several parts of one message, each behind the one before: a kernel that was asked to
/// hand over together what comes together, and then no longer to do so, does not tell where a datagram ended that came in
/// between. Of any other datagram, the datagram. What follows the last part is padding.
#[derive(Clone, Debug)]
pub struct PartsIn<'a>(pub(crate) Option<&'a [u8]>);

impl<'a> Iterator for PartsIn<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let packet = self.0.take()?;
        let (first, behind) = packet.split_at(end_of_part(packet).unwrap_or(packet.len()));
        // All that parts of a message have in common, but for the flags and the number of the procedure.
        let same = |range: Range<usize>| behind.get(range.clone()) == packet.get(range);
        if behind.len() > HEADER_LEN && same(0..3) && same(4..6) && same(8..24) {
            self.0 = Some(behind);
        }
        Some(first)
    }
}

/// Where a datagram ends that begins with a part, if it tells.
#[inline]
fn end_of_part(datagram: &[u8]) -> Option<usize> {
    let is_sized = *datagram.get(3)? & flags::SIZED != 0;
    // Nearly all have neither flags nor an offset.
    if !is_sized && datagram.get(24..28)? == [0; 4] {
        return None;
    }
    let (header, payload) = Header::parse(datagram).ok()?;
    let is_part = matches!(header.kind, Kind::Call | Kind::Result);
    is_part.then_some(HEADER_LEN + payload.len())
}
