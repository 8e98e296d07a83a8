//! A byte stream of records of Sun RPC, cut at any places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_onc::record::{RecordError, RecordLimits, Records};

const LIMITS: RecordLimits = RecordLimits { record_max: 1 << 24, fragments_max: 40 };

/// The records of a stream that arrives in pieces of these lengths, repeated.
fn records_of(stream: &[u8], lengths: &[u8]) -> (Vec<Vec<u8>>, Option<RecordError>) {
    let (mut records, mut found, mut rest) = (Records::new(LIMITS), Vec::new(), stream);
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let len = usize::from(*lengths.next().expect("it repeats")).clamp(1, rest.len());
        let (mut input, behind) = rest.split_at(len);
        rest = behind;
        loop {
            match records.next(&mut input) {
                Ok(Some(record)) => found.push(record.to_vec()),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(input.is_empty(), "all bytes are taken");
        assert!(records.memory() <= 2 * stream.len() + 8, "memory grows with arrived bytes only");
    }
    (found, None)
}

fuzz_target!(|input: &[u8]| {
    let Some((count, input)) = input.split_first() else { return };
    let Some((lengths, stream)) = input.split_at_checked(usize::from(*count) + 1) else { return };
    let (records, error) = records_of(stream, lengths);
    assert_eq!(records_of(stream, &[u8::MAX]), (records, error), "the records do not depend on the cuts");
});
