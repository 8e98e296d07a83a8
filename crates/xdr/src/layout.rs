//! The layout of a type: facts about its bytes that hold for every value.

/// The length of a type's XDR form: a constant, or at least a minimum. Always a multiple of 4 (RFC 4506 §3).
///
/// A type is *fixed* when all its values take the same number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    min: usize,
    is_fixed: bool,
}

impl Layout {
    /// A type whose values all take `len` bytes.
    ///
    /// # Panics
    /// If `len` is not a multiple of 4: at compile time, where a constant is computed.
    pub const fn fixed(len: usize) -> Self {
        assert!(len.is_multiple_of(4), "every XDR form is a multiple of 4 bytes");
        Layout { min: len, is_fixed: true }
    }

    /// A type whose values differ in length; the shortest takes `min` bytes.
    ///
    /// # Panics
    /// If `min` is not a multiple of 4.
    pub const fn variable(min: usize) -> Self {
        assert!(min.is_multiple_of(4), "every XDR form is a multiple of 4 bytes");
        Layout { min, is_fixed: false }
    }

    /// Fields one after the other, as in a struct (RFC 4506 §4.14): fixed if all of them are.
    pub const fn record(fields: &[Layout]) -> Self {
        let mut all = Layout::fixed(0);
        let mut index = 0;
        while index < fields.len() {
            all.min = all.min.saturating_add(fields[index].min);
            all.is_fixed &= fields[index].is_fixed;
            index += 1;
        }
        all
    }

    /// `count` of these one after the other, as in an array of fixed length (RFC 4506 §4.12).
    pub const fn array(self, count: usize) -> Self {
        Layout { min: self.min.saturating_mul(count), is_fixed: self.is_fixed }
    }

    /// Opaque data of `len` bytes, padded to a multiple of 4 (RFC 4506 §4.9).
    pub const fn opaque(len: usize) -> Self {
        Layout::fixed(padded(len))
    }

    /// Bytes of every value, or `None` if values differ.
    #[inline(always)]
    pub const fn fixed_len(self) -> Option<usize> {
        if self.is_fixed { Some(self.min) } else { None }
    }

    /// Bytes of the shortest value.
    #[inline(always)]
    pub const fn min(self) -> usize {
        self.min
    }
}

/// `len` rounded up to a multiple of 4; the largest such `usize` if there is none above.
#[inline(always)]
pub(crate) const fn padded(len: usize) -> usize {
    match len.checked_add(3) {
        Some(sum) => sum & !3,
        None => usize::MAX & !3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_fixed_if_all_its_fields_are() {
        let word = Layout::fixed(4);
        assert_eq!(Layout::record(&[word, word.array(3), Layout::opaque(5)]), Layout::fixed(24));
        assert_eq!(Layout::record(&[word, Layout::variable(4)]), Layout::variable(8));
        assert_eq!(Layout::record(&[]).fixed_len(), Some(0));
    }

    #[test]
    fn lengths_are_rounded_up_to_words() {
        assert_eq!([0, 1, 3, 4, 5].map(padded), [0, 4, 4, 4, 8]);
        assert_eq!(padded(usize::MAX), usize::MAX - 3);
    }
}
