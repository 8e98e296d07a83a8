//! Consecutive parts of a message or a pipe that arrived together and are handled as one span.

use stoop_wire::HEADER_LEN;

/// Parts of one message, of the same size, each of which begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first part in the message. Never 0: the part at offset 0 carries more information and is handled
    /// alone.
    pub offset: usize,
    /// Bytes of the message in all parts.
    pub len: usize,
    /// Length of each datagram, with its header and the bytes behind the part.
    pub segment: usize,
    /// Bytes of the message in each.
    pub(crate) payload: usize,
    /// Transmission number of the last part.
    pub(crate) transmission: u32,
}

/// Distance in bytes between a write and the memory to prefetch: four packets of an Ethernet.
const AHEAD: usize = 6 * 1024;

/// Bytes of a header that all parts of a message share. Offset and time follow.
const SAME: usize = 24;

impl Span {
    /// The parts from the beginning of `datagrams`, each datagram `segment` bytes long, that continue one another and
    /// end at or before byte `end` of their message; `None` if the first is no such part. The first header tells the
    /// message.
    #[inline]
    pub(crate) fn at_beginning(datagrams: &[u8], segment: usize, end: u32) -> Option<Self> {
        let first = datagrams.get(..segment).filter(|first| first.len() > HEADER_LEN)?;
        let payload = u32::from(u16::from_le_bytes([first[6], first[7]]));
        // A checksum or padding may follow. A datagram with space for another part is handled alone.
        let behind = (segment - HEADER_LEN).checked_sub(payload as usize)?;
        if payload == 0 || behind >= HEADER_LEN {
            return None;
        }
        let (offset, transmission) = offset_and_time(first)?;
        let most = end.checked_sub(offset).filter(|_| offset > 0)? / payload;
        let mut next = (offset, transmission);
        let mut parts = 0;
        for part in datagrams.chunks_exact(segment).take(most as usize) {
            if part[..SAME] != first[..SAME] || offset_and_time(part) != Some(next) {
                break;
            }
            parts += 1;
            next = (next.0 + payload, next.1.wrapping_add(1));
        }
        let len = (next.0 - offset) as usize;
        let last = next.1.wrapping_sub(1);
        let (offset, payload) = (offset as usize, payload as usize);
        (parts > 0).then_some(Self { offset, len, segment, payload, transmission: last })
    }

    /// Length of its datagrams.
    #[inline]
    pub fn datagrams_len(&self) -> usize {
        self.len / self.payload * self.segment
    }

    /// Copies the parts, with which `datagrams` begin, to `memory`, which is the message's memory from
    /// [`offset`](Self::offset) on, at least [`len`](Self::len) bytes.
    ///
    /// `ahead` is called with memory shortly before it is written, to prefetch it: that makes copies into cold memory
    /// three times as fast (`stoop-net`'s `prefetch`).
    ///
    /// # Panics
    /// If `memory` or `datagrams` is too short.
    #[inline]
    pub fn copy_to(&self, memory: &mut [u8], datagrams: &[u8], ahead: impl Fn(&[u8])) {
        let payload = self.payload;
        ahead(&memory[..AHEAD.min(memory.len())]);
        for (at, (_, part)) in (0..).step_by(payload).zip(self.parts(datagrams)) {
            let later = (at + AHEAD).min(memory.len());
            ahead(&memory[later..(later + payload).min(memory.len())]);
            memory[at..at + payload].copy_from_slice(part);
        }
    }

    /// The parts, with which `datagrams` begin: the offset of each in the message, and its bytes.
    #[inline]
    pub fn parts<'d>(&self, datagrams: &'d [u8]) -> impl Iterator<Item = (usize, &'d [u8])> {
        let payload = self.payload;
        let parts = datagrams[..self.datagrams_len()].chunks_exact(self.segment);
        (self.offset..).step_by(payload).zip(parts.map(move |part| &part[HEADER_LEN..HEADER_LEN + payload]))
    }
}

