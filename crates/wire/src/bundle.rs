//! Bundles: packets of one sealed binding that are sealed together.
//!
//! Short packets that leave together are one packet on the network, with a header of its own and the packets as its data: to seal a thousand
//! bytes takes little longer than to seal none. [`flags::BUNDLE`] marks it. A receiver opens it, and then handles the packets in it as if
//! each had been sealed by itself.

use crate::{BindingId, HEADER_LEN, Kind, PACKET_DATA_SEALED, SEAL_LEN, flags};

/// How the packets of a bundle lie in its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Bytes from one packet to the next. The last may be shorter.
    pub apart: usize,
    /// Bytes of all of them.
    pub len: usize,
}

impl Bundle {
    /// How many packets that lie so many bytes apart a bundle has at most; 0 or 1: they are not bundled.
    #[inline]
    pub fn most(apart: usize) -> usize {
        PACKET_DATA_SEALED / apart.max(1)
    }

    /// The header of a bundle of these packets, `apart` bytes apart: binding, lane and number of the first of them, the flag, `apart` in place
    /// of the procedure, and the length of the data. Its kind is [`Call`](Kind::Call) from a caller, [`Result`](Kind::Result) from a server. A
    /// server that does not know the binding answers it as the first call.
    ///
    /// # Panics
    /// If there is not one whole packet, or they are more than [`PACKET_DATA_SEALED`] bytes.
    pub fn header(kind: Kind, packets: &[u8], apart: usize) -> [u8; HEADER_LEN] {
        assert!(packets.len() <= PACKET_DATA_SEALED, "a bundle is one packet");
        let mut header = *packets.first_chunk::<HEADER_LEN>().expect("a bundle has a packet");
        (header[2], header[3]) = (kind as u8, flags::BUNDLE);
        header[6..8].copy_from_slice(&(apart as u16).to_le_bytes());
        header[20..24].copy_from_slice(&(packets.len() as u32).to_le_bytes());
        header[24..].fill(0);
        header
    }

    /// Whether a packet says that it is a bundle.
    #[inline]
    pub fn is_one(packet: &[u8]) -> bool {
        packet.get(3).is_some_and(|byte| byte & flags::BUNDLE != 0)
    }

    /// The bundle in a packet that has been opened. `None`: it is none, or has packets of another binding, which its seal does not protect.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (header, rest) = packet.split_first_chunk::<HEADER_LEN>()?;
        let is_bundled = [Kind::Call as u8, Kind::Result as u8].contains(&header[2]);
        if !Self::is_one(packet) || !is_bundled || !BindingId::of_header(header).is_sealed() {
            return None;
        }
        let apart = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let len = u32::from_le_bytes(header[20..24].try_into().expect("four bytes")) as usize;
        let packets = rest.get(..len).filter(|_| apart >= HEADER_LEN && rest.len() >= len + SEAL_LEN)?;
        let is_own = |packet: &[u8]| packet.get(8..16) == Some(&header[8..16]);
        packets.chunks(apart).all(is_own).then_some(Self { apart, len })
    }

    /// The packets of an opened packet, which lie behind its header; or the packet itself, if it is no bundle.
    #[inline]
    pub fn packets_in(packet: &[u8]) -> core::slice::Chunks<'_, u8> {
        match Self::is_one(packet).then(|| Self::of(packet)).flatten() {
            Some(Self { apart, len }) => packet[HEADER_LEN..HEADER_LEN + len].chunks(apart),
            None => packet.chunks(packet.len().max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallNumber, Header, LaneId};
    use alloc::vec::Vec;

    const SEALED: BindingId = BindingId(0x5122_3344_5566_7788);

    /// An opened bundle of calls of that binding with two bytes of arguments.
    fn bundle(binding: BindingId, calls: u16) -> Vec<u8> {
        let mut packets = Vec::new();
        for lane in 0..calls {
            let header =
                Header { message_len: 2, ..Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1)) };
            packets.extend(header.to_bytes());
            packets.extend([lane as u8; 8]);
        }
        [&Bundle::header(Kind::Call, &packets, 40)[..], &packets, &[0; SEAL_LEN]].concat()
    }

    #[test]
    fn a_bundle_has_the_packets_that_were_put_into_it() {
        let packet = bundle(SEALED, 3);
        assert_eq!(Bundle::of(&packet), Some(Bundle { apart: 40, len: 120 }));
        let packets: Vec<_> = Bundle::packets_in(&packet).collect();
        assert_eq!(packets.len(), 3);
        for (lane, packet) in packets.into_iter().enumerate() {
            let (header, arguments) = Header::parse(packet).unwrap();
            assert_eq!((usize::from(header.lane.0), arguments), (lane, &[lane as u8; 2][..]));
        }
        assert_eq!((Bundle::most(32), Bundle::most(708), Bundle::most(709)), (44, 2, 1));
    }

    #[test]
    fn a_packet_that_is_no_bundle_is_itself() {
        let packet = bundle(SEALED, 1);
        let packet = &packet[HEADER_LEN..];
        assert!(Bundle::packets_in(packet).eq([packet]));
        assert!(Bundle::packets_in(&[]).next().is_none());
    }

    #[test]
    fn nothing_else_is_a_bundle() {
        let change = |at: usize, byte: u8| {
            let mut packet = bundle(SEALED, 3);
            packet[at] = byte;
            Bundle::of(&packet)
        };
        assert!(change(2, Kind::Result as u8).is_some());
        for (at, byte) in [(2, Kind::Versions as u8), (3, 0), (6, 31), (20, 121), (HEADER_LEN + 40 + 8, 0)] {
            assert_eq!(change(at, byte), None, "byte {at}");
        }
        assert_eq!(Bundle::of(&bundle(BindingId(7), 3)), None, "of a plain binding");
        let packet = bundle(SEALED, 3);
        for len in 0..packet.len() {
            assert_eq!(Bundle::of(&packet[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn the_exchange_never_takes_a_bundle_for_a_packet() {
        let packet = bundle(SEALED, 3);
        assert!(Header::parse(&packet).is_err());
        assert_eq!(Header::parse_whole(Kind::Call, &packet), None);
        let first: [u8; HEADER_LEN] = *packet.first_chunk().unwrap();
        assert!(Header::from_bytes(&first).is_err());
    }
}
