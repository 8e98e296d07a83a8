//! The form of an item in a pipe.
//!
//! | bytes | field |
//! |---|---|
//! | 0–3 | bytes of the item |
//! | 4 | flags; 0 |
//! | 5–7 | how many items were [skipped](crate::Sender::send_latest) before this one; saturates |
//! | 8… | the item in native form, with positions from its own beginning; then zeros up to a multiple of 8 |
//!
//! Fixed numbers and texts (`[u8]`, `[f64]`, `str`) lie as they are, without a count.

use stoop_marshal::DecodeError;

/// Bytes before an item.
pub(crate) const HEAD: usize = 8;
/// The most that the number of skipped items can be.
const SKIPPED_MAX: u32 = 0xff_ffff;

/// An item that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    item: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record of an item with these bytes, which are fewer than 2³².
    pub(crate) fn of(item: &'a [u8]) -> Self {
        Self { item }
    }

    /// The bytes of the item.
    pub(crate) fn item(&self) -> &'a [u8] {
        self.item
    }

    /// Bytes of the record.
    pub(crate) fn len(&self) -> usize {
        len_of(self.item.len())
    }

    /// Writes it behind `bytes`, after so many items that were skipped.
    #[inline]
    pub(crate) fn put(&self, skipped: u32, bytes: &mut Vec<u8>) {
        let (head, item, padding) = self.parts(skipped);
        bytes.reserve(self.len());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(item);
        bytes.extend_from_slice(padding);
    }

    /// Its bytes one behind the other, after so many items that were skipped.
    #[inline]
    pub(crate) fn parts(&self, skipped: u32) -> ([u8; HEAD], &'a [u8], &'static [u8]) {
        let word = skipped.min(SKIPPED_MAX) << 8;
        let head = u64::from(self.item.len() as u32) | u64::from(word) << 32;
        let padding = self.len() - HEAD - self.item.len();
        (head.to_le_bytes(), self.item, &[0; HEAD][..padding])
    }
}

/// Bytes of a record whose item has so many.
fn len_of(item: usize) -> usize {
    HEAD + item.next_multiple_of(HEAD)
}

/// The head of a record that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the item.
    pub(crate) item: usize,
    /// Items that were skipped before it.
    pub(crate) skipped: u32,
}

impl Head {
    /// Reads the head of the first record in `bytes`; `None` while it has not arrived.
    ///
    /// # Errors
    /// It is none, or the item is longer than `most` bytes.
    #[inline]
    pub(crate) fn of(bytes: &[u8], most: usize) -> Result<Option<Self>, DecodeError> {
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let word = u64::from_le_bytes(*head);
        let (item, rest) = (word as u32 as usize, (word >> 32) as u32);
        if rest & 0xff != 0 || item > most {
            return Err(DecodeError::CountTooLarge { count: word as u32 });
        }
        Ok(Some(Self { item, skipped: rest >> 8 }))
    }

    /// Bytes of the record.
    pub(crate) fn record_len(&self) -> usize {
        len_of(self.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_begins_at_a_multiple_of_eight() {
        for len in [0, 1, 7, 8, 9, 4096] {
            let (item, mut bytes) = (vec![7; len], Vec::new());
            Record::of(&item).put(u32::MAX, &mut bytes);
            assert_eq!((bytes.len(), bytes.len() % HEAD), (Record::of(&item).len(), 0));
            let head = Head::of(&bytes, len).unwrap().unwrap();
            assert_eq!((head.item, head.skipped, head.record_len()), (len, SKIPPED_MAX, bytes.len()));
            assert_eq!(bytes[HEAD..HEAD + len], item);
        }
    }

    #[test]
    fn a_head_with_flags_or_of_a_long_item_is_none() {
        let mut bytes = Vec::new();
        Record::of(&[1, 2, 3]).put(0, &mut bytes);
        assert!(Head::of(&bytes, 2).is_err() && Head::of(&bytes[..7], 3) == Ok(None));
        bytes[4] = 1;
        assert!(Head::of(&bytes, 3).is_err());
    }
}
