//! The Ethernet frame, which carries one packet or several small ones.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0–5, 6–11 | hardware addresses of receiver and sender | IEEE 802.3 §3.2 |
//! | 12–13 | EtherType | big-endian, as all of Ethernet |
//! | 14–15, 16–17 | ports of receiver and sender | little-endian from here on, as in the packet |
//! | 18–19 | length of the packet in 15 bits; the highest bit says that there are several | bytes behind it are padding |
//! | 20–23 | CRC-32C, or 0 if the sender has not computed it | |
//! | 24– | the packet | |
//!
//! Several packets lie one behind the other. All are of one length but the last, which may be shorter, and that
//! length is in two bytes behind them. The frame's length counts the packets and these two bytes. A frame costs
//! about a microsecond, however little it carries.
//!
//! The ten bytes behind the Ethernet header align the packet to 8 bytes. The checksum covers both ports, the
//! length, two bytes of zeros and all that the length counts, but not the hardware addresses, which a bridge may translate. A
//! computed checksum of 0 travels as 0xFFFF_FFFF, as UDP has it (RFC 768). It is end to end: the frame check
//! sequence of Ethernet is verified and removed by the network controller, and controllers "occasionally make
//! errors after checking" it (Firefly §4.2.4).
//!
//! A frame has at least [`MIN_FRAME_LEN`] bytes. The sender adds zeros, because a controller that pads
//! shorter frames may add whatever its memory holds.

use crate::address::{Address, Mac};
use std::fmt;
use stoop_net::crc::Crc32c;
use stoop_net::packets::Segments;

/// Bytes of the Ethernet header.
pub const ETHERNET_HEADER_LEN: usize = 14;
/// Bytes between the Ethernet header and the packet.
pub const PREFIX_LEN: usize = 10;
/// Bytes of a frame before the packet.
pub const OVERHEAD: usize = ETHERNET_HEADER_LEN + PREFIX_LEN;
/// Bytes of the shortest frame, without the check sequence of four bytes (IEEE 802.3 §3.2.8).
pub const MIN_FRAME_LEN: usize = 60;

/// Bytes of the longest packet.
pub const LARGEST_PACKET: usize = 0x7fff;
/// In the length of a frame: it carries several packets.
const SEVERAL: u16 = 0x8000;
/// Bytes behind several packets.
const TRAILER_LEN: usize = 2;

const _: () = assert!(OVERHEAD.is_multiple_of(8), "the packet is aligned");

/// The EtherType of a frame: which protocol it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(u16);

impl EtherType {
    /// The first of the two that are set aside for local experiments (IEEE 802-2014 §9.2.3).
    pub const LOCAL_EXPERIMENTAL_1: Self = Self(0x88b5);
    /// The second of them.
    pub const LOCAL_EXPERIMENTAL_2: Self = Self(0x88b6);

