//! The lanes of one binding, allocated a few at a time, so that a caller that names the last lane first takes little
//! memory.

use super::lane::LaneState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::LaneId;

/// Lanes allocated together.
const GROUP: usize = 4;
/// Pointers to groups allocated together.
const ROW: usize = 16;

type Group<P> = Box<[LaneState<P>; GROUP]>;
type Row<P> = Box<[Option<Group<P>>; ROW]>;

/// Lanes by number. A lane that is not allocated has never been used.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    /// The first group. Most callers have few threads, and need no rows.
    first: Option<Group<P>>,
    rows: Vec<Option<Row<P>>>,
}

#[cold]
fn group<P>() -> Group<P> {
    Box::new(core::array::from_fn(|_| LaneState::default()))
}

impl<P> Default for Lanes<P> {
    fn default() -> Self {
        Self { first: None, rows: Vec::new() }
    }
}

impl<P> Lanes<P> {
    #[inline]
    pub(super) fn get_mut(&mut self, LaneId(lane): LaneId) -> Option<&mut LaneState<P>> {
        let (group, place) = (usize::from(lane) / GROUP, usize::from(lane) % GROUP);
        let group = match group {
            0 => &mut self.first,
            group => &mut self.rows.get_mut(group / ROW)?.as_mut()?[group % ROW],
        };
        Some(&mut group.as_mut()?[place])
    }

    /// The lane of that number, allocated when it is first used; `None` if the number is not below `limit`, or if `take`
    /// does not grant the lanes that are allocated together. The first few lanes need no grant.
    #[inline]
    pub(super) fn get_or_make(
        &mut self,
        lane: LaneId,
        limit: u16,
        take: impl FnOnce(usize) -> bool,
    ) -> Option<&mut LaneState<P>> {
        if lane.0 >= limit {
            return None;
        }
        if usize::from(lane.0) < GROUP {
            return Some(&mut self.first.get_or_insert_with(group)[usize::from(lane.0)]);
        }
        let number = usize::from(lane.0) / GROUP;
        let has_group = matches!(self.rows.get(number / ROW), Some(Some(row)) if row[number % ROW].is_some());
        if !has_group {
            if !take(GROUP) {
                return None;
            }
            self.make(number);
        }
        let row = self.rows[number / ROW].as_mut()?;
        Some(&mut row[number % ROW].as_mut()?[usize::from(lane.0) % GROUP])
    }

    /// Allocates the lanes of that group.
    #[cold]
    fn make(&mut self, number: usize) {
        if number / ROW >= self.rows.len() {
            self.rows.resize_with(number / ROW + 1, || None);
        }
        let row = self.rows[number / ROW].get_or_insert_with(|| Box::new([const { None }; ROW]));
        row[number % ROW] = Some(group());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LaneState<P>> {
        let others = self.rows.iter().flatten().flat_map(|row| row.iter().flatten());
        self.first.iter().chain(others).flat_map(|group| group.iter())
    }

    /// The lanes with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (LaneId, &LaneState<P>)> {
        let rows =
            self.rows.iter().enumerate().filter_map(|(number, row)| Some((number * ROW, row.as_ref()?)));
        let groups = rows.flat_map(|(first, row)| (first..).zip(row.iter()));
        let others = groups.filter_map(|(number, group)| Some((number, group.as_ref()?)));
        let all = self.first.iter().map(|group| (0, group)).chain(others);
        all.flat_map(|(number, group)| (number * GROUP..).zip(group.iter()))
            .map(|(number, lane)| (LaneId(number as u16), lane))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LaneState<P>> {
        let others = self.rows.iter_mut().flatten().flat_map(|row| row.iter_mut().flatten());
        self.first.iter_mut().chain(others).flat_map(|group| group.iter_mut())
    }

    /// Bytes of memory in use.
    pub(super) fn bytes_held(&self) -> usize {
        self.rows.capacity() * size_of::<Option<Row<P>>>()
            + self.rows.iter().flatten().count() * size_of::<[Option<Group<P>>; ROW]>()
            + self.iter().map(LaneState::bytes_held).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lane_with_a_high_number_takes_little_memory() {
        let mut lanes = Lanes::<()>::default();
        assert!(lanes.get_or_make(LaneId(16_383), 16_384, |_| true).is_some());
        assert!(lanes.bytes_held() < 2560, "{}", lanes.bytes_held());
        assert!(lanes.get_mut(LaneId(0)).is_none() && lanes.get_mut(LaneId(16_383)).is_some());
        assert_eq!(lanes.iter().count(), GROUP);
    }

    #[test]
    fn every_lane_is_found_where_it_was_made() {
        let mut lanes = Lanes::<()>::default();
        for lane in 0..1000 {
            lanes.get_or_make(LaneId(lane), 1000, |_| true).unwrap().number =
                stoop_wire::CallNumber(u32::from(lane));
        }
        assert!((0..1000).all(|lane| lanes.get_mut(LaneId(lane)).unwrap().number.0 == u32::from(lane)));
        assert!(lanes.iter().map(|lane| lane.number.0).eq(0..1000));
        assert!(lanes.numbered().all(|(lane, state)| u32::from(lane.0) == state.number.0));
    }

    #[test]
    fn a_lane_at_the_limit_is_refused_even_within_an_allocated_group() {
        let mut lanes = Lanes::<()>::default();
        assert!(lanes.get_or_make(LaneId(0), 1, |_| true).is_some());
        assert!(lanes.get_or_make(LaneId(1), 1, |_| true).is_none());
    }

    #[test]
    fn lanes_beyond_the_first_group_are_made_only_if_they_are_granted() {
        let mut lanes = Lanes::<()>::default();
        assert!(lanes.get_or_make(LaneId(3), 1000, |_| false).is_some());
        assert!(lanes.get_or_make(LaneId(4), 1000, |_| false).is_none());
        assert!(lanes.get_or_make(LaneId(4), 1000, |lanes| lanes == GROUP).is_some());
        assert!(lanes.get_or_make(LaneId(7), 1000, |_| false).is_some(), "it is there already");
    }
}
