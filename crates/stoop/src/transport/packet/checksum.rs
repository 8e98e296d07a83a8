//! The checksum behind the data of each packet of a binding that has it: CRC-32C of header and data, four bytes.
//!
//! A bit in the number of the binding ([`BindingId::has_checksum`]) says that a packet has one: in both directions, for all kinds of
//! packets, also for bindings that a server does not know. So a receiver checks a packet without looking up its binding, and a packet
//! in which that bit is corrupted belongs to no binding. `docs/protocol.md` has the rules.
//!
//! The exchange ignores checksums: to it they are padding behind the data.

use crate::transport::packet::link::{CallerEndpoint, Sending};
use std::io;
use stoop_net::crc::crc32c;
use stoop_wire::{BindingId, CHECKSUM_LEN, HEADER_LEN, Header, Kind, MAX_DATAGRAM, VERSION};

/// Whether the header of this packet says that it has a checksum.
#[inline]
pub(crate) fn is_expected(packet: &[u8]) -> bool {
    packet.first_chunk::<HEADER_LEN>().is_some_and(says_so)
}

/// The same, of a header.
#[inline]
pub(crate) fn says_so(header: &[u8; HEADER_LEN]) -> bool {
    BindingId::of_header(header).has_checksum()
}

/// Whether the checksum of a datagram is there and right, or none is expected.
pub(crate) fn is_right(datagram: &[u8]) -> bool {
    // Another version may put it elsewhere; a packet that lists the versions of its sender has none.
    if !is_expected(datagram) || datagram[1] != VERSION {
        return true;
    }
    let Ok((_, payload)) = Header::parse(datagram) else { return false };
    let end = HEADER_LEN + payload.len();
    let (covered, behind) = datagram.split_at(end);
    behind.first_chunk().is_some_and(|checksum| crc32c(covered).to_le_bytes() == *checksum)
}

/// Spoils those packets that have wrong checksums, of packets that came together `segment` bytes apart. Returns their number.
pub(crate) fn strike_out(datagrams: &mut [u8], segment: usize) -> u64 {
    let mut struck = 0;
    for datagram in datagrams.chunks_mut(segment.max(1)) {
        if !is_right(datagram) {
            // No packet begins with 0.
            datagram[0] = 0;
            struck += 1;
        }
    }
    struck
}

/// Whether a packet that is to leave gets a checksum.
#[inline]
fn is_due(packet: &[u8]) -> bool {
    // A packet that lists our versions goes to a peer of another version, which may expect the checksum elsewhere.
    is_expected(packet) && packet[2] != Kind::Versions as u8
}

/// Bytes behind a packet that is to leave for its checksum, if it gets one.
#[inline]
pub(crate) fn room_for(packet: &[u8]) -> usize {
    if is_due(packet) { CHECKSUM_LEN } else { 0 }
}

/// Puts its checksum into a packet with room for it behind its data, if it gets one.
#[inline]
pub(crate) fn seal_framed(packet: &mut [u8]) {
    if is_due(packet) {
        let end = packet.len() - CHECKSUM_LEN;
        seal(packet, end);
    }
}

/// Puts the checksum of the last packet of a buffer, which begins there, behind it, if it has one.
pub(crate) fn append(packets: &mut Vec<u8>, start: usize) {
    let len = packets.len() - start;
    if is_due(&packets[start..]) {
        packets.resize(start + len + CHECKSUM_LEN, 0);
        seal(&mut packets[start..], len);
    }
}

/// Copies packets that are to leave together, `segment` bytes apart, with the checksums of those that have one. Returns the copies,
/// and how many bytes apart they are.
pub(crate) fn sealed_together(packets: &[u8], segment: usize) -> (Vec<u8>, usize) {
    let apart = (segment + CHECKSUM_LEN).next_multiple_of(8);
    let mut copies = Vec::with_capacity(packets.len().div_ceil(segment) * apart);
    for (packet, start) in packets.chunks(segment).zip((0..).step_by(apart)) {
        copies.resize(start, 0);
        let end = Header::parse(packet).map_or(packet.len(), |(_, payload)| HEADER_LEN + payload.len());
        copies.extend_from_slice(&packet[..end]);
        append(&mut copies, start);
    }
    (copies, apart)
}

/// Puts the checksum of the first `len` bytes behind them.
pub(crate) fn seal(packet: &mut [u8], len: usize) {
    let checksum = crc32c(&packet[..len]);
    packet[len..len + CHECKSUM_LEN].copy_from_slice(&checksum.to_le_bytes());
}

/// Passes the packet to `send`, with its checksum if it has one.
#[inline]
pub(crate) fn sealed<T>(packet: &[u8], send: impl FnOnce(&[u8]) -> T) -> T {
    if is_due(packet) { with_checksum(packet, send) } else { send(packet) }
}

#[cold]
#[inline(never)]
fn with_checksum<T>(packet: &[u8], send: impl FnOnce(&[u8]) -> T) -> T {
    let mut sealed = [0; MAX_DATAGRAM + CHECKSUM_LEN];
    let len = packet.len();
    sealed[..len].copy_from_slice(packet);
    seal(&mut sealed, len);
    send(&sealed[..len + CHECKSUM_LEN])
}