/// Offset of a part, and its transmission number.
#[inline]
fn offset_and_time(part: &[u8]) -> Option<(u32, u32)> {
    let [o0, o1, o2, o3, t0, t1, t2, t3] = *part.get(SAME..HEADER_LEN)? else { return None };
    Some((u32::from_le_bytes([o0, o1, o2, o3]), u32::from_le_bytes([t0, t1, t2, t3])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use stoop_wire::{BindingId, CallNumber, Kind, LaneId, Template};

    fn part(number: u32, offset: u32, transmission: u32) -> Vec<u8> {
        let template = Template::new(Kind::Result, BindingId(1), LaneId(2));
        let mut packet = alloc::vec![0; HEADER_LEN];
        let header = packet.first_chunk_mut().expect("it has a header");
        template.stamp_part(header, 0, CallNumber(number), 1000, (offset, 10), transmission);
        packet.extend((0..10).map(|i| offset.wrapping_add(i) as u8));
        packet
    }

    fn span(parts: &[(u32, u32, u32)], end: u32) -> Option<(usize, usize, u32)> {
        let datagrams: Vec<u8> = parts.iter().flat_map(|&(n, o, t)| part(n, o, t)).collect();
        let found = Span::at_beginning(&datagrams, HEADER_LEN + 10, end)?;
        let mut memory = alloc::vec![0; found.len];
        found.copy_to(&mut memory, &datagrams, |_| {});
        let expected = (found.offset..found.offset + found.len).map(|at| at as u8);
        assert!(memory.iter().copied().eq(expected));
        Some((found.offset, found.len, found.transmission))
    }

    #[test]
    fn consecutive_parts_are_one_span() {
        assert_eq!(span(&[(1, 20, 5), (1, 30, 6), (1, 40, 7)], 1000), Some((20, 30, 7)));
        assert_eq!(span(&[(1, 20, u32::MAX), (1, 30, 0)], 1000), Some((20, 20, 0)));
    }

    #[test]
    fn a_gap_another_message_or_another_order_ends_a_span() {
        assert_eq!(span(&[(1, 20, 5), (1, 40, 6)], 1000), Some((20, 10, 5)));
        assert_eq!(span(&[(1, 20, 5), (1, 30, 7)], 1000), Some((20, 10, 5)));
        assert_eq!(span(&[(1, 20, 5), (2, 30, 6)], 1000), Some((20, 10, 5)));
        assert_eq!(span(&[(1, 20, 5), (1, 30, 6), (1, 40, 7)], 49), Some((20, 20, 6)));
    }

    #[test]
    fn bytes_behind_a_part_are_not_copied_as_its_data() {
        let with_behind = |behind: usize| {
            let parts = [part(1, 20, 5), part(1, 30, 6)];
            let datagrams = parts.map(|part| [&part[..], &vec![0xd7; behind]].concat()).concat();
            let found = Span::at_beginning(&datagrams, HEADER_LEN + 10 + behind, 1000)?;
            assert_eq!(found.datagrams_len(), datagrams.len());
            let mut memory = [0; 20];
            found.copy_to(&mut memory, &datagrams, |_| {});
            assert!(memory.iter().copied().eq(20..40));
            Some((found.offset, found.len))
        };
        assert_eq!(with_behind(4), Some((20, 20)));
        assert_eq!(with_behind(HEADER_LEN - 1), Some((20, 20)));
        assert_eq!(with_behind(HEADER_LEN), None, "another part could be there");
        assert_eq!(Span::at_beginning(&part(1, 20, 5)[..40], HEADER_LEN + 8, 1000), None);
    }

    #[test]
    fn the_first_part_and_malformed_parts_are_no_span() {
        assert_eq!(span(&[(1, 0, 5), (1, 10, 6)], 1000), None);
        assert_eq!(span(&[(1, 20, 5)], 29), None);
        assert_eq!(span(&[(1, u32::MAX, 5)], 1000), None);
        assert_eq!(Span::at_beginning(&part(1, 20, 5), HEADER_LEN, 1000), None);
        assert_eq!(Span::at_beginning(&part(1, 20, 5), 3, 1000), None);
        assert_eq!(Span::at_beginning(&part(1, 20, 5)[..41], HEADER_LEN + 10, 1000), None);
    }
}
