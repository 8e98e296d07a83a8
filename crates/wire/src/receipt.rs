//! The payload of a receipt: which parts of a long message have arrived, and how much more its sender may send.
//!
//! | bytes  | field                                                                               |
//! |--------|-------------------------------------------------------------------------------------|
//! | 0–3    | highest transmission number that has arrived                                        |
//! | 4–7    | ns since that packet arrived; saturates                                             |
//! | 8–11   | the sender may send the bytes before this one                                       |
//! | 12–15  | the bytes before this one have arrived                                              |
//! | 8 each | first byte, and the byte after the last, of a further range that has arrived        |
//!
//! It has the contents of an ACK frame (RFC 9000 §19.3) and of MAX_STREAM_DATA (§19.10).

use crate::HEADER_LEN;

/// A receiver's report about a message of many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The highest transmission number that has arrived; 0 if none has.
    pub latest: u32,
    /// Nanoseconds from its arrival to this receipt; saturates at 4.29 s.
    pub delay_ns: u32,
    /// Bytes of the message that may be sent. 0: the receiver has no memory for the message now; ask again later.
    pub limit: u32,
    /// Bytes from the beginning of the message without a gap.
    pub up_to: u32,
    ranges: [(u32, u32); Self::MOST_RANGES],
    count: u8,
}

const FIXED: usize = 16;
const RANGE: usize = 8;

impl Receipt {
    /// Most ranges beyond `up_to` in one receipt.
    pub const MOST_RANGES: usize = 32;

    /// Bytes of the longest payload of a receipt.
    pub const MAX_LEN: usize = FIXED + Self::MOST_RANGES * RANGE;

    /// Bytes of the longest packet with a receipt.
    pub const MAX_PACKET: usize = HEADER_LEN + Self::MAX_LEN;

    /// A receipt that reports only the beginning of a message.
    pub fn new(latest: u32, delay_ns: u32, limit: u32, up_to: u32) -> Self {
        Self { latest, delay_ns, limit, up_to, ranges: [(0, 0); Self::MOST_RANGES], count: 0 }
    }

    /// Adds the range from `start` to the byte before `end`. Ranges are added in rising order. Returns `false` if there
    /// is no space for it.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let Some(place) = self.ranges.get_mut(usize::from(self.count)) else { return false };
        *place = (start, end);
        self.count += 1;
        true
    }

    /// The ranges beyond [`up_to`](Self::up_to) that have arrived, each from its first byte to the byte after its last.
    /// In a receipt that was received nothing says that they are in order, or make sense.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Bytes that [`put`](Self::put) writes.
    pub fn encoded_len(&self) -> usize {
        FIXED + usize::from(self.count) * RANGE
    }

    /// Writes the payload to the beginning of `out` and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`encoded_len`](Self::encoded_len).
    pub fn put(&self, out: &mut [u8]) -> usize {
        let words = [self.latest, self.delay_ns, self.limit, self.up_to];
        let ranges = self.ranges().iter().flat_map(|&(start, end)| [start, end]);
        let len = self.encoded_len();
        for (bytes, word) in out[..len].chunks_exact_mut(4).zip(words.into_iter().chain(ranges)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        len
    }

    /// Reads a payload; `None` if it is none.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (fixed, ranges) = payload.split_first_chunk::<FIXED>()?;
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if !ranges.len().is_multiple_of(RANGE) {
            return None;
        }
        let mut receipt = Self::new(word(fixed, 0), word(fixed, 4), word(fixed, 8), word(fixed, 12));
        ranges
            .chunks_exact(RANGE)
            .all(|range| receipt.push(word(range, 0), word(range, 4)))
            .then_some(receipt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ranges: u32) -> Receipt {
        let mut receipt = Receipt::new(7, 1_000, 90_000, 1440);
        (0..ranges).for_each(|i| assert!(receipt.push(3000 + 100 * i, 3050 + 100 * i)));
        receipt
    }

    #[test]
    fn what_was_put_is_read() {
        for ranges in [0, 1, Receipt::MOST_RANGES as u32] {
            let receipt = sample(ranges);
            let mut payload = [0xff; Receipt::MAX_LEN];
            let len = receipt.put(&mut payload);
            assert_eq!(Receipt::decode(&payload[..len]), Some(receipt));
        }
    }

    #[test]
    fn a_payload_of_another_length_is_none() {
        let mut payload = [0; Receipt::MAX_LEN + RANGE];
        sample(32).put(&mut payload);
        for len in 0..payload.len() {
            assert_eq!(Receipt::decode(&payload[..len]).is_some(), len >= FIXED && len % RANGE == 0, "{len}");
        }
        assert!(Receipt::decode(&payload).is_none());
    }

    #[test]
    fn there_is_room_for_so_many_ranges_and_no_more() {
        assert!(!sample(Receipt::MOST_RANGES as u32).push(1, 2));
    }
}
