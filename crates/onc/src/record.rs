//! Record marking: messages on a byte stream (RFC 5531 §11).
//!
//! A record is a message in one or more fragments. Each fragment begins with a word: the highest bit says whether it is
//! the last of its record, the others its length in bytes. This crate sends each record as one fragment, which all peers
//! understand (libtirpc's non-blocking server refuses more), and accepts any fragments, also empty ones: a sender that learns
//! late that its record is complete ends it with an empty last fragment.

use alloc::vec::Vec;
use core::fmt;
use core::mem;

/// Bytes of the longest fragment (RFC 5531 §11).
pub const FRAGMENT_MAX: usize = 0x7fff_ffff;

/// The bit of a mark that says that the fragment is the last of its record.
const LAST: u32 = 0x8000_0000;

/// The mark of a record that is one fragment of `len` bytes; `None` if a fragment cannot be that long, or is empty.
#[inline]
pub const fn mark(len: usize) -> Option<[u8; 4]> {
    if len == 0 || len > FRAGMENT_MAX { None } else { Some((LAST | len as u32).to_be_bytes()) }
}

/// Bounds on the records of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Bytes of the longest record.
    pub record_max: usize,
    /// Fragments of one record, empty ones included. A sender that flushes every byte makes one for each.
    pub fragments_max: u32,
}

impl Default for RecordLimits {
    /// Records of 4 MiB in 65,536 fragments.
    fn default() -> Self {
        RecordLimits { record_max: 4 << 20, fragments_max: 1 << 16 }
    }
}

/// Why a stream cannot go on: the peer broke the protocol or a limit. The connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// A record would be longer than allowed.
    TooLong {
        /// Bytes of the record with the fragment just announced.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A record has more fragments than allowed.
    TooManyFragments {
        /// Fragments allowed.
        max: u32,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, max } => {
                write!(f, "a record of at least {len} bytes, and {max} are allowed")
            }
            Self::TooManyFragments { max } => write!(f, "a record of more than {max} fragments"),
        }
    }
}

impl core::error::Error for RecordError {}

/// Takes records out of an arriving byte stream, however it is cut.
///
/// A record that lies in the input as one fragment is not copied. Memory grows with the bytes that have arrived, never
/// with announced lengths.
#[derive(Debug)]
pub struct Records {
    limits: RecordLimits,
    /// The record that is incomplete, or, until the next call, was completed last.
    record: Vec<u8>,
    /// `record` has been returned.
    is_returned: bool,
    /// Of the record that is incomplete.
    fragments: u32,
    state: State,
}

/// The next part of the stream.
#[derive(Clone, Copy, Debug)]
enum State {
    /// A mark, of which some bytes have arrived.
    Mark { bytes: [u8; 4], arrived: usize },
    /// A fragment, of which this many bytes are still to come.
    Fragment { left: usize, is_last: bool },
    /// Nothing: the peer broke the protocol.
    Broken(RecordError),
}

impl State {
    const BEGIN: Self = State::Mark { bytes: [0; 4], arrived: 0 };
}

impl Records {
    /// Begins with a new connection.
    pub const fn new(limits: RecordLimits) -> Self {
        Records { limits, record: Vec::new(), is_returned: false, fragments: 0, state: State::BEGIN }
    }

    /// The next record that is complete with the bytes of `input`, which lose those that were taken; `None` when all
    /// were, and the record is not complete. A record may have no bytes at all.
    ///
    /// # Errors
    /// When the peer broke the protocol or a limit; the same again for all later calls.
    pub fn next<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Option<&'r [u8]>, RecordError> {
        if mem::take(&mut self.is_returned) {
            self.record.clear();
        }
        loop {
            match self.state {
                State::Broken(error) => return Err(error),
                State::Mark { bytes, arrived } => {
                    if !self.take_mark(input, bytes, arrived)? {
                        return Ok(None);
                    }
                }
                State::Fragment { left, is_last } => {
                    let Some((fragment, rest)) = input.split_at_checked(left) else {
                        self.record.extend_from_slice(input);
                        self.state = State::Fragment { left: left - input.len(), is_last };
                        *input = &[];
                        return Ok(None);
                    };
                    *input = rest;
                    self.state = State::BEGIN;
                    if is_last {
                        return Ok(Some(self.complete(fragment)));
                    }
                    self.record.extend_from_slice(fragment);
                }
            }
        }
    }

    /// Whether a record has begun and is incomplete: a driver bounds the time that this may last.
    pub fn is_inside_record(&self) -> bool {
        self.fragments > 0 || !matches!(self.state, State::Mark { arrived: 0, .. })
    }

    /// Makes room for so many bytes more of the record that is incomplete. `false` if the process has no memory for them: then the
    /// connection has to be closed. Without it, [`next`](Self::next) takes the memory and cannot report a failure.
    pub fn reserve(&mut self, more: usize) -> bool {
        self.record.try_reserve(more).is_ok()
    }

    /// Bytes of memory held for a record.
    pub fn memory(&self) -> usize {
        self.record.capacity()
    }

    /// Gives memory back: for a connection that has become idle.
    pub fn shrink(&mut self) {
        if mem::take(&mut self.is_returned) {
            self.record.clear();
        }
        self.record.shrink_to_fit();
    }

    /// Takes bytes of a mark. Whether it is complete.
    fn take_mark(
        &mut self,
        input: &mut &[u8],
        mut bytes: [u8; 4],
        arrived: usize,
    ) -> Result<bool, RecordError> {
        let count = input.len().min(4 - arrived);
        let (taken, rest) = input.split_at(count);
        bytes[arrived..arrived + count].copy_from_slice(taken);
        *input = rest;
        if arrived + count < 4 {
            self.state = State::Mark { bytes, arrived: arrived + count };
            return Ok(false);
        }
        self.state = match self.begin_fragment(u32::from_be_bytes(bytes)) {
            Ok(state) => state,
            Err(error) => {
                self.record = Vec::new();
                self.state = State::Broken(error);
                return Err(error);
            }
        };
        Ok(true)
    }

    fn begin_fragment(&mut self, mark: u32) -> Result<State, RecordError> {
        let (left, is_last) = ((mark & !LAST) as usize, mark & LAST != 0);
        let RecordLimits { record_max, fragments_max } = self.limits;
        let len = self.record.len().saturating_add(left);
        if len > record_max {
            return Err(RecordError::TooLong { len, max: record_max });
        }
        if self.fragments == fragments_max {
            return Err(RecordError::TooManyFragments { max: fragments_max });
        }
        self.fragments += 1;
        Ok(State::Fragment { left, is_last })
    }

    /// The record that ends with `fragment`.
    fn complete<'r>(&'r mut self, fragment: &'r [u8]) -> &'r [u8] {
        self.fragments = 0;
        if self.record.is_empty() {
            return fragment;
        }
        self.record.extend_from_slice(fragment);
        self.is_returned = true;
        &self.record
    }
}

#[cfg(test)]
mod tests;
