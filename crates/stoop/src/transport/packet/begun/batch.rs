//! A batch: call packets that leave together, one behind the other in one buffer, each as long as the first.

use crate::transport::packet::link::{MAX_SEGMENTS, MAX_SEGMENTS_LEN};
use std::slice::ChunksExactMut;
use stoop_wire::{CallNumber, HEADER_LEN};

/// Call packets that wait to be sent, and their calls.
#[derive(Default)]
pub(crate) struct Batch {
    /// Memory for packets; the bytes behind `len` are of earlier batches.
    packets: Vec<u8>,
    /// Bytes of the packets.
    len: usize,
    /// Bytes from one packet to the next. The last packet may be shorter.
    segment: usize,
    /// How many more packets of that length it takes, if it has one.
    room: usize,
    calls: Vec<(u32, CallNumber)>,
}

/// Places in a [`Batch`] for packets that are written there one behind the other.
pub(crate) struct PacketSlots<'a> {
    packets: ChunksExactMut<'a, u8>,
    calls: &'a mut Vec<(u32, CallNumber)>,
}

impl<'a> PacketSlots<'a> {
    /// The place of the next packet, of `len` bytes with arbitrary content. Its call is [entered](Self::enter) next.
    #[inline(always)]
    pub(crate) fn next(&mut self, len: usize) -> &'a mut [u8] {
        let (packet, behind) = self.packets.next().expect("as many as were asked for").split_at_mut(len);
        if !behind.is_empty() {
            behind.fill(0);
        }
        packet
    }

    /// Enters the call of the packet that was written last.
    #[inline(always)]
    pub(crate) fn enter(&mut self, call: u32, number: CallNumber) {
        self.calls.push((call, number));
    }
}

/// Packets up to this length take any shorter one among them, which is filled up: a packet costs more than some bytes.
const FILLED_UP: usize = 256;

impl Batch {
    /// Stands for no batch.
    pub(crate) const NONE: u32 = u32::MAX;

    /// Whether a packet of `len` bytes can leave with the others.
    #[inline]
    pub(crate) fn takes(&self, len: usize) -> bool {
        let fits = len <= self.segment && (self.segment <= FILLED_UP || len >= self.segment / 4);
        self.calls.is_empty() || fits && self.room > 0
    }

