//! The records of callbacks, each an item of a pipe. Integers are little-endian.
//!
//! From the server:
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | number of the call |
//! | 8 | kind: 1 call, 2 one-way call, 3 cancel, 4 the server has the object |
//! | 9 | 0 |
//! | 10–11 | procedure, as in calls; with the bit of metadata |
//! | 12–15 | 0 |
//! | 16–23 | nanoseconds that are left of the call's time |
//! | 24… | the arguments in native form, and metadata behind them; both as in calls |
//!
//! From the client:
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | number of the call |
//! | 8 | kind: 1 result, 2 refusal, 3 failure |
//! | 9–11 | 0 |
//! | 12–15 | code of a refusal or failure, as in their packets |
//! | 16… | the result, or the text of a refusal or failure |
//!
//! One-way calls have no answers.

use core::fmt;

/// Bytes before the arguments of a call.
pub const CALL_HEAD: usize = 24;
/// Bytes before the result of a call.
pub const ANSWER_HEAD: usize = 16;

/// What a record from the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A callback that is answered.
    Call,
    /// One that is not.
    OneWay,
    /// The server cancels that callback: its caller has given up.
    Cancel,
    /// The server has the object: callbacks may come from now on.
    Accepted,
}

/// The head of a record from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHead {
    /// Of the callback.
    pub number: u64,
    /// What it says.
    pub kind: CallKind,
    /// With the bit of metadata.
    pub procedure: u16,
    /// Nanoseconds that are left of its time.
    pub left_ns: u64,
}

/// What a record from the client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// The procedure has returned it.
    Result,
    /// The procedure has not run.
    Refusal,
    /// It has run, and there is no result.
    Failure,
}

/// The head of a record from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// Of the callback.
    pub number: u64,
    /// What it says.
    pub kind: AnswerKind,
    /// Of a refusal or failure.
    pub code: u32,
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRecord;

impl fmt::Display for NoRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is no record of a callback")
    }
}

impl CallHead {
    /// The first bytes of the record.
    pub fn to_bytes(self) -> [u8; CALL_HEAD] {
        let kind = match self.kind {
            CallKind::Call => 1,
            CallKind::OneWay => 2,
            CallKind::Cancel => 3,
            CallKind::Accepted => 4,
        };
        let mut bytes = [0; CALL_HEAD];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8] = kind;
        bytes[10..12].copy_from_slice(&self.procedure.to_le_bytes());
        bytes[16..].copy_from_slice(&self.left_ns.to_le_bytes());
        bytes
    }

    /// The head of a record, and the arguments behind it.
    ///
    /// # Errors
    /// It is no record.
    pub fn split(record: &[u8]) -> Result<(Self, &[u8]), NoRecord> {
        let (head, arguments) = record.split_first_chunk::<CALL_HEAD>().ok_or(NoRecord)?;
        let kind = match head[8] {
            1 => CallKind::Call,
            2 => CallKind::OneWay,
            3 => CallKind::Cancel,
            4 => CallKind::Accepted,
            _ => return Err(NoRecord),
        };
        let procedure = u16::from_le_bytes([head[10], head[11]]);
        let (number, left_ns) = (word(head, 0), word(head, 16));
        match head[9] == 0 && head[12..16] == [0; 4] {
            true => Ok((Self { number, kind, procedure, left_ns }, arguments)),
            false => Err(NoRecord),
        }
    }
}

impl AnswerHead {
    /// The first bytes of the record.
    pub fn to_bytes(self) -> [u8; ANSWER_HEAD] {
        let kind = match self.kind {
            AnswerKind::Result => 1,
            AnswerKind::Refusal => 2,
            AnswerKind::Failure => 3,
        };
        let mut bytes = [0; ANSWER_HEAD];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8] = kind;
        bytes[12..].copy_from_slice(&self.code.to_le_bytes());
        bytes
    }

    /// The head of a record, and what is behind it.
    ///
    /// # Errors
    /// It is no record.
    pub fn split(record: &[u8]) -> Result<(Self, &[u8]), NoRecord> {
        let (head, rest) = record.split_first_chunk::<ANSWER_HEAD>().ok_or(NoRecord)?;
        let kind = match head[8] {
            1 => AnswerKind::Result,
            2 => AnswerKind::Refusal,
            3 => AnswerKind::Failure,
            _ => return Err(NoRecord),
        };
        let code = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        match head[9..12] == [0; 3] {
            true => Ok((Self { number: word(head, 0), kind, code }, rest)),
            false => Err(NoRecord),
        }
    }
}

/// The eight bytes of a head that begin there.
fn word(head: &[u8], begin: usize) -> u64 {
    let bytes = head[begin..].first_chunk().expect("a head has words at multiples of eight");
    u64::from_le_bytes(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for kind in [CallKind::Call, CallKind::OneWay, CallKind::Cancel, CallKind::Accepted] {
            let head = CallHead { number: 1 << 40, kind, procedure: 0x8007, left_ns: u64::MAX };
            let record = [&head.to_bytes()[..], b"arguments"].concat();
            assert_eq!(CallHead::split(&record), Ok((head, &b"arguments"[..])));
        }
        for kind in [AnswerKind::Result, AnswerKind::Refusal, AnswerKind::Failure] {
            let head = AnswerHead { number: 7, kind, code: 9 };
            let record = [&head.to_bytes()[..], b"result"].concat();
            assert_eq!(AnswerHead::split(&record), Ok((head, &b"result"[..])));
        }
    }

    #[test]
    fn short_records_unknown_kinds_and_reserved_bytes_are_refused() {
        let call = CallHead { number: 1, kind: CallKind::Call, procedure: 0, left_ns: 1 }.to_bytes();
        let answer = AnswerHead { number: 1, kind: AnswerKind::Result, code: 0 }.to_bytes();
        assert_eq!(CallHead::split(&call[..23]), Err(NoRecord));
        assert_eq!(AnswerHead::split(&answer[..15]), Err(NoRecord));
        for (at, byte) in [(8, 0), (8, 5), (9, 1), (12, 1), (15, 1)] {
            let mut wrong = call;
            wrong[at] = byte;
            assert_eq!(CallHead::split(&wrong), Err(NoRecord));
        }
        for (at, byte) in [(8, 0), (8, 4), (9, 1), (11, 1)] {
            let mut wrong = answer;
            wrong[at] = byte;
            assert_eq!(AnswerHead::split(&wrong), Err(NoRecord));
        }
    }
}
