//! The verdict on any bytes is that of libtirpc's routines, made by rpcgen, except where those are known to be lenient.
//!
//! Needs rpcgen, a C compiler and libtirpc (Debian: rpcsvc-proto, gcc, libtirpc-dev).

mod common;

use common::Sample;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use stoop_xdr::{Fault, Reader, to_vec};

/// The program `oracle/verdict.c`, running.
struct Oracle {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle");
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/make");
        let made = Command::new(make).arg(&folder).output().map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr)
                .lines()
                .next()
                .unwrap_or("no reason")
                .to_owned());
        }
        let mut command = Command::new(folder.join("verdict"));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let questions = process.stdin.take().expect("it was piped");
        let answers = BufReader::new(process.stdout.take().expect("it was piped"));
        Ok(Self { process, questions, answers })
    }

    /// The bytes that libtirpc reads, and the form that it gives the value again; `None` if it refuses.
    fn ask(&mut self, name: &str, bytes: &[u8]) -> Option<(usize, String)> {
        writeln!(self.questions, "{name} {}", hex(bytes)).expect("the oracle reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the oracle answers");
        assert!(answer.ends_with('\n'), "the oracle has ended at {name} {}", hex(bytes));
        if answer == "refused\n" {
            return None;
        }
        let (len, form) = answer.trim_end_matches('\n').split_once(' ').expect("a length and bytes");
        Some((len.parse().expect("a number"), form.to_owned()))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

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

/// A change of a byte to a likely or unlikely value, or, for the last kind, the end of the message.
type Mutation = (u16, u8, u8);

fn mutate(bytes: &mut Vec<u8>, mutations: &[Mutation]) {
    for &(at, kind, value) in mutations {
        if bytes.is_empty() {
            return;
        }
        let at = usize::from(at) % bytes.len();
        match kind {
            0 => bytes[at] = value,
            1 => bytes[at] = value % 4,
            // The low byte of a word: a length, an enumeration.
            2 => *bytes.get_mut(at | 3).unwrap_or(&mut 0) = value % 16,
            3 => bytes[at] = 0xff,
            _ => bytes.truncate(at),
        }
    }
}

fn compare_mutated<T: Sample>(oracle: &RefCell<Oracle>, cases: u32) {
    let mutations = vec((any::<u16>(), 0..5u8, any::<u8>()), 0..4);
    let mut runner = TestRunner::new(Config::with_cases(cases));
    let outcome = runner.run(&(T::any(), mutations), |(value, mutations)| {
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
    let oracle = match Oracle::start() {
        Ok(oracle) => RefCell::new(oracle),
        Err(why) => {
            return println!("SKIPPED: random_and_mutated_values_have_the_verdict_of_libtirpc: {why}");
        }
    };
    with_every_type!(compare_mutated(&oracle, 500));
}
