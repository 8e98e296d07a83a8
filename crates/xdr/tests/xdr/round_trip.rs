//! Values that are written are read again, and take the bytes that their types announce.

use crate::common;
use crate::common::Sample;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stoop_xdr::{EncodeError, Writer, append, encoded_len, from_slice, to_vec};

fn round_trip<T: Sample>() {
    let mut runner = TestRunner::new(Config::with_cases(300));
    let outcome = runner.run(&T::any(), |value| {
        let bytes = to_vec(&value).expect("the value has a form");
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert!(bytes.len() >= T::LAYOUT.min());
        prop_assert_eq!(encoded_len(&value), Ok(bytes.len()));
        let again: T = from_slice(&bytes).expect("it was written so");
        prop_assert_eq!(to_vec(&again).expect("it was read"), bytes);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn written_values_are_read_again() {
    with_every_type!(round_trip());
}

fn needs_its_room<T: Sample>() {
    let mut runner = TestRunner::new(Config::with_cases(30));
    let outcome = runner.run(&T::any(), |value| {
        let bytes = to_vec(&value).expect("the value has a form");
        for room in 0..bytes.len() {
            let mut memory = vec![0xee; room];
            let mut writer = Writer::new(&mut memory);
            writer.value(&value);
            prop_assert_eq!(writer.position(), bytes.len());
            prop_assert_eq!(writer.finish(), Err(EncodeError::NoRoom { needed: bytes.len(), room }));
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_writer_without_room_knows_how_much_is_needed() {
    with_every_type!(needs_its_room());
}

fn every_prefix_is_refused<T: Sample>() {
    let mut runner = TestRunner::new(Config::with_cases(50));
    let outcome = runner.run(&T::any(), |value| {
        let bytes = to_vec(&value).expect("the value has a form");
        for len in 0..bytes.len() {
            prop_assert!(from_slice::<T>(&bytes[..len]).is_err(), "{} of {} bytes", len, bytes.len());
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_truncated_message_is_refused() {
    with_every_type!(every_prefix_is_refused());
}

#[test]
fn a_value_that_is_refused_leaves_nothing_behind() {
    let mut bytes = vec![1, 2, 3, 4];
    assert!(append(&common::Status::Other(1), &mut bytes).is_err());
    assert_eq!(bytes, [1, 2, 3, 4]);
    append(&common::Status::Other(3), &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4, 0, 0, 0, 3]);
}
