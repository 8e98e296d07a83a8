//! The lanes of one binding, allocated a few at a time, so that a caller that names the last lane first takes little
//! memory. Those of a quiet caller [rest](Lanes::rest) in less.

mod resting;

use super::lane::LaneState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use resting::{Resting, RestingGroup};
use stoop_wire::LaneId;

/// Lanes allocated together.
const LANES_OF_GROUP: usize = 4;
/// Pointers to groups allocated together.
const ROW: usize = 16;

type Group<P> = Box<[LaneState<P>; LANES_OF_GROUP]>;
type Row<P> = Box<[Option<Group<P>>; ROW]>;

/// Lanes by number. A lane that is not allocated has never been used.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    /// The first group. Most callers have few threads, and need no rows.
    first: Option<Group<P>>,
    rows: Vec<Option<Row<P>>>,
    resting: Resting,
}

#[cold]
fn group<P>() -> Group<P> {
    Box::new(core::array::from_fn(|_| LaneState::default()))
}

impl<P> Default for Lanes<P> {
    fn default() -> Self {
        Self { first: None, rows: Vec::new(), resting: Resting::default() }
    }
}

impl<P> Lanes<P> {
    #[inline]
    pub(super) fn get_mut(&mut self, LaneId(lane): LaneId) -> Option<&mut LaneState<P>> {
        let (number, place) = (usize::from(lane) / LANES_OF_GROUP, usize::from(lane) % LANES_OF_GROUP);
        if !self.is_awake(number) {
            self.wake(number)?;
        }
        let group = match number {
            0 => &mut self.first,
            number => &mut self.rows.get_mut(number / ROW)?.as_mut()?[number % ROW],
        };
        Some(&mut group.as_mut()?[place])
    }

    /// The lane of that number, if it is allocated and does not rest.
    pub(super) fn awake(&self, LaneId(lane): LaneId) -> Option<&LaneState<P>> {
        let (number, place) = (usize::from(lane) / LANES_OF_GROUP, usize::from(lane) % LANES_OF_GROUP);
        let group = match number {
            0 => &self.first,
            number => &self.rows.get(number / ROW)?.as_ref()?[number % ROW],
        };
        Some(&group.as_ref()?[place])
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
        let (number, place) = (usize::from(lane.0) / LANES_OF_GROUP, usize::from(lane.0) % LANES_OF_GROUP);
        if !self.is_awake(number) && self.wake(number).is_none() {
            if number > 0 && !take(LANES_OF_GROUP) {
                return None;
            }
            self.put(number, group());
        }
        let group = match number {
            0 => &mut self.first,
            number => &mut self.rows[number / ROW].as_mut()?[number % ROW],
        };
        Some(&mut group.as_mut()?[place])
    }

    /// Whether the lanes of that group are allocated, and do not rest.
    #[inline]
    fn is_awake(&self, number: usize) -> bool {
        match number {
            0 => self.first.is_some(),
            number => matches!(self.rows.get(number / ROW), Some(Some(row)) if row[number % ROW].is_some()),
        }
    }

    /// Wakes the lanes of that group; `None` if they do not rest.
    #[cold]
    #[inline(never)]
    fn wake(&mut self, number: usize) -> Option<()> {
        let group = self.resting.wake(number)?;
        self.put(number, group);
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn put(&mut self, number: usize, group: Group<P>) {
        if number == 0 {
            return self.first = Some(group);
        }
        if number / ROW >= self.rows.len() {
            self.rows.resize_with(number / ROW + 1, || None);
        }
        let row = self.rows[number / ROW].get_or_insert_with(|| Box::new([const { None }; ROW]));
        row[number % ROW] = Some(group);
    }

    /// Puts the lanes to rest on which nothing is under way and nothing is retained, a group at a time: together they take one
    /// block of memory, a quarter of what they took before. A lane that is looked up wakes.
    pub(super) fn rest(&mut self) {
        let rests = |(number, group): (usize, &Group<P>)| Some((number as u16, rest_of(group)?));
        let rested: Vec<(u16, RestingGroup)> = self.groups().filter_map(rests).collect();
        if rested.is_empty() {
            return;
        }
        let mut resting = mem::take(&mut self.resting);
        let numbers: Vec<u16> = rested.iter().map(|(number, _)| *number).collect();
        resting.add(rested, |number| self.is_awake(number));
        self.resting = resting;
        numbers.into_iter().for_each(|number| self.free(number.into()));
        self.rows.iter_mut().for_each(|row| _ = row.take_if(|groups| groups.iter().all(Option::is_none)));
        if self.rows.iter().all(Option::is_none) {
            self.rows = Vec::new();
        }
    }

    fn free(&mut self, number: usize) {
        match number {
            0 => self.first = None,
            number => {
                if let Some(row) = &mut self.rows[number / ROW] {
                    row[number % ROW] = None;
                }
            }
        }
    }

    /// How many lanes rest.
    pub(super) fn resting(&self) -> usize {
        LANES_OF_GROUP * self.resting.numbers().filter(|number| !self.is_awake(*number)).count()
    }

    /// Whether there is a lane, awake or not.
    pub(super) fn is_any(&self) -> bool {
        self.iter().next().is_some() || self.resting.numbers().next().is_some()
    }

    /// The groups that are awake, with their numbers.
    fn groups(&self) -> impl Iterator<Item = (usize, &Group<P>)> {
        let rows =
            self.rows.iter().enumerate().filter_map(|(number, row)| Some((number * ROW, row.as_ref()?)));
        let groups = rows.flat_map(|(first, row)| (first..).zip(row.iter()));
        let others = groups.filter_map(|(number, group)| Some((number, group.as_ref()?)));
        self.first.iter().map(|group| (0, group)).chain(others)
    }

    /// The lanes that are awake.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LaneState<P>> {
        let others = self.rows.iter().flatten().flat_map(|row| row.iter().flatten());
        self.first.iter().chain(others).flat_map(|group| group.iter())
    }

