use super::*;
use alloc::vec;
use proptest::collection::vec as any_vec;
use proptest::prelude::*;

/// A record in fragments that end at these offsets; those that end where they begin are empty.
fn in_fragments(record: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (record.len() + 1)).collect();
    ends.push(record.len());
    ends.sort_unstable();
    let (mut stream, mut start) = (Vec::new(), 0);
    for (place, &end) in ends.iter().enumerate() {
        let last = if place == cuts.len() { LAST } else { 0 };
        stream.extend((last | (end - start) as u32).to_be_bytes());
        stream.extend(&record[start..end]);
        start = end;
    }
    stream
}

/// The records of a stream that arrives in pieces of these lengths, the last one repeated.
fn records_of(stream: &[u8], lengths: &[usize], limits: RecordLimits) -> Result<Vec<Vec<u8>>, RecordError> {
    let (mut records, mut rest) = (Records::new(limits), stream);
    let (mut lengths, mut found) = (lengths.iter().copied(), Vec::new());
    let mut len = 1;
    while !rest.is_empty() {
        len = lengths.next().unwrap_or(len).max(1);
        let (mut input, behind) = rest.split_at(len.min(rest.len()));
        rest = behind;
        while let Some(record) = records.next(&mut input)? {
            found.push(record.to_vec());
        }
        assert!(input.is_empty());
    }
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn records_do_not_depend_on_fragments_and_cuts(
        records in any_vec((any_vec(any::<u8>(), 0..200), any_vec(any::<usize>(), 0..20)), 0..6),
        lengths in any_vec(1..60_usize, 0..40),
    ) {
        let stream: Vec<u8> = records.iter().flat_map(|(record, cuts)| in_fragments(record, cuts)).collect();
        let expected: Vec<_> = records.into_iter().map(|(record, _)| record).collect();
        prop_assert_eq!(records_of(&stream, &lengths, RecordLimits::default()), Ok(expected));
    }

    #[test]
    fn any_bytes_take_memory_for_what_has_arrived_only(stream in any_vec(any::<u8>(), 0..400), small in any::<bool>()) {
        // Marks with small lengths are plausible.
        let stream: Vec<u8> = stream.iter().map(|byte| if small { byte & 0x83 } else { *byte }).collect();
        let mut records = Records::new(RecordLimits { record_max: 1 << 30, fragments_max: u32::MAX });
        let mut input = &stream[..];
        while let Ok(Some(_)) = records.next(&mut input) {}
        prop_assert!(records.memory() <= 2 * stream.len() + 8);
    }
}

#[test]
fn a_record_in_one_fragment_is_not_copied() {
    let stream = in_fragments(b"message", &[]);
    let mut records = Records::new(RecordLimits::default());
    let mut input = &stream[..];
    let record = records.next(&mut input).unwrap().unwrap();
    assert_eq!(record.as_ptr(), stream[4..].as_ptr());
    assert_eq!((records.memory(), records.is_inside_record()), (0, false));
}

#[test]
fn a_mark_is_the_length_with_the_highest_bit() {
    assert_eq!(mark(0x0102), Some([0x80, 0, 1, 2]));
    assert_eq!(mark(FRAGMENT_MAX), Some([0xff; 4]));
    assert_eq!((mark(0), mark(FRAGMENT_MAX + 1)), (None, None));
}

#[test]
fn a_record_is_inside_from_the_first_byte_of_its_mark_to_its_last_byte() {
    let stream = in_fragments(b"abcdef", &[1, 3]);
    let mut records = Records::new(RecordLimits::default());
    assert!(!records.is_inside_record());
    for byte in &stream[..stream.len() - 1] {
        assert_eq!(records.next(&mut &[*byte][..]), Ok(None));
        assert!(records.is_inside_record());
    }
    assert_eq!(records.next(&mut &stream[stream.len() - 1..]), Ok(Some(&b"abcdef"[..])));
    assert!(!records.is_inside_record());
    records.shrink();
    assert_eq!(records.memory(), 0);
}

#[test]
fn a_broken_limit_ends_the_stream() {
    let limits = RecordLimits { record_max: 8, fragments_max: 3 };
    let record = |record: &[u8], cuts: &[usize]| records_of(&in_fragments(record, cuts), &[], limits);
    assert_eq!(record(b"12345678", &[1, 3]), Ok(vec![b"12345678".to_vec()]));
    assert_eq!(record(b"123456789", &[]), Err(RecordError::TooLong { len: 9, max: 8 }));
    assert_eq!(record(b"123456789", &[5]), Err(RecordError::TooLong { len: 9, max: 8 }));
    assert_eq!(record(b"12345", &[0, 1, 2, 3]), Err(RecordError::TooManyFragments { max: 3 }));
}

#[test]
fn an_empty_last_fragment_ends_the_record_however_the_stream_is_cut() {
    let stream = [&b"\0\0\0\x04data"[..], &[0x80, 0, 0, 0], b"\x80\0\0\x01x", &[0x80, 0, 0, 0]].concat();
    let expected = Ok(vec![b"data".to_vec(), b"x".to_vec(), vec![]]);
    for len in 1..=stream.len() {
        assert_eq!(records_of(&stream, &[len], RecordLimits::default()), expected, "{len} bytes at once");
    }
    // It does not wait for the next byte.
    let mut records = Records::new(RecordLimits::default());
    assert_eq!(records.next(&mut &b"\0\0\0\x04data"[..]), Ok(None));
    assert_eq!(records.next(&mut &[0x80, 0, 0, 0][..]), Ok(Some(&b"data"[..])));
    assert!(!records.is_inside_record());
}

#[test]
fn a_record_of_only_empty_fragments_is_bounded() {
    let limits = RecordLimits { record_max: 8, fragments_max: 3 };
    let run = |count| [0; 4].repeat(count);
    assert_eq!(records_of(&[run(2), vec![0x80, 0, 0, 0]].concat(), &[1], limits), Ok(vec![vec![]]));
    for lengths in [&[1_usize][..], &[100]] {
        assert_eq!(records_of(&run(4), lengths, limits), Err(RecordError::TooManyFragments { max: 3 }));
    }
    let mut records = Records::new(limits);
    assert_eq!(records.next(&mut &run(4)[..]), Err(RecordError::TooManyFragments { max: 3 }));
    assert_eq!(records.next(&mut &b"\x80\0\0\x01x"[..]), Err(RecordError::TooManyFragments { max: 3 }));
}

#[test]
fn an_announced_length_takes_no_memory() {
    let mut records = Records::new(RecordLimits { record_max: usize::MAX, fragments_max: 1 });
    assert_eq!(records.next(&mut &[0x7f, 0xff, 0xff, 0xff, 1][..]), Ok(None));
    assert!(records.memory() < 100);
}
