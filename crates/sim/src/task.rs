//! The tasks of the simulated procedures, and the bytes of their messages: every byte follows from the call.

use crate::ledger::CallId;
use core::time::Duration;
use stoop_exchange::{Interface, OlderForm, Procedure};

/// The task that a call gives to the procedure, at the beginning of the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) id: CallId,
    pub(crate) work: Duration,
    pub(crate) manner: Manner,
    /// Bytes of the result.
    pub(crate) result_len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Returns,
    Panics,
    BadArguments,
}

/// The interface that is served, as one side knows it that is of that revision.
pub(crate) fn interface(procedures: u16, revision: u32) -> Interface {
    let form = |i, revision| format!("p{i}(Task{}) -> CallId", ", u8".repeat(revision as usize));
    let procedure = |i| Procedure { name: format!("p{i}"), signature: form(i, revision) };
    let older =
        |i| (0..revision).rev().map(move |revision| OlderForm { procedure: i, signature: form(i, revision) });
    Interface {
        name: "Errands".into(),
        procedures: (0..procedures).map(procedure).collect(),
        older: (0..procedures).flat_map(older).collect(),
        ..Interface::default()
    }
}

/// Bytes of the shortest arguments.
pub(crate) const TASK_LEN: usize = 24;

/// Bytes of the shortest result: which call it is for.
pub(crate) const RESULT_LEN: usize = 8;

/// No procedure is asked to run for longer; where bits change, that must be said.
const LONGEST_WORK: Duration = Duration::from_secs(30);

/// No result is longer; the same.
const LONGEST_RESULT: usize = 1 << 24;

/// Bits that differ between the two directions.
const ARGUMENTS: u64 = 0x6172_6775_6d65_6e74;
const RESULT: u64 = 0x7265_7375_6c74_2121;

impl Task {
    /// Stands for arguments that say nothing.
    pub(crate) const NONE: Self = Self {
        id: CallId(u64::MAX),
        work: Duration::ZERO,
        manner: Manner::BadArguments,
        result_len: RESULT_LEN,
    };

    /// Fills the arguments.
    pub(crate) fn write(&self, arguments: &mut [u8]) {
        let (task, rest) = arguments.split_at_mut(TASK_LEN);
        task[..8].copy_from_slice(&self.id.0.to_le_bytes());
        task[8..16].copy_from_slice(&(self.work.as_nanos() as u64).to_le_bytes());
        task[16] = self.manner as u8;
        task[20..24].copy_from_slice(&(self.result_len as u32).to_le_bytes());
        fill(rest, self.id.0 ^ ARGUMENTS);
    }

    /// The task in the arguments; `None` if bits of them have changed.
    pub(crate) fn read(arguments: &[u8]) -> Option<Self> {
        let word =
            |i| arguments.get(i..i + 8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
        let (id, work, rest) = (word(0)?, word(8)?, word(16)?);
        let manner = match rest as u8 {
            0 => Manner::Returns,
            1 => Manner::Panics,
            _ => Manner::BadArguments,
        };
        Some(Self {
            id: CallId(id),
            work: Duration::from_nanos(work).min(LONGEST_WORK),
            manner,
            result_len: ((rest >> 32) as usize).clamp(RESULT_LEN, LONGEST_RESULT),
        })
    }

    /// The first byte of the arguments that is not what the caller wrote.
    pub(crate) fn wrong_argument(&self, arguments: &[u8]) -> Option<usize> {
        let wrong = first_wrong(&arguments[TASK_LEN..], self.id.0 ^ ARGUMENTS);
        wrong.map(|position| TASK_LEN + position)
    }

    /// Fills the result.
    pub(crate) fn write_result(&self, result: &mut [u8]) {
        let (id, rest) = result.split_at_mut(RESULT_LEN);
        id.copy_from_slice(&self.id.0.to_le_bytes());
        fill(rest, self.id.0 ^ RESULT);
    }
}

/// Which call a result is for, and the first byte that is not what the procedure wrote.
pub(crate) fn read_result(result: &[u8]) -> (CallId, Option<usize>) {
    let Some((id, rest)) = result.split_first_chunk::<RESULT_LEN>() else {
        return (CallId(u64::MAX), Some(0));
    };
    let id = u64::from_le_bytes(*id);
    (CallId(id), first_wrong(rest, id ^ RESULT).map(|position| RESULT_LEN + position))
}

/// Eight bytes of a message, which nothing else has at this place.
fn pattern(seed: u64, at: usize) -> [u8; 8] {
    let mixed = (seed ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).to_le_bytes()
}

fn fill(bytes: &mut [u8], seed: u64) {
    for (at, bytes) in bytes.chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&pattern(seed, at)[..bytes.len()]);
    }
}

fn first_wrong(bytes: &[u8], seed: u64) -> Option<usize> {
    let mut chunks = bytes.chunks(8).enumerate();
    let (at, chunk) = chunks.find(|(at, chunk)| pattern(seed, *at)[..chunk.len()] != **chunk)?;
    let pattern = pattern(seed, at);
    let within = chunk.iter().zip(pattern).position(|(is, should)| *is != should);
    within.map(|within| 8 * at + within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_of_a_message_is_noticed() {
        let task =
            Task { id: CallId(5), work: Duration::ZERO, manner: Manner::Returns, result_len: RESULT_LEN };
        let (mut arguments, mut result) = (vec![0; 1001], vec![0; 1001]);
        task.write(&mut arguments);
        task.write_result(&mut result);
        assert_eq!(task.wrong_argument(&arguments), None);
        assert_eq!(read_result(&result), (CallId(5), None));
        for at in TASK_LEN..1001 {
            arguments[at] ^= 1;
            result[at] ^= 1;
            assert_eq!(task.wrong_argument(&arguments), Some(at));
            assert_eq!(read_result(&result), (CallId(5), Some(at)));
            arguments[at] ^= 1;
            result[at] ^= 1;
        }
    }

    #[test]
    fn bytes_at_another_place_or_of_another_call_are_wrong() {
        let fill_for = |seed| {
            let mut bytes = vec![0; 4096];
            fill(&mut bytes, seed);
            bytes
        };
        let bytes = fill_for(1);
        assert_eq!(first_wrong(&bytes[1440..], 1), Some(0));
        assert_ne!(first_wrong(&fill_for(2), 1), None);
    }
}
