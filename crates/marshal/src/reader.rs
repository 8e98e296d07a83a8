//! Taking a payload apart, trusting nothing in it.

use crate::data::align_of_wire;
use crate::layout::align_up;
use crate::limits::{STACK_BUDGET, allocation_budget};
use crate::memory::{STEP, look_for, vec_for};
use crate::sharing::Received;
use crate::{Data, DecodeError, Form, Leading, Scalar, View};

/// Reads values from a payload, one after the other.
pub struct Reader<'a> {
    payload: &'a [u8],
    position: usize,
    /// Bytes of heap that the values have taken.
    charged: usize,
    budget: Option<usize>,
    stack_left: usize,
    received: Option<Box<Received>>,
}

impl<'a> Reader<'a> {
    /// Reads `payload` from its beginning.
    #[inline(always)]
    pub fn new(payload: &'a [u8]) -> Self {
        Reader { payload, position: 0, charged: 0, budget: None, stack_left: STACK_BUDGET, received: None }
    }

    /// Reads `payload` from byte `position` on: what is before has been taken from it already.
    pub fn after(payload: &'a [u8], position: usize) -> Self {
        Reader { position, ..Self::new(payload) }
    }

    /// As [`new`](Reader::new), with another bound on the bytes of heap that the values may take in all.
    #[inline(always)]
    pub fn with_budget(payload: &'a [u8], budget: usize) -> Self {
        Reader { budget: Some(budget), ..Self::new(payload) }
    }

