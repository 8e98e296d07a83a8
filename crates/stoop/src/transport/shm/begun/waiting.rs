//! How a thread waits for calls in flight: it looks at their lanes, or sleeps there.

use crate::calling::background::Driven;
use crate::locked::locked;
use crate::transport::shm::begun::calls::{SessionCalls, Whereabouts};
use crate::transport::shm::caller::deadline::Deadline;
use crate::transport::shm::caller::result_wait::{ResultWait, WaitFailure};
use std::thread;
use std::time::Duration;
use stoop_net::clock;
use stoop_shm::Answers;
use stoop_shm::listening::{self, Event};

/// How long a detached call is looked for before it is left to the background: its answer may be one of a session that is lost.
const LOOKED_FOR_NS: u64 = 2_000_000;

/// How a wait is to go on.
enum Way {
    /// All calls are on lanes; the earliest deadline of theirs.
    Lanes(Deadline),
    /// The background has some of them.
    Background,
}

impl SessionCalls {
    /// Waits until one of these calls has ended, at most until that time.
    pub(super) fn wait(&self, calls: &[u32], until_ns: u64) -> Option<usize> {
        let place = self.ended_among(calls);
        if place.is_some() {
            return place;
        }
        calls.iter().for_each(|&call| self.let_leave(call));
        let mut result_wait = locked(&self.result_waits).pop().unwrap_or_else(|| self.result_wait());
        let place = loop {
            if let Some(place) = self.ended_among(calls) {
                break Some(place);
            }
            match self.way_of(calls) {
                Way::Lanes(deadline) => self.watch(&mut result_wait, calls, deadline.until(until_ns)),
                Way::Background => self.wait_for_keeper(calls, until_ns),
            }
            if let Some(place) = self.ended_among(calls) {
                break Some(place);
            }
            let now_ns = clock::now_ns();
            calls.iter().for_each(|&call| self.look_after(call));
            if until_ns <= now_ns {
                break self.ended_among(calls);
            }
        };
        locked(&self.result_waits).push(result_wait);
        place
    }

    fn result_wait(&self) -> ResultWait {
        ResultWait::new(self.flights.binding.options.waiting, self.session.placement)
    }

    #[inline]
    fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        calls.iter().position(|&call| self.has_ended(call))
    }

    fn way_of(&self, calls: &[u32]) -> Way {
        if let [call] = calls {
            return match self.find(*call) {
                Whereabouts::LaneSlot(place, _) => Way::Lanes(place.deadline()),
                Whereabouts::Background(..) => Way::Background,
            };
        }
        let now_ns = clock::now_ns();
        let mut earliest_ns = u64::MAX;
        for &call in calls {
            let Whereabouts::LaneSlot(place, _) = self.find(call) else { return Way::Background };
            place.refine_deadline(now_ns);
            earliest_ns = earliest_ns.min(place.deadline_ns());
        }
        Way::Lanes(Deadline::exact(earliest_ns))
    }

    /// Waits for calls on lanes.
    fn watch(&self, result_wait: &mut ResultWait, calls: &[u32], deadline: Deadline) {
        let is_so = |_: &_| self.is_over(calls);
        let waited = result_wait.wait_until(&self.session, deadline, is_so, |session, patience_ns| {
            let segment = &session.segment;
            match calls {
                [call] => {
                    if let Whereabouts::LaneSlot(place, _) = self.find(*call)
                        && let Some(lane) = place.lane()
                    {
                        Answers::sleep(segment, lane.number, lane.last, patience_ns);
                    }
                }
                _ => listening::sleep(segment, Event::Answer, patience_ns, || self.is_over(calls)),
            }
        });
        // The result_wait has read the precise clock at the wait's begin.
        if let (Err(WaitFailure::Late), [call]) = (waited, calls)
            && let Whereabouts::LaneSlot(place, _) = self.find(*call)
        {
            place.refine_deadline(result_wait.began_ns());
        }
    }

    /// Whether one of the calls has been answered, or taken off its lane.
    #[inline]
    fn is_over(&self, calls: &[u32]) -> bool {
        calls.iter().any(|&call| match self.find(call) {
            Whereabouts::LaneSlot(place, seen) => place.is_answered(seen, &self.session),
            Whereabouts::Background(..) => true,
        })
    }

    /// Waits for a call that was detached before: looks for its answer as if it was on a lane of this thread, which is faster than to
    /// be told by the background, and then leaves it to that.
    pub(super) fn wait_for_reclaimed_call(&self, call: u32, until_ns: u64) {
        let Whereabouts::Background(kept, _) = self.find(call) else { return };
        let limit_ns = until_ns.min(clock::now_ns() + LOOKED_FOR_NS);
        let is_over = || {
            let mut state = self.flights.state();
            state.calls.get_mut(kept).is_none_or(|kept| kept.can_advance())
        };
        let mut result_wait = locked(&self.result_waits).pop().unwrap_or_else(|| self.result_wait());
        let waited = result_wait.wait_until(
            &self.session,
            Deadline::exact(limit_ns),
            |_| is_over(),
            |session, patience_ns| listening::sleep(&session.segment, Event::Answer, patience_ns, is_over),
        );
        locked(&self.result_waits).push(result_wait);
        match waited {
            Ok(()) => self.flights.advance(),
            Err(WaitFailure::Late | WaitFailure::Lost) => {}
        }
        self.wait(&[call], until_ns);
    }

    /// Waits for calls of which the background has some: it gets all of them, and tells when one has ended.
    #[cold]
    fn wait_for_keeper(&self, calls: &[u32], until_ns: u64) {
        let mut kept = Vec::with_capacity(calls.len());
        for &call in calls {
            if let Whereabouts::LaneSlot(place, seen) = self.find(call) {
                self.keep(place, seen);
            }
            if let Whereabouts::Background(number, _) = self.find(call) {
                kept.push(number);
            }
        }
        let thread = thread::current();
        let mut state = self.flights.state();
        if kept.len() < calls.len() || state.calls.ended_among(&kept).is_some() {
            return;
        }
        state.calls.attend(&kept, Some(&thread));
        let deadlines = kept.iter().map(|&call| state.calls.deadline_ns(call));
        let limit_ns = deadlines.min().unwrap_or(u64::MAX).min(until_ns);
        drop(state);
        self.flights.wake_background();
        thread::park_timeout(Duration::from_nanos(limit_ns.saturating_sub(clock::now_ns())));
        self.flights.state().calls.attend(&kept, None);
        if clock::now_ns() >= limit_ns {
            self.flights.advance();
        }
    }
}
