use super::*;
use proptest::prelude::*;

const FROM: Address = Address { mac: Mac([2, 0, 0, 0, 0, 1]), port: 40_000 };
const TO: Address = Address { mac: Mac([2, 0, 0, 0, 0, 2]), port: 7_400 };

fn frame_of(packet: &[u8], checksum: Checksum) -> Vec<u8> {
    let template = Template::new(FROM, TO, EtherType::default(), checksum);
    // Memory that a ring lends holds old bytes.
    let mut frame = vec![0xee; frame_len(packet.len())];
    frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
    assert_eq!(template.complete(&mut frame, packet.len()), frame.len());
    frame
}

fn read(frame: &[u8]) -> Result<(Vec<u8>, Checksum), FrameError> {
    let frame = Frame::parse(frame, EtherType::default())?;
    let mut buffer = vec![0; frame.packets().len()];
    let checksum = frame.copy_to(&mut buffer)?;
    Ok((buffer, checksum))
}

#[test]
fn null_call_is_padded_to_the_shortest_frame() {
    let frame = frame_of(&[7; 32], Checksum::Computed);
    assert_eq!(frame.len(), 60);
    assert_eq!(frame[56..], [0; 4], "padding of the sender is zeros, not old memory");
    assert_eq!(frame[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    assert_eq!(frame[14..20], [0xe8, 0x1c, 0x40, 0x9c, 32, 0]);
}

#[test]
fn largest_packet_of_1490_bytes_fills_a_frame_of_1514() {
    assert_eq!(frame_len(1490), 1514);
    assert_eq!(frame_len(1), MIN_FRAME_LEN);
}

#[test]
fn frame_names_both_endpoints() {
    let bytes = frame_of(&[1], Checksum::Computed);
    let frame = Frame::parse(&bytes, EtherType::default()).unwrap();
    assert_eq!((frame.from(), frame.to()), (FROM, TO));
    assert_eq!(Template::new(FROM, TO, EtherType::default(), Checksum::Computed).to(), TO);
}

#[test]
fn frames_without_a_packet_are_rejected() {
    let whole = frame_of(&[1; 100], Checksum::Computed);
    assert_eq!(Frame::parse(&[], EtherType::default()), Err(FrameError::Truncated));
    assert_eq!(Frame::parse(&whole[..123], EtherType::default()), Err(FrameError::Truncated));
    assert_eq!(Frame::parse(&whole, EtherType::LOCAL_EXPERIMENTAL_2), Err(FrameError::OtherProtocol));

    let changed = |change: fn(&mut [u8])| {
        let mut frame = whole.clone();
        change(&mut frame);
        read(&frame).map(|_| ())
    };
    assert_eq!(changed(|frame| frame[0] |= 1), Err(FrameError::BadAddress), "to a group");
    assert_eq!(changed(|frame| frame[6] |= 1), Err(FrameError::BadAddress), "from a group");
    assert_eq!(changed(|frame| frame[14..16].fill(0)), Err(FrameError::BadAddress), "to no port");
    assert_eq!(changed(|frame| frame[16..18].fill(0)), Err(FrameError::BadAddress), "from no port");
    assert_eq!(changed(|frame| frame[18..20].fill(0)), Err(FrameError::Truncated), "no bytes");
    assert_eq!(changed(|frame| frame[18] += 1), Err(FrameError::Truncated), "too long");
    assert_eq!(changed(|frame| frame[18] -= 1), Err(FrameError::Corrupt), "too short");
    assert_eq!(changed(|frame| frame[12..14].copy_from_slice(&[0x81, 0])), Err(FrameError::OtherProtocol));
}

/// The checksum that a frame with this packet has, before 0 is replaced.
fn crc_of(packet: &[u8]) -> u32 {
    let header = Template::new(FROM, TO, EtherType::default(), Checksum::Omitted).header(packet);
    let mut crc = Crc32c::new();
    crc.update(&header[14..20]);
    crc.update(&[0, 0]);
    crc.update(packet);
    crc.value()
}

/// A packet whose checksum is 0. In its last four bytes each bit changes the checksum by a pattern that does not depend on the others, so
/// the bits to set are the solution of 32 linear equations.
fn packet_with_checksum_0() -> Vec<u8> {
    let packet = |last: u32| [&[7; 100][..], &last.to_le_bytes()].concat();
    let none = crc_of(&packet(0));
    // Patterns, each with the highest bit that no later one has, and the bits of the packet that cause them.
    let mut reduced: Vec<(u32, u32)> = Vec::new();
    for bit in 0..32 {
        let (mut pattern, mut bits) = (crc_of(&packet(1 << bit)) ^ none, 1 << bit);
        for &(other, others_bits) in &reduced {
            if pattern & (1 << other.ilog2()) != 0 {
                (pattern, bits) = (pattern ^ other, bits ^ others_bits);
            }
        }
        reduced.push((pattern, bits));
    }
    let (mut left, mut last) = (none, 0);
    for (pattern, bits) in reduced {
        if left & (1 << pattern.ilog2()) != 0 {
            (left, last) = (left ^ pattern, last ^ bits);
        }
    }
    packet(last)
}

#[test]
fn checksum_of_0_travels_as_another_one_and_is_verified() {
    let packet = packet_with_checksum_0();
    assert_eq!(crc_of(&packet), 0);
    let frame = frame_of(&packet, Checksum::Computed);
    assert_eq!(frame[20..24], [0xff; 4], "0 says that there is none");
    assert_eq!(read(&frame), Ok((packet, Checksum::Computed)));
    let mut corrupt = frame;
    corrupt[OVERHEAD] ^= 1;
    assert_eq!(read(&corrupt), Err(FrameError::Corrupt));
}

#[test]
fn several_packets_are_told_apart_by_the_length_behind_them() {
    let packets = Segments { len: 50, segment: 20 };
    let mut frame = vec![0xee; frame_len(content_len(packets))];
    frame[OVERHEAD..OVERHEAD + 50].copy_from_slice(&[7; 50]);
    Template::new(FROM, TO, EtherType::default(), Checksum::Computed).complete_several(&mut frame, packets);
    assert_eq!(frame[18..20], [52, 0x80]);
    assert_eq!(read(&frame), Ok((vec![7; 50], Checksum::Computed)));
    assert_eq!(Frame::parse(&frame, EtherType::default()).unwrap().segment(), 20);
    // One that fits into a packet of another frame, none, and no packet at all.
    for (place, wrong) in [(OVERHEAD + 50, 50), (OVERHEAD + 50, 0), (18, 2), (18, 1)] {
        let mut frame = frame.clone();
        frame[place] = wrong;
        assert_eq!(read(&frame), Err(FrameError::Truncated), "{place} {wrong}");
    }
}

#[test]
fn as_many_packets_go_together_as_fit_with_their_length() {
    assert_eq!(
        [together(32, 1490), together(744, 1490), together(745, 1490), together(1490, 1490)],
        [46, 2, 1, 1]
    );
    assert_eq!(together(2000, 1490), 1);
}

#[test]
fn ether_types_of_other_protocols_are_refused() {
    for taken in [0, 1500, 0x0800, 0x0806, 0x86dd, 0x8100] {
        assert_eq!(EtherType::new(taken), None);
    }
    assert_eq!(EtherType::new(0x88b6), Some(EtherType::LOCAL_EXPERIMENTAL_2));
}

proptest! {
    #[test]
    fn packet_arrives_as_it_was_sent(
        packet in prop::collection::vec(any::<u8>(), 1..2000), padding in 0usize..64, computed: bool,
    ) {
        let checksum = if computed { Checksum::Computed } else { Checksum::Omitted };
        let mut frame = frame_of(&packet, checksum);
        frame.extend(vec![0xff; padding]);
        prop_assert_eq!(read(&frame), Ok((packet, checksum)));
    }

    #[test]
    fn flipped_bit_behind_the_ethernet_header_is_noticed(
        packet in prop::collection::vec(any::<u8>(), 1..200), place: usize, bit in 0u8..8,
    ) {
        let mut frame = frame_of(&packet, Checksum::Computed);
        let covered = OVERHEAD + packet.len() - ETHERNET_HEADER_LEN;
        frame[ETHERNET_HEADER_LEN + place % covered] ^= 1 << bit;
        let heard = read(&frame);
        prop_assert!(heard.is_err(), "{:?}", heard);
    }

    #[test]
    fn arbitrary_bytes_are_no_danger(bytes in prop::collection::vec(any::<u8>(), 0..200), typed: bool) {
        let mut bytes = bytes;
        if let (true, Some(field)) = (typed, bytes.get_mut(12..14)) {
            field.copy_from_slice(&0x88b5u16.to_be_bytes());
        }
        if let Ok((packet, _)) = read(&bytes) {
            prop_assert!(packet.len() + OVERHEAD <= bytes.len());
        }
    }
}