    /// `None` if the number is a length (IEEE 802.3 §3.2.6), or belongs to a protocol that the kernel
    /// handles: IPv4, ARP, IPv6 or VLAN tags.
    pub const fn new(number: u16) -> Option<Self> {
        match number {
            0..0x0600 | 0x0800 | 0x0806 | 0x86dd | 0x8100 | 0x88a8 => None,
            _ => Some(Self(number)),
        }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl Default for EtherType {
    fn default() -> Self {
        Self::LOCAL_EXPERIMENTAL_1
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// Whether a sender computes the checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// It does.
    #[default]
    Computed,
    /// It sends 0.
    Omitted,
}

/// The first bytes of all frames from one endpoint to another (Peregrine §3.2: the fields that are known at
/// bind time are filled in once).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    bytes: [u8; OVERHEAD],
    checksum: Checksum,
}

impl Template {
    /// The template for frames `from` one endpoint `to` another.
    pub fn new(from: Address, to: Address, ether_type: EtherType, checksum: Checksum) -> Self {
        let mut bytes = [0; OVERHEAD];
        bytes[0..6].copy_from_slice(&to.mac.0);
        bytes[6..12].copy_from_slice(&from.mac.0);
        bytes[12..14].copy_from_slice(&ether_type.0.to_be_bytes());
        bytes[14..16].copy_from_slice(&to.port.to_le_bytes());
        bytes[16..18].copy_from_slice(&from.port.to_le_bytes());
        Self { bytes, checksum }
    }

    /// The endpoint to which the frames go.
    pub fn to(&self) -> Address {
        Address { mac: mac(&self.bytes, 0), port: number(&self.bytes, 14) }
    }

    /// The bytes before a packet.
    ///
    /// # Panics
    ///
    /// If the packet is longer than [`LARGEST_PACKET`].
    #[inline]
    pub fn header(&self, packet: &[u8]) -> [u8; OVERHEAD] {
        self.header_of(packet, 0)
    }

    #[inline]
    fn header_of(&self, content: &[u8], flags: u16) -> [u8; OVERHEAD] {
        assert!(content.len() <= LARGEST_PACKET, "a frame has no room for such a packet");
        let mut header = self.bytes;
        header[18..20].copy_from_slice(&(content.len() as u16 | flags).to_le_bytes());
        if self.checksum == Checksum::Computed {
            let checksum = checksum(&header, content, &[]);
            header[20..24].copy_from_slice(&checksum.to_le_bytes());
        }
        header
    }

    /// Completes a frame whose packet of `packet_len` bytes has been written behind the first [`OVERHEAD`]
    /// bytes. Returns the length of the frame.
    ///
    /// # Panics
    ///
    /// If `frame` is shorter than [`frame_len`] of the packet.
    #[inline]
    pub fn complete(&self, frame: &mut [u8], packet_len: usize) -> usize {
        self.complete_with(frame, packet_len, 0)
    }

    /// As [`complete`](Self::complete), for packets one behind the other.
    ///
    /// # Panics
    ///
    /// If `frame` is shorter than [`frame_len`] of their [`content_len`], or they are longer than [`LARGEST_PACKET`].
    #[inline]
    pub fn complete_several(&self, frame: &mut [u8], packets: Segments) -> usize {
        if packets.count() == 1 {
            return self.complete(frame, packets.len);
        }
        let segment = u16::try_from(packets.segment).expect("a packet is no longer than a frame");
        let end = OVERHEAD + packets.len;
        frame[end..end + TRAILER_LEN].copy_from_slice(&segment.to_le_bytes());
        self.complete_with(frame, content_len(packets), SEVERAL)
    }

    #[inline]
    fn complete_with(&self, frame: &mut [u8], content_len: usize, flags: u16) -> usize {
        let end = OVERHEAD + content_len;
        let len = frame_len(content_len);
        frame[end..len].fill(0);
        let header = self.header_of(&frame[OVERHEAD..end], flags);
        frame[..OVERHEAD].copy_from_slice(&header);
        len
    }
}

/// Bytes of one or several packets in a frame.
#[inline]
pub fn content_len(packets: Segments) -> usize {
    packets.len + if packets.count() > 1 { TRAILER_LEN } else { 0 }
}

/// Packets of `segment` bytes that a frame for `largest` bytes carries together: at least one.
pub(crate) fn together(segment: usize, largest: usize) -> usize {
    (largest.saturating_sub(TRAILER_LEN) / segment.max(1)).max(1)
}

/// Bytes of the frame that carries a packet of `packet_len` bytes.
#[inline]
pub const fn frame_len(packet_len: usize) -> usize {
    let len = OVERHEAD + packet_len;
    if len < MIN_FRAME_LEN { MIN_FRAME_LEN } else { len }
}

/// A frame that has arrived. Its checksum has not been verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    header: &'a [u8; OVERHEAD],
    packets: &'a [u8],
    /// Behind several packets.
    trailer: &'a [u8],
    segment: usize,
}

/// Why a frame carries no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// It ends before the packet does, or carries none, or its packets are not as many as it says.
    Truncated,
    /// Its EtherType is another one.
    OtherProtocol,
    /// It goes to more than one interface, or comes from no single one, or one of its ports is 0.
    BadAddress,
    /// Its checksum does not match.
    Corrupt,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the frame ends before its packet does",
            Self::OtherProtocol => "the frame has another EtherType",
            Self::BadAddress => "the frame has a group address or no port",
            Self::Corrupt => "the frame's checksum does not match",
        })
    }
}

impl std::error::Error for FrameError {}

