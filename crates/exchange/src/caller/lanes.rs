//! The lanes of a session: which have been opened, and which may be used again.

use super::Lane;
use crate::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;
use stoop_wire::LaneId;

/// How long a lane stays unused after a call that was given up: the server may still be running that call, and would delay the next.
const REST: Duration = Duration::from_secs(60);

/// The lanes of a session that no call uses.
#[derive(Debug, Default)]
pub struct Lanes {
    next: u16,
    /// Lanes whose last call was given up, and when.
    idle: VecDeque<(Instant, Lane)>,
}

impl Lanes {
    /// Whether a lane can be had while the last `reserved` of the `most` lanes that the server grants stay unopened.
    pub fn has_one(&self, now: Instant, most: u16, reserved: u16) -> bool {
        self.has_rested(now) || self.next < most - reserved
    }

    /// A lane that no call uses: one that has rested, or a new one, which `open` opens. If the server grants no more than the `most` that
    /// are in use, the one that has rested longest.
    pub fn take(&mut self, now: Instant, most: u16, open: impl FnOnce(LaneId) -> Lane) -> Lane {
        if (self.has_rested(now) || self.next >= most)
            && let Some((_, lane)) = self.idle.pop_front()
        {
            return lane;
        }
        let number = LaneId(self.next);
        self.next = self.next.saturating_add(1);
        open(number)
    }

    /// Lets a lane rest whose call was given up.
    pub fn rest(&mut self, now: Instant, lane: Lane) {
        self.idle.push_back((now, lane));
    }

    /// Replaces a lane whose call was given up. If the server grants no more lanes and all are in use, it stays.
    pub fn replace(&mut self, now: Instant, most: u16, lane: &mut Lane, open: impl FnOnce(LaneId) -> Lane) {
        if self.next < most || !self.idle.is_empty() {
            let other = self.take(now, most, open);
            self.rest(now, core::mem::replace(lane, other));
        }
    }

    /// Whether the lane that has been idle longest can be used again.
    fn has_rested(&self, now: Instant) -> bool {
        self.idle.front().is_some_and(|(since, _)| now.since(*since) >= REST)
    }
}

impl Lane {
    /// Counts so many calls as made: simulations see by it what becomes of a lane whose numbers wrap around.
    #[doc(hidden)]
    pub fn skip(&mut self, calls: u32) {
        self.number.0 = self.number.0.wrapping_add(calls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RoundTrip;
    use stoop_wire::BindingId;

    fn open(number: LaneId) -> Lane {
        Lane::new(BindingId(1), number, RoundTrip::default(), 1)
    }

    #[test]
    fn a_lane_whose_call_was_given_up_is_used_again_after_a_minute_or_if_there_is_no_other() {
        let (mut lanes, begin, most) = (Lanes::default(), Instant::from_nanos(1), 3);
        let mut lane = lanes.take(begin, most, open);
        lanes.replace(begin, most, &mut lane, open);
        assert_eq!(lane.id(), LaneId(1));
        assert!(lanes.has_one(begin, most, 0) && !lanes.has_one(begin, most, 1));
        assert!(lanes.has_one(begin + REST, most, 1));
        assert_eq!(lanes.take(begin + REST, most, open).id(), LaneId(0));
        assert_eq!(lanes.take(begin + REST, most, open).id(), LaneId(2));
        lanes.replace(begin + REST, most, &mut lane, open);
        assert_eq!(lane.id(), LaneId(1), "the server grants no other");
    }
}
