use super::*;
use alloc::vec;

fn named<'a>(name: &'a str, value: &'a [u8]) -> Pair<'a> {
    Pair { key: Key::Named(name), goes_on: false, value }
}

fn block(pairs: &[Pair<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = BlockWriter::new(&mut out);
    pairs.iter().for_each(|pair| writer.add(pair).unwrap());
    assert_eq!(writer.finish(), pairs.len());
    out
}

#[test]
fn pairs_are_read_as_they_were_written_and_what_stands_before_them_is_untouched() {
    let pairs = [
        Pair { key: Key::Traceparent, goes_on: true, value: &[7; 26] },
        Pair { key: Key::Tracestate, goes_on: true, value: b"vendor=1" },
        named("tenant", b"blue"),
        named("empty", b""),
        Pair { key: Key::Other(9), goes_on: false, value: &[0; 300] },
    ];
    let bytes = [&b"arguments"[..], &block(&pairs)].concat();
    let (rest, read) = Block::split(&bytes).unwrap();
    assert!(read.pairs().eq(pairs));
    assert_eq!(rest, b"arguments");
}

#[test]
fn a_block_without_pairs_has_four_bytes() {
    assert_eq!(block(&[]), EMPTY);
    assert_eq!(Block::split(&EMPTY).unwrap().1.pairs().count(), 0);
}

#[test]
fn a_block_of_any_wrong_length_is_refused() {
    let good = block(&[Pair { key: Key::Traceparent, goes_on: true, value: &[0xff; 26] }]);
    for len in 0..=u16::MAX {
        let mut bytes = vec![0; 70_000];
        bytes.extend_from_slice(&good);
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(&len.to_le_bytes());
        let is_good = len == good.len() as u16;
        assert_eq!(Block::split(&bytes).is_ok(), is_good, "{len}");
    }
    for from in 1..good.len() {
        assert_eq!(Block::split(&good[from..]), Err(BlockError::Length), "{from}");
    }
    assert_eq!(Block::split(&[]), Err(BlockError::Length));
}

#[test]
fn a_block_of_any_wrong_count_is_refused() {
    let good = block(&[named("a", b"1"), named("b", b"2")]);
    for count in (0..=u16::MAX).filter(|count| *count != 2) {
        let mut bytes = good.clone();
        let at = bytes.len() - 4;
        bytes[at..at + 2].copy_from_slice(&count.to_le_bytes());
        assert!(Block::split(&bytes).is_err(), "{count}");
    }
}

#[test]
fn names_and_trace_contexts_are_checked_by_reader_and_writer() {
    let long = "x".repeat(NAME_MAX + 1);
    let bad = [
        (named("", b""), BlockError::Name),
        (named("Tenant", b""), BlockError::Name),
        (named("a b", b""), BlockError::Name),
        (named(&long, b""), BlockError::Name),
        (Pair { key: Key::Traceparent, goes_on: false, value: &[0; 25] }, BlockError::Value),
        (Pair { key: Key::Tracestate, goes_on: false, value: b"a\n" }, BlockError::Value),
    ];
    for (pair, why) in bad {
        assert_eq!(BlockWriter::new(&mut Vec::new()).add(&pair), Err(why), "{pair:?}");
    }
    let mut bytes = block(&[named("tenant", b"blue")]);
    bytes[2] = b'T';
    assert_eq!(Block::split(&bytes), Err(BlockError::Name));
    bytes[2] = 0xff;
    assert_eq!(Block::split(&bytes), Err(BlockError::Name));
}

#[test]
fn no_key_is_there_twice() {
    let bytes = block(&[named("a", b"1"), named("b", b"1"), named("a", b"2")]);
    assert_eq!(Block::split(&bytes), Err(BlockError::Twice));
}

#[test]
fn a_writer_takes_no_more_than_a_reader() {
    let (mut out, value) = (Vec::new(), vec![1; 4000]);
    let mut writer = BlockWriter::new(&mut out);
    writer.add(&named("a", &value)).unwrap();
    assert_eq!(writer.add(&named("b", &value)), Err(BlockError::TooLong));
    assert_eq!(writer.add(&named("c", &[1; 83])), Err(BlockError::TooLong));
    writer.add(&named("c", &[1; 82])).unwrap();
    writer.finish();
    assert_eq!(out.len(), BLOCK_MAX);
    assert_eq!(Block::split(&out).unwrap().1.pairs().count(), 2);

    let mut out = Vec::new();
    let mut writer = BlockWriter::new(&mut out);
    for code in 0..PAIRS_MAX as u8 {
        writer.add(&Pair { key: Key::Other(code), goes_on: false, value: b"" }).unwrap_or_else(|why| {
            assert!((1..=2).contains(&code) && why == BlockError::Value || why == BlockError::TooManyPairs);
        });
    }
    writer.finish();
}
