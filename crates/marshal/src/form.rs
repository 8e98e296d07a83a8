//! The form of a message for a peer that knows an interface as at an older revision.
//!
//! Items (fields, variants, parameters) that came with a later revision are no part of such a message. The end that knows more
//! translates: it leaves them out of what it writes, and gives them their defaults in what it reads.

use crate::{EncodeError, Layout, Reader, Writer};

/// A revision of the types in a message, and what its writer may leave out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    revision: u32,
    is_strict: bool,
}

impl Form {
    /// The form of arguments: an item that the peer does not know is left out only if it has its default.
    pub const fn of_arguments(revision: u32) -> Self {
        Form { revision, is_strict: true }
    }

    /// The form of results: items that the peer does not know are left out.
    pub const fn of_results(revision: u32) -> Self {
        Form { revision, is_strict: false }
    }

    /// The revision.
    #[inline(always)]
    pub const fn revision(self) -> u32 {
        self.revision
    }

    /// Whether an item that came with that revision is part of the message.
    #[inline(always)]
    pub const fn has(self, since: u32) -> bool {
        since <= self.revision
    }

    /// The number of the variant at `position` of an enum whose variants came with these revisions.
    #[inline]
    pub fn number_of(self, since: &[u32], position: usize) -> u32 {
        since[..position].iter().filter(|since| self.has(**since)).count() as u32
    }

    /// The position of the variant that has that number; `None` if there is none.
    #[inline]
    pub fn position_of(self, since: &[u32], number: u32) -> Option<usize> {
        let known = since.iter().enumerate().filter(|(_, since)| self.has(**since));
        known.map(|(position, _)| position).nth(number as usize)
    }
}

/// Whether a value is its default. A value that does not equal itself (NaN) is, if the default does not either.
pub fn is_default<T: PartialEq + ?Sized>(value: &T, default: &T) -> bool {
    #[allow(clippy::eq_op)]
    let (is_nan, is_nan_too) = (value != value, default != default);
    value == default || is_nan && is_nan_too
}

/// A record that is being written or read in an older form.
#[must_use = "a record that has begun ends"]
pub struct RecordAt {
    /// Where a record of a fixed size ends.
    end: Option<usize>,
    charge: usize,
}

impl Writer<'_> {
    /// Begins a record that has this layout in the form; to be followed by [`end_record`](Self::end_record). `None`, and nothing more is to
    /// be written, when it is too deep or something has failed already.
    #[inline]
    pub fn begin_record(&mut self, layout: Layout, charge: usize) -> Option<RecordAt> {
        if let Some(size) = layout.size() {
            let _ = self.chunk(layout.align(), 0);
            return Some(RecordAt { end: Some(self.position() + size), charge });
        }
        self.enter(charge).then_some(RecordAt { end: None, charge })
    }

    /// Ends a record: pads one of a fixed size.
    #[inline]
    pub fn end_record(&mut self, record: RecordAt) {
        match record.end {
            Some(end) => {
                let padding = end.saturating_sub(self.position());
                if padding > 0
                    && let Some(chunk) = self.chunk(1, padding)
                {
                    chunk.fill(0);
                }
            }
            None => self.leave(record.charge),
        }
    }

    /// Leaves out an item that the peer does not know. Arguments cannot be sent then, unless the item `is_default`.
    #[inline]
    pub fn leave_out(
        &mut self,
        form: Form,
        (item, since): (&'static str, u32),
        is_default: impl FnOnce() -> bool,
    ) {
        if form.is_strict && !is_default() {
            self.fail(EncodeError::Inexpressible { item, since });
        }
    }

    /// Writes a variant that the peer does not know: in results as the variant with the number `otherwise`, if there is one.
    #[cold]
    pub fn other_variant(&mut self, form: Form, (item, since): (&'static str, u32), otherwise: Option<u32>) {
        match otherwise.filter(|_| !form.is_strict) {
            Some(number) => self.fixed(&number),
            None => self.fail(EncodeError::Inexpressible { item, since }),
        }
    }
}

impl Reader<'_> {
    /// Begins a record that has this layout in the form; to be followed by [`end_record`](Self::end_record), unless reading fails.
    ///
    /// # Errors
    /// When that is deeper than the stack allows, or the payload ends before.
    #[inline]
    pub fn begin_record(&mut self, layout: Layout, charge: usize) -> Result<RecordAt, crate::DecodeError> {
        let end = match layout.size() {
            Some(size) => {
                self.chunk(layout.align(), 0)?;
                Some(self.position() + size)
            }
            None => {
                self.enter(charge)?;
                None
            }
        };
        Ok(RecordAt { end, charge })
    }

    /// Ends a record: skips the padding of one of a fixed size.
    ///
    /// # Errors
    /// When the payload ends before.
    #[inline]
    pub fn end_record(&mut self, record: RecordAt) -> Result<(), crate::DecodeError> {
        match record.end {
            Some(end) => self.chunk(1, end.saturating_sub(self.position())).map(drop),
            None => {
                self.leave(record.charge);
                Ok(())
            }
        }
    }
}
