//! A set of bytes of one message, as disjoint ranges in rising order.

use alloc::vec::Vec;
use core::ops::Range;
use core::{mem, slice};

/// Each pair is the first byte of a range and the byte after its last. Most sets have one range, and no memory of their own.
#[derive(Clone, Debug)]
pub(super) enum Ranges {
    One((u32, u32)),
    /// None, or several; or one that is left of several.
    Many(Vec<(u32, u32)>),
}

impl Ranges {
    pub(super) const fn new() -> Self {
        Self::Many(Vec::new())
    }

    #[inline]
    pub(super) fn all(&self) -> &[(u32, u32)] {
        match self {
            Self::One(range) => slice::from_ref(range),
            Self::Many(ranges) => ranges,
        }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [(u32, u32)] {
        match self {
            Self::One(range) => slice::from_mut(range),
            Self::Many(ranges) => ranges,
        }
    }

    /// Bytes from the beginning of the message without a gap.
    #[inline]
    pub(super) fn up_to(&self) -> u32 {
        match self.all().first() {
            Some(&(0, end)) => end,
            _ => 0,
        }
    }

    /// The ranges behind [`up_to`](Self::up_to).
    pub(super) fn beyond(&self) -> &[(u32, u32)] {
        let skip = usize::from(self.up_to() > 0);
        self.all().get(skip..).unwrap_or_default()
    }

    /// The byte behind the last range.
    pub(super) fn end(&self) -> u32 {
        self.all().last().map_or(0, |range| range.1)
    }

    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(super) fn first(&self) -> Option<(u32, u32)> {
        self.all().first().copied()
    }

    /// The ranges that have a byte in `start..end`.
    pub(super) fn touching(&self, start: u32, end: u32) -> &[(u32, u32)] {
        let all = self.all();
        let from = all.partition_point(|range| range.1 <= start);
        let len = all[from..].partition_point(|range| range.0 < end);
        &all[from..from + len]
    }

    /// Adds `start..end`, unless that would make more than `most` ranges. Returns how many bytes were not there before.
    #[inline]
    pub(super) fn insert(&mut self, start: u32, end: u32, most: usize) -> Option<u32> {
        debug_assert!(start < end);
        // Bytes usually arrive in order, after nothing or after a gap.
        match self.all_mut().last_mut() {
            Some(last) if last.1 == start => {
                last.1 = end;
                Some(end - start)
            }
            _ => self.insert_anywhere(start, end, most),
        }
    }

    fn insert_anywhere(&mut self, start: u32, end: u32, most: usize) -> Option<u32> {
        let all = self.all();
        // Ranges that overlap the new one, or touch it, are merged with it.
        let from = all.partition_point(|range| range.1 < start);
        let to = from + all[from..].partition_point(|range| range.0 <= end);
        let joined = &all[from..to];
        if joined.is_empty() && all.len() >= most {
            return None;
        }
        let here: u32 = joined.iter().map(|&(first, last)| overlap((first, last), (start, end))).sum();
        let whole = match joined {
            [] => (start, end),
            [first, ..] => (start.min(first.0), end.max(joined[joined.len() - 1].1)),
        };
        self.replace(from..to, &[whole]);
        Some(end - start - here)
    }

    /// Puts other ranges in the place of these.
    fn replace(&mut self, place: Range<usize>, by: &[(u32, u32)]) {
        let is_all = place.len() == self.count();
        let before = mem::replace(self, Self::new());
        *self = match (before, by) {
            (_, []) if is_all => return,
            (_, &[range]) if is_all => Self::One(range),
            (before, _) => {
                let mut all = match before {
                    Self::One(range) => alloc::vec![range],
                    Self::Many(ranges) => ranges,
                };
                all.splice(place, by.iter().copied());
                Self::Many(all)
            }
        };
    }

    /// Makes all offsets smaller by `by`, up to which no byte is missing, or before which none is here.
    pub(super) fn rebase(&mut self, by: u32) {
        self.all_mut()
            .iter_mut()
            .for_each(|(start, end)| (*start, *end) = (start.saturating_sub(by), *end - by));
        // All but the first begin behind it.
        if self.first().is_some_and(|(start, end)| start == end) {
            self.replace(0..1, &[]);
        }
    }

    /// Removes `start..end`. Returns how many of its bytes were in the set.
    pub(super) fn remove(&mut self, start: u32, end: u32) -> u32 {
        let all = self.all();
        let from = all.partition_point(|range| range.1 <= start);
        let to = from + all[from..].partition_point(|range| range.0 < end);
        let Some(&[(first, _), ..]) = all.get(from..to) else { return 0 };
        let last = all[to - 1].1;
        let here = all[from..to].iter().map(|&range| overlap(range, (start, end))).sum();
        let left = [(first, start), (end, last)];
        let (before, behind) = (usize::from(first >= start), 1 + usize::from(end < last));
        self.replace(from..to, &left[before..behind]);
        here
    }
}

/// Number of bytes that are in both ranges.
fn overlap(one: (u32, u32), other: (u32, u32)) -> u32 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::tests::Random;

