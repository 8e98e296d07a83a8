//! Reading values from XDR, trusting nothing in it.

use crate::layout::padded;
use crate::limits::{Stack, allocation_budget};
use crate::{Decode, DecodeError, Fault};
use alloc::vec::Vec;

/// Reads values one after the other from a message.
///
/// Nothing is allocated for a length that the bytes after it could not hold; see [`limits`](crate::limits).
pub struct Reader<'a> {
    /// The bytes not yet read.
    rest: &'a [u8],
    /// Offset of the end of `rest` in the message.
    end: usize,
    /// Bytes that may still be allocated.
    memory_left: usize,
    stack: Stack,
}

impl<'a> Reader<'a> {
    /// Reads `message` from its beginning.
    #[inline(always)]
    pub fn new(message: &'a [u8]) -> Self {
        Self::with_budget(message, allocation_budget(message.len()))
    }

    /// As [`new`](Reader::new), with another bound on the bytes that values may allocate, besides opaque data and
    /// strings.
    #[inline(always)]
    pub fn with_budget(message: &'a [u8], memory: usize) -> Self {
        Reader { rest: message, end: message.len(), memory_left: memory, stack: Stack::new() }
    }

    /// Offset in the message of the next byte to read.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    /// The bytes not read yet.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that everything has been read. Peers that are programs of C do not check this (libtirpc ignores what
    /// follows the arguments of a call).
    ///
    /// # Errors
    /// When bytes are left.
    #[inline(always)]
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(self.error(Fault::Trailing { count })),
        }
    }

    #[cold]
    fn error(&self, fault: Fault) -> DecodeError {
        DecodeError { position: self.position(), fault }
    }

    /// The error for a word that was just read.
    #[cold]
    pub(crate) fn error_before(&self, len: usize, fault: Fault) -> DecodeError {
        DecodeError { position: self.position().saturating_sub(len), fault }
    }

    /// The error for a number just read that enumeration `name` does not have (RFC 4506 §4.3).
    #[cold]
    pub fn unknown_value<N: Into<i64>>(&self, name: &'static str, found: N) -> DecodeError {
        self.error_before(form_len::<N>(), Fault::UnknownValue { name, found: found.into() })
    }

    /// The error for a discriminant just read that no arm of union `name` has (RFC 4506 §4.15). An `unsigned hyper` is
    /// given as the `i64` with the same bits.
    #[cold]
    pub fn unknown_arm<N: Into<i64>>(&self, name: &'static str, found: N) -> DecodeError {
        self.error_before(form_len::<N>(), Fault::UnknownArm { name, found: found.into() })
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        self.error(Fault::Truncated { needed, left: self.rest.len() })
    }

    /// Reads a value.
    ///
    /// # Errors
    /// When the bytes are not a `T`.
    #[inline(always)]
    pub fn value<T: Decode<'a>>(&mut self) -> Result<T, DecodeError> {
        let Some(len) = T::LAYOUT.fixed_len() else {
            return T::decode(self);
        };
        // One check of the length for all parts; the compiler drops theirs, since `len` is a constant.
        self.within(len, |window| {
            let value = T::decode(window)?;
            debug_assert!(window.rest.is_empty(), "a value of a fixed layout takes its length");
            Ok(value)
        })
    }

    /// Reads the next `len` bytes alone.
    #[inline(always)]
    fn within<R>(
        &mut self,
        len: usize,
        read: impl FnOnce(&mut Self) -> Result<R, DecodeError>,
    ) -> Result<R, DecodeError> {
        let Self { memory_left, stack, .. } = *self;
        let rest = self.chunk(len)?;
        let mut window = Reader { rest, end: self.position(), memory_left, stack };
        let result = read(&mut window)?;
        self.memory_left = window.memory_left;
        Ok(result)
    }

    #[inline(always)]
    fn chunk(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((chunk, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.truncated(len));
        };
        self.rest = rest;
        Ok(chunk)
    }

    #[inline(always)]
    fn word<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((word, rest)) = self.rest.split_first_chunk() else {
            return Err(self.truncated(N));
        };
        self.rest = rest;
        Ok(*word)
    }

    /// Reads a word of 4 bytes (RFC 4506 §4.2).
    ///
    /// # Errors
    /// When it is not there.
    #[inline(always)]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.word().map(u32::from_be_bytes)
    }

    /// Reads a signed number of 4 bytes: an integer, an enum or a discriminant (RFC 4506 §4.1, §4.3, §4.15).
    ///
    /// # Errors
    /// When it is not there.
    #[inline(always)]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.word().map(i32::from_be_bytes)
    }

    /// Reads a number of 8 bytes (RFC 4506 §4.5).
    ///
    /// # Errors
    /// When it is not there.
    #[inline(always)]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.word().map(u64::from_be_bytes)
    }

    /// Reads a boolean (RFC 4506 §4.4).
    ///
    /// # Errors
    /// When it is neither 0 nor 1. No known peer sends another number, though C programs accept any.
    #[inline(always)]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(self.error_before(4, Fault::NotBool { found })),
        }
    }

    /// Reads a length of at most `max`.
    #[inline(always)]
    fn count(&mut self, max: usize) -> Result<usize, DecodeError> {
        let len = self.u32()?;
        match usize::try_from(len) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(self.error_before(4, Fault::TooLong { len, max })),
        }
    }

    /// Reads variable-length opaque data of at most `max` bytes in place (RFC 4506 §4.10).
    ///
    /// # Errors
    /// When it is longer, or not all there.
    #[inline]
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.count(max)?;
        self.bytes_padded(len)
    }

    /// Reads a string of at most `max` bytes in place (RFC 4506 §4.11): any bytes, as peers send names in any encoding.
    ///
    /// # Errors
    /// When it is longer, or not all there.
    #[inline]
    pub fn string(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        self.opaque(max)
    }

    /// Reads a string of at most `max` bytes in place, as text.
    ///
    /// # Errors
    /// When it is longer, not all there, or not UTF-8.
    #[inline]
    pub fn text(&mut self, max: usize) -> Result<&'a str, DecodeError> {
        let position = self.position();
        let bytes = self.opaque(max)?;
        core::str::from_utf8(bytes).map_err(|_| DecodeError { position, fault: Fault::NotUtf8 })
    }

    /// Reads opaque data of exactly `N` bytes in place (RFC 4506 §4.9).
    ///
    /// # Errors
    /// When it is not all there.
    #[inline(always)]
    pub fn opaque_fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let bytes = self.bytes_padded(N)?;
        Ok(bytes.try_into().expect("that many bytes were taken"))
    }

    /// The next `len` bytes, without the padding after them, which may be any bytes: C programs do not look at it.
    #[inline(always)]
    fn bytes_padded(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        Ok(&self.chunk(padded(len))?[..len])
    }

    /// Reads a variable-length array of at most `max` elements (RFC 4506 §4.13).
    ///
    /// # Errors
    /// When there are more, they are not all there, or one is not a `T`.
    #[inline]
    pub fn sequence<T: Decode<'a>>(&mut self, max: usize) -> Result<Vec<T>, DecodeError> {
        let len = self.count(max)?;
        self.array(len)
    }

    /// Reads an array of exactly `len` elements (RFC 4506 §4.12). For short ones, `[T; N]` is a value itself.
    ///
    /// # Errors
    /// When they are not all there, or one is not a `T`.
    #[inline]
    pub fn array<T: Decode<'a>>(&mut self, len: usize) -> Result<Vec<T>, DecodeError> {
        let needed = T::LAYOUT.min().saturating_mul(len);
        if needed > self.rest.len() {
            return Err(self.truncated(needed));
        }
        self.charge::<T>(len)?;
        let values = Vec::with_capacity(len);
        if let Some(fixed) = T::LAYOUT.fixed_len() {
            return self.within(fixed.saturating_mul(len), |window| window.fill(values, len));
        }
        self.nested(|reader| reader.fill(values, len))
    }

    #[inline(always)]
    fn fill<T: Decode<'a>>(&mut self, mut values: Vec<T>, len: usize) -> Result<Vec<T>, DecodeError> {
        for _ in 0..len {
            values.push(self.value()?);
        }
        Ok(values)
    }

    /// Reads optional data (RFC 4506 §4.19).
    ///
    /// # Errors
    /// When the bytes are not optional data of a `T`.
    #[inline]
    pub fn optional<T: Decode<'a>>(&mut self) -> Result<Option<T>, DecodeError> {
        if self.bool()? { self.value().map(Some) } else { Ok(None) }
    }

    /// Reads a linked list: before each node 1, after the last one 0. It is the form of optional data whose type ends
    /// with optional data of the same type (RFC 4506 §4.19); `T` is the node without that last part. No recursion.
    ///
    /// # Errors
    /// When the bytes are not such a list.
    pub fn chain<T: Decode<'a>>(&mut self) -> Result<Vec<T>, DecodeError> {
        self.nested(|reader| {
            let mut nodes = Vec::new();
            while reader.bool()? {
                if nodes.len() == nodes.capacity() {
                    let more = nodes.len().max(4);
                    reader.charge::<T>(more)?;
                    nodes.reserve_exact(more);
                }
                nodes.push(reader.value()?);
            }
            Ok(nodes)
        })
    }

    /// Announces that `count` values of `T` are about to be allocated.
    ///
    /// # Errors
    /// When that is more than a message of this size may take.
    #[inline]
    pub fn charge<T>(&mut self, count: usize) -> Result<(), DecodeError> {
        // A value without memory still takes time to make.
        let bytes = size_of::<T>().max(1).saturating_mul(count);
        let Some(left) = self.memory_left.checked_sub(bytes) else {
            return Err(self.error(Fault::OverBudget));
        };
        self.memory_left = left;
        Ok(())
    }

    /// Reads values one level deeper: what a type that can contain itself does.
    ///
    /// # Errors
    /// Those of `read`, and when that is deeper than [`limits`](crate::limits) allow.
    #[inline]
    pub fn nested<R>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<R, DecodeError>,
    ) -> Result<R, DecodeError> {
        let Some(deeper) = self.stack.deeper() else {
            return Err(self.error(Fault::TooDeep));
        };
        let outer = core::mem::replace(&mut self.stack, deeper);
        let result = read(self);
        self.stack = outer;
        result
    }
}

/// Bytes that a number of type `N` takes in XDR.
const fn form_len<N>() -> usize {
    if size_of::<N>() == 8 { 8 } else { 4 }
}
