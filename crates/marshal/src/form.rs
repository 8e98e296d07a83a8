//! The form of a message for a peer that knows an interface as at an older revision.
//!
//! Items (fields, variants, parameters) that came with a later revision are no part of such a message. The end that knows more
//! translates: it leaves them out of what it writes, and gives them their defaults in what it reads.

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

    /// Whether an item that the peer does not know is left out only if it has its default.
    #[inline(always)]
    pub(crate) const fn is_strict(self) -> bool {
        self.is_strict
    }

    /// Whether an item that came with that revision is part of the message.
    #[inline(always)]
    pub const fn has(self, since: u32) -> bool {
        since <= self.revision
    }

    /// The number of the variant at `position` of an enum whose variants came with these revisions.
    #[inline]
    pub fn number_of(self, since: &[u32], position: usize) -> u32 {
        number_of(since, position, self.revision)
    }

    /// The position of the variant that has that number; `None` if there is none.
    #[inline]
    pub fn position_of(self, since: &[u32], number: u32) -> Option<usize> {
        let known = since.iter().enumerate().filter(|(_, since)| self.has(**since));
        known.map(|(position, _)| position).nth(number as usize)
    }
}

/// The number that the variant at `position` has at a revision, of an enum whose variants came with these.
#[inline]
pub const fn number_of(since: &[u32], position: usize, revision: u32) -> u32 {
    let (mut number, mut index) = (0, 0);
    while index < position {
        number += (since[index] <= revision) as u32;
        index += 1;
    }
    number
}

/// Whether a value is its default. A value that does not equal itself (NaN) is, if the default does not either.
pub fn is_default<T: PartialEq + ?Sized>(value: &T, default: &T) -> bool {
    #[allow(clippy::eq_op)]
    let (is_nan, is_nan_too) = (value != value, default != default);
    value == default || is_nan && is_nan_too
}
