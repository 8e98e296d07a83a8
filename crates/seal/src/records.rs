//! A sealed byte stream: records, each with some bytes of the stream.
//!
//! ```text
//! length and phase 4 (clear, authenticated) │ data, encrypted │ tag 16
//! ```
//!
//! The number of a record is its place in the stream, and is not sent: a record that is left out, repeated or moved makes the next one fail
//! to open, and nothing opens after that. Each direction has a sequence of numbers and phases of its own. Nothing is lost on a stream, so a
//! sender goes on to the next phase by itself, and says so in the first record that has its keys.

use crate::keyed::Keyed;
use crate::seal::{PHASE_NANOS, PHASE_NUMBERS};
use crate::suite::{Cipher, NONCE_LEN, Secret, Suite, TAG_LEN};
use core::fmt;

/// Bytes of the clear beginning of a record.
pub const RECORD_HEADER_LEN: usize = 4;

/// Most bytes of data in a record.
pub const RECORD_DATA_MAX: usize = 16 << 10;

/// Bytes of a record besides its data.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER_LEN + TAG_LEN;

/// The bit of a record's beginning that tells the phase: set in the second, the fourth and so on.
const PHASE_BIT: u32 = 1 << 31;

/// One direction of a sealed stream, at one of its ends.
struct Direction<S: Suite> {
    suite: S,
    /// Of the present phase.
    secret: Secret,
    keyed: Keyed<S::Cipher>,
    phase: u32,
    /// The number of the next record.
    number: u64,
}

impl<S: Suite> Direction<S> {
    fn new(suite: S, secret: Secret) -> Self {
        let keyed = Keyed::of(&suite, &secret);
        Self { suite, secret, keyed, phase: 0, number: 0 }
    }

    fn bit(&self) -> u32 {
        if self.phase & 1 == 1 { PHASE_BIT } else { 0 }
    }

    /// The same number in the next phase.
    fn next(&self) -> Self
    where
        S: Copy,
    {
        let next = Self::new(self.suite, self.suite.next(&self.secret));
        Self { phase: self.phase + 1, number: self.number, ..next }
    }
}

/// The sending end of a direction.
pub struct RecordSealer<S: Suite> {
    direction: Direction<S>,
    /// The first number of the phase, and when it began.
    first: u64,
    begun_ns: u64,
}

/// The receiving end of a direction.
pub struct RecordOpener<S: Suite>(Direction<S>);

impl<S: Suite> fmt::Debug for RecordSealer<S> {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSealer").field("number", &self.direction.number).finish_non_exhaustive()
    }
}

impl<S: Suite> fmt::Debug for RecordOpener<S> {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordOpener").field("number", &self.0.number).finish_non_exhaustive()
    }
}

impl<S: Suite + Copy> RecordSealer<S> {
    /// The end of the direction with that secret, which begins now.
    pub fn new(suite: S, secret: Secret, now_ns: u64) -> Self {
        Self { direction: Direction::new(suite, secret), first: 0, begun_ns: now_ns }
    }

    /// Records so far.
    pub fn numbers(&self) -> u64 {
        self.direction.number
    }

    /// Seals a record: its data lies behind room for its beginning, and in front of room for its tag.
    ///
    /// # Panics
    /// If it has no data, or more than [`RECORD_DATA_MAX`].
    pub fn seal(&mut self, record: &mut [u8]) {
        self.seal_by(record, |cipher, nonce, header, data| cipher.seal(nonce, header, data));
    }

    /// The same, with `data` in place of the bytes between the record's beginning and the room for its tag.
    ///
    /// # Panics
    /// As [`seal`](Self::seal), and if the record is of another length.
    pub fn seal_from(&mut self, record: &mut [u8], data: &[u8]) {
        self.seal_by(record, |cipher, nonce, header, out| cipher.seal_from(nonce, header, data, out));
    }

    /// Has `encrypt` encrypt the data and return the tag over it and the record's beginning.
    fn seal_by(
        &mut self,
        record: &mut [u8],
        encrypt: impl FnOnce(&S::Cipher, [u8; NONCE_LEN], &[u8], &mut [u8]) -> [u8; TAG_LEN],
    ) {
        if self.direction.number - self.first >= PHASE_NUMBERS {
            // When it began is told by the next look.
            self.go_on(self.begun_ns);
        }
        let direction = &mut self.direction;
        let len = record.len().checked_sub(RECORD_OVERHEAD).filter(|len| (1..=RECORD_DATA_MAX).contains(len));
        let len = len.expect("a record has data, and not too much");
        let (header, rest) = record.split_at_mut(RECORD_HEADER_LEN);
        header.copy_from_slice(&(len as u32 | direction.bit()).to_le_bytes());
        let (data, tag) = rest.split_at_mut(len);
        let nonce = direction.keyed.nonce(direction.number);
        tag.copy_from_slice(&encrypt(&direction.keyed.cipher, nonce, header, data));
        direction.number += 1;
    }

    /// Goes on to the next phase if the present one has lasted long.
    pub fn look(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.begun_ns) >= PHASE_NANOS {
            self.go_on(now_ns);
        }
    }

    fn go_on(&mut self, now_ns: u64) {
        self.direction = self.direction.next();
        (self.first, self.begun_ns) = (self.direction.number, now_ns);
    }
}

impl<S: Suite + Copy> RecordOpener<S> {
    /// The end of the direction with that secret.
    pub fn new(suite: S, secret: Secret) -> Self {
        Self(Direction::new(suite, secret))
    }

    /// Bytes of the data of the record that begins like this. `None`: no record does.
    pub fn data_len(header: [u8; RECORD_HEADER_LEN]) -> Option<usize> {
        let len = (u32::from_le_bytes(header) & !PHASE_BIT) as usize;
        (1..=RECORD_DATA_MAX).contains(&len).then_some(len)
    }

    /// Opens the next record: beginning, data and tag. Its data is clear afterwards. `false`: it is not the next record of the other end, or
    /// was changed on the way, and the stream has ended.
    pub fn open(&mut self, record: &mut [u8]) -> bool {
        let Some((header, rest)) = record.split_first_chunk_mut::<RECORD_HEADER_LEN>() else { return false };
        let Some((data, &mut tag)) = rest.split_last_chunk_mut::<TAG_LEN>() else { return false };
        Self::data_len(*header) == Some(data.len())
            && self.open_by(header, |cipher, nonce| cipher.open(nonce, header, data, &tag))
    }

    /// The same, with its data clear in `out`, which is as long as the data.
    pub fn open_to(&mut self, record: &[u8], out: &mut [u8]) -> bool {
        let Some((header, rest)) = record.split_first_chunk::<RECORD_HEADER_LEN>() else { return false };
        let Some((data, tag)) = rest.split_last_chunk::<TAG_LEN>() else { return false };
        Self::data_len(*header) == Some(data.len())
            && data.len() == out.len()
            && self.open_by(header, |cipher, nonce| cipher.open_to(nonce, header, (data, tag), out))
    }

    /// Has `decrypt` open the next record, which begins with this header.
    fn open_by(
        &mut self,
        header: &[u8; RECORD_HEADER_LEN],
        decrypt: impl FnOnce(&S::Cipher, [u8; NONCE_LEN]) -> bool,
    ) -> bool {
        if (u32::from_le_bytes(*header) ^ self.0.bit()) & PHASE_BIT != 0 {
            self.0 = self.0.next();
        }
        let Self(direction) = self;
        let opens = decrypt(&direction.keyed.cipher, direction.keyed.nonce(direction.number));
        direction.number += 1;
        opens
    }
}

#[cfg(test)]
mod tests;
