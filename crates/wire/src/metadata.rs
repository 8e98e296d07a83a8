//! Metadata: pairs that stand behind the arguments of a call and behind its results, if the number of the procedure has the bit
//! [`IN_PROCEDURE`].
//!
//! A block has the pairs without gaps, their number (two bytes, at most 64), and the length of the block in bytes (two bytes, from 4 to
//! 4096), which are the last of the message. So arguments and results lie where they lie without metadata.
//!
//! A pair is: its key, a byte whose top bit says that the pair [goes on](Pair::goes_on); for the key 127 the length of a
//! name, a byte, and the name; the length of the value, two bytes; the value.

use alloc::vec::Vec;
use core::fmt;

/// Bytes of the longest block.
pub const BLOCK_MAX: usize = 4096;
/// Most pairs of a block.
pub const PAIRS_MAX: usize = 64;
/// Bytes of the longest name.
pub const NAME_MAX: usize = 64;
/// Bytes of a `traceparent`: version, trace, span, flags.
pub const TRACEPARENT_LEN: usize = 26;
/// A block without pairs.
pub const EMPTY: [u8; 4] = [0, 0, 4, 0];
/// The bit of a procedure's number in a call with metadata. There are at most 32,767 procedures.
pub const IN_PROCEDURE: u16 = 0x8000;

/// Bytes behind the pairs.
const TAIL: usize = 4;
const GOES_ON: u8 = 0x80;
const TRACEPARENT: u8 = 1;
const TRACESTATE: u8 = 2;
const NAMED: u8 = 127;

/// The key of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// The identity of the caller's span, as W3C Trace Context defines it, in binary form.
    Traceparent,
    /// The `tracestate` of W3C Trace Context, as it is in the HTTP header.
    Tracestate,
    /// A name: lower-case letters, digits, `.`, `-` and `_`.
    Named(&'a str),
    /// A key of a later version.
    Other(u8),
}

impl Key<'_> {
    /// Whether it belongs to the trace context of W3C.
    pub fn is_of_trace(self) -> bool {
        matches!(self, Self::Traceparent | Self::Tracestate)
    }
}

/// A pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// Whether the calls that the procedure makes carry the pair, too.
    pub goes_on: bool,
    /// Its value.
    pub value: &'a [u8],
}

/// Why bytes are no block, or pairs cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The length of the block is not from 4 to 4096, or the message is shorter.
    Length,
    /// There are more than 64 pairs.
    TooManyPairs,
    /// The pairs do not end where the block says.
    Pairs,
    /// A name is empty, longer than 64 bytes, or has other characters than it may.
    Name,
    /// A `traceparent` is not 26 bytes long, or a `tracestate` has bytes that are not printable ASCII.
    Value,
    /// Two pairs have the same key.
    Twice,
    /// With this pair, a block would be longer than 4096 bytes.
    TooLong,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "its length is none that a block can have",
            Self::TooManyPairs => "it has more than 64 pairs",
            Self::Pairs => "its pairs do not end where they should",
            Self::Name => "a name is not 1 to 64 bytes of lower-case letters, digits, `.`, `-` and `_`",
            Self::Value => "the value of a trace context is malformed",
            Self::Twice => "two pairs have the same key",
            Self::TooLong => "it would have more than 4096 bytes",
        })
    }
}

impl core::error::Error for BlockError {}