    /// The whole payload, read or not, for a reader that starts at its beginning.
    #[inline(always)]
    pub fn into_payload(self) -> &'a [u8] {
        let payload = self.payload;
        // Without the check whether there are shared values to drop, a stub is a tail call from its dispatcher. A reader
        // that has read nothing has none; of another they would be lost, not misused.
        core::mem::forget(self);
        payload
    }

    /// Where the next byte is, from the start of the payload.
    #[inline(always)]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes not yet read.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.payload.len().saturating_sub(self.position)
    }

    /// Checks that the first values of a message are there, so that they need not be checked one by one.
    ///
    /// # Errors
    /// When they are not, or are followed by something where nothing should be.
    #[inline(always)]
    pub fn begin(&self, leading: Leading) -> Result<(), DecodeError> {
        match self.payload.len().checked_sub(leading.len()) {
            None => Err(DecodeError::Truncated),
            Some(count) if leading.is_all() && count > 0 => Err(DecodeError::TrailingBytes { count }),
            Some(_) => Ok(()),
        }
    }

    /// Checks that everything has been read.
    ///
    /// # Errors
    /// When bytes are left over: the peer means something else than we do.
    #[inline(always)]
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { count }),
        }
    }

    /// The next `len` bytes, at a multiple of `align`.
    ///
    /// # Errors
    /// When the payload ends before.
    #[inline(always)]
    pub fn chunk(&mut self, align: usize, len: usize) -> Result<&'a [u8], DecodeError> {
        let at = align_up(self.position, align);
        let end = at.saturating_add(len);
        let chunk = self.payload.get(at..end).ok_or(DecodeError::Truncated)?;
        self.position = end;
        Ok(chunk)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// When the bytes are not a `T`.
    #[inline(always)]
    pub fn value<T: Data>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// Reads a value of a fixed type.
    ///
    /// # Errors
    /// When the bytes are not a `T`.
    #[inline(always)]
    pub fn fixed<T: Data>(&mut self) -> Result<T, DecodeError> {
        T::load(self.chunk(T::LAYOUT.align(), T::LAYOUT.fixed_size())?)
    }

    /// Reads the count of a sequence whose elements take at least `min` bytes each.
    ///
    /// # Errors
    /// When that many could not be in the bytes left.
    #[inline(always)]
    pub fn count(&mut self, min: usize) -> Result<usize, DecodeError> {
        let count: u32 = self.fixed()?;
        match (count as usize).checked_mul(min) {
            Some(bytes) if bytes <= self.remaining() => Ok(count as usize),
            _ => Err(DecodeError::CountTooLarge { count }),
        }
    }

    /// Announces that `count` times `bytes` of heap are about to be taken.
    ///
    /// # Errors
    /// When that is more than a message of this size may take.
    #[inline]
    pub fn charge(&mut self, count: usize, bytes: usize) -> Result<(), DecodeError> {
        self.charged = self.charged.saturating_add(count.saturating_mul(bytes));
        if self.charged <= self.budget() { Ok(()) } else { Err(DecodeError::OverBudget) }
    }

    #[inline]
    fn budget(&self) -> usize {
        self.budget.unwrap_or(allocation_budget(self.payload.len()))
    }

    /// As [`charge`](Self::charge), for pieces that are allocated one by one, which cannot report a failure.
    ///
    /// # Errors
    /// Also when the process has no memory left for them.
    #[inline]
    pub(crate) fn charge_pieces(&mut self, count: usize, bytes: usize) -> Result<(), DecodeError> {
        let before = self.charged;
        self.charge(count, bytes)?;
        // If a vector has taken the rest of a step, there was memory for that vector.
        match before / STEP == self.charged / STEP {
            true => Ok(()),
            false => look_for(self.charged.saturating_add(STEP).min(self.budget()) - before),
        }
    }

    /// Reads a text in place.
    ///
    /// # Errors
    /// When it is not all there, or not UTF-8.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        let len = self.count(1)?;
        core::str::from_utf8(self.chunk(1, len)?).map_err(|_| DecodeError::BadText)
    }

    /// Reads a sequence of scalars in place; misaligned ones are copied.
    ///
    /// # Errors
    /// When they are not all there.
    #[inline(always)]
    pub fn slice<S: Scalar>(&mut self) -> Result<View<'a, [S]>, DecodeError> {
        let count = self.count(size_of::<S>())?;
        if count == 0 {
            return Ok(View::InPlace(&[]));
        }
        View::slice(self.chunk(align_of_wire::<S>(), count * size_of::<S>())?)
    }

    /// Reads an array of scalars in place; a misaligned one is copied.
    ///
    /// # Errors
    /// When it is not all there.
    #[inline(always)]
    pub fn array<S: Scalar, const N: usize>(&mut self) -> Result<View<'a, [S; N]>, DecodeError> {
        View::array(self.chunk(align_of_wire::<S>(), N * size_of::<S>())?)
    }

    /// Reads as many scalars as `values` has room for.
    ///
    /// # Errors
    /// When they are not all there; `values` is then unchanged.
    #[inline(always)]
    pub fn scalars<S: Scalar>(&mut self, values: &mut [S]) -> Result<(), DecodeError> {
        if !values.is_empty() {
            S::load_scalars(self.chunk(align_of_wire::<S>(), size_of_val(values))?, values);
        }
        Ok(())
    }

    /// Reads as many scalars as the caller of this method has asked for.
    ///
    /// # Errors
    /// When they are not all there, or there is no memory for them.
    pub fn elements<S: Scalar>(&mut self, count: usize) -> Result<Vec<S>, DecodeError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let chunk = self.chunk(align_of_wire::<S>(), count.saturating_mul(size_of::<S>()))?;
        match View::slice(chunk)? {
            View::InPlace(values) => {
                // Not cleared before: a long sequence would be written twice.
                let mut copy = vec_for(values.len())?;
                copy.extend_from_slice(values);
                Ok(copy)
            }
            View::Copied(values) => Ok(values.into_vec()),
        }
    }

    /// Reads the count of a sequence whose elements take at least `min` bytes each, and announces `bytes` of heap for
    /// each.
    ///
    /// # Errors
    /// When they could not be in the bytes left, or take more memory than a message of this size may.
    #[inline]
    pub fn counted(&mut self, min: usize, bytes: usize) -> Result<usize, DecodeError> {
        let count = self.count(min)?;
        self.charge(count, bytes.max(1))?;
        Ok(count)
    }

    /// Reads a sequence: its count and its elements.
    ///
    /// # Errors
    /// When they are not all there, or one is not a `T`.
    #[inline]
    pub fn sequence<T: Data>(&mut self) -> Result<Vec<T>, DecodeError> {
        let count = self.counted(T::LAYOUT.min(), size_of::<T>())?;
        T::decode_all(count, self)
    }

    /// As [`sequence`](Self::sequence), from a message of an older form.
    ///
    /// # Errors
    /// When they are not all there, or one is not a `T` in that form.
    #[inline]
    pub fn sequence_at<T: Data>(&mut self, form: Form) -> Result<Vec<T>, DecodeError> {
        let count = self.counted(T::layout_at(form).min(), size_of::<T>())?;
        T::decode_all_at(count, self, form)
    }

    /// Reads the number of elements that an OUT slice of a caller has room for, and makes them.
    ///
    /// # Errors
    /// When that would take more memory than a message of this size may, or than there is.
    pub fn blanks<T: Default>(&mut self) -> Result<Vec<T>, DecodeError> {
        let count = self.counted(0, size_of::<T>())?;
        let mut blanks = vec_for(count)?;
        blanks.resize_with(count, T::default);
        Ok(blanks)
    }

    /// Reads the number of elements that an OUT slice of a caller has room for.
    ///
    /// # Errors
    /// When it is not there.
    #[inline(always)]
    pub fn capacity(&mut self) -> Result<usize, DecodeError> {
        self.count(0)
    }

    /// Goes one level deeper, for `charge` bytes of stack as [`stack_charge`](crate::limits::stack_charge) estimates
    /// them; to be followed by [`leave`](Reader::leave) with the same, unless decoding fails.
    ///
    /// # Errors
    /// When that is deeper than the stack allows.
    #[inline]
    pub fn enter(&mut self, charge: usize) -> Result<(), DecodeError> {
        self.stack_left = self.stack_left.checked_sub(charge).ok_or(DecodeError::TooDeep)?;
        Ok(())
    }

    /// Comes back from one level deeper.
    #[inline]
    pub fn leave(&mut self, charge: usize) {
        self.stack_left += charge;
    }

    /// The shared values that came with this message so far.
    pub(crate) fn received(&mut self) -> &mut Received {
        self.received.get_or_insert_default()
    }
}
