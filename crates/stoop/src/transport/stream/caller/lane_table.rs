//! The lanes of a connection: which are free, and for which call or thread an answer on each of the others is.

use crate::calling::call_table::Outcome;
use crate::transport::stream::caller::answer::Arrived;
use crate::transport::stream::caller::mailbox::{Delivery, Mailbox};
use std::sync::Arc;
use stoop_wire::{CallNumber, LaneId};

/// A begun call of a binding. Its place in the call table is used again; `id` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId {
    pub(crate) place: u32,
    pub(crate) id: u64,
}

/// A begun call that has been answered.
pub(crate) struct Answered {
    pub(crate) call: CallId,
    pub(crate) outcome: Outcome,
    /// How long it was at the server, in nanoseconds, if the answer is a result that tells it.
    pub(crate) server_ns: Option<u64>,
}

/// The lanes of a connection.
pub(crate) struct LaneTable {
    lanes: Vec<Lane>,
    free: Vec<u16>,
    /// How many the server allows.
    most: u16,
}

struct Lane {
    /// The last call, unless a thread has the lane: then its mailbox knows.
    last: CallNumber,
    user: User,
    /// A long call still leaves on it, perhaps after its answer. The next message would come between its fragments.
    is_leaving: bool,
}

enum User {
    /// The lane is free, or its call did not leave.
    None,
    Thread(Arc<Mailbox>),
    Call(CallId),
    /// No begun call waits for the answer any more. It makes the lane free.
    Abandoned,
}

impl LaneTable {
    pub(crate) fn new(most: u16) -> Self {
        Self { lanes: Vec::new(), free: Vec::new(), most }
    }

    /// A free lane; `None` while the server owes answers on all.
    fn take_free(&mut self) -> Option<u16> {
        if let Some(lane) = self.free.pop() {
            return Some(lane);
        }
        let lane = u16::try_from(self.lanes.len()).ok().filter(|lane| *lane < self.most)?;
        self.lanes.push(Lane { last: CallNumber::ZERO, user: User::None, is_leaving: false });
        Some(lane)
    }

    /// A lane for a thread's calls, until its mailbox [abandons](Mailbox::abandon) one.
    pub(crate) fn take_for_thread(&mut self) -> Option<Arc<Mailbox>> {
        let number = self.take_free()?;
        let lane = &mut self.lanes[usize::from(number)];
        let mailbox = Arc::new(Mailbox::new(LaneId(number), lane.last));
        lane.user = User::Thread(Arc::clone(&mailbox));
        Some(mailbox)
    }

    /// A lane for one begun call, and the call's number on it.
    #[inline]
    pub(crate) fn take_for_call(&mut self, call: CallId) -> Option<(LaneId, CallNumber)> {
        let number = self.take_free()?;
        let lane = &mut self.lanes[usize::from(number)];
        (lane.last, lane.user) = (lane.last.next(), User::Call(call));
        Some((LaneId(number), lane.last))
    }

    /// As [`take_for_call`](Self::take_for_call), for a call that leaves fragment by fragment, until it [has left](Self::left).
    pub(crate) fn take_for_long_call(&mut self, call: CallId) -> Option<(LaneId, CallNumber)> {
        let taken = self.take_for_call(call);
        if let Some((lane, _)) = taken {
            self.lanes[usize::from(lane.0)].is_leaving = true;
        }
        taken
    }

    /// No more of the long call on that lane leaves. If it has been answered, its lane is free.
    pub(crate) fn left(&mut self, number: LaneId) {
        let lane = &mut self.lanes[usize::from(number.0)];
        lane.is_leaving = false;
        if matches!(lane.user, User::None) {
            self.free.push(number.0);
        }
    }

    /// A begun call has not left, or has been answered: its lane is free, unless a part of the call still leaves.
    pub(crate) fn give_back(&mut self, number: LaneId) {
        let lane = &mut self.lanes[usize::from(number.0)];
        lane.user = User::None;
        if !lane.is_leaving {
            self.free.push(number.0);
        }
    }

