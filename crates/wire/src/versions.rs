//! The packet that tells a peer of another version which versions are spoken. Its format is the same in all versions.

use crate::{HEADER_LEN, Header, Kind, MAGIC, VERSION};
use core::fmt;

/// The versions that a peer speaks, as a packet of kind [`Versions`](Kind::Versions) lists them.
///
/// The packet is a bare header: its sender's version in byte 1; bytes 4–23 copied from the packet that it answers,
/// which identifies that packet; the versions in bytes 24–31, one byte each. A 0 ends the list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Versions([u8; 8]);

impl Versions {
    /// The answer to a packet of another version; `None` for any other packet, and for one that is itself such an
    /// answer.
    pub fn answer_to(packet: &[u8]) -> Option<[u8; HEADER_LEN]> {
        let packet: &[u8; HEADER_LEN] = packet.first_chunk()?;
        let [magic, version, kind, ..] = *packet;
        if magic != MAGIC || version == VERSION || kind == Kind::Versions as u8 {
            return None;
        }
        let mut answer = *packet;
        answer[..4].copy_from_slice(&[MAGIC, VERSION, Kind::Versions as u8, 0]);
        answer[24..].copy_from_slice(&[VERSION, 0, 0, 0, 0, 0, 0, 0]);
        Some(answer)
    }

    /// The list in the packet with this header, if it is a list of versions without this one: a peer that speaks this
    /// version has no reason to send a list.
    pub fn in_packet(header: &Header) -> Option<Self> {
        let list = u64::from(header.offset) | u64::from(header.time) << 32;
        let versions = Self(list.to_le_bytes());
        let speaks_ours = versions.iter().any(|version| version == VERSION);
        (header.kind == Kind::Versions && !speaks_ours).then_some(versions)
    }

    /// Each version.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        self.0.into_iter().take_while(|version| *version != 0)
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Versions {
    /// Such as `2, 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, version) in self.iter().enumerate() {
            write!(f, "{}{version}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BindingId, CallNumber, LaneId};
    use alloc::format;

    fn of_version(version: u8, kind: u8) -> [u8; HEADER_LEN] {
        let header = Header {
            message_len: 1000,
            procedure: 3,
            ..Header::bare(Kind::Call, BindingId(0x1122_3344), LaneId(5), CallNumber(6))
        };
        let mut bytes = header.to_bytes();
        (bytes[1], bytes[2], bytes[3]) = (version, kind, 0xff);
        bytes
    }

    #[test]
    fn a_packet_of_another_version_is_answered_for_every_kind() {
        for kind in (0..=255).filter(|kind| *kind != Kind::Versions as u8) {
            let asked = of_version(2, kind);
            let answer = Versions::answer_to(&asked).expect("it is of another version");
            assert_eq!(answer[..4], [MAGIC, VERSION, 18, 0]);
            assert_eq!(answer[4..24], asked[4..24]);
            assert_eq!(answer[24..], [1, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn packets_of_this_version_lists_and_other_datagrams_are_not_answered() {
        assert_eq!(Versions::answer_to(&of_version(VERSION, 3)), None);
        assert_eq!(Versions::answer_to(&of_version(2, Kind::Versions as u8)), None);
        assert_eq!(Versions::answer_to(&of_version(2, 3)[..31]), None);
        let mut other = of_version(2, 3);
        other[0] = b'G';
        assert_eq!(Versions::answer_to(&other), None);
    }

    #[test]
    fn a_list_is_read_for_every_version_and_flags_of_its_packet() {
        for version in [0, 1, 2, 255] {
            let mut packet = of_version(version, Kind::Versions as u8);
            packet[24..].copy_from_slice(&[2, 7, 0, 1, 1, 1, 1, 1]);
            let (header, payload) = Header::parse(&packet).unwrap();
            assert_eq!(
                (header.binding, header.number, payload),
                (BindingId(0x1122_3344), CallNumber(6), &[][..])
            );
            let versions = Versions::in_packet(&header).unwrap();
            assert_eq!(format!("{versions} {versions:?}"), "2, 7 [2, 7]");
            assert_eq!(Header::from_bytes(&packet), Ok(header));
        }
    }

    #[test]
    fn a_list_that_contains_this_version_is_ignored() {
        let mut packet = of_version(2, Kind::Versions as u8);
        packet[24..].copy_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Versions::in_packet(&Header::parse(&packet).unwrap().0), None);
        let call = Header::bare(Kind::Call, BindingId(1), LaneId(1), CallNumber(1));
        assert_eq!(Versions::in_packet(&call), None);
    }
}
