//! The payload of *probes* and *acknowledgements*: many calls of one binding, six bytes each.
//!
//! | bytes of a call | field       |
//! |-----------------|-------------|
//! | 0–1             | lane        |
//! | 2–5             | call number |
//!
//! Probes ask which of the calls the server still has. Their answer lists the same calls, first those that it has: so many as bytes
//! 6–7 of its header say. Lane and number in both headers are those of the first call of the probes, so that an answer about the
//! whole packet, such as the refusal of an unknown binding, names a call of its caller.

use crate::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, PACKET_DATA};
use alloc::vec::Vec;

/// Bytes of a call in the list.
const CALL_LEN: usize = 6;

/// The calls in a packet of kind [`Probes`](Kind::Probes) or [`Acknowledgements`](Kind::Acknowledgements).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallList<'a>(&'a [[u8; CALL_LEN]]);

impl<'a> CallList<'a> {
    /// Most calls in a packet of this binding.
    pub fn most(binding: BindingId) -> usize {
        binding.packet_data() / CALL_LEN
    }

    /// Reads the payload of a packet with this header; `None` if it is no list of at least one call.
    pub fn decode(header: &Header, payload: &'a [u8]) -> Option<Self> {
        let (calls, rest) = payload.as_chunks();
        let is_list = rest.is_empty() && !calls.is_empty() && calls.len() <= Self::most(header.binding);
        (is_list && header.offset == 0).then_some(Self(calls))
    }

    /// The calls.
    pub fn calls(self) -> impl ExactSizeIterator<Item = (LaneId, CallNumber)> + Clone + 'a {
        self.0.iter().map(|&[l0, l1, n0, n1, n2, n3]| {
            (LaneId(u16::from_le_bytes([l0, l1])), CallNumber(u32::from_le_bytes([n0, n1, n2, n3])))
        })
    }

    /// How many calls, from the beginning of the list, a packet of acknowledgements with this header acknowledges; `None` if it says
    /// more than there are.
    pub fn acknowledged(self, header: &Header) -> Option<usize> {
        let acknowledged = usize::from(header.procedure);
        (acknowledged <= self.0.len()).then_some(acknowledged)
    }

    /// Writes the packet of probes for `calls` to the beginning of `packet`, as many as one packet takes. Returns its length; 0 if there
    /// are none.
    ///
    /// # Panics
    /// If `packet` is shorter than a [datagram](crate::MAX_DATAGRAM).
    pub fn put_probes(
        binding: BindingId,
        calls: impl Iterator<Item = (LaneId, CallNumber)>,
        packet: &mut [u8],
    ) -> usize {
        let (header, payload) = packet.split_first_chunk_mut::<HEADER_LEN>().expect("a datagram");
        let (places, _) = payload[..binding.packet_data()].as_chunks_mut();
        let (mut first, mut count) = (None, 0);
        for (place, (lane, number)) in places.iter_mut().zip(calls) {
            *place = call_bytes(lane, number);
            first.get_or_insert((lane, number));
            count += 1;
        }
        let Some((lane, number)) = first else { return 0 };
        let len = CALL_LEN * count;
        let probes = Header::bare(Kind::Probes, binding, lane, number);
        *header = Header { message_len: len as u32, ..probes }.to_bytes();
        HEADER_LEN + len
    }

    /// Writes the answer to this list, which came with `header`, to `reply`, whose former contents are lost. `has` says whether the server
    /// has a call.
    pub fn answer(
        self,
        header: &Header,
        mut has: impl FnMut(LaneId, CallNumber) -> bool,
        reply: &mut Vec<u8>,
    ) {
        let message_len = (CALL_LEN * self.0.len()) as u32;
        let answer = Header::bare(Kind::Acknowledgements, header.binding, header.lane, header.number);
        reply.clear();
        reply.extend_from_slice(&Header { message_len, ..answer }.to_bytes());
        let mut others = [[0; CALL_LEN]; PACKET_DATA / CALL_LEN];
        let mut rest = 0;
        for (bytes, (lane, number)) in self.0.iter().zip(self.calls()) {
            if has(lane, number) {
                reply.extend_from_slice(bytes);
            } else {
                others[rest] = *bytes;
                rest += 1;
            }
        }
        let acknowledged = (self.0.len() - rest) as u16;
        reply[6..8].copy_from_slice(&acknowledged.to_le_bytes());
        reply.extend_from_slice(others[..rest].as_flattened());
    }
}

