//! The packets of pipes: *data*, and the receipts for it. A pipe is a sequence of bytes of unknown length in one direction of a call.
//!
//! | bytes of a packet of data | field                                                            |
//! |---------------------------|------------------------------------------------------------------|
//! | 6–7                       | bytes of the pipe behind the header                              |
//! | 20                        | `04`: the pipe ends behind these bytes; `08`: it is aborted; `10`, not on byte streams: 24 bytes follow them |
//! | 21–23, 24–27              | offset of the first byte: bits 32–55, and bits 0–31              |
//! | 28–31                     | transmission number, counted for each pipe                       |
//!
//! The 24 bytes are a receipt for the other pipe of the call, without gaps: its number (0–3), bytes 24–27 of its header (4–7), and its
//! payload (8–23).
//!
//! | bytes of a pipe's receipt | field                                                            |
//! |---------------------------|------------------------------------------------------------------|
//! | 24                        | `80`; with `04` added: the receiver takes no more                |
//! | 25–27                     | bits 32–55 of *up to*                                            |
//!
//! Its payload is a [`Receipt`](crate::Receipt) with the low 32 bits of each offset. The end of a pipe, or its abort, takes up one
//! offset behind the last byte: a receipt that reports it acknowledges the end.

use crate::{BindingId, CallNumber, Header, Kind, LaneId, Receipt};

/// How a pipe's sender ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeEnd {
    /// All bytes have been sent.
    Finished,
    /// The pipe is not whole, and nothing more of it will be sent.
    Aborted,
}

/// The header fields of a packet of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Offset in the pipe of the first byte behind the header.
    pub at: u64,
    /// Bytes of the pipe behind the header. A packet without bytes and without an end asks for a receipt.
    pub len: u16,
    /// Whether the pipe ends behind these bytes.
    pub end: Option<PipeEnd>,
    /// The sender had more to send than the limit let it, until it was told a higher one, and goes on with these bytes. A receiver that
    /// waited for them has too small a window for the way there and back.
    pub has_waited: bool,
    /// Counts the packets of this pipe.
    pub transmission: u32,
}

/// A receipt for the other pipe of a call that is behind the bytes of a packet of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptBehind {
    /// Number of the receipt.
    pub number: u32,
    /// What its header would say.
    pub of_pipe: PipeReceipt,
    /// Without ranges.
    pub receipt: Receipt,
}

/// The header fields of a receipt for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeReceipt {
    /// The receiver takes no more: the sender is to abort the pipe.
    pub stop: bool,
    /// Bits 32–55 of the offset up to which everything has arrived.
    pub high: u32,
}

const FINISHED: u32 = 0x04;
const ABORTED: u32 = 0x08;
/// A receipt follows.
const FOLLOWED: u32 = 0x10;
/// The sender has waited for a higher limit.
const WAITED: u32 = 0x20;
const STOP: u32 = 0x04;
const OF_PIPE: u32 = 0x80;

impl Data {
    /// Offsets of a pipe, with that of its end, are below this one.
    pub const OFFSETS: u64 = 1 << 56;

    /// Most bytes behind one header: a multiple of eight.
    pub const LEN_MAX: u16 = 65_528;

    /// Reads the fields of a packet of data; `None` if it is of another kind or malformed.
    pub fn of(header: &Header) -> Option<Self> {
        let (len, word) = (header.procedure, header.message_len);
        let end = match word & 0xff & !(FOLLOWED | WAITED) {
            0 => None,
            FINISHED => Some(PipeEnd::Finished),
            ABORTED if len == 0 => Some(PipeEnd::Aborted),
            _ => return None,
        };
        let at = u64::from(word >> 8) << 32 | u64::from(header.offset);
        let after = at + u64::from(len) + u64::from(end.is_some());
        let is_data = header.kind == Kind::Data && len <= Self::LEN_MAX && after <= Self::OFFSETS;
        let has_waited = word & WAITED != 0;
        is_data.then_some(Self { at, len, end, has_waited, transmission: header.time })
    }

    /// Bytes behind the header of a packet of data: those of the pipe, and the receipt that may follow them.
    pub(crate) fn payload_len(header: &Header) -> Option<usize> {
        Self::of(header)
            .map(|data| usize::from(data.len) + if follows(header) { ReceiptBehind::LEN } else { 0 })
    }

