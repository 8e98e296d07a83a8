use super::*;
use crate::{PACKET_DATA_CHECKED, PACKET_DATA_SEALED};
use alloc::vec;
use alloc::vec::Vec;

fn sample() -> Header {
    Header {
        kind: Kind::Call,
        lane: LaneId(0x0102),
        procedure: 0x0304,
        binding: BindingId(0x1122_3344_5566_7788),
        number: CallNumber(0x0a0b_0c0d),
        message_len: 3,
        offset: 0,
        time: 30_000_000,
    }
}

/// In a packet of data the field of the procedure is the length.
fn without_payload(kind: Kind) -> Header {
    let procedure = if kind == Kind::Data { 0 } else { 0x0304 };
    Header { kind, procedure, message_len: 0, ..sample() }
}

#[test]
fn fields_are_at_the_offsets_of_the_table() {
    let bytes = sample().to_bytes();
    assert_eq!(bytes[..4], [MAGIC, VERSION, 3, 0]);
    assert_eq!(bytes[4..8], [0x02, 0x01, 0x04, 0x03]);
    assert_eq!(bytes[8..16], 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(bytes[16..20], 0x0a0b_0c0d_u32.to_le_bytes());
    assert_eq!(bytes[20..24], 3_u32.to_le_bytes());
    assert_eq!(bytes[24..28], [0; 4]);
    assert_eq!(bytes[28..], 30_000_000_u32.to_le_bytes());
}

#[test]
fn every_kind_survives_encoding() {
    for kind in Kind::ALL {
        let header = without_payload(kind);
        assert_eq!(Header::parse(&header.to_bytes()), Ok((header, &[][..])));
    }
}

#[test]
fn bytes_behind_the_payload_are_padding() {
    let mut packet = sample().to_bytes().to_vec();
    packet.extend_from_slice(b"abc-padding");
    assert_eq!(Header::parse(&packet).unwrap().1, b"abc");
}

#[test]
fn a_header_that_announces_a_longer_payload_is_rejected() {
    let mut packet = sample().to_bytes().to_vec();
    packet.extend_from_slice(b"ab");
    assert_eq!(Header::parse(&packet), Err(HeaderError::PayloadShort { announced: 3, got: 2 }));
    let beyond = Header { kind: Kind::Bind, offset: 4, ..sample() };
    assert_eq!(Header::parse(&beyond.to_bytes()), Err(HeaderError::OffsetBeyondMessage));
}

#[test]
fn the_packets_of_a_long_message_announce_its_whole_length() {
    let long = Header { message_len: u32::MAX, offset: 0, ..sample() };
    assert_eq!(long.payload_len(PACKET_DATA), Ok(PACKET_DATA));
    let last = Header { offset: u32::MAX - 7, ..long };
    assert_eq!(last.payload_len(PACKET_DATA), Ok(7));
}

fn part(kind: Kind, message_len: u32, offset: u32, len: u32) -> Vec<u8> {
    let Header { binding, lane, procedure, number, .. } = sample();
    let mut packet = vec![offset as u8; HEADER_LEN + len as usize];
    let header = packet.first_chunk_mut().unwrap();
    Template::new(kind, binding, lane).stamp_part(header, procedure, number, message_len, (offset, len), 9);
    packet
}

#[test]
fn a_part_says_how_many_bytes_of_its_message_it_contains() {
    for offset in [0, 4_000] {
        let mut packet = part(Kind::Call, 10_000, offset, 1200);
        let padded = [&packet[..], &[0xd7; 3000]].concat();
        let (header, payload) = Header::parse(&padded).unwrap();
        assert_eq!((header.offset, header.message_len, header.time), (offset, 10_000, 9));
        assert_eq!(payload, &packet[HEADER_LEN..]);
        assert!(offset > 0 || header.procedure == sample().procedure);
        packet.pop();
        assert_eq!(Header::parse(&packet), Err(HeaderError::PayloadShort { announced: 1200, got: 1199 }));
    }
}

#[test]
fn a_part_lies_within_its_message_and_is_not_empty() {
    let parse = |message_len, offset, len| {
        Header::parse(&part(Kind::Result, message_len, offset, len)).map(|(header, _)| header.offset)
    };
    assert_eq!(parse(5_000, 4_000, 1_000), Ok(4_000));
    assert_eq!(parse(5_000, 4_000, 1_001), Err(HeaderError::OffsetBeyondMessage));
    assert_eq!(parse(5_000, u32::MAX, 1), Err(HeaderError::OffsetBeyondMessage));
    assert_eq!(parse(5_000, 0, 5_000), Ok(0));
    assert_eq!(parse(5_000, 0, 5_001), Err(HeaderError::OffsetBeyondMessage));
    for offset in [0, 4_000] {
        assert_eq!(parse(5_000, offset, 0), Err(HeaderError::NotInParts));
    }
}

#[test]
fn messages_have_parts_exactly_if_they_are_longer_than_a_packet() {
    let plain = sample().binding.with_checksum(false);
    for (binding, largest) in [
        (plain, PACKET_DATA),
        (plain.with_checksum(true), PACKET_DATA_CHECKED),
        (plain.sealed(), PACKET_DATA_SEALED),
    ] {
        for offset in [0, 10] {
            let parse = |message_len: usize| {
                let mut packet = part(Kind::Call, message_len as u32, offset, 20);
                packet[8..16].copy_from_slice(&binding.0.to_le_bytes());
                Header::parse(&packet).map(|(header, _)| header.offset)
            };
            assert_eq!(parse(largest), Err(HeaderError::NotInParts));
            assert_eq!(parse(largest + 1), Ok(offset));
        }
    }
    for len in [1441, 8_000] {
        let mut whole = Header { message_len: len, ..sample() }.to_bytes().to_vec();
        whole.resize(HEADER_LEN + len as usize, 0);
        assert_eq!(Header::parse(&whole), Err(HeaderError::NotInParts));
    }
}

#[test]
fn only_calls_and_results_have_parts() {
    for kind in Kind::ALL {
        let parsed = Header::parse(&part(kind, 2_000, 0, 100)).is_ok();
        assert_eq!(parsed, matches!(kind, Kind::Call | Kind::Result | Kind::Versions), "{kind:?}");
    }
}

#[test]
fn the_parts_in_one_datagram_are_separated() {
    let (first, second) = (part(Kind::Call, 10_000, 0, 300), part(Kind::Call, 10_000, 300, 200));
    let third = part(Kind::Call, 10_000, 500, 100);
    let in_one = |pieces: &[&[u8]]| {
        let datagram = pieces.concat();
        Header::parts_in(&datagram).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(in_one(&[&first, &second, &third]), [&first[..], &second, &third]);
    assert_eq!(in_one(&[&first]), [&first[..]]);
    assert_eq!(in_one(&[&second, &[0; 40]]), [&second[..]]);
    assert_eq!(in_one(&[&first, &second, &[0xd7, 1, 3]]), [&first[..], &second]);
    for at in [0, 1, 2, 4, 5, 8, 15, 16, 19, 20, 23] {
        let mut of_another = second.clone();
        of_another[at] ^= 1;
        assert_eq!(in_one(&[&first, &of_another]), [&first[..]], "byte {at} differs");
    }
    let call = [&sample().to_bytes()[..], b"abc"].concat();
    assert_eq!(in_one(&[&call, &call]), [[&call[..], &call].concat()], "padding, as ever");
    assert_eq!(in_one(&[&[1, 2, 3]]), [[1, 2, 3]]);
}

#[test]
fn each_malformed_header_has_its_error() {
    let bytes = sample().to_bytes();
    let with = |i: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[i] = byte;
        Header::from_bytes(&bytes).unwrap_err()
    };
    assert_eq!(with(0, b'G'), HeaderError::Magic(b'G'));
    assert_eq!(with(1, 9), HeaderError::Version(9));
    assert_eq!(with(2, 0), HeaderError::Kind(0));
    assert_eq!(with(2, 22), HeaderError::Kind(22));
    assert_eq!(with(3, 1), HeaderError::Flags(1));
    assert_eq!(Header::parse(&bytes[..31]), Err(HeaderError::Truncated { got: 31 }));
}

#[test]
fn unknown_low_flags_are_errors_and_unknown_high_flags_are_ignored() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Versions) {
        let mut bytes = without_payload(kind).to_bytes();
        for flag in (0..8).map(|bit| 1_u8 << bit) {
            bytes[3] = flag;
            let expected = if flag <= 0x08 { Err(flag) } else { Ok(kind) };
            let found = |parsed: Result<Header, HeaderError>| match parsed {
                Ok(header) => Ok(header.kind),
                Err(HeaderError::Flags(flags)) => Err(flags),
                // The flag makes an empty message the first of several parts.
                Err(HeaderError::NotInParts) => Err(flags::SIZED),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found(Header::from_bytes(&bytes)), expected, "{kind:?} {flag:#04x}");
            assert_eq!(
                found(Header::parse(&bytes).map(|(header, _)| header)),
                expected,
                "{kind:?} {flag:#04x}"
            );
        }
    }
}

