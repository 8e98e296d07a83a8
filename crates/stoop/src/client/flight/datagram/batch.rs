//! Packets that leave together: one behind the other in one buffer, each as long as the first.

use stoop_net::udp::{MAX_SEGMENTS, MAX_SEGMENTS_LEN};
use stoop_wire::{CallNumber, HEADER_LEN};

/// Call packets that wait to be sent, and the calls that they are of.
#[derive(Default)]
pub(super) struct Batch {
    packets: Vec<u8>,
    /// Bytes from one packet to the next. The last packet may be shorter.
    segment: usize,
    /// How many more packets of that length it has room for, when it has one.
    room: usize,
    calls: Vec<(u32, CallNumber)>,
}

/// Up to this many bytes a shorter packet is filled up however short it is: packets cost, bytes hardly do.
const FILLED_UP: usize = 256;

impl Batch {
    /// Stands where there is no batch.
    pub(super) const NONE: u32 = u32::MAX;

    /// Whether a packet of `len` bytes can go with the others.
    #[inline]
    pub(super) fn takes(&self, len: usize) -> bool {
        let fits = len <= self.segment && (self.segment <= FILLED_UP || len >= self.segment / 4);
        self.calls.is_empty() || fits && self.room > 0
    }

    /// Whether it has packets, and room for no more.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.room == 0 && !self.calls.is_empty()
    }

    /// Puts a packet behind the others. Those before it are filled up to the same length.
    #[inline]
    pub(super) fn push(&mut self, call: u32, number: CallNumber, packet: &[u8]) {
        debug_assert!(self.takes(packet.len()), "a packet that can go with the others");
        let mut start = 0;
        if self.calls.is_empty() {
            self.segment = packet.len().next_multiple_of(8);
            self.room = MAX_SEGMENTS.min(MAX_SEGMENTS_LEN / self.segment);
        } else {
            start = self.calls.len() * self.segment;
        }
        self.room -= 1;
        if self.packets.len() != start {
            self.packets.resize(start, 0);
        }
        // By far the most have no arguments to speak of: by a few instructions and no call.
        match <&[u8; HEADER_LEN]>::try_from(packet) {
            Ok(packet) => self.packets.extend_from_slice(packet),
            Err(_) => self.packets.extend_from_slice(packet),
        }
        self.calls.push((call, number));
    }

    /// Writes a packet of a header alone in place of that of `call`, of that number on its lane, which is here.
    pub(super) fn replace(&mut self, call: u32, number: CallNumber, packet: &[u8; HEADER_LEN]) {
        let place = self.calls.iter().position(|each| *each == (call, number));
        let place = place.expect("the call is in its batch");
        self.packets[place * self.segment..][..HEADER_LEN].copy_from_slice(packet);
    }

    pub(super) fn count(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn packets(&self) -> &[u8] {
        &self.packets
    }

    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    /// The calls, and their numbers on their lanes.
    pub(super) fn calls(&self) -> &[(u32, CallNumber)] {
        &self.calls
    }

    /// Keeps the memory alone.
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: CallNumber = CallNumber(1);

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
    fn a_short_packet_does_not_travel_as_a_long_one() {
        let mut batch = Batch::default();
        batch.push(0, ONE, &[0; 1472]);
        assert!(batch.takes(1472) && batch.takes(368) && !batch.takes(360));
    }

    #[test]
    fn a_batch_is_what_one_system_call_sends() {
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
    fn a_replaced_packet_is_another_of_the_same_length() {
        let mut batch = Batch::default();
        batch.push(7, ONE, &[1; 40]);
        batch.push(8, ONE, &[2; 40]);
        batch.replace(8, ONE, &[3; HEADER_LEN]);
        assert_eq!(batch.packets(), [&[1; 40][..], &[3; 32], &[2; 8]].concat());
    }
}
