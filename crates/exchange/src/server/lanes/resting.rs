//! Lanes of quiet callers, in little memory: of each only the number of its newest call and how to answer for it.

use super::{Group, LANES_OF_GROUP, LaneState};
use crate::server::lane::Rest;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The lanes of a group, of which none has anything under way.
pub(super) type RestingGroup = [Rest; LANES_OF_GROUP];

/// Groups that rest, by number. One that is awake again may still have an entry here, which no longer counts.
#[derive(Debug, Default)]
pub(super) struct Resting(Box<[(u16, RestingGroup)]>);

impl Resting {
    /// The group of this number, awake; `None` if it has never rested.
    #[cold]
    pub(super) fn wake<P>(&self, number: usize) -> Option<Group<P>> {
        let place = self.0.binary_search_by_key(&number, |(it, _)| usize::from(*it)).ok()?;
        Some(Box::new(self.0[place].1.map(LaneState::resting)))
    }

    /// Adds groups. Those for which `is_awake` are removed first.
    pub(super) fn add(&mut self, groups: Vec<(u16, RestingGroup)>, is_awake: impl Fn(usize) -> bool) {
        let mut all = groups;
        all.extend(self.0.iter().filter(|(number, _)| !is_awake(usize::from(*number))));
        all.sort_unstable_by_key(|(number, _)| *number);
        self.0 = all.into();
    }

    /// Numbers of the groups that rest, and of some that have rested.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(number, _)| usize::from(*number))
    }

    /// Bytes of memory in use.
    pub(super) fn bytes_held(&self) -> usize {
        size_of_val(&*self.0)
    }
}