    /// Whether it has packets and takes no more.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0 && !self.calls.is_empty()
    }

    /// Bytes from one packet to the next, if the first has `len`.
    #[inline]
    pub(crate) fn segment_for(len: usize) -> usize {
        len.next_multiple_of(8)
    }

    /// Opens places for that many packets, `segment` bytes apart as those that are here. All are used, and then
    /// [closed](Self::close).
    pub(crate) fn open(&mut self, many: usize, segment: usize) -> PacketSlots<'_> {
        let start = self.begin_at(segment);
        debug_assert!(segment == self.segment && many <= self.room, "packets that can leave with the others");
        if self.packets.len() < start + many * segment {
            self.packets.resize(start + many * segment, 0);
        }
        self.room -= many;
        PacketSlots { packets: self.packets[start..].chunks_exact_mut(segment), calls: &mut self.calls }
    }

    /// All places that [`open`](Self::open) made are used, the last by a packet of `len` bytes.
    pub(crate) fn close(&mut self, len: usize) {
        self.len = (self.calls.len() - 1) * self.segment + len;
    }

    /// Makes a place for one more packet of `len` bytes, with arbitrary content. Its call is [entered](Self::enter) next. If it is
    /// the first packet, those behind it will be `segment` bytes apart.
    #[inline]
    pub(crate) fn place(&mut self, len: usize, segment: usize) -> &mut [u8] {
        let start = self.begin_at(segment);
        if self.packets.len() < start + len {
            self.packets.resize(start + len.max(self.segment), 0);
        }
        self.len = start + len;
        &mut self.packets[start..start + len]
    }

    /// Where the next packet begins. Fills the packet before it up, or takes `segment` for the first.
    #[inline]
    fn begin_at(&mut self, segment: usize) -> usize {
        if self.calls.is_empty() {
            self.segment = segment;
            self.room = MAX_SEGMENTS.min(MAX_SEGMENTS_LEN / segment);
        }
        let start = self.calls.len() * self.segment;
        if self.len < start {
            self.packets[self.len..start].fill(0);
        }
        start
    }

    /// Enters the call of the packet that was placed last.
    #[inline]
    pub(crate) fn enter(&mut self, call: u32, number: CallNumber) {
        self.room -= 1;
        self.calls.push((call, number));
    }

    /// How many more packets it takes that are not longer than the first; `first` if it is empty.
    pub(crate) fn room_or(&self, first: usize) -> usize {
        if self.calls.is_empty() { first } else { self.room }
    }

    /// Replaces the packet of `call`, which has that number on its lane, by a packet of a header alone.
    ///
    /// # Panics
    /// The call is not in the batch.
    pub(crate) fn replace(&mut self, call: u32, number: CallNumber, packet: &[u8; HEADER_LEN]) {
        let place = self.calls.iter().position(|each| *each == (call, number));
        let place = place.expect("the call is in its batch");
        self.packets[place * self.segment..][..HEADER_LEN].copy_from_slice(packet);
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn packets(&self) -> &[u8] {
        &self.packets[..self.len]
    }

    /// The packet at that position.
    pub(crate) fn packet(&self, position: usize) -> &[u8] {
        let end = self.len.min((position + 1) * self.segment);
        &self.packets[position * self.segment..end]
    }

    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// The calls, and their numbers on their lanes.
    pub(crate) fn calls(&self) -> &[(u32, CallNumber)] {
        &self.calls
    }

    /// Removes the packets and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::packet::begun::batch::*;

    const ONE: CallNumber = CallNumber(1);

    impl Batch {
        fn push(&mut self, call: u32, number: CallNumber, packet: &[u8]) {
            assert!(self.takes(packet.len()), "a packet that can leave with the others");
            self.place(packet.len(), Self::segment_for(packet.len())).copy_from_slice(packet);
            self.enter(call, number);
        }
    }

    #[test]
    fn packets_of_a_batch_are_equally_long_but_for_the_last() {
        let mut batch = Batch::default();
        batch.push(7, ONE, &[1; 37]);
        assert_eq!((batch.segment(), batch.packets().len()), (40, 37));
        assert!(batch.takes(40) && batch.takes(32) && !batch.takes(41));
        batch.push(8, ONE, &[2; 33]);
        assert_eq!(batch.packets(), [&[1; 37][..], &[0; 3], &[2; 33]].concat());
        assert_eq!(batch.calls(), [(7, ONE), (8, ONE)]);
    }

    #[test]
    fn a_short_packet_is_not_filled_up_to_a_long_one() {
        let mut batch = Batch::default();
        batch.push(0, ONE, &[0; 1472]);
        assert!(batch.takes(1472) && batch.takes(368) && !batch.takes(360));
    }

    #[test]
    fn a_batch_has_no_more_than_one_system_call_sends() {
        let fill = |len: usize| {
            let mut batch = Batch::default();
            while batch.takes(len) {
                batch.push(0, ONE, &vec![0; len]);
            }
            (batch.count(), batch.packets().len())
        };
        assert_eq!(fill(32), (64, 64 * 32));
        assert_eq!(fill(1472), (44, 44 * 1472));
    }

    #[test]
    fn a_replaced_packet_keeps_its_place() {
        let mut batch = Batch::default();
        batch.push(7, ONE, &[1; 40]);
        batch.push(8, ONE, &[2; 40]);
        batch.replace(8, ONE, &[3; HEADER_LEN]);
        assert_eq!(batch.packets(), [&[1; 40][..], &[3; 32], &[2; 8]].concat());
    }
}
