//! Reading and writing the fields of bind messages, in order and without alignment.

use alloc::vec::Vec;

/// The bytes left to read.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads two bytes of length, then so many bytes.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.u16()?);
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads a text: two bytes of length, then UTF-8.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        core::str::from_utf8(self.bytes()?).ok()
    }
}

/// Appends a text as [`Cursor::text`] reads it, truncated at a character boundary to at most `max` bytes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, max: usize) {
    let end = text.floor_char_boundary(max.min(usize::from(u16::MAX)));
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}
