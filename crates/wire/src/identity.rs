//! The numbers that name a call: of its binding, of its lane, and its own.

use crate::{CHECKSUM_LEN, HEADER_LEN, PACKET_DATA, PACKET_DATA_CHECKED, PACKET_DATA_SEALED, SEAL_LEN};
use core::fmt;

/// The number of a binding: 64 bits drawn by the server at bind time. It is a capability (Peregrine §3.1): only a host
/// on the path between the two can learn it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(pub u64);

impl BindingId {
    /// The number before there is a binding. It is never given out.
    pub const NONE: Self = Self(0);

    /// Bit of a binding number that says that each packet has a checksum behind its data.
    pub const CHECKSUM: u64 = 1 << 63;

    /// The binding number in a header.
    #[inline]
    pub fn of_header(header: &[u8; HEADER_LEN]) -> Self {
        let [.., binding, _, _] = header.as_chunks::<8>().0 else { unreachable!("a header has four words") };
        Self(u64::from_le_bytes(*binding))
    }

    /// Bit of a binding number that says that each packet is sealed, if [`CHECKSUM`](Self::CHECKSUM) is not set.
    pub const SEALED: u64 = 1 << 62;

    /// Whether each packet whose header has this number has a checksum behind its data.
    #[inline]
    pub fn has_checksum(self) -> bool {
        self.0 & Self::CHECKSUM != 0
    }

    /// Whether each packet whose header has this number is sealed: its data is encrypted, and a number and a tag follow.
    #[inline]
    pub fn is_sealed(self) -> bool {
        self.0 & (Self::CHECKSUM | Self::SEALED) == Self::SEALED
    }

    /// Whether each packet whose header has this number has a trailer behind its data: a checksum, or what seals it.
    #[inline]
    pub fn has_trailer(self) -> bool {
        self.0 & (Self::CHECKSUM | Self::SEALED) != 0
    }

    /// The same number, for packets that have a checksum or have none, and are not sealed.
    #[must_use]
    pub fn with_checksum(self, checksum: bool) -> Self {
        Self(self.0 & !(Self::CHECKSUM | Self::SEALED) | if checksum { Self::CHECKSUM } else { 0 })
    }

    /// The same number, for packets with the trailer of `other`.
    #[must_use]
    pub fn like(self, other: Self) -> Self {
        match other.is_sealed() {
            true => self.sealed(),
            false => self.with_checksum(other.has_checksum()),
        }
    }

    /// The same number, for packets that are sealed.
    #[must_use]
    pub fn sealed(self) -> Self {
        Self(self.0 & !Self::CHECKSUM | Self::SEALED)
    }

    /// Bytes of the trailer behind the data of each packet: of a checksum, of what seals a packet, or 0 if there is none.
    #[inline]
    pub fn trailer_len(self) -> usize {
        match (self.has_checksum(), self.has_trailer()) {
            (true, _) => CHECKSUM_LEN,
            (false, true) => SEAL_LEN,
            (false, false) => 0,
        }
    }

    /// Bytes of a message that fit into one packet on a standard Ethernet.
    #[inline]
    pub fn packet_data(self) -> usize {
        match (self.has_checksum(), self.has_trailer()) {
            (true, _) => PACKET_DATA_CHECKED,
            (false, true) => PACKET_DATA_SEALED,
            (false, false) => PACKET_DATA,
        }
    }

    /// Bytes of a message that fit into a packet of at most so many bytes.
    pub fn data_in(self, packet: usize) -> usize {
        packet.saturating_sub(HEADER_LEN + PACKET_DATA - self.packet_data())
    }
}

impl fmt::Debug for BindingId {
    /// Four of its sixteen digits, so that a log does not give the capability away.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BindingId({:04x}…)", self.0 >> 48)
    }
}

/// One of a binding's lanes: what Birrell & Nelson call an activity, with at most one outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u16);

impl LaneId {
    /// The lane of a packet that has not been parsed yet: a receiver for many lanes has to find the lane first. `None`
    /// if the packet is too short.
    #[inline]
    pub fn of_packet(packet: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_LEN] = packet.first_chunk()?;
        Some(Self(u16::from_le_bytes([header[4], header[5]])))
    }
}

/// Numbers the calls of one lane. The first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallNumber(pub u32);

impl CallNumber {
    /// Before the first call.
    pub const ZERO: Self = Self(0);

    /// The number of the lane's next call.
    #[inline]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether `self` was given out after `other`, by serial arithmetic (RFC 1982): correct as long as fewer than 2³¹
    /// calls are between them.
    #[inline]
    pub fn is_after(self, other: Self) -> bool {
        let distance = self.0.wrapping_sub(other.0);
        distance != 0 && distance < 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_has_a_checksum_or_is_sealed_or_neither() {
        for high in 0..4 {
            let id = BindingId(high << 62 | 7);
            for (id, checked, sealed, len, data) in [
                (id.with_checksum(false), false, false, 0, 1440),
                (id.with_checksum(true), true, false, 4, 1432),
                (id.sealed(), false, true, 24, 1416),
            ] {
                assert_eq!((id.has_checksum(), id.is_sealed()), (checked, sealed));
                assert_eq!((id.has_trailer(), id.trailer_len()), (checked || sealed, len));
                assert_eq!((id.packet_data(), id.data_in(1472)), (data, data));
                assert_eq!(id.0 << 2, 28, "the other bits are as they were");
            }
        }
    }
}
