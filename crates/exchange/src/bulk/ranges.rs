//! A set of bytes of one message, as disjoint ranges in rising order.

use alloc::vec::Vec;

/// Each pair is the first byte of a range and the byte after its last.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Bytes from the beginning of the message without a gap.
    #[inline]
    pub(super) fn up_to(&self) -> u32 {
        match self.0.first() {
            Some(&(0, end)) => end,
            _ => 0,
        }
    }

    /// The ranges behind [`up_to`](Self::up_to).
    pub(super) fn beyond(&self) -> &[(u32, u32)] {
        let skip = usize::from(self.up_to() > 0);
        self.0.get(skip..).unwrap_or_default()
    }

    /// The byte behind the last range.
    pub(super) fn end(&self) -> u32 {
        self.0.last().map_or(0, |range| range.1)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn first(&self) -> Option<(u32, u32)> {
        self.0.first().copied()
    }

    /// The ranges that have a byte in `start..end`.
    pub(super) fn touching(&self, start: u32, end: u32) -> &[(u32, u32)] {
        let from = self.0.partition_point(|range| range.1 <= start);
        let len = self.0[from..].partition_point(|range| range.0 < end);
        &self.0[from..from + len]
    }

    /// Adds `start..end`, unless that would make more than `most` ranges. Returns how many bytes were not there before.
    #[inline]
    pub(super) fn insert(&mut self, start: u32, end: u32, most: usize) -> Option<u32> {
        debug_assert!(start < end);
        // Bytes usually arrive in order, after nothing or after a gap.
        match self.0.last_mut() {
            Some(last) if last.1 == start => {
                last.1 = end;
                Some(end - start)
            }
            _ => self.insert_anywhere(start, end, most),
        }
    }

    fn insert_anywhere(&mut self, start: u32, end: u32, most: usize) -> Option<u32> {
        // Ranges that overlap the new one, or touch it, are merged with it.
        let from = self.0.partition_point(|range| range.1 < start);
        let to = from + self.0[from..].partition_point(|range| range.0 <= end);
        if from == to {
            if self.0.len() >= most {
                return None;
            }
            self.0.insert(from, (start, end));
            return Some(end - start);
        }
        let joined = &self.0[from..to];
        let here: u32 = joined.iter().map(|&(first, last)| overlap((first, last), (start, end))).sum();
        let whole = (start.min(joined[0].0), end.max(joined[joined.len() - 1].1));
        self.0[from] = whole;
        self.0.drain(from + 1..to);
        Some(end - start - here)
    }

    /// Makes all offsets smaller by `by`, up to which no byte is missing, or before which none is here.
    pub(super) fn rebase(&mut self, by: u32) {
        self.0.iter_mut().for_each(|(start, end)| (*start, *end) = (start.saturating_sub(by), *end - by));
        self.0.retain(|(start, end)| start < end);
    }

    /// Removes `start..end`. Returns how many of its bytes were in the set.
    pub(super) fn remove(&mut self, start: u32, end: u32) -> u32 {
        let from = self.0.partition_point(|range| range.1 <= start);
        let to = from + self.0[from..].partition_point(|range| range.0 < end);
        let Some(&[(first, _), ..]) = self.0.get(from..to) else { return 0 };
        let last = self.0[to - 1].1;
        let here = self.0[from..to].iter().map(|&range| overlap(range, (start, end))).sum();
        let left = [(first, start), (end, last)];
        self.0.splice(from..to, left.into_iter().filter(|(first, last)| first < last));
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
                assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:?}");
                for (at, &there) in bytes.iter().enumerate() {
                    assert_eq!(!ranges.touching(at as u32, at as u32 + 1).is_empty(), there);
                }
            }
        }
    }
}
