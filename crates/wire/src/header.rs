//! The header that begins every packet. Integers are little-endian, each naturally aligned, so that a template is
//! filled and a header is read by plain stores and loads.
//!
//! | bytes | field           |                                                                   |
//! |-------|-----------------|-------------------------------------------------------------------|
//! | 0–1   | magic, version  |                                                                   |
//! | 2     | kind            | [`Kind`]                                                          |
//! | 3     | flags           | [`flags`]                                                         |
//! | 4–5   | lane            | one outstanding call each                                         |
//! | 6–7   | procedure       | the server's number, learned at bind time; in a datagram with a   |
//! |       |                 | part behind the first: bytes of the message in it                 |
//! | 8–15  | binding         | given by the server at bind time; a capability                    |
//! | 16–19 | call number     | one higher for each call of this lane                             |
//! | 20–23 | message length  | bytes of the whole message                                        |
//! | 24–27 | fragment offset | 0 in the single-packet calls that matter most; in a datagram with |
//! |       |                 | the first part of several: bytes of the message in it             |
//! | 28–31 | time            | call: µs left to the deadline; result: ns at the server, the      |
//! |       |                 | lowest bit: mostly waiting for a worker ([`time_of_result`](crate::time_of_result)); |
//! |       |                 | refusal, failure, unbind: the reason; call or result with an offset:      |
//! |       |                 | number of the transmission; receipt: number of the receipt        |
//!
//! In a challenge and its proof, which have no payload, bytes 20–27 hold the cookie; in the refusal *unknown binding*, which
//! has none either, the server's incarnation, and bytes 6–7 the seconds for which it has been up. In any other refusal bytes
//! 6–7 are the time after which to call again ([`RetryAfter`](crate::RetryAfter)). In a packet of kind *versions* bytes 24–31 are the versions that are spoken.
//! In one of kind *acknowledgements* bytes 6–7 are the number of calls that are acknowledged ([`CallList`](crate::CallList)).
//! Packets of kind *data*, and receipts for data, have other words: [`Data`], [`PipeReceipt`].
//!
//! Bytes 0–2 and 8–15 are the same in every version.

use crate::{
    BindingId, CallNumber, Data, HEADER_LEN, HeaderError, Kind, LaneId, MAGIC, PACKET_DATA, PartsIn,
    PipeReceipt, RefusalCode, VERSION,
};

/// The header's flags. A receiver drops a packet with an unknown flag among the low four, and ignores unknown flags
/// among the high four.
pub mod flags {
    /// The first of several parts of a call or result, in datagrams only. The field for the offset, which is 0,
    /// contains the number of bytes of the message in the packet.
    pub const SIZED: u8 = 0x01;
    /// Reserved: which of two keys seals a packet.
    pub const KEY_PHASE: u8 = 0x04;
    /// A sealed packet whose data are packets: [`Bundle`](crate::Bundle).
    pub const BUNDLE: u8 = 0x08;
    /// In a result of one packet: the field for the procedure is the number of calls of one packet that the caller may have under way.
    /// In a call: its caller has more calls to send than it may.
    pub const CREDIT: u8 = 0x10;
    /// In a call: it has a pipe from its caller to the server, whose data may follow.
    pub const PIPE_IN: u8 = 0x20;
    /// In a call: it has a pipe from the server to its caller.
    pub const PIPE_OUT: u8 = 0x40;

    /// Flags that make a receiver that does not know them drop the packet.
    pub const CRITICAL: u8 = 0x0f;
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of packet.
    pub kind: Kind,
    /// The lane of the binding.
    pub lane: LaneId,
    /// The server's number of the procedure.
    pub procedure: u16,
    /// The binding.
    pub binding: BindingId,
    /// The call of the lane.
    pub number: CallNumber,
    /// Bytes of the whole message.
    pub message_len: u32,
    /// Offset of this packet's payload in the message.
    pub offset: u32,
    /// Call: µs left to the deadline. Result: ns at the server. Refusal and failure: the reason. Saturating.
    /// Call or result with an offset: number of the transmission. Receipt: its number.
    pub time: u32,
}

