//! Writing values as XDR into memory of the caller.

use crate::layout::padded;
use crate::limits::Stack;
use crate::{Encode, EncodeError};

/// Writes values one after the other into a slice of bytes.
///
/// Failure is sticky, so that emitted code has no branch for it: [`finish`](Writer::finish) reports the first one. When
/// the room is exhausted the position goes on counting, so that `finish` knows how many bytes all values need; the
/// caller provides that much room and encodes again.
pub struct Writer<'a> {
    room: &'a mut [u8],
    position: usize,
    /// Bytes of the message before `room`.
    before: usize,
    stack: Stack,
    failure: Option<EncodeError>,
}

impl<'a> Writer<'a> {
    /// Writes into `room` from its beginning.
    #[inline(always)]
    pub fn new(room: &'a mut [u8]) -> Self {
        Writer { room, position: 0, before: 0, stack: Stack::new(), failure: None }
    }

    /// Bytes written, or needed by what has been written.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.before.saturating_add(self.position)
    }

    /// The number of bytes written.
    ///
    /// # Errors
    /// The first failure; or [`EncodeError::NoRoom`] with the number of bytes that all values need.
    #[inline]
    pub fn finish(self) -> Result<usize, EncodeError> {
        match self.failure {
            Some(failure) => Err(failure),
            None if self.position <= self.room.len() => Ok(self.position),
            None => Err(EncodeError::NoRoom { needed: self.position, room: self.room.len() }),
        }
    }

    /// Whether a value has been refused. Lack of room is not a failure yet.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Refuses the value. The first failure counts.
    #[cold]
    pub fn fail(&mut self, error: EncodeError) {
        self.failure.get_or_insert(error);
    }

    /// Refuses a union whose discriminant selects another arm (RFC 4506 §4.15): a value of a default arm with the
    /// discriminant of a named one.
    #[cold]
    pub fn fail_arm(&mut self, name: &'static str, discriminant: impl Into<i64>) {
        self.fail(EncodeError::WrongArm {
            position: self.position(),
            name,
            discriminant: discriminant.into(),
        });
    }

    /// Writes a value.
    #[inline(always)]
    pub fn value<T: Encode + ?Sized>(&mut self, value: &T) {
        let Some(len) = T::LAYOUT.fixed_len() else {
            return value.encode(self);
        };
        // One check of the room for all parts; the compiler drops theirs, since `len` is a constant.
        let (before, stack) = (self.position(), self.stack);
        let Some(room) = self.chunk(len) else { return };
        let mut window = Writer { room, position: 0, before, stack, failure: None };
        value.encode(&mut window);
        debug_assert_eq!(window.position, len, "a value of a fixed layout takes its length");
        if let Some(failure) = window.failure {
            self.fail(failure);
        }
    }

    /// The next `len` bytes, or `None` if there is no room for them.
    #[inline(always)]
    fn chunk(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = self.position;
        self.position = start.saturating_add(len);
        self.room.get_mut(start..self.position)
    }

    /// Writes a word of 4 bytes (RFC 4506 §4.2).
    #[inline(always)]
    pub fn u32(&mut self, word: u32) {
        if let Some(chunk) = self.chunk(4) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Writes a signed number of 4 bytes: an integer, an enum or a discriminant (RFC 4506 §4.1, §4.3, §4.15).
    #[inline(always)]
    pub fn i32(&mut self, number: i32) {
        self.u32(number.cast_unsigned());
    }

    /// Writes a number of 8 bytes (RFC 4506 §4.5).
    #[inline(always)]
    pub fn u64(&mut self, number: u64) {
        if let Some(chunk) = self.chunk(8) {
            chunk.copy_from_slice(&number.to_be_bytes());
        }
    }

    /// Writes a length of at most `max`. `false`, and the writer has failed, if it is more.
    #[inline(always)]
    #[must_use]
    fn count(&mut self, len: usize, max: usize) -> bool {
        match u32::try_from(len) {
            Ok(count) if len <= max => {
                self.u32(count);
                true
            }
            _ => {
                let max = max.min(crate::UNBOUNDED);
                self.fail(EncodeError::TooLong { position: self.position(), len, max });
                false
            }
        }
    }

    /// Writes variable-length opaque data of at most `max` bytes: its length, its bytes, zeros up to a multiple of 4
    /// (RFC 4506 §4.10).
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8], max: usize) {
        if self.count(bytes.len(), max) {
            self.bytes_padded(bytes);
        }
    }

    /// Writes a string of at most `max` bytes (RFC 4506 §4.11). The bytes may be any, NUL too, although C programs see
    /// only those before it.
    #[inline]
    pub fn string(&mut self, string: impl AsRef<[u8]>, max: usize) {
        self.opaque(string.as_ref(), max);
    }

    /// Writes opaque data of exactly `len` bytes: no length, its bytes, zeros up to a multiple of 4 (RFC 4506 §4.9).
    #[inline]
    pub fn opaque_fixed(&mut self, bytes: &[u8], len: usize) {
        if bytes.len() == len {
            self.bytes_padded(bytes);
        } else {
            self.fail_length(bytes.len(), len);
        }
    }

    #[inline(always)]
    fn bytes_padded(&mut self, bytes: &[u8]) {
        if let Some(chunk) = self.chunk(padded(bytes.len())) {
            let (data, padding) = chunk.split_at_mut(bytes.len());
            data.copy_from_slice(bytes);
            padding.fill(0);
        }
    }

    #[cold]
    fn fail_length(&mut self, len: usize, expected: usize) {
        self.fail(EncodeError::WrongLength { position: self.position(), len, expected });
    }

    /// Writes a variable-length array of at most `max` elements: their number, and they (RFC 4506 §4.13).
    #[inline]
    pub fn sequence<T: Encode>(&mut self, values: &[T], max: usize) {
        if self.count(values.len(), max) {
            self.all(values);
        }
    }

    /// Writes an array of exactly `len` elements (RFC 4506 §4.12).
    #[inline]
    pub fn array<T: Encode>(&mut self, values: &[T], len: usize) {
        if values.len() == len {
            self.all(values);
        } else {
            self.fail_length(values.len(), len);
        }
    }

    #[inline]
    fn all<T: Encode>(&mut self, values: &[T]) {
        let Some(len) = T::LAYOUT.fixed_len() else {
            return self.nested(|writer| values.iter().for_each(|value| writer.value(value)));
        };
        let (before, stack) = (self.position(), self.stack);
        let Some(room) = self.chunk(len.saturating_mul(values.len())) else { return };
        let mut window = Writer { room, position: 0, before, stack, failure: None };
        for value in values {
            window.value(value);
        }
        if let Some(failure) = window.failure {
            self.fail(failure);
        }
    }

    /// Writes optional data: 1 and the value, or 0 (RFC 4506 §4.19).
    #[inline]
    pub fn optional<T: Encode + ?Sized>(&mut self, value: Option<&T>) {
        self.u32(u32::from(value.is_some()));
        if let Some(value) = value {
            self.value(value);
        }
    }

    /// Writes a linked list: before each node 1, after the last one 0. It is the form of optional data whose type ends
    /// with optional data of the same type (RFC 4506 §4.19); `T` is the node without that last part. No recursion.
    pub fn chain<'v, T: Encode + 'v>(&mut self, nodes: impl IntoIterator<Item = &'v T>) {
        self.nested(|writer| {
            for node in nodes {
                writer.u32(1);
                writer.value(node);
            }
            writer.u32(0);
        });
    }

    /// Writes values one level deeper: what a type that can contain itself does. The writer fails if that is deeper
    /// than [`limits`](crate::limits) allow.
    #[inline]
    pub fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        let Some(deeper) = self.stack.deeper() else {
            return self.fail(EncodeError::TooDeep { position: self.position() });
        };
        let outer = core::mem::replace(&mut self.stack, deeper);
        write(self);
        self.stack = outer;
    }
}
