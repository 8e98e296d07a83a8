//! The lanes of one binding, made a few at a time: whoever names the last lane first takes no memory for all of them.

use super::lane::LaneState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::LaneId;

/// Lanes made together.
const GROUP: usize = 4;

type Group<P> = Box<[LaneState<P>; GROUP]>;

/// Found by their numbers. What is not there has never been used.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    groups: Vec<Option<Group<P>>>,
}

impl<P> Default for Lanes<P> {
    fn default() -> Self {
        Self { groups: Vec::new() }
    }
}

fn place(LaneId(lane): LaneId) -> (usize, usize) {
    (usize::from(lane) / GROUP, usize::from(lane) % GROUP)
}

impl<P> Lanes<P> {
    #[inline]
    pub(super) fn get_mut(&mut self, lane: LaneId) -> Option<&mut LaneState<P>> {
        let (group, place) = place(lane);
        Some(&mut self.groups.get_mut(group)?.as_mut()?[place])
    }

    /// The lane of that number, made when it is first used; `None` when it is beyond `limit`.
    #[inline]
    pub(super) fn get_or_make(&mut self, lane: LaneId, limit: u16) -> Option<&mut LaneState<P>> {
        if lane.0 >= limit {
            return None;
        }
        let (group, place) = place(lane);
        if !matches!(self.groups.get(group), Some(Some(_))) {
            self.make(group);
        }
        Some(&mut self.groups[group].as_mut()?[place])
    }

    #[cold]
    fn make(&mut self, group: usize) {
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        self.groups[group] = Some(Box::new(core::array::from_fn(|_| LaneState::default())));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LaneState<P>> {
        self.groups.iter().flatten().flat_map(|group| group.iter())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LaneState<P>> {
        self.groups.iter_mut().flatten().flat_map(|group| group.iter_mut())
    }

    /// Bytes that they take.
    pub(super) fn bytes_held(&self) -> usize {
        self.groups.capacity() * size_of::<Option<Group<P>>>()
            + self.iter().map(LaneState::bytes_held).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_far_lane_takes_little_memory() {
        let mut lanes = Lanes::<()>::default();
        assert!(lanes.get_or_make(LaneId(1023), 1024).is_some());
        assert!(lanes.bytes_held() < 2048, "{}", lanes.bytes_held());
        assert!(lanes.get_mut(LaneId(0)).is_none() && lanes.get_mut(LaneId(1023)).is_some());
        assert_eq!(lanes.iter().count(), GROUP);
    }

    #[test]
    fn the_limit_counts_and_not_the_group() {
        let mut lanes = Lanes::<()>::default();
        assert!(lanes.get_or_make(LaneId(0), 1).is_some());
        assert!(lanes.get_or_make(LaneId(1), 1).is_none());
    }
}
