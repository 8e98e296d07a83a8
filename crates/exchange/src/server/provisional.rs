//! The provisional bindings of a server that makes sealed bindings only: those on which callers authenticate themselves.

use crate::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::BindingId;

/// Time for a handshake; then the binding is released.
const LIFE: Duration = Duration::from_secs(10);

/// Provisional bindings are at most one part in so many of all bindings,
const PART: usize = 8;
/// and so many.
const MOST: usize = 1024;

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

    /// The binding that has to go before there is another one among at most `bindings`: one whose time has passed, or if there are too
    /// many, the oldest of the host with the most. `is_there` tells which have not been released.
    pub(super) fn superfluous(
        &mut self,
        now: Instant,
        bindings: usize,
        mut is_there: impl FnMut(BindingId) -> bool,
    ) -> Option<BindingId> {
        if let Some(first) = self.all.front()
            && (now.since(first.begun) >= LIFE || !is_there(first.id))
        {
            return self.all.pop_front().map(|entry| entry.id);
        }
        if self.all.len() < Self::most(bindings) {
            return None;
        }
        self.all.retain(|entry| is_there(entry.id));
        if self.all.len() < Self::most(bindings) {
            return None;
        }
        let mut hosts: Vec<_> = self.all.iter().map(|entry| entry.host).collect();
        hosts.sort_unstable();
        let greediest = hosts.chunk_by(|one, other| one == other).max_by_key(|of_host| of_host.len())?[0];
        let oldest = self.all.iter().position(|entry| entry.host == greediest)?;
        self.all.remove(oldest).map(|entry| entry.id)
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
        assert_eq!(provisional.superfluous(now, 40, |_| true), None, "five of forty");
        assert_eq!(provisional.superfluous(now, 32, |_| true), Some(id(2)));
        assert_eq!(provisional.superfluous(now, 32, |_| true), None);
    }

    #[test]
    fn those_that_were_released_or_whose_time_has_passed_make_room_first() {
        let (mut provisional, begun) = (Provisional::default(), Instant::from_nanos(0));
        (1..=4).for_each(|number| provisional.add(begun, id(number), [number as u8; 16]));
        assert_eq!(provisional.superfluous(begun, 32, |id| id.0 != 3), None, "there is room for one");
        let later = begun + LIFE;
        assert_eq!(provisional.superfluous(later, 32, |_| true), Some(id(1)));
        assert_eq!(provisional.superfluous(begun, 80, |id| id.0 != 2), Some(id(2)));
    }
}
