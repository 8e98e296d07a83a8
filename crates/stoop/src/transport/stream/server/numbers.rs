//! The latest call of each lane of a connection.

use stoop_wire::{CallNumber, Header};

/// The number of the latest call of each lane, in one respect.
#[derive(Default)]
pub(super) struct Numbers(Vec<CallNumber>);

impl Numbers {
    /// Notes a call. `None`: it is not after the latest of its lane.
    #[inline]
    pub(super) fn note(&mut self, call: &Header) -> Option<()> {
        let lane = usize::from(call.lane.0);
        if self.0.len() <= lane {
            self.make_room(lane);
        }
        let latest = &mut self.0[lane];
        call.number.is_after(*latest).then(|| *latest = call.number)
    }

    #[cold]
    fn make_room(&mut self, lane: usize) {
        self.0.resize(lane + 1, CallNumber::ZERO);
    }

    /// Whether it is the latest of its lane.
    pub(super) fn is_latest(&self, call: &Header) -> bool {
        self.0.get(usize::from(call.lane.0)) == Some(&call.number)
    }

    /// Whether there was none on that lane that is so late.
    pub(super) fn is_before(&self, call: &Header) -> bool {
        let latest = self.0.get(usize::from(call.lane.0)).copied().unwrap_or(CallNumber::ZERO);
        call.number.is_after(latest)
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::stream::server::numbers::*;
    use stoop_wire::{BindingId, Kind, LaneId};

    #[test]
    fn the_numbers_of_a_lane_rise() {
        let call = |lane, number| Header::bare(Kind::Call, BindingId(1), LaneId(lane), CallNumber(number));
        let mut numbers = Numbers::default();
        assert!(numbers.is_before(&call(3, 1)) && !numbers.is_before(&call(3, 0)));
        assert!(numbers.note(&call(3, 7)).is_some() && numbers.note(&call(0, 1)).is_some());
        for earlier in [7, 6, 0] {
            assert!(!numbers.is_before(&call(3, earlier)) && numbers.note(&call(3, earlier)).is_none());
        }
        assert!(
            numbers.note(&call(3, u32::MAX / 2)).is_some() && numbers.note(&call(3, u32::MAX - 1)).is_some()
        );
        assert!(numbers.note(&call(3, 0)).is_some());
    }
}
