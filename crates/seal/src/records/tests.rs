extern crate alloc;

use crate::records::*;
use crate::toy::Toy;
use alloc::vec::Vec;

fn ends() -> (RecordSealer<Toy>, RecordOpener<Toy>) {
    (RecordSealer::new(Toy, [1; 32], 0), RecordOpener::new(Toy, [1; 32]))
}

/// The next record, with that data.
fn sealed(sealer: &mut RecordSealer<Toy>, data: &[u8]) -> Vec<u8> {
    let mut record = [&[0; RECORD_HEADER_LEN], data, &[0; TAG_LEN]].concat();
    // In both ways: one record after the other.
    if sealer.numbers().is_multiple_of(2) {
        sealer.seal(&mut record);
    } else {
        record[RECORD_HEADER_LEN..].fill(0);
        sealer.seal_from(&mut record, data);
    }
    record
}

/// The data of the record, opened in both ways.
fn opened(opener: &mut RecordOpener<Toy>, record: &[u8]) -> Option<Vec<u8>> {
    let mut record = record.to_vec();
    let mut apart = RecordOpener(Direction::new(Toy, opener.0.secret));
    (apart.0.phase, apart.0.number) = (opener.0.phase, opener.0.number);
    let mut out = alloc::vec![0; record.len().saturating_sub(RECORD_OVERHEAD)];
    let opens_apart = apart.open_to(&record, &mut out);
    assert_eq!(opener.open(&mut record), opens_apart);
    opens_apart.then(|| {
        assert!(record[RECORD_HEADER_LEN..record.len() - TAG_LEN] == out);
        out
    })
}

#[test]
fn records_open_in_the_order_in_which_they_were_sealed() {
    let (mut sealer, mut opener) = ends();
    for data in [&b"a"[..], b"two", &[7; RECORD_DATA_MAX]] {
        let record = sealed(&mut sealer, data);
        assert!(data.len() < 2 || !record.windows(data.len()).any(|part| part == data));
        assert_eq!(RecordOpener::<Toy>::data_len(*record.first_chunk().unwrap()), Some(data.len()));
        assert_eq!(opened(&mut opener, &record).as_deref(), Some(data));
    }
}

#[test]
fn a_record_that_is_repeated_or_moved_or_left_out_does_not_open() {
    let (mut sealer, _) = ends();
    let [first, second] = [b"first", b"secon"].map(|data| sealed(&mut sealer, data));
    let (_, mut opener) = ends();
    assert!(opened(&mut opener, &first).is_some());
    assert!(opened(&mut opener, &first).is_none(), "it is repeated");
    let (_, mut opener) = ends();
    assert!(opened(&mut opener, &second).is_none(), "the first is left out");
    let other = &mut RecordOpener::new(Toy, [2; 32]);
    assert!(opened(other, &first).is_none(), "it is of another direction");
}

#[test]
fn a_change_of_any_bit_and_any_cut_is_noticed() {
    let record = sealed(&mut ends().0, b"some data");
    for bit in 0..8 * record.len() {
        let mut changed = record.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(opened(&mut ends().1, &changed).is_none(), "bit {bit}");
    }
    for len in 0..record.len() {
        assert!(opened(&mut ends().1, &record[..len]).is_none(), "{len} bytes");
    }
}

#[test]
fn no_record_is_empty_or_longer_than_the_longest() {
    for len in [0, RECORD_DATA_MAX as u32 + 1, !PHASE_BIT, PHASE_BIT] {
        assert_eq!(RecordOpener::<Toy>::data_len(len.to_le_bytes()), None);
    }
}

#[test]
fn keys_change_after_many_numbers_and_after_an_hour_and_the_other_end_follows() {
    let (mut sealer, mut opener) = ends();
    for phase in 1..4 {
        sealer.look(phase * PHASE_NANOS - 1);
        let before = sealed(&mut sealer, b"x");
        assert_eq!(before[3] >> 7, (phase as u8 - 1) & 1);
        sealer.look(phase * PHASE_NANOS);
        let after = sealed(&mut sealer, b"x");
        assert_eq!(after[3] >> 7, phase as u8 & 1);
        for record in [before, after] {
            assert!(opened(&mut opener, &record).is_some());
        }
    }
    sealer.direction.number += PHASE_NUMBERS;
    opener.0.number += PHASE_NUMBERS;
    let record = sealed(&mut sealer, b"x");
    assert_eq!(record[3] >> 7, 0, "the fourth phase has ended");
    assert!(opened(&mut opener, &record).is_some());
}