    /// The bytes of the pipe in the payload of this packet, and the receipt behind them.
    ///
    /// # Panics
    /// If the payload is not that of the header.
    pub fn split<'a>(self, header: &Header, payload: &'a [u8]) -> (&'a [u8], Option<ReceiptBehind>) {
        let (bytes, behind) = payload.split_at(self.len.into());
        (bytes, behind.first_chunk().filter(|_| follows(header)).map(ReceiptBehind::from_bytes))
    }

    /// The header of this packet.
    ///
    /// # Panics
    /// In builds with assertions, if the offset is too high or an abort has bytes: mistakes of the sender.
    pub fn header(&self, binding: BindingId, lane: LaneId, number: CallNumber) -> Header {
        debug_assert!(self.at < Self::OFFSETS && (self.len == 0 || self.end != Some(PipeEnd::Aborted)));
        let end = match self.end {
            None => 0,
            Some(PipeEnd::Finished) => FINISHED,
            Some(PipeEnd::Aborted) => ABORTED,
        };
        let waited = if self.has_waited { WAITED } else { 0 };
        Header {
            procedure: self.len,
            message_len: ((self.at >> 32) as u32) << 8 | waited | end,
            offset: self.at as u32,
            time: self.transmission,
            ..Header::bare(Kind::Data, binding, lane, number)
        }
    }
}

/// Whether a receipt follows the bytes of a packet of data.
fn follows(header: &Header) -> bool {
    header.message_len & FOLLOWED != 0
}

impl ReceiptBehind {
    /// Bytes that it takes.
    pub const LEN: usize = 24;

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.of_pipe.word().to_le_bytes());
        self.receipt.put(&mut bytes[8..]);
        bytes
    }

    /// `header`, of a packet of data, with the word that this follows its bytes.
    #[must_use]
    pub fn announced(header: Header) -> Header {
        Header { message_len: header.message_len | FOLLOWED, ..header }
    }

    fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let receipt = Receipt::new(word(8), word(12), word(16), word(20));
        Self { number: word(0), of_pipe: PipeReceipt::from_word(word(4)), receipt }
    }
}

impl PipeReceipt {
    /// Reads the fields of a receipt for data; `None` if it is for a message, of another kind, or malformed.
    pub fn of(header: &Header) -> Option<Self> {
        let word = header.offset;
        let is_of_pipe = header.kind == Kind::Receipt && word & 0xff & !STOP == OF_PIPE;
        is_of_pipe.then_some(Self::from_word(word))
    }

    /// `header`, of a receipt, with these fields.
    #[must_use]
    pub fn put(self, header: Header) -> Header {
        Header { offset: self.word(), ..header }
    }

    fn word(self) -> u32 {
        let stop = if self.stop { STOP } else { 0 };
        self.high << 8 | OF_PIPE | stop
    }

    fn from_word(word: u32) -> Self {
        Self { stop: word & STOP != 0, high: word >> 8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEADER_LEN, HeaderError, STREAM_FRAGMENT};
    use alloc::vec::Vec;

    const PLACE: (BindingId, LaneId, CallNumber) =
        (BindingId(0x1122_3344_5566_7788), LaneId(5), CallNumber(7));

    fn packet(data: Data) -> Vec<u8> {
        let mut packet = data.header(PLACE.0, PLACE.1, PLACE.2).to_bytes().to_vec();
        packet.resize(HEADER_LEN + usize::from(data.len), 0xab);
        packet
    }

    fn samples() -> impl Iterator<Item = Data> {
        let places = [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 40) + 3, Data::OFFSETS - 70_000];
        let ends = [None, Some(PipeEnd::Finished), Some(PipeEnd::Aborted)];
        places.into_iter().flat_map(move |at| {
            let of_end = move |end: Option<PipeEnd>| {
                let most = if end == Some(PipeEnd::Aborted) { 0 } else { Data::LEN_MAX };
                [0, most.min(64), most].map(|len| Data {
                    at,
                    len,
                    end,
                    has_waited: len == 64,
                    transmission: 9,
                })
            };
            ends.into_iter().flat_map(of_end)
        })
    }

