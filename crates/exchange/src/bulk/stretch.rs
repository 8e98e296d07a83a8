//! Parts of a message that have come together, each where the one before it ends: taken as if they were one.

use stoop_wire::HEADER_LEN;

/// Parts of one message, of the same size, that continue one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where in the message the first begins; never 0, for the part there has more to say.
    pub offset: usize,
    /// Bytes of the message in all of them.
    pub len: usize,
    /// Bytes of each datagram, with header and what is behind the part.
    pub segment: usize,
    /// Bytes of the message in each.
    pub(crate) payload: usize,
    /// Number of the last.
    pub(crate) transmission: u32,
}

/// Bytes from what is written to what is asked for: four packets of an Ethernet.
const AHEAD: usize = 6 * 1024;

/// Bytes of a header that all parts of a message share: what follows is their place and the time.
const SAME: usize = 24;

impl Span {
    /// The parts with which `datagrams` begin, each of them `segment` bytes long, that continue one another and end by byte
    /// `end` of their message; `None` if the first is none of these. Whose parts they are is told by the first header.
    #[inline]
    pub(crate) fn at_beginning(datagrams: &[u8], segment: usize, end: u32) -> Option<Self> {
        let first = datagrams.get(..segment).filter(|first| first.len() > HEADER_LEN)?;
        let payload = u32::from(u16::from_le_bytes([first[6], first[7]]));
        // Behind it may be a checksum or padding. One with room for another part there is taken by itself.
        let behind = (segment - HEADER_LEN).checked_sub(payload as usize)?;
        if payload == 0 || behind >= HEADER_LEN {
            return None;
        }
        let (offset, transmission) = place_and_time(first)?;
        let most = end.checked_sub(offset).filter(|_| offset > 0)? / payload;
        let mut next = (offset, transmission);
        let mut parts = 0;
        for part in datagrams.chunks_exact(segment).take(most as usize) {
            if part[..SAME] != first[..SAME] || place_and_time(part) != Some(next) {
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

    /// Bytes of datagrams that it takes.
    #[inline]
    pub fn datagrams_len(&self) -> usize {
        self.len / self.payload * self.segment
    }

    /// Copies the bytes of the parts, with which `datagrams` begin, to where they belong: `memory` is what the message has
    /// there and behind it, [`len`](Self::len) bytes at least.
    ///
    /// `ahead` is told of memory a little before it is written, in which it may change nothing: a processor that is asked for the
    /// lines of cold memory in time copies three times as fast (`stoop-net`'s `prefetch`).
    ///
    /// # Panics
    /// When `memory` or `datagrams` is shorter than that.
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

    /// The parts, with which `datagrams` begin: where each begins in the message, and its bytes.
    #[inline]
    pub fn parts<'d>(&self, datagrams: &'d [u8]) -> impl Iterator<Item = (usize, &'d [u8])> {
        let payload = self.payload;
        let parts = datagrams[..self.datagrams_len()].chunks_exact(self.segment);
        (self.offset..).step_by(payload).zip(parts.map(move |part| &part[HEADER_LEN..HEADER_LEN + payload]))
    }
}

/// Where a part begins, and its transmission number.
#[inline]
fn place_and_time(part: &[u8]) -> Option<(u32, u32)> {
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

    fn stretch(parts: &[(u32, u32, u32)], end: u32) -> Option<(usize, usize, u32)> {
        let datagrams: Vec<u8> = parts.iter().flat_map(|&(n, o, t)| part(n, o, t)).collect();
        let found = Span::at_beginning(&datagrams, HEADER_LEN + 10, end)?;
        let mut memory = alloc::vec![0; found.len];
        found.copy_to(&mut memory, &datagrams, |_| {});
        let expected = (found.offset..found.offset + found.len).map(|at| at as u8);
        assert!(memory.iter().copied().eq(expected));
        Some((found.offset, found.len, found.transmission))
    }

    #[test]
    fn what_continues_is_one_stretch() {
        assert_eq!(stretch(&[(1, 20, 5), (1, 30, 6), (1, 40, 7)], 1000), Some((20, 30, 7)));
        assert_eq!(stretch(&[(1, 20, u32::MAX), (1, 30, 0)], 1000), Some((20, 20, 0)));
    }

    #[test]
    fn a_gap_another_message_or_another_order_ends_it() {
        assert_eq!(stretch(&[(1, 20, 5), (1, 40, 6)], 1000), Some((20, 10, 5)));
        assert_eq!(stretch(&[(1, 20, 5), (1, 30, 7)], 1000), Some((20, 10, 5)));
        assert_eq!(stretch(&[(1, 20, 5), (2, 30, 6)], 1000), Some((20, 10, 5)));
        assert_eq!(stretch(&[(1, 20, 5), (1, 30, 6), (1, 40, 7)], 49), Some((20, 20, 6)));
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
    fn the_part_at_the_beginning_and_what_is_none_are_no_stretch() {
        assert_eq!(stretch(&[(1, 0, 5), (1, 10, 6)], 1000), None);
        assert_eq!(stretch(&[(1, 20, 5)], 29), None);
        assert_eq!(stretch(&[(1, u32::MAX, 5)], 1000), None);
        assert_eq!(Span::at_beginning(&part(1, 20, 5), HEADER_LEN, 1000), None);
        assert_eq!(Span::at_beginning(&part(1, 20, 5), 3, 1000), None);
        assert_eq!(Span::at_beginning(&part(1, 20, 5)[..41], HEADER_LEN + 10, 1000), None);
    }
}
