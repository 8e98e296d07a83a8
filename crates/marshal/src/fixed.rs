//! The fields of a fixed type within its own bytes.
//!
//! Positions are computed as the fields go by; they depend on types only, so that nothing is left of the computation in
//! an optimised build.

use crate::layout::align_up;
use crate::layouts::{LeftOut, Revision};
use crate::{Data, DecodeError};

/// Stores the fields of a fixed type into its bytes.
pub struct FixedWriter<'a> {
    chunk: &'a mut [u8],
    position: usize,
}

impl<'a> FixedWriter<'a> {
    /// Begins with the bytes of the whole value.
    #[inline(always)]
    pub fn new(chunk: &'a mut [u8]) -> Self {
        FixedWriter { chunk, position: 0 }
    }

    /// Stores the next field.
    #[inline(always)]
    pub fn field<T: Data>(mut self, value: &T) -> Self {
        let at = align_up(self.position, T::LAYOUT.align());
        let end = at + T::LAYOUT.fixed_size();
        self.chunk[self.position..at].fill(0);
        value.store(&mut self.chunk[at..end]);
        self.position = end;
        self
    }

    /// Stores the next field as at a revision.
    #[inline(always)]
    pub fn field_at<T: Data, R: Revision>(mut self, value: &T, left_out: &mut LeftOut) -> Self {
        let layout = const { T::LAYOUTS.at(R::NUMBER) };
        let at = align_up(self.position, layout.align());
        let end = at + layout.fixed_size();
        self.chunk[self.position..at].fill(0);
        value.store_at::<R>(&mut self.chunk[at..end], left_out);
        self.position = end;
        self
    }

    /// Fills what is left with zeros.
    #[inline(always)]
    pub fn end(self) {
        self.chunk[self.position..].fill(0);
    }
}

/// Loads the fields of a fixed type from its bytes.
pub struct FixedReader<'a> {
    chunk: &'a [u8],
    position: usize,
}

impl<'a> FixedReader<'a> {
    /// Begins with the bytes of the whole value.
    #[inline(always)]
    pub fn new(chunk: &'a [u8]) -> Self {
        FixedReader { chunk, position: 0 }
    }

    /// Loads the next field.
    ///
    /// # Errors
    /// When its bytes are not a `T`.
    #[inline(always)]
    pub fn field<T: Data>(&mut self) -> Result<T, DecodeError> {
        let at = align_up(self.position, T::LAYOUT.align());
        let end = at + T::LAYOUT.fixed_size();
        self.position = end;
        T::load(&self.chunk[at..end])
    }

    /// Loads the next field as at a revision.
    ///
    /// # Errors
    /// When its bytes are not a `T` at that revision.
    #[inline(always)]
    pub fn field_at<T: Data, R: Revision>(&mut self) -> Result<T, DecodeError> {
        let layout = const { T::LAYOUTS.at(R::NUMBER) };
        let at = align_up(self.position, layout.align());
        let end = at + layout.fixed_size();
        self.position = end;
        T::load_at::<R>(&self.chunk[at..end])
    }
}
