//! Which parts of an arena are in use.

use std::collections::BTreeMap;

/// The free parts of an arena, by the offsets at which they begin. Adjacent parts are merged.
#[derive(Debug)]
pub(super) struct Ranges {
    free: BTreeMap<usize, usize>,
}

/// Unit of small ranges: no two ranges share a line.
const GRAIN: usize = 64;
/// Unit of the other ranges.
const PAGE: usize = 4096;

impl Ranges {
    /// All of `len` bytes is free.
    pub(super) fn new(len: usize) -> Self {
        Self { free: BTreeMap::from([(0, len)]) }
    }

    /// Bytes that `len` are rounded up to, and where they begin: whole pages from a page on, whole lines below. `None` for more than
    /// can be counted.
    fn rounded(len: usize) -> Option<(usize, usize)> {
        let align = if len >= PAGE { PAGE } else { GRAIN };
        Some((len.max(1).checked_next_multiple_of(align)?, align))
    }

    /// Takes `len` bytes or somewhat more from the first free part that has them. Returns where they begin and how many they are.
    pub(super) fn take(&mut self, len: usize) -> Option<(usize, usize)> {
        let (len, align) = Self::rounded(len)?;
        let fits = |(&begin, &free): (&usize, &usize)| {
            let at = begin.next_multiple_of(align);
            (at + len <= begin + free).then_some((begin, free, at))
        };
        let (begin, free, at) = self.free.iter().find_map(fits)?;
        self.free.remove(&begin);
        if at > begin {
            self.free.insert(begin, at - begin);
        }
        if at + len < begin + free {
            self.free.insert(at + len, begin + free - at - len);
        }
        Some((at, len))
    }

    /// Takes back what [`take`](Self::take) has given.
    pub(super) fn give_back(&mut self, at: usize, len: usize) {
        let (mut begin, mut end) = (at, at + len);
        if let Some((&before, &free)) = self.free.range(..at).next_back()
            && before + free == at
        {
            begin = before;
        }
        if let Some(after) = self.free.remove(&end) {
            end += after;
        }
        self.free.insert(begin, end - begin);
    }

    /// The free parts: where each begins and how long it is.
    pub(super) fn free(&self) -> impl Iterator<Item = (usize, usize)> {
        self.free.iter().map(|(&begin, &len)| (begin, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_one_again() {
        let mut ranges = Ranges::new(16 * PAGE);
        let taken = [1, 64, 65, PAGE, 3 * PAGE, 5].map(|len| ranges.take(len).unwrap());
        for (index, (at, len)) in taken.iter().enumerate() {
            assert!(at.is_multiple_of(GRAIN) && len.is_multiple_of(GRAIN));
            assert!(taken[..index].iter().all(|(other, long)| at + len <= *other || other + long <= *at));
        }
        for index in [2, 0, 5, 3, 1, 4] {
            ranges.give_back(taken[index].0, taken[index].1);
        }
        assert_eq!(ranges.free().collect::<Vec<_>>(), [(0, 16 * PAGE)]);
    }

    #[test]
    fn pages_begin_at_pages_and_what_is_before_them_stays_free() {
        let mut ranges = Ranges::new(4 * PAGE);
        assert_eq!(ranges.take(10), Some((0, GRAIN)));
        assert_eq!(ranges.take(PAGE), Some((PAGE, PAGE)));
        assert_eq!(ranges.take(10), Some((GRAIN, GRAIN)));
        assert_eq!(ranges.take(2 * PAGE), Some((2 * PAGE, 2 * PAGE)));
        assert_eq!(ranges.take(PAGE), None);
    }

    #[test]
    fn more_than_there_is_is_not_given() {
        let mut ranges = Ranges::new(4 * PAGE);
        for len in [4 * PAGE + 1, usize::MAX - 1, usize::MAX, isize::MAX as usize] {
            assert_eq!(ranges.take(len), None, "{len}");
        }
        assert_eq!(ranges.take(4 * PAGE), Some((0, 4 * PAGE)));
        assert_eq!(ranges.take(0), None);
    }
}
