//! How a thread waits for begun calls: it looks at their lanes, or sleeps there.

use crate::calling::deadline::Deadline;
use crate::locked::locked;
use crate::transport::shm::begun::calls::{Location, SessionCalls};
use crate::transport::shm::caller::lanes::Lane;
use crate::transport::shm::caller::result_wait::ResultWait;
use stoop_net::clock;
use stoop_shm::Answers;
use stoop_shm::listening::{self, Event};

/// How long a thread looks for the answer to a detached call before it leaves the call to the background thread: it may be a call of
/// a lost session.
const LOOKED_FOR_NS: u64 = 2_000_000;

impl SessionCalls {
    /// Waits until one of these calls has ended, at most until that time.
    pub(super) fn wait(&self, calls: &[u32], until_ns: u64) -> Option<usize> {
        let ended = self.ended_among(calls);
        if ended.is_some() {
            return ended;
        }
        calls.iter().for_each(|&call| self.publish_held(call));
        let mut wait = self.take_wait();
        let ended = loop {
            if let Some(ended) = self.ended_among(calls) {
                break Some(ended);
            }
            match self.deadline_on_lanes(calls) {
                Some(deadline_ns) => self.wait_on_lanes(&mut wait, calls, deadline_ns.min(until_ns)),
                None => self.wait_for_managed(calls, until_ns),
            }
            if let Some(ended) = self.ended_among(calls) {
                break Some(ended);
            }
            let now_ns = clock::now_ns();
            calls.iter().for_each(|&call| self.check(call));
            if until_ns <= now_ns {
                break self.ended_among(calls);
            }
        };
        locked(&self.waits).push(wait);
        ended
    }

    fn take_wait(&self) -> ResultWait {
        let unused = locked(&self.waits).pop();
        unused
            .unwrap_or_else(|| ResultWait::new(self.managed.binding.options.waiting, self.session.placement))
    }

    #[inline]
    fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        calls.iter().position(|&call| self.has_ended(call))
    }

    /// The earliest deadline of calls that are all on lanes; `None` if some are managed.
    fn deadline_on_lanes(&self, calls: &[u32]) -> Option<u64> {
        calls.iter().try_fold(u64::MAX, |earliest_ns, &call| match self.find(call) {
            Location::Slot(slot, _) => Some(earliest_ns.min(slot.deadline_ns())),
            Location::Managed(..) => None,
        })
    }

    fn wait_on_lanes(&self, wait: &mut ResultWait, calls: &[u32], until_ns: u64) {
        let is_over = |_: &_| self.is_over(calls);
        // Whether it has ended so or not is looked at by the calling function.
        let _ = wait.wait_until(&self.session, Deadline::exact(until_ns), is_over, |session, limit_ns| {
            let segment = &session.segment;
            let lane = match calls {
                [call] => self.lane_of(*call),
                _ => None,
            };
            match lane {
                Some(lane) => Answers::sleep(segment, lane.number, lane.last, limit_ns),
                None => listening::sleep(segment, Event::Answer, limit_ns, || self.is_over(calls)),
            }
        });
    }

    fn lane_of(&self, call: u32) -> Option<Lane> {
        match self.find(call) {
            Location::Slot(slot, _) => slot.lane(),
            Location::Managed(..) => None,
        }
    }

    /// Whether one of the calls has been answered, or taken off its lane.
    #[inline]
    fn is_over(&self, calls: &[u32]) -> bool {
        calls.iter().any(|&call| match self.find(call) {
            Location::Slot(slot, seen) => slot.is_answered(seen, &self.session),
            Location::Managed(..) => true,
        })
    }

    /// Waits for a call that was detached before. This thread looks for the answer itself for a while, which is faster than to be
    /// woken by the background thread.
    pub(super) fn wait_for_reclaimed_call(&self, call: u32, until_ns: u64) {
        let Location::Managed(number, _) = self.find(call) else { return };
        let limit = Deadline::exact(until_ns.min(clock::now_ns() + LOOKED_FOR_NS));
        let is_over = || self.managed.can_advance_call(number);
        let mut wait = self.take_wait();
        let waited = wait.wait_until(
            &self.session,
            limit,
            |_| is_over(),
            |session, limit_ns| listening::sleep(&session.segment, Event::Answer, limit_ns, is_over),
        );
        locked(&self.waits).push(wait);
        if waited.is_ok() {
            self.managed.advance();
        }
        self.wait(&[call], until_ns);
    }

    /// Waits for calls of which some are managed: all of them are, from now on, and the background thread wakes this thread.
    #[cold]
    fn wait_for_managed(&self, calls: &[u32], until_ns: u64) {
        let mut numbers = Vec::with_capacity(calls.len());
        for &call in calls {
            if let Location::Slot(slot, seen) = self.find(call) {
                self.hand_over(slot, seen);
            }
            if let Location::Managed(number, _) = self.find(call) {
                numbers.push(number);
            }
        }
        // A call whose answer came at this moment is in its slot still.
        if numbers.len() == calls.len() {
            self.managed.sleep_until_ended(&numbers, until_ns);
            self.managed.advance();
        }
    }
}
