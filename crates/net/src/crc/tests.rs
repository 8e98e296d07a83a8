use super::*;

/// Bit by bit, as RFC 3720 §12.1 defines it.
fn by_definition(bytes: &[u8]) -> u32 {
    let append = |state: u32, byte: &u8| (0..8).fold(state ^ u32::from(*byte), |state, _| times_x(state));
    !bytes.iter().fold(!0, append)
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(7), next).map(|state| (state >> 56) as u8).take(len).collect()
}

/// RFC 3720 §B.4; the digits there are those of the bytes in the order in which they travel.
#[test]
fn the_test_vectors_of_rfc_3720_hold() {
    let ascending: [u8; 32] = std::array::from_fn(|i| i as u8);
    let descending: [u8; 32] = std::array::from_fn(|i| 31 - i as u8);
    let mut read = [0; 48];
    for (at, byte) in [(0, 1), (1, 0xc0), (16, 0x14), (22, 4), (27, 0x14), (31, 0x18), (32, 0x28), (40, 2)] {
        read[at] = byte;
    }
    for (bytes, digest) in [
        (&[0_u8; 32][..], [0xaa, 0x36, 0x91, 0x8a]),
        (&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
        (&ascending, [0x4e, 0x79, 0xdd, 0x46]),
        (&descending, [0x5c, 0xdb, 0x3f, 0x11]),
        (&read, [0x56, 0x3a, 0x96, 0xd9]),
    ] {
        assert_eq!(crc32c(bytes).to_le_bytes(), digest);
        assert_eq!((!table::append(!0, bytes)).to_le_bytes(), digest);
    }
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(b""), 0);
}

#[test]
fn every_length_at_every_alignment_agrees_with_the_definition() {
    let bytes = noise(8 + 300);
    for from in 0..8 {
        for len in 0..=300 {
            let bytes = &bytes[from..from + len];
            let expected = by_definition(bytes);
            assert_eq!(crc32c(bytes), expected, "{len} bytes from {from} on");
            assert_eq!(!table::append(!0, bytes), expected, "{len} bytes from {from} on, by tables");
        }
    }
}

#[test]
fn long_data_agrees_with_the_definition() {
    let bytes = noise(70_000);
    // Around the lengths at which the three parts change from one block to two.
    let blocks = (1..4).flat_map(|blocks| (0..80).map(move |more| 3 * 8 * WORDS_MAX * blocks - 40 + more));
    for len in blocks.chain([1432, 1440, 1468, 1472, 65_507, 70_000]) {
        let expected = by_definition(&bytes[..len]);
        assert_eq!(crc32c(&bytes[..len]), expected, "{len} bytes");
        assert_eq!(!table::append(!0, &bytes[..len]), expected, "{len} bytes, by tables");
        #[cfg(target_arch = "x86_64")]
        if let Some(state) = x86_64::append_in_words(!0, &bytes[..len]) {
            assert_eq!(!state, expected, "{len} bytes, by words");
        }
    }
}

#[test]
fn data_around_the_least_length_of_wide_blocks_agree_with_the_definition() {
    let bytes = noise(3 + 1100);
    for from in 0..3 {
        for len in 250..=1100 {
            let bytes = &bytes[from..from + len];
            assert_eq!(crc32c(bytes), !table::append(!0, bytes), "{len} bytes from {from} on");
        }
    }
}

#[test]
fn several_slices_give_the_same_as_the_whole() {
    let bytes = noise(3000);
    let expected = crc32c(&bytes);
    for first in [0, 1, 7, 8, 31, 32, 33, 1000, 2999, 3000] {
        for second in [0, 1, 500, 1440] {
            let mut crc = Crc32c::new();
            let (header, rest) = bytes.split_at(first);
            let (slice, others) = rest.split_at(second.min(rest.len()));
            [header, slice, others].iter().for_each(|slice| crc.update(slice));
            assert_eq!(crc.value(), expected, "cut at {first} and {second} behind");
        }
    }
}

#[test]
fn any_flipped_bit_changes_the_checksum() {
    let mut packet = noise(1468);
    let expected = crc32c(&packet);
    for bit in 0..8 * packet.len() {
        packet[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(crc32c(&packet), expected, "bit {bit}");
        packet[bit / 8] ^= 1 << (bit % 8);
    }
}