    const ANY: usize = usize::MAX;

    fn ranges(of: &[(u32, u32)]) -> Ranges {
        let mut ranges = Ranges::new();
        of.iter().for_each(|&(start, end)| assert!(ranges.insert(start, end, ANY).is_some()));
        ranges
    }

    #[test]
    fn bytes_in_order_are_one_range() {
        let ranges = ranges(&[(0, 10), (10, 20), (20, 21)]);
        assert_eq!((ranges.up_to(), ranges.beyond()), (21, &[][..]));
    }

    #[test]
    fn the_missing_bytes_close_a_gap() {
        let mut ranges = ranges(&[(0, 10), (20, 30), (40, 50)]);
        assert_eq!((ranges.up_to(), ranges.beyond()), (10, &[(20, 30), (40, 50)][..]));
        assert_eq!(ranges.insert(5, 45, ANY), Some(20));
        assert_eq!((ranges.up_to(), ranges.beyond()), (50, &[][..]));
    }

    #[test]
    fn a_range_too_many_is_not_taken() {
        let mut ranges = ranges(&[(10, 11), (20, 21)]);
        assert_eq!(ranges.insert(30, 31, 2), None);
        assert_eq!(ranges.insert(11, 12, 2), Some(1), "what lies side by side needs no room");
        assert_eq!(ranges.insert(21, 30, 2), Some(9));
    }

    #[test]
    fn removal_may_cut_a_range_in_two() {
        let mut ranges = ranges(&[(0, 100)]);
        assert_eq!(ranges.remove(40, 60), 20);
        assert_eq!((ranges.up_to(), ranges.beyond()), (40, &[(60, 100)][..]));
        assert_eq!(ranges.remove(40, 60), 0);
        assert_eq!(ranges.remove(0, 200), 80);
        assert!(ranges.is_empty());
    }

    #[test]
    fn any_sequence_of_operations_equals_a_set_of_bytes() {
        const LEN: u32 = 120;
        for seed in 0..200 {
            let (mut random, mut ranges, mut bytes) = (Random(seed), Ranges::new(), [false; LEN as usize]);
            for _ in 0..60 {
                let start = random.below(LEN);
                let end = start + 1 + random.below(LEN - start).min(20);
                let place = &mut bytes[start as usize..end as usize];
                let there = place.iter().filter(|&&there| there).count() as u32;
                if random.below(3) > 0 {
                    place.fill(true);
                    assert_eq!(ranges.insert(start, end, ANY), Some(end - start - there));
                } else {
                    place.fill(false);
                    assert_eq!(ranges.remove(start, end), there);
                }
                assert!(ranges.all().windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:?}");
                for (at, &there) in bytes.iter().enumerate() {
                    assert_eq!(!ranges.touching(at as u32, at as u32 + 1).is_empty(), there);
                }
            }
        }
    }
}
