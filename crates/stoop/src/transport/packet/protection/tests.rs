use super::*;
use stoop_wire::{CHECKSUM_LEN, CallNumber, LaneId};

static CRC: std::sync::LazyLock<Protection> = std::sync::LazyLock::new(Protection::default);

fn packet(id: u64, kind: Kind, data: &[u8]) -> Vec<u8> {
    let header = Header::bare(kind, BindingId(id), LaneId(3), CallNumber(4));
    let header = Header { message_len: data.len() as u32, ..header };
    [&header.to_bytes()[..], data].concat()
}

fn is_right(packet: &[u8]) -> bool {
    CRC.open(&mut packet.to_vec())
}

const CHECKED: u64 = BindingId::CHECKSUM | 7;

#[test]
fn a_packet_with_a_flipped_bit_is_not_right_wherever_the_bit_is() {
    for kind in [Kind::Call, Kind::Bind, Kind::Probe, Kind::Cancel, Kind::Refusal] {
        let mut packet = CRC.protected(&packet(CHECKED, kind, b"data"), <[u8]>::to_vec).unwrap();
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
    let packet = CRC.protected(&packet(CHECKED, Kind::Result, b"data"), <[u8]>::to_vec).unwrap();
    assert!(is_right(&[&packet[..], &[0xd7; 9]].concat()));
}

#[test]
fn a_binding_without_checksums_gets_none_and_needs_none() {
    let packet = packet(7, Kind::Call, b"data");
    assert_eq!(CRC.protected(&packet, <[u8]>::to_vec).unwrap(), packet);
    assert!(is_right(&packet) && is_right(&packet[..20]) && is_right(&[]));
}

#[test]
fn a_packet_of_another_version_needs_none_and_none_is_sent_to_one() {
    let mut other = packet(CHECKED, Kind::Call, b"data");
    other[1] = VERSION + 1;
    assert!(is_right(&other));
    let versions = packet(CHECKED, Kind::Versions, &[]);
    assert_eq!(CRC.protected(&versions, <[u8]>::len).unwrap(), HEADER_LEN);
    assert!(!is_right(&versions), "no peer of our own version sends it");
}

#[test]
fn packets_that_leave_together_each_have_their_own() {
    let (one, two) = (packet(CHECKED, Kind::Call, b"ab"), packet(CHECKED, Kind::Call, &[5; 8]));
    let (plain, last) = (packet(7, Kind::Call, &[6; 8]), packet(CHECKED, Kind::Call, &[]));
    let padded = |packet: &[u8]| [packet, &vec![0; 40 - packet.len()]].concat();
    let together = [padded(&one), padded(&two), padded(&plain), last.clone()].concat();
    let (copies, apart) = CRC.together(&together, 40);
    assert_eq!(apart, 48);
    let copies: Vec<_> = copies.chunks(apart).collect();
    for (copy, packet) in copies.iter().zip([one, two, plain, last]) {
        assert!(is_right(copy) && copy.starts_with(&packet));
    }
    assert_eq!((copies.len(), copies[3].len()), (4, 36));
}

#[test]
fn striking_out_spoils_packets_with_wrong_checksums_and_leaves_the_others() {
    let right = CRC.protected(&packet(CHECKED, Kind::Call, b"data"), <[u8]>::to_vec).unwrap();
    let mut wrong = right.clone();
    wrong[33] ^= 4;
    let mut together = [&right[..], &wrong, &right].concat();
    assert_eq!(CRC.open_many(&mut together, right.len()), 1);
    let all: Vec<_> = together.chunks(right.len()).collect();
    assert!(all[0] == right && all[2] == right && Header::parse(all[1]).is_err());
}

#[test]
fn framed_packets_are_sealed_where_they_have_room_for_it() {
    let room = |packet: Vec<u8>| [&packet[..], &[0; CHECKSUM_LEN]].concat();
    let mut framed =
        [room(packet(CHECKED, Kind::Receipt, &[1; 8])), room(packet(CHECKED, Kind::Receipt, &[2; 5]))]
            .concat();
    framed.chunks_mut(44).for_each(|packet| CRC.frame_whole(packet));
    assert!(framed.chunks(44).all(is_right));
    let mut plain = packet(7, Kind::Receipt, &[1; 8]);
    CRC.frame_whole(&mut plain);
    assert_eq!(plain, packet(7, Kind::Receipt, &[1; 8]));
}

#[cfg(feature = "seal")]
mod bundles {
    use super::*;
    use crate::security::cipher::PacketSuite;
    use stoop_seal::{Seal, Side};

    const SEALED: u64 = BindingId::SEALED | 7;

    /// Caller and server of a sealed binding.
    fn ends() -> (Protection, Protection) {
        let seal = |side| Seal::new(PacketSuite::Aes256Gcm, side, [1; 32], [2; 32], 0);
        let binding = |side| SealedBinding::new(BindingId(SEALED), seal(side), None);
        let bindings = Arc::new(SealedBindings::default());
        assert!(bindings.add(binding(Side::Server)));
        (Protection::sealed(binding(Side::Caller)), Protection::of_server(&bindings))
    }

    #[test]
    fn packets_that_are_sealed_together_open_as_they_were() {
        let (caller, server) = ends();
        let packets: Vec<_> = (0..50).flat_map(|byte| packet(SEALED, Kind::Call, &[byte; 8])).collect();
        let (mut copies, apart, most) = caller.bundled(Kind::Call, &packets, 40);
        assert_eq!((most, copies.chunks(apart).count()), (35, 2));
        assert_eq!(server.open_many(&mut copies, apart), 0);
        let opened: Vec<_> = copies.chunks(apart).flat_map(Bundle::packets_in).collect();
        assert!(opened.into_iter().eq(packets.chunks(40)));
    }

    #[test]
    fn a_packet_by_itself_and_long_ones_are_not_bundled() {
        let (caller, _) = ends();
        let one = packet(SEALED, Kind::Call, &[1; 8]);
        assert_eq!(caller.bundled(Kind::Call, &one, 40).2, 1);
        let long = packet(SEALED, Kind::Call, &[1; 680]).repeat(2);
        let (copies, apart, most) = caller.bundled(Kind::Call, &long, 712);
        assert_eq!((most, copies.chunks(apart).count(), Bundle::is_one(&copies)), (1, 2, false));
    }

    /// Else a caller could make calls of another.
    #[test]
    fn a_bundle_with_a_packet_of_another_binding_does_not_open() {
        let (caller, server) = ends();
        for other in [SEALED + 1, 7, 0] {
            let own = packet(SEALED, Kind::Call, &[1; 8]);
            let packets = [&own[..], &packet(other, Kind::Call, &[1; 8]), &own].concat();
            let (mut copies, apart, _) = caller.bundled(Kind::Call, &packets, 40);
            assert_eq!(server.open_many(&mut copies, apart), 1, "{other:x}");
        }
    }
}