#[test]
fn a_bare_header_carries_the_cookie() {
    let cookie = Challenge(0xfedc_ba98_7654_3210);
    let challenge = sample().with_challenge(Kind::Challenge, cookie);
    let (parsed, payload) = Header::parse(&challenge.to_bytes()).map(|(h, p)| (h, p.len())).unwrap();
    assert_eq!((parsed.challenge(), payload), (Some(cookie), 0));
    assert_eq!(sample().challenge(), None);
}

#[test]
fn only_the_refusal_of_an_unknown_binding_carries_an_incarnation() {
    let refusal = sample().unknown_binding(0xfedc_ba98_7654_3210, 77);
    let (parsed, payload) = Header::parse(&refusal.to_bytes()).map(|(h, p)| (h, p.len())).unwrap();
    assert_eq!((parsed, payload), (refusal, 0));
    assert_eq!(refusal.incarnation(), Some(0xfedc_ba98_7654_3210));
    assert_eq!(refusal.to_bytes()[20..28], 0xfedc_ba98_7654_3210_u64.to_le_bytes());
    let other = Header { time: RefusalCode::Overloaded.code(), ..refusal };
    assert_eq!(other.incarnation(), None);
    assert_eq!(Header::parse(&other.to_bytes()), Err(HeaderError::OffsetBeyondMessage));
    assert_eq!(Header { time: 1, ..sample() }.incarnation(), None);
}