/// Whether a pair may have that name.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// A block whose bytes have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    /// Splits a message into what stands before its block, and the block. Takes no memory.
    ///
    /// # Errors
    /// What is wrong with the block.
    pub fn split(message: &'a [u8]) -> Result<(&'a [u8], Self), BlockError> {
        let [a, b, c, d] = *message.last_chunk::<TAIL>().ok_or(BlockError::Length)?;
        let (count, len) = (usize::from(u16::from_le_bytes([a, b])), usize::from(u16::from_le_bytes([c, d])));
        if !(TAIL..=BLOCK_MAX).contains(&len) {
            return Err(BlockError::Length);
        }
        let before = message.len().checked_sub(len).ok_or(BlockError::Length)?;
        let (rest, bytes) = message.split_at(before);
        if count > PAIRS_MAX {
            return Err(BlockError::TooManyPairs);
        }
        let mut left = &bytes[..len - TAIL];
        for _ in 0..count {
            let (pair, behind) = next(left).ok_or(BlockError::Pairs)?;
            check(&pair)?;
            left = behind;
        }
        if !left.is_empty() {
            return Err(BlockError::Pairs);
        }
        let block = Self { bytes };
        let is_twice =
            |(at, pair): (usize, Pair<'_>)| block.pairs().skip(at + 1).any(|other| other.key == pair.key);
        if count > 1 && block.pairs().enumerate().any(is_twice) {
            return Err(BlockError::Twice);
        }
        Ok((rest, block))
    }

    /// The block of which these are the [`bytes`](Self::bytes): they have been checked and are not checked again. Of others, the
    /// pairs are without meaning.
    pub fn again(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Its pairs.
    pub fn pairs(self) -> impl Iterator<Item = Pair<'a>> + Clone {
        let mut left = &self.bytes[..self.bytes.len().saturating_sub(TAIL)];
        core::iter::from_fn(move || {
            let (pair, behind) = next(left)?;
            left = behind;
            Some(pair)
        })
    }
}

/// The pair at the beginning of `bytes`, and what follows it.
fn next(bytes: &[u8]) -> Option<(Pair<'_>, &[u8])> {
    let (&[code], mut rest) = bytes.split_first_chunk::<1>()?;
    let key = match code & !GOES_ON {
        TRACEPARENT => Key::Traceparent,
        TRACESTATE => Key::Tracestate,
        NAMED => {
            let (&[len], behind) = rest.split_first_chunk::<1>()?;
            let (name, behind) = behind.split_at_checked(len.into())?;
            rest = behind;
            // What is no text is no name either, which `check` finds.
            Key::Named(core::str::from_utf8(name).unwrap_or(""))
        }
        other => Key::Other(other),
    };
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    Some((Pair { key, goes_on: code & GOES_ON != 0, value }, rest))
}

fn check(pair: &Pair<'_>) -> Result<(), BlockError> {
    match pair.key {
        Key::Named(name) if !is_name(name) => Err(BlockError::Name),
        Key::Traceparent if pair.value.len() != TRACEPARENT_LEN => Err(BlockError::Value),
        Key::Tracestate if !pair.value.iter().all(|byte| matches!(byte, b' '..=b'~')) => {
            Err(BlockError::Value)
        }
        _ => Ok(()),
    }
}

/// Writes a block.
#[derive(Debug)]
pub struct BlockWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    count: u16,
}

impl<'a> BlockWriter<'a> {
    /// Begins a block at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, count: 0 }
    }

    /// Adds a pair. Its key must be none that is there already.
    ///
    /// # Errors
    /// The pair is malformed, or there is no place for it. Then the block is as it was.
    pub fn add(&mut self, pair: &Pair<'_>) -> Result<(), BlockError> {
        check(pair)?;
        let name_len = if let Key::Named(name) = pair.key { 1 + name.len() } else { 0 };
        let len = self.out.len() - self.start + 1 + name_len + 2 + pair.value.len() + TAIL;
        if len > BLOCK_MAX {
            return Err(BlockError::TooLong);
        }
        if usize::from(self.count) == PAIRS_MAX {
            return Err(BlockError::TooManyPairs);
        }
        let goes_on = if pair.goes_on { GOES_ON } else { 0 };
        let code = match pair.key {
            Key::Traceparent => TRACEPARENT,
            Key::Tracestate => TRACESTATE,
            Key::Named(_) => NAMED,
            Key::Other(code) => code & !GOES_ON,
        };
        self.out.push(code | goes_on);
        if let Key::Named(name) = pair.key {
            self.out.push(name.len() as u8);
            self.out.extend_from_slice(name.as_bytes());
        }
        self.out.extend_from_slice(&(pair.value.len() as u16).to_le_bytes());
        self.out.extend_from_slice(pair.value);
        self.count += 1;
        Ok(())
    }

    /// Completes the block. Returns the number of its pairs.
    pub fn finish(self) -> usize {
        let len = self.out.len() - self.start + TAIL;
        self.out.extend_from_slice(&self.count.to_le_bytes());
        self.out.extend_from_slice(&(len as u16).to_le_bytes());
        self.count.into()
    }
}

#[cfg(test)]
mod tests;