    /// The begun call on that lane is not waited for any more. Returns its number, unless it has been answered.
    pub(crate) fn abandon(&mut self, lane: LaneId, call: CallId) -> Option<CallNumber> {
        let lane = &mut self.lanes[usize::from(lane.0)];
        let is_expected = matches!(lane.user, User::Call(expected) if expected == call);
        is_expected.then(|| {
            lane.user = User::Abandoned;
            lane.last
        })
    }

    /// Gives an answer to the thread that waits for it, or to `answered` if it ends a begun call. Returns whether it does either.
    #[inline]
    pub(crate) fn deliver(&mut self, arrived: Arrived<'_>, answered: &mut Vec<Answered>) -> bool {
        let header = arrived.header;
        let Some(lane) = self.lanes.get_mut(usize::from(header.lane.0)) else { return false };
        let is_last = lane.last == header.number;
        let is_wanted = match &lane.user {
            User::Thread(mailbox) => match mailbox.deliver(arrived) {
                Delivery::Delivered => return true,
                Delivery::Ignored => return false,
                Delivery::Freed => {
                    lane.last = header.number;
                    false
                }
            },
            User::Call(call) if is_last => {
                let server_ns = arrived.header.server_ns();
                answered.push(Answered { call: *call, outcome: arrived.into_outcome(), server_ns });
                true
            }
            User::Abandoned if is_last => false,
            _ => return false,
        };
        self.give_back(header.lane);
        is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::stream::caller::answer::Answer;
    use stoop_wire::{BindingId, Header, Kind};

    fn arrived(lane: LaneId, number: CallNumber) -> Arrived<'static> {
        let header = Header::bare(Kind::Failure, BindingId(1), lane, number);
        Arrived { header, answer: Answer::Message(header), message: None }
    }

    fn call(id: u64) -> CallId {
        CallId { place: 0, id }
    }

    #[test]
    fn a_lane_carries_the_next_call_only_when_the_last_has_been_answered() {
        let mut lanes = LaneTable::new(1);
        let (lane, first) = lanes.take_for_call(call(1)).unwrap();
        assert!(lanes.take_for_call(call(2)).is_none() && lanes.take_for_thread().is_none());
        let mut answered = vec![];
        assert!(lanes.deliver(arrived(lane, first), &mut answered));
        assert_eq!(answered[0].call, call(1));
        assert!(!lanes.deliver(arrived(lane, first), &mut answered), "an answer comes once");
        let (_, second) = lanes.take_for_call(call(2)).unwrap();
        assert!(second.is_after(first));
        assert_eq!(answered.len(), 1);
    }

    #[test]
    fn the_lane_of_a_call_that_is_answered_while_it_leaves_is_free_when_it_has_left() {
        let mut lanes = LaneTable::new(1);
        let (lane, number) = lanes.take_for_long_call(call(1)).unwrap();
        assert!(lanes.deliver(arrived(lane, number), &mut vec![]));
        assert!(lanes.take_for_call(call(2)).is_none());
        lanes.left(lane);
        let (lane, number) = lanes.take_for_long_call(call(2)).unwrap();
        lanes.left(lane);
        assert!(lanes.take_for_call(call(3)).is_none(), "it has not been answered");
        assert!(lanes.deliver(arrived(lane, number), &mut vec![]));
        assert!(lanes.take_for_call(call(3)).is_some() && lanes.take_for_call(call(4)).is_none());
    }

    #[test]
    fn the_answer_to_an_abandoned_call_frees_its_lane_and_ends_no_call() {
        let mut lanes = LaneTable::new(1);
        let (lane, number) = lanes.take_for_call(call(1)).unwrap();
        assert_eq!(lanes.abandon(lane, call(2)), None);
        assert_eq!(lanes.abandon(lane, call(1)), Some(number));
        assert!(lanes.take_for_thread().is_none());
        assert!(!lanes.deliver(arrived(lane, number), &mut vec![]));
        let mailbox = lanes.take_for_thread().unwrap();
        assert!(mailbox.expect().is_after(number));
        assert!(mailbox.abandon(&mut vec![]).is_none());
        assert!(!lanes.deliver(arrived(lane, number.next()), &mut vec![]));
        assert!(lanes.take_for_call(call(3)).is_some());
    }
}