    /// The lanes that are awake, with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (LaneId, &LaneState<P>)> {
        self.groups()
            .flat_map(|(number, group)| (number * LANES_OF_GROUP..).zip(group.iter()))
            .map(|(number, lane)| (LaneId(number as u16), lane))
    }

    /// The lanes that are awake.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LaneState<P>> {
        let others = self.rows.iter_mut().flatten().flat_map(|row| row.iter_mut().flatten());
        self.first.iter_mut().chain(others).flat_map(|group| group.iter_mut())
    }

    /// Bytes of memory in use.
    pub(super) fn bytes_held(&self) -> usize {
        self.rows.capacity() * size_of::<Option<Row<P>>>()
            + self.rows.iter().flatten().count() * size_of::<[Option<Group<P>>; ROW]>()
            + self.iter().map(LaneState::bytes_held).sum::<usize>()
            + self.resting.bytes_held()
    }
}

/// The numbers and outcomes of a group's newest calls; `None` if a call is under way on one of its lanes, or its answer retained.
fn rest_of<P>(group: &Group<P>) -> Option<RestingGroup> {
    let [first, second, third, fourth] = &**group;
    Some([first.rest()?, second.rest()?, third.rest()?, fourth.rest()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;
    use crate::server::lane::{Age, Answer};
    use stoop_wire::{CallNumber, RefusalCode};

    #[test]
    fn one_lane_with_a_high_number_takes_little_memory() {
        let mut lanes = Lanes::<()>::default();
        assert!(lanes.get_or_make(LaneId(16_383), 16_384, |_| true).is_some());
        assert!(lanes.bytes_held() < 2560, "{}", lanes.bytes_held());
        assert!(lanes.get_mut(LaneId(0)).is_none() && lanes.get_mut(LaneId(16_383)).is_some());
        assert_eq!(lanes.iter().count(), LANES_OF_GROUP);
    }

    #[test]
    fn every_lane_is_found_where_it_was_made() {
        let mut lanes = Lanes::<()>::default();
        for lane in 0..1000 {
            lanes.get_or_make(LaneId(lane), 1000, |_| true).unwrap().number = CallNumber(u32::from(lane));
        }
        assert!((0..1000).all(|lane| lanes.get_mut(LaneId(lane)).unwrap().number.0 == u32::from(lane)));
        assert!(lanes.iter().map(|lane| lane.number.0).eq(0..1000));
        assert!(lanes.numbered().all(|(lane, state)| u32::from(lane.0) == state.number.0));
    }

    #[test]
    fn resting_lanes_take_little_memory_and_wake_as_they_were() {
        let mut lanes = Lanes::<()>::default();
        for lane in 0..4096 {
            let state = lanes.get_or_make(LaneId(lane), 4096, |_| true).unwrap();
            state.forbid(CallNumber(u32::from(lane)), RefusalCode::Cancelled);
        }
        let before = lanes.bytes_held();
        let running = lanes.get_mut(LaneId(77)).unwrap();
        assert!(running.begin(CallNumber(1000)).is_none());
        running.begin_without_packet(Instant::default(), || true);
        lanes.rest();
        assert_eq!((lanes.resting(), lanes.iter().count(), lanes.is_any()), (4092, 4, true));
        assert!(lanes.bytes_held() < before / 3, "{} of {before}", lanes.bytes_held());
        for lane in (0..4096).filter(|lane| *lane != 77) {
            let state = lanes.get_or_make(LaneId(lane), 4096, |_| panic!("it is granted already")).unwrap();
            assert_eq!(state.number.0, u32::from(lane));
            assert_eq!(state.on_call(Age::Same), Answer::SayRefused(RefusalCode::Cancelled));
        }
        assert_eq!((lanes.resting(), lanes.iter().count()), (0, 4096));
    }

    #[test]
    fn lanes_that_wake_and_rest_again_keep_their_newest_call() {
        let mut lanes = Lanes::<()>::default();
        for number in 1..5 {
            let state = lanes.get_or_make(LaneId(9), 16, |_| true).unwrap();
            assert_eq!(state.number.0, number - 1);
            state.forbid(CallNumber(number), RefusalCode::Cancelled);
            // Another group, so that an entry is added beside the one that no longer counts.
            lanes.get_or_make(LaneId(4 * number as u16), 32, |_| true).unwrap();
            lanes.rest();
            lanes.rest();
        }
        assert_eq!((lanes.resting(), lanes.get_mut(LaneId(9)).unwrap().number.0), (16, 4));
        assert!(lanes.get_mut(LaneId(31)).is_none());
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
        assert!(lanes.get_or_make(LaneId(4), 1000, |lanes| lanes == LANES_OF_GROUP).is_some());
        assert!(lanes.get_or_make(LaneId(7), 1000, |_| false).is_some(), "it is there already");
    }
}