impl<'a> Frame<'a> {
    /// Finds the packet in a frame.
    ///
    /// # Errors
    ///
    /// All but [`FrameError::Corrupt`].
    #[inline]
    pub fn parse(frame: &'a [u8], ether_type: EtherType) -> Result<Self, FrameError> {
        let frame = Self::parse_for_any(frame, ether_type)?;
        let (to, from) = (frame.to(), frame.from());
        if to.mac.is_group() || from.mac.is_group() || to.port == 0 || from.port == 0 {
            return Err(FrameError::BadAddress);
        }
        Ok(frame)
    }

    /// As [`parse`](Self::parse), whatever the addresses and ports are.
    #[inline]
    pub(crate) fn parse_for_any(frame: &'a [u8], ether_type: EtherType) -> Result<Self, FrameError> {
        let (header, rest) = frame.split_first_chunk::<OVERHEAD>().ok_or(FrameError::Truncated)?;
        if header[12..14] != ether_type.0.to_be_bytes() {
            return Err(FrameError::OtherProtocol);
        }
        let len = number(header, 18);
        let content = rest.get(..usize::from(len & !SEVERAL)).ok_or(FrameError::Truncated)?;
        let frame = match len & SEVERAL {
            0 => Self { header, packets: content, trailer: &[], segment: content.len() },
            _ => Self::of_several(header, content)?,
        };
        match frame.packets.is_empty() {
            true => Err(FrameError::Truncated),
            false => Ok(frame),
        }
    }

    fn of_several(header: &'a [u8; OVERHEAD], content: &'a [u8]) -> Result<Self, FrameError> {
        let (packets, trailer) = content.split_last_chunk::<TRAILER_LEN>().ok_or(FrameError::Truncated)?;
        let segment = usize::from(u16::from_le_bytes(*trailer));
        if segment == 0 || segment >= packets.len() {
            return Err(FrameError::Truncated);
        }
        Ok(Self { header, packets, trailer, segment })
    }

    /// The endpoint that has sent it.
    #[inline]
    pub fn from(&self) -> Address {
        Address { mac: mac(self.header, 6), port: number(self.header, 16) }
    }

    /// The endpoint to which it goes.
    #[inline]
    pub fn to(&self) -> Address {
        Address { mac: mac(self.header, 0), port: number(self.header, 14) }
    }

    /// The packet, or all of them.
    #[inline]
    pub fn packets(&self) -> &'a [u8] {
        self.packets
    }

    /// Bytes of each packet; the last may be shorter.
    #[inline]
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// Verifies the packets where they are, and returns as [`copy_to`](Self::copy_to) does.
    pub(crate) fn verify(&self) -> Result<Checksum, FrameError> {
        self.verified(self.packets)
    }

    /// Copies the packets to the beginning of `buffer` and verifies the copy. Returns whether the sender has
    /// computed a checksum at all.
    ///
    /// # Errors
    ///
    /// [`FrameError::Corrupt`]; the content of the buffer is then arbitrary.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the packets.
    #[inline]
    pub fn copy_to(&self, buffer: &mut [u8]) -> Result<Checksum, FrameError> {
        let copy = &mut buffer[..self.packets.len()];
        copy.copy_from_slice(self.packets);
        self.verified(copy)
    }

    #[inline]
    fn verified(&self, packets: &[u8]) -> Result<Checksum, FrameError> {
        let sent = u32::from_le_bytes([self.header[20], self.header[21], self.header[22], self.header[23]]);
        if sent == 0 {
            Ok(Checksum::Omitted)
        } else if sent == checksum(self.header, packets, self.trailer) {
            Ok(Checksum::Computed)
        } else {
            Err(FrameError::Corrupt)
        }
    }
}

/// CRC-32C over ports, length and content, never 0.
#[inline]
fn checksum(header: &[u8; OVERHEAD], packets: &[u8], trailer: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    // Eight bytes, because the processor takes eight at once.
    let [.., p0, p1, p2, p3, l0, l1, _, _, _, _] = *header;
    crc.update(&[p0, p1, p2, p3, l0, l1, 0, 0]);
    crc.update(packets);
    if !trailer.is_empty() {
        crc.update(trailer);
    }
    match crc.value() {
        0 => u32::MAX,
        value => value,
    }
}

fn mac(header: &[u8; OVERHEAD], at: usize) -> Mac {
    Mac(header[at..at + 6].try_into().expect("six bytes"))
}

fn number(header: &[u8; OVERHEAD], at: usize) -> u16 {
    u16::from_le_bytes([header[at], header[at + 1]])
}

#[cfg(test)]
mod tests;