impl Header {
    /// A header without payload; all other fields are zero.
    pub fn bare(kind: Kind, binding: BindingId, lane: LaneId, number: CallNumber) -> Self {
        Self { kind, lane, procedure: 0, binding, number, message_len: 0, offset: 0, time: 0 }
    }

    /// The packets of a datagram that may hold several parts of one message: [`PartsIn`].
    #[inline]
    pub fn parts_in(datagram: &[u8]) -> PartsIn<'_> {
        PartsIn(Some(datagram))
    }

    /// Splits a datagram into its header and its payload: the whole message, or the part that the datagram contains if
    /// a call or result is longer than [`PACKET_DATA`].
    ///
    /// # Errors
    /// The reason why it is no packet of this version ([`HeaderError`]).
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let Some((header, payload)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Truncated { got: packet.len() });
        };
        // Not by `from_bytes`: a header returned in a `Result` is assembled from overlapping stores, and the processor
        // then waits until everything stored before is in the cache, which takes long in the middle of a long message.
        let kind = Self::kind_of(header, flags::SIZED)?;
        let is_sized = header[3] & flags::SIZED != 0;
        let header = Self::of_kind(kind, header);
        if matches!(kind, Kind::Call | Kind::Result) && (is_sized || header.offset > 0) {
            return header.part(is_sized, payload);
        }
        if is_sized && kind != Kind::Versions {
            return Err(HeaderError::Flags(flags::SIZED));
        }
        let rest = header.payload_len(usize::MAX)?;
        if matches!(kind, Kind::Call | Kind::Result) && rest > PACKET_DATA {
            return Err(HeaderError::NotInParts);
        }
        // Ethernet pads short frames, so bytes behind the payload are no error and no data.
        match payload.get(..rest) {
            Some(payload) => Ok((header, payload)),
            None => Err(HeaderError::PayloadShort { announced: rest, got: payload.len() }),
        }
    }

    /// Splits a datagram with a part of a message, whose header says how many bytes of the message it contains.
    #[inline]
    fn part(self, is_sized: bool, behind: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let (offset, len) = match is_sized {
            true => (0, self.offset),
            false => (self.offset, u32::from(self.procedure)),
        };
        if self.message_len as usize <= self.binding.packet_data() || len == 0 {
            return Err(HeaderError::NotInParts);
        }
        if self.message_len.checked_sub(offset).is_none_or(|rest| rest < len) {
            return Err(HeaderError::OffsetBeyondMessage);
        }
        match behind.get(..len as usize) {
            Some(payload) => Ok((Self { offset, ..self }, payload)),
            None => Err(HeaderError::PayloadShort { announced: len as usize, got: behind.len() }),
        }
    }

    /// Whether a packet has the flag [`CREDIT`](flags::CREDIT).
    #[inline]
    pub fn has_credit(packet: &[u8]) -> bool {
        packet.get(3).is_some_and(|byte| byte & flags::CREDIT != 0)
    }

    /// Whether a packet is a failure that begins with the length of a [pipe](flags::PIPE_OUT).
    pub fn tells_pipe(packet: &[u8]) -> bool {
        packet.get(2) == Some(&(Kind::Failure as u8))
            && packet.get(3).is_some_and(|byte| byte & flags::PIPE_OUT != 0)
    }

    /// The credit that a result of one packet grants, if it does.
    #[inline]
    pub fn credit(packet: &[u8]) -> Option<u16> {
        let field = packet.get(6..8).filter(|_| Self::has_credit(packet))?;
        Some(u16::from_le_bytes(field.try_into().expect("two bytes")))
    }

    /// Sets the flag [`CREDIT`](flags::CREDIT) in a packet, and the field for the procedure to the credit if there is one.
    ///
    /// # Panics
    /// If the packet is shorter than a header.
    pub fn set_credit(packet: &mut [u8], credit: Option<u16>) {
        packet[3] |= flags::CREDIT;
        if let Some(credit) = credit {
            packet[6..8].copy_from_slice(&credit.to_le_bytes());
        }
    }

    /// The header of a call or a result (as `kind` says) that contains its whole message, as nearly all packets do, in
    /// fewer steps than [`parse`](Self::parse). `None` for any other packet, for one with flags, and for bytes that are
    /// no packet.
    #[inline]
    pub fn parse_whole(kind: Kind, packet: &[u8]) -> Option<Self> {
        let bytes = packet.first_chunk::<HEADER_LEN>()?;
        if bytes[..4] != [MAGIC, VERSION, kind as u8, 0] {
            return None;
        }
        let header = Self::of_kind(kind, bytes);
        // Other kinds have another word in place of the length.
        let is_message = matches!(kind, Kind::Call | Kind::Result);
        let room = (packet.len() - HEADER_LEN).min(PACKET_DATA);
        (is_message && header.offset == 0 && header.message_len as usize <= room).then_some(header)
    }

    /// Reads the header alone, as on a byte stream, where the payload follows and no part has the flag
    /// [`SIZED`](flags::SIZED).
    ///
    /// # Errors
    /// Wrong magic, version, kind or flags.
    #[inline]
    pub fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        Ok(Self::of_kind(Self::kind_of(bytes, 0)?, bytes))
    }

    /// Reads the header of a truncated datagram, as an ICMP error quotes it.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub fn from_beginning(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let header = Self::of_kind(Self::kind_of(bytes, flags::SIZED)?, bytes);
        let is_sized = bytes[3] & flags::SIZED != 0;
        Ok(Self { offset: if is_sized { 0 } else { header.offset }, ..header })
    }

    /// Magic, version, kind and flags in one load: assembled from single bytes they take a dozen instructions.
    #[inline]
    fn first_word(bytes: &[u8; HEADER_LEN]) -> u32 {
        u32::from_le_bytes(*bytes.first_chunk().expect("a header has more than four bytes"))
    }

    /// The kind of a packet of this version, if all its flags are in `known` or may be ignored. Also accepts a list of
    /// versions, which all versions can read.
    #[inline]
    fn kind_of(bytes: &[u8; HEADER_LEN], known: u8) -> Result<Kind, HeaderError> {
        let [magic, version, kind, flags] = Self::first_word(bytes).to_le_bytes();
        if magic != MAGIC {
            return Err(HeaderError::Magic(magic));
        }
        if kind == Kind::Versions as u8 {
            return Ok(Kind::Versions);
        }
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let unknown = flags & flags::CRITICAL & !known;
        if unknown != 0 {
            return Err(HeaderError::Flags(unknown));
        }
        Kind::from_byte(kind).ok_or(HeaderError::Kind(kind))
    }

    /// The fields of a header of that kind.
    #[inline]
    pub(crate) fn of_kind(kind: Kind, bytes: &[u8; HEADER_LEN]) -> Self {
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        Self {
            kind,
            lane: LaneId((word(0) >> 32) as u16),
            procedure: (word(0) >> 48) as u16,
            binding: BindingId(word(1)),
            number: CallNumber(word(2) as u32),
            message_len: (word(2) >> 32) as u32,
            offset: word(3) as u32,
            time: (word(3) >> 32) as u32,
        }
    }

    /// Bytes of payload behind this header, if one packet carries at most `fragment` of them.
    ///
    /// # Errors
    /// [`HeaderError::OffsetBeyondMessage`].
    #[inline]
    pub fn payload_len(&self, fragment: usize) -> Result<usize, HeaderError> {
        if self.has_word() {
            return Ok(0);
        }
        if self.kind == Kind::Data {
            return Data::payload_len(self).ok_or(HeaderError::Pipe);
        }
        if self.kind == Kind::Receipt && self.offset > 0 {
            PipeReceipt::of(self).ok_or(HeaderError::Pipe)?;
            return Ok(fragment.min(self.message_len as usize));
        }
        match self.message_len.checked_sub(self.offset) {
            Some(rest) => Ok(fragment.min(rest as usize)),
            None => Err(HeaderError::OffsetBeyondMessage),
        }
    }

    /// The header as bytes.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        Template::new(self.kind, self.binding, self.lane).stamp(
            &mut bytes,
            self.procedure,
            self.number,
            (self.message_len, self.offset),
            self.time,
        );
        bytes
    }

    /// Whether this kind has no payload, and another word in place of the length of the message and the offset.
    #[inline]
    fn has_word(&self) -> bool {
        match self.kind {
            Kind::Challenge | Kind::Proof | Kind::Versions => true,
            Kind::Refusal => self.time == RefusalCode::UnknownBinding.code(),
            _ => false,
        }
    }

    fn word(&self) -> u64 {
        u64::from(self.message_len) | u64::from(self.offset) << 32
    }

    fn with_word(self, word: u64) -> Self {
        Self { message_len: word as u32, offset: (word >> 32) as u32, ..self }
    }

    /// The cookie that this packet carries, if it is of a kind that does.
    pub fn challenge(&self) -> Option<Challenge> {
        matches!(self.kind, Kind::Challenge | Kind::Proof).then(|| Challenge(self.word()))
    }

    /// The incarnation of the server, if this is its refusal of a packet on an unknown binding.
    pub fn incarnation(&self) -> Option<u64> {
        (self.kind == Kind::Refusal && self.has_word()).then(|| self.word())
    }

    /// The refusal of the packet with this header because its binding is unknown. `incarnation` is that of the server,
    /// which has been up for at least `up_s` whole seconds.
    #[must_use]
    pub fn unknown_binding(&self, incarnation: u64, up_s: u16) -> Self {
        let refusal = Self::bare(Kind::Refusal, self.binding, self.lane, self.number);
        let time = RefusalCode::UnknownBinding.code();
        Self { time, procedure: up_s, ..refusal }.with_word(incarnation)
    }

    /// This header with a cookie in it, as a challenge or a proof.
    ///
    /// # Panics
    /// If `kind` is neither.
    pub fn with_challenge(self, kind: Kind, Challenge(cookie): Challenge) -> Self {
        assert!(matches!(kind, Kind::Challenge | Kind::Proof), "only challenges and proofs carry a cookie");
        Self { kind, ..self }.with_word(cookie)
    }
}

