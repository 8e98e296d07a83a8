//! Records that are written and read in an older form.

use crate::{DecodeError, EncodeError, Form, Layout, Reader, Writer};

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
        if form.is_strict() && !is_default() {
            self.fail(EncodeError::Inexpressible { item, since });
        }
    }

    /// Writes a variant that the peer does not know: in results as the variant with the number `otherwise`, if there is one.
    #[cold]
    pub fn other_variant(&mut self, form: Form, (item, since): (&'static str, u32), otherwise: Option<u32>) {
        match otherwise.filter(|_| !form.is_strict()) {
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
    pub fn begin_record(&mut self, layout: Layout, charge: usize) -> Result<RecordAt, DecodeError> {
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
    pub fn end_record(&mut self, record: RecordAt) -> Result<(), DecodeError> {
        match record.end {
            Some(end) => self.chunk(1, end.saturating_sub(self.position())).map(drop),
            None => {
                self.leave(record.charge);
                Ok(())
            }
        }
    }
}