/// Sends one packet, with its checksum if it has one.
pub(crate) fn send(endpoint: &impl CallerEndpoint, packet: &[u8]) -> io::Result<Sending> {
    sealed(packet, |packet| endpoint.send(packet))
}

#[cfg(test)]
mod tests {
    use crate::transport::packet::checksum::*;
    use stoop_wire::{CallNumber, LaneId};

    fn packet(id: u64, kind: Kind, data: &[u8]) -> Vec<u8> {
        let header = Header::bare(kind, BindingId(id), LaneId(3), CallNumber(4));
        let header = Header { message_len: data.len() as u32, ..header };
        [&header.to_bytes()[..], data].concat()
    }

    const CHECKED: u64 = BindingId::CHECKSUM | 7;

    #[test]
    fn a_packet_with_a_flipped_bit_is_not_right_wherever_the_bit_is() {
        for kind in [Kind::Call, Kind::Bind, Kind::Probe, Kind::Cancel, Kind::Refusal] {
            let mut packet = sealed(&packet(CHECKED, kind, b"data"), <[u8]>::to_vec);
            assert!(is_right(&packet), "{kind:?}");
            for bit in 0..8 * packet.len() {
                packet[bit / 8] ^= 1 << (bit % 8);
                // Of another binding, which has none; or of a version of which nothing is known.
                let other = !is_expected(&packet) || (8..16).contains(&bit);
                assert!(other || !is_right(&packet), "{kind:?} with bit {bit} flipped");
                packet[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_packet_without_its_checksum_is_not_right() {
        let packet = packet(CHECKED, Kind::Call, b"data");
        for behind in [&[][..], &[0; 3], &[0; 4], &[0; 40]] {
            assert!(!is_right(&[&packet[..], behind].concat()), "{} bytes behind it", behind.len());
        }
    }

    #[test]
    fn padding_behind_a_checksum_is_no_part_of_it() {
        let packet = sealed(&packet(CHECKED, Kind::Result, b"data"), <[u8]>::to_vec);
        assert!(is_right(&[&packet[..], &[0xd7; 9]].concat()));
    }

    #[test]
    fn a_binding_without_checksums_gets_none_and_needs_none() {
        let packet = packet(7, Kind::Call, b"data");
        assert_eq!(sealed(&packet, <[u8]>::to_vec), packet);
        assert!(is_right(&packet) && is_right(&packet[..20]) && is_right(&[]));
    }

    #[test]
    fn a_packet_of_another_version_needs_none_and_none_is_sent_to_one() {
        let mut other = packet(CHECKED, Kind::Call, b"data");
        other[1] = VERSION + 1;
        assert!(is_right(&other));
        let versions = packet(CHECKED, Kind::Versions, &[]);
        assert_eq!(sealed(&versions, <[u8]>::len), HEADER_LEN);
        assert!(!is_right(&versions), "no peer of our own version sends it");
    }

    #[test]
    fn packets_that_leave_together_each_have_their_own() {
        let (one, two) = (packet(CHECKED, Kind::Call, b"ab"), packet(CHECKED, Kind::Call, &[5; 8]));
        let (plain, last) = (packet(7, Kind::Call, &[6; 8]), packet(CHECKED, Kind::Call, &[]));
        let padded = |packet: &[u8]| [packet, &vec![0; 40 - packet.len()]].concat();
        let together = [padded(&one), padded(&two), padded(&plain), last.clone()].concat();
        let (copies, apart) = sealed_together(&together, 40);
        assert_eq!(apart, 48);
        let copies: Vec<_> = copies.chunks(apart).collect();
        for (copy, packet) in copies.iter().zip([one, two, plain, last]) {
            assert!(is_right(copy) && copy.starts_with(&packet));
        }
        assert_eq!((copies.len(), copies[3].len()), (4, 36));
    }

    #[test]
    fn striking_out_spoils_packets_with_wrong_checksums_and_leaves_the_others() {
        let right = sealed(&packet(CHECKED, Kind::Call, b"data"), <[u8]>::to_vec);
        let mut wrong = right.clone();
        wrong[33] ^= 4;
        let mut together = [&right[..], &wrong, &right].concat();
        assert_eq!(strike_out(&mut together, right.len()), 1);
        let all: Vec<_> = together.chunks(right.len()).collect();
        assert!(all[0] == right && all[2] == right && Header::parse(all[1]).is_err());
    }

    #[test]
    fn framed_packets_are_sealed_where_they_have_room_for_it() {
        let room = |packet: Vec<u8>| [&packet[..], &[0; CHECKSUM_LEN]].concat();
        let mut framed =
            [room(packet(CHECKED, Kind::Receipt, &[1; 8])), room(packet(CHECKED, Kind::Receipt, &[2; 5]))]
                .concat();
        framed.chunks_mut(44).for_each(seal_framed);
        assert!(framed.chunks(44).all(is_right));
        let mut plain = packet(7, Kind::Receipt, &[1; 8]);
        seal_framed(&mut plain);
        assert_eq!(plain, packet(7, Kind::Receipt, &[1; 8]));
    }
}