fn call_bytes(LaneId(lane): LaneId, CallNumber(number): CallNumber) -> [u8; CALL_LEN] {
    let ([l0, l1], [n0, n1, n2, n3]) = (lane.to_le_bytes(), number.to_le_bytes());
    [l0, l1, n0, n1, n2, n3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_DATAGRAM;

    const BINDING: BindingId = BindingId(0x1122_3344_5566_7788);

    fn calls(count: usize) -> impl Iterator<Item = (LaneId, CallNumber)> + Clone {
        (0..count).map(|n| (LaneId(n as u16 + 5), CallNumber(0x0102_0304 + n as u32)))
    }

    fn probes(binding: BindingId, count: usize) -> Vec<u8> {
        let mut packet = [0xff; MAX_DATAGRAM];
        let len = CallList::put_probes(binding, calls(count), &mut packet);
        packet[..len].to_vec()
    }

    #[test]
    fn what_was_put_is_read() {
        for count in [1, 2, 240] {
            let packet = probes(BINDING, count);
            let (header, payload) = Header::parse(&packet).unwrap();
            assert_eq!((header.kind, header.binding), (Kind::Probes, BINDING));
            assert_eq!((header.lane, header.number), (LaneId(5), CallNumber(0x0102_0304)));
            let list = CallList::decode(&header, payload).unwrap();
            assert!(list.calls().eq(calls(count)), "{count}");
        }
        assert!(probes(BINDING, 0).is_empty());
    }

    #[test]
    fn a_packet_takes_as_many_calls_as_fit_behind_its_header() {
        for (binding, most) in [(BINDING, 240), (BINDING.with_checksum(true), 238), (BINDING.sealed(), 236)] {
            assert_eq!(CallList::most(binding), most);
            let packet = probes(binding, 1000);
            let (header, payload) = Header::parse(&packet).unwrap();
            let list = CallList::decode(&header, payload).unwrap();
            assert_eq!(list.calls().len(), most);
        }
    }

    #[test]
    fn an_answer_has_the_same_calls_and_the_same_length() {
        let packet = probes(BINDING, 100);
        let (header, payload) = Header::parse(&packet).unwrap();
        let has = |lane: LaneId, _| lane.0.is_multiple_of(3);
        let mut answer = Vec::new();
        CallList::decode(&header, payload).unwrap().answer(&header, has, &mut answer);
        assert_eq!(answer.len(), packet.len());
        let (header, payload) = Header::parse(&answer).unwrap();
        assert_eq!(
            (header.kind, header.lane, header.number),
            (Kind::Acknowledgements, LaneId(5), CallNumber(0x0102_0304))
        );
        let list = CallList::decode(&header, payload).unwrap();
        let count = list.acknowledged(&header).unwrap();
        let (mut here, mut gone): (Vec<_>, Vec<_>) =
            calls(100).partition(|(lane, number)| has(*lane, *number));
        assert_eq!(count, here.len());
        here.append(&mut gone);
        assert!(list.calls().eq(here));
    }

    #[test]
    fn a_payload_of_another_length_is_none() {
        let payload = [0; PACKET_DATA + 2 * CALL_LEN];
        for len in 0..payload.len() {
            let header = Header {
                message_len: len as u32,
                ..Header::bare(Kind::Probes, BINDING, LaneId(0), CallNumber(1))
            };
            let is_list = len > 0 && len % CALL_LEN == 0 && len <= PACKET_DATA;
            assert_eq!(CallList::decode(&header, &payload[..len]).is_some(), is_list, "{len}");
        }
    }

    #[test]
    fn an_answer_cannot_acknowledge_more_calls_than_it_lists() {
        let packet = probes(BINDING, 3);
        let (header, payload) = Header::parse(&packet).unwrap();
        let list = CallList::decode(&header, payload).unwrap();
        for count in 0..=4 {
            let header = Header { procedure: count, ..header };
            assert_eq!(list.acknowledged(&header), (count <= 3).then_some(usize::from(count)));
        }
    }
}
