//! The verdict on any bytes is that of libtirpc's routines, made by rpcgen, except where those are known to be lenient.
//!
//! Needs rpcgen, a C compiler and libtirpc (Debian: rpcsvc-proto, gcc, libtirpc-dev).

use crate::common::Sample;
use crate::oracle::{Oracle, hex, mutate, mutations};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use stoop_xdr::{Fault, Reader, to_vec};

/// libtirpc takes any number for TRUE and for an enumeration, cuts numbers to the width of their type, and does not know
/// UTF-8.
fn libtirpc_may_accept(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::NotBool { .. } | Fault::UnknownValue { .. } | Fault::OutOfRange { .. } | Fault::NotUtf8
    )
}

/// Compares both verdicts on the bytes of a `T`.
fn compare<T: Sample>(oracle: &mut Oracle, bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut reader = Reader::new(bytes);
    let ours = reader.value::<T>();
    let theirs = oracle.ask(T::NAME, bytes);
    match (ours, theirs) {
        (Ok(value), Some((len, form))) => {
            prop_assert_eq!(reader.position(), len, "bytes read of {}", hex(bytes));
            let again = hex(&to_vec(&value).expect("it was read"));
            prop_assert!(again == form || value.has_nul(), "{} became {} and {}", hex(bytes), again, form);
        }
        (Ok(value), None) => prop_assert!(false, "libtirpc refuses {}: {:?}", hex(bytes), value),
        (Err(error), Some(_)) => {
            prop_assert!(libtirpc_may_accept(error.fault), "libtirpc accepts {}: {}", hex(bytes), error);
        }
        (Err(_), None) => {}
    }
    Ok(())
}

fn compare_mutated<T: Sample>(oracle: &RefCell<Oracle>, cases: u32) {
    let mut runner = TestRunner::new(Config::with_cases(cases));
    let outcome = runner.run(&(T::any(), mutations()), |(value, mutations)| {
        let oracle = &mut *oracle.borrow_mut();
        let mut bytes = to_vec(&value).expect("the value has a form");
        compare::<T>(oracle, &bytes)?;
        mutate(&mut bytes, &mutations);
        compare::<T>(oracle, &bytes)
    });
    outcome.unwrap_or_else(|error| panic!("{}: {error}", T::NAME));
}

#[test]
fn random_and_mutated_values_have_the_verdict_of_libtirpc() {
    let oracle = match Oracle::start("oracle") {
        Ok(oracle) => RefCell::new(oracle),
        Err(why) => {
            return println!("SKIPPED: random_and_mutated_values_have_the_verdict_of_libtirpc: {why}");
        }
    };
    with_every_type!(compare_mutated(&oracle, 500));
}