    #[test]
    fn data_that_was_put_is_read() {
        for data in samples() {
            let mut packet = packet(data);
            packet.extend([0; 3]);
            let (header, payload) = Header::parse(&packet).unwrap();
            assert_eq!((header.kind, Data::of(&header)), (Kind::Data, Some(data)));
            assert_eq!((header.binding, header.lane, header.number), PLACE);
            assert_eq!(payload.len(), usize::from(data.len), "padding may follow");
            let of_stream = Header::from_bytes(packet.first_chunk().unwrap()).unwrap();
            assert_eq!(of_stream.payload_len(STREAM_FRAGMENT), Ok(usize::from(data.len)));
        }
    }

    #[test]
    fn malformed_data_is_refused() {
        let good = Data { at: 1 << 33, len: 8, end: None, has_waited: false, transmission: 1 };
        let refuses = |change: fn(&mut [u8])| {
            let mut packet = packet(good);
            change(&mut packet);
            Header::parse(&packet).expect_err("it is malformed")
        };
        for bit in [0x01, 0x02, 0x08, 0x0c, 0x21, 0x40, 0x80] {
            let mut packet = packet(good);
            packet[20] = bit;
            assert_eq!(Header::parse(&packet), Err(HeaderError::Pipe), "{bit:#x}");
        }
        assert_eq!(
            refuses(|packet| packet[21..28].fill(0xff)),
            HeaderError::Pipe,
            "it ends beyond all offsets"
        );
        assert_eq!(refuses(|packet| packet[6..8].fill(0xff)), HeaderError::Pipe, "it is too long");
        assert_eq!(refuses(|packet| packet[3] = 1), HeaderError::Flags(1));
        assert_eq!(refuses(|packet| packet[6] = 9), HeaderError::PayloadShort { announced: 9, got: 8 });
    }

    #[test]
    fn a_receipt_behind_data_is_read_as_it_was_put_and_no_byte_of_the_pipe() {
        let data = Data { at: 8, len: 24, end: Some(PipeEnd::Finished), has_waited: true, transmission: 2 };
        let of_pipe = PipeReceipt { stop: true, high: 0x00ab_cdef };
        let behind = ReceiptBehind { number: 5, of_pipe, receipt: Receipt::new(3, 1000, 96, 64) };
        let header = ReceiptBehind::announced(data.header(PLACE.0, PLACE.1, PLACE.2));
        let mut packet = header.to_bytes().to_vec();
        packet.extend([0xab; 24]);
        packet.extend(behind.to_bytes());
        let (header, payload) = Header::parse(&packet).unwrap();
        assert_eq!(Data::of(&header), Some(data));
        assert_eq!(data.split(&header, payload), (&[0xab; 24][..], Some(behind)));
        let short = HeaderError::PayloadShort { announced: 48, got: 47 };
        assert_eq!(Header::parse(&packet[..packet.len() - 1]), Err(short));
    }

    #[test]
    fn receipts_of_pipes_and_of_messages_are_told_apart() {
        for (stop, high) in [(false, 0), (true, 0), (false, 0x00ab_cdef), (true, 0x00ff_ffff)] {
            let receipt = Receipt::new(3, 1000, 0x8000_0000, 64);
            let bare = Header::bare(Kind::Receipt, PLACE.0, PLACE.1, PLACE.2);
            let header = Header { message_len: receipt.encoded_len() as u32, time: 2, ..bare };
            let mut packet = PipeReceipt { stop, high }.put(header).to_bytes().to_vec();
            packet.resize(HEADER_LEN + receipt.encoded_len(), 0);
            receipt.put(&mut packet[HEADER_LEN..]);
            let (read, payload) = Header::parse(&packet).unwrap();
            assert_eq!(PipeReceipt::of(&read), Some(PipeReceipt { stop, high }));
            assert_eq!(Receipt::decode(payload), Some(receipt));
            assert_eq!(PipeReceipt::of(&header), None, "it is for a message");
            packet[24] ^= 0x01;
            assert_eq!(Header::parse(&packet), Err(HeaderError::Pipe));
        }
    }
}
