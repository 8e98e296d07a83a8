//! Arguments that a server reads in the call packet and writes in the result packet, without copying them.
//!
//! On a big-endian machine, or where a buffer happens to be misaligned for its type, they are copied instead; no code
//! can tell from outside.

use core::ops::{Deref, DerefMut};

use std::borrow::Cow;
use zerocopy::{FromBytes, IntoBytes};

use crate::data::align_of_wire;
use crate::layout::{POSITION_MAX, align_up};
use crate::memory::zeros;
use crate::{DecodeError, Scalar};

/// Scalars in a call packet: a `[S]` or a `[S; N]`.
pub enum View<'a, T: ?Sized> {
    /// As they lie there.
    InPlace(&'a T),
    /// Copied, because they cannot be used as they lie there.
    Copied(Box<T>),
}

impl<'a, S: Scalar> View<'a, [S]> {
    /// The scalars that fill `chunk`.
    #[inline(always)]
    pub(crate) fn slice(chunk: &'a [u8]) -> Result<Self, DecodeError> {
        match <[S]>::ref_from_bytes(chunk) {
            Ok(values) if is_native::<S>() => Ok(View::InPlace(values)),
            _ => copied(chunk).map(View::Copied),
        }
    }
}

impl<'a, S: Scalar> View<'a, [S]> {
    /// The scalars that `bytes` are: so many that they fill it.
    ///
    /// # Errors
    /// There are bytes left over.
    pub fn filling(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        match bytes.len() % size_of::<S>() {
            0 => Self::slice(bytes),
            _ => Err(DecodeError::Truncated),
        }
    }
}

/// The bytes of scalars, without a count: what [`View::filling`] reads.
pub fn bytes_of<S: Scalar>(values: &[S]) -> Cow<'_, [u8]> {
    if is_native::<S>() {
        return Cow::Borrowed(values.as_bytes());
    }
    let mut bytes = vec![0; size_of_val(values)];
    S::store_scalars(values, &mut bytes);
    Cow::Owned(bytes)
}

impl<'a, S: Scalar, const N: usize> View<'a, [S; N]> {
    /// The scalars that fill `chunk`.
    #[inline(always)]
    pub(crate) fn array(chunk: &'a [u8]) -> Result<Self, DecodeError> {
        match <[S; N]>::ref_from_bytes(chunk) {
            Ok(values) if is_native::<S>() => Ok(View::InPlace(values)),
            _ => copied_array(chunk).map(View::Copied),
        }
    }
}

impl<T: ?Sized> Deref for View<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self {
            View::InPlace(values) => values,
            View::Copied(values) => values,
        }
    }
}

/// Where the arguments that a procedure writes in place will end, from the start of the payload.
#[derive(Clone, Copy)]
pub struct Extent {
    end: usize,
}

impl Extent {
    #[inline(always)]
    pub(crate) fn at(end: usize) -> Self {
        Extent { end }
    }

    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.end
    }

    /// With `count` scalars after it.
    #[inline(always)]
    pub fn and<S: Scalar>(self, count: usize) -> Self {
        if count == 0 {
            return self;
        }
        let bytes = count.saturating_mul(size_of::<S>());
        Extent { end: align_up(self.end, align_of_wire::<S>()).saturating_add(bytes).min(POSITION_MAX) }
    }
}

/// The part of a result packet that is taken for arguments written in place, given out argument by argument.
pub struct Views<'a> {
    rest: &'a mut [u8],
    /// Where `rest` begins, from the start of the payload.
    position: usize,
}

impl<'a> Views<'a> {
    #[inline(always)]
    pub(crate) fn new(rest: &'a mut [u8], position: usize) -> Self {
        Views { rest, position }
    }

    /// The next `count` scalars.
    ///
    /// # Panics
    /// If the extent reserved did not count them, or there is no memory for a copy of them.
    #[inline(always)]
    pub fn slice<S: Scalar>(&mut self, count: usize) -> OutView<'a, [S]> {
        let chunk = self.chunk::<S>(count);
        if !is_native::<S>() {
            return OutView::Copied { values: copied(chunk).expect(COPIED), home: chunk };
        }
        match <[S]>::mut_from_bytes(chunk) {
            Ok(values) => OutView::InPlace(values),
            Err(error) => {
                let home = error.into_src();
                OutView::Copied { values: copied(home).expect(COPIED), home }
            }
        }
    }

    /// The next `N` scalars, as an array.
    ///
    /// # Panics
    /// If the extent reserved did not count them, or there is no memory for a copy of them.
    #[inline(always)]
    pub fn array<S: Scalar, const N: usize>(&mut self) -> OutView<'a, [S; N]> {
        let chunk = self.chunk::<S>(N);
        if !is_native::<S>() {
            return OutView::Copied { values: copied_array(chunk).expect(COPIED), home: chunk };
        }
        match <[S; N]>::mut_from_bytes(chunk) {
            Ok(values) => OutView::InPlace(values),
            Err(error) => {
                let home = error.into_src();
                OutView::Copied { values: copied_array(home).expect(COPIED), home }
            }
        }
    }

    #[inline(always)]
    fn chunk<S: Scalar>(&mut self, count: usize) -> &'a mut [u8] {
        if count == 0 {
            return &mut [];
        }
        let rest = core::mem::take(&mut self.rest);
        let padding_len = align_up(self.position, align_of_wire::<S>()) - self.position;
        let (padding, rest) = rest.split_at_mut(padding_len);
        let (chunk, rest) = rest.split_at_mut(count * size_of::<S>());
        padding.fill(0);
        self.position += padding_len + chunk.len();
        self.rest = rest;
        chunk
    }
}

/// Scalars in a result packet, written there by the procedure: a `[S]` or a `[S; N]`. They begin as the bytes that the packet
/// held before.
pub enum OutView<'a, T: ?Sized> {
    /// As they lie there.
    InPlace(&'a mut T),
    /// Elsewhere, because they cannot be used as they lie there.
    Copied {
        /// The value that the procedure sees.
        values: Box<T>,
        /// Where it belongs.
        home: &'a mut [u8],
    },
}

impl<T: ?Sized> Deref for OutView<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self {
            OutView::InPlace(values) => values,
            OutView::Copied { values, .. } => values,
        }
    }
}

impl<T: ?Sized> DerefMut for OutView<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        match self {
            OutView::InPlace(values) => values,
            OutView::Copied { values, .. } => values,
        }
    }
}

impl<T: ?Sized> OutView<'_, T> {
    /// Completes the result once the procedure has returned.
    #[inline(always)]
    pub fn finish<S: Scalar>(self)
    where
        T: AsRef<[S]>,
    {
        if let OutView::Copied { values, home } = self {
            S::store_scalars((*values).as_ref(), home);
        }
    }
}

/// Message of the panic, which ends the call and not the process.
const COPIED: &str = "the process has memory for a copy of an argument that the procedure writes";

/// Whether scalars lie in memory as they do in a packet.
#[inline(always)]
const fn is_native<S>() -> bool {
    cfg!(target_endian = "little") || size_of::<S>() == 1
}

#[cold]
fn copied<S: Scalar>(chunk: &[u8]) -> Result<Box<[S]>, DecodeError> {
    let mut values = zeros(chunk.len() / size_of::<S>())?.into_boxed_slice();
    S::load_scalars(chunk, &mut values);
    Ok(values)
}

#[cold]
fn copied_array<S: Scalar, const N: usize>(chunk: &[u8]) -> Result<Box<[S; N]>, DecodeError> {
    Ok(copied(chunk)?.try_into().unwrap_or_else(|_| unreachable!("the chunk has the bytes of N scalars")))
}
