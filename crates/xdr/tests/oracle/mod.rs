//! The verdict of libtirpc on bytes.
#![allow(missing_docs, unreachable_pub)]

use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program over `verdict.h`, running.
pub struct Oracle {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Compiles and starts it: `make` is in `folder`, below the tests of this crate.
    pub fn start(folder: &str) -> Result<Self, String> {
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder).join("make");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
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
    pub fn ask(&mut self, name: &str, bytes: &[u8]) -> Option<(usize, String)> {
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

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A change of a byte to a likely or unlikely value, or, for the last kind, the end of the message.
pub type Mutation = (u16, u8, u8);

pub fn mutate(bytes: &mut Vec<u8>, mutations: &[Mutation]) {
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

/// A few changes, or none.
pub fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    vec((any::<u16>(), 0..5u8, any::<u8>()), 0..4)
}