/// A cookie that proves to a server, which has stored nothing, that a peer receives at the address from which it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge(pub u64);

/// The fields of a header that stay the same for all calls of one lane, filled in at bind time (Peregrine §3.2).
#[derive(Clone, Copy, Debug)]
pub struct Template {
    first: u64,
    binding: u64,
}

impl Template {
    /// Writes the header of a part: the `len` bytes from `offset` on, of a message of `message_len` bytes. For
    /// datagrams only: on a byte stream nothing is padded, and a fragment has the header of its message with its
    /// offset.
    ///
    /// `time` is the time word of a single packet if the offset is 0, and the number of the transmission otherwise.
    ///
    /// # Panics
    /// If the offset is not 0 and `len` is more than 65,535, which no datagram can carry.
    #[inline]
    pub fn stamp_part(
        &self,
        packet: &mut [u8; HEADER_LEN],
        procedure: u16,
        number: CallNumber,
        message_len: u32,
        (offset, len): (u32, u32),
        time: u32,
    ) {
        if offset == 0 {
            let sized = Self { first: self.first | u64::from(flags::SIZED) << 24, ..*self };
            return sized.stamp(packet, procedure, number, (message_len, len), time);
        }
        let len = u16::try_from(len).expect("datagrams are shorter than 64 KiB");
        self.stamp(packet, len, number, (message_len, offset), time);
    }

    /// Prepares the header fields of packets of one kind on one lane.
    pub fn new(kind: Kind, binding: BindingId, lane: LaneId) -> Self {
        let [low, high] = lane.0.to_le_bytes();
        Self {
            first: u64::from_le_bytes([MAGIC, VERSION, kind as u8, 0, low, high, 0, 0]),
            binding: binding.0,
        }
    }

    /// Writes a header: the prepared words and the four fields that change. `message_len_offset` is the length of the
    /// whole message and the offset of this packet's payload in it.
    #[inline]
    pub fn stamp(
        &self,
        packet: &mut [u8; HEADER_LEN],
        procedure: u16,
        number: CallNumber,
        message_len_offset: (u32, u32),
        time: u32,
    ) {
        let (message_len, offset) = message_len_offset;
        let words = [
            self.first | u64::from(procedure) << 48,
            self.binding,
            u64::from(number.0) | u64::from(message_len) << 32,
            u64::from(offset) | u64::from(time) << 32,
        ];
        for (bytes, word) in packet.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

#[cfg(test)]
#[path = "header/tests.rs"]
mod tests;