#[test]
fn numbers_are_compared_across_the_wrap() {
    assert!(CallNumber(1).is_after(CallNumber::ZERO));
    assert!(CallNumber(2).is_after(CallNumber(u32::MAX)));
    assert!(!CallNumber(u32::MAX).is_after(CallNumber(2)));
    assert!(!CallNumber(5).is_after(CallNumber(5)));
}

/// Checks every header that differs from a sample in one byte, and packets of all lengths near its own.
#[test]
fn parse_whole_agrees_with_parse_and_rejects_everything_else() {
    let mut packet = Header { message_len: 3, ..sample() }.to_bytes().to_vec();
    packet.extend_from_slice(&[0; PACKET_DATA + 8]);
    for at in 0..HEADER_LEN {
        for byte in [0, 1, 2, 3, 4, 9, 10, 11, 0x80, 0xd7, 0xff] {
            let mut packet = packet.clone();
            packet[at] = byte;
            for len in [0, 31, 32, 34, 35, 36, HEADER_LEN + PACKET_DATA, HEADER_LEN + PACKET_DATA + 1] {
                let packet = &packet[..len];
                for kind in Kind::ALL {
                    let parsed = Header::parse(packet).ok().map(|(header, _)| header).filter(|header| {
                        let is_message = matches!(kind, Kind::Call | Kind::Result);
                        let is_whole = header.offset == 0 && header.message_len as usize <= PACKET_DATA;
                        header.kind == kind && is_message && is_whole && packet[3] == 0
                    });
                    assert_eq!(Header::parse_whole(kind, packet), parsed, "{kind:?} {at} {byte} {len}");
                }
            }
        }
    }
}
