//! The provisional bindings of a server that makes sealed bindings only: those on which callers authenticate themselves.

use crate::Instant;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use stoop_wire::BindingId;

/// Time for a handshake; then the binding is released.
const LIFE: Duration = Duration::from_secs(10);

/// Provisional bindings are at most one part in so many of all bindings,
const PART: usize = 8;
/// and so many.
const MOST: usize = 1024;

/// When there are too many, room is made for one in so many.
const ROOM: usize = 16;

/// The provisional bindings, the oldest first. Some may have been released since.
#[derive(Debug, Default)]
pub(super) struct Provisional {
    all: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    id: BindingId,
    host: [u8; 16],
    begun: Instant,
}

impl Provisional {
    /// How many there may be among so many bindings.
    fn most(bindings: usize) -> usize {
        (bindings / PART).clamp(1, MOST)
    }

    /// The bindings that have to go before there is another one among at most `bindings`: those whose time has passed; and if there are
    /// too many, the oldest of the hosts with the most. `is_there` tells which have not been released.
    ///
    /// Some more go than have to, for in a flood each binding is one too many, and to find those that go takes as long as many binds.
    pub(super) fn superfluous(
        &mut self,
        now: Instant,
        bindings: usize,
        mut is_there: impl FnMut(BindingId) -> bool,
    ) -> Vec<BindingId> {
        let mut superfluous = Vec::new();
        while let Some(first) = self.all.front()
            && (now.since(first.begun) >= LIFE || !is_there(first.id))
        {
            superfluous.extend(self.all.pop_front().map(|entry| entry.id));
        }
        let most = Self::most(bindings);
        if self.all.len() >= most {
            self.all.retain(|entry| is_there(entry.id));
            let room = most.div_ceil(ROOM);
            self.take_of_greediest((self.all.len() + room).saturating_sub(most), &mut superfluous);
        }
        superfluous
    }

    /// Takes so many out: one after another the oldest of the host with the most, and among such hosts the oldest of all.
    fn take_of_greediest(&mut self, count: usize, taken: &mut Vec<BindingId>) {
        let mut of_host = BTreeMap::<_, usize>::new();
        // Each as one of so many that its host has from then on.
        let newest_first = self.all.iter().enumerate().rev();
        let mut places: Vec<_> = newest_first
            .map(|(place, entry)| {
                let of_host = of_host.entry(entry.host).or_default();
                *of_host += 1;
                (Reverse(*of_host), place)
            })
            .collect();
        places.sort_unstable();
        let mut places: Vec<_> = places.into_iter().take(count).map(|(_, place)| place).collect();
        places.sort_unstable();
        for place in places.into_iter().rev() {
            taken.extend(self.all.remove(place).map(|entry| entry.id));
        }
    }

    /// How many have not been released.
    pub(super) fn count(&self, is_there: impl Fn(BindingId) -> bool) -> usize {
        self.all.iter().filter(|entry| is_there(entry.id)).count()
    }

    /// There is one more.
    pub(super) fn add(&mut self, now: Instant, id: BindingId, host: [u8; 16]) {
        self.all.push_back(Entry { id, host, begun: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> BindingId {
        BindingId(number)
    }

    #[test]
    fn the_oldest_of_the_host_with_the_most_goes_when_there_are_too_many() {
        let (mut provisional, now) = (Provisional::default(), Instant::from_nanos(0));
        provisional.add(now, id(1), [1; 16]);
        (2..=4).for_each(|number| provisional.add(now, id(number), [2; 16]));
        assert_eq!(provisional.superfluous(now, 40, |_| true), [], "five of forty");
        assert_eq!(provisional.superfluous(now, 32, |_| true), [id(2)]);
        assert_eq!(provisional.superfluous(now, 32, |_| true), []);
    }

    #[test]
    fn in_a_flood_from_many_hosts_the_oldest_go_whatever_their_addresses_and_room_is_made_for_many() {
        let (mut provisional, now) = (Provisional::default(), Instant::from_nanos(0));
        // A host with two, then all others, the first of them with the greatest address.
        (0..2).for_each(|number| provisional.add(now, id(number), [7; 16]));
        (2..MOST as u64).for_each(|number| {
            provisional.add(now, id(number), u128::to_be_bytes(u128::MAX - u128::from(number)));
        });
        let room = (MOST / ROOM) as u64;
        let taken = provisional.superfluous(now, PART * MOST, |_| true);
        let expected: Vec<_> = [0].into_iter().chain((1..room).rev()).map(id).collect();
        assert_eq!(taken.len() as u64, room);
        assert!(expected.iter().all(|it| taken.contains(it)), "{taken:?}");
        for number in 0..room {
            assert_eq!(provisional.superfluous(now, PART * MOST, |_| true), []);
            provisional.add(now, id(MOST as u64 + number), [number as u8; 16]);
        }
        assert_eq!(provisional.superfluous(now, PART * MOST, |_| true).len() as u64, room);
    }

    #[test]
    fn those_that_were_released_or_whose_time_has_passed_make_room_first() {
        let (mut provisional, begun) = (Provisional::default(), Instant::from_nanos(0));
        (1..=4).for_each(|number| provisional.add(begun, id(number), [number as u8; 16]));
        assert_eq!(provisional.superfluous(begun, 32, |id| id.0 != 3), [], "there is room for one");
        assert_eq!(provisional.superfluous(begun, 80, |id| id.0 > 1), [id(1)]);
        let later = begun + LIFE;
        assert_eq!(provisional.superfluous(later, 32, |_| true), [id(2), id(4)]);
    }
}
