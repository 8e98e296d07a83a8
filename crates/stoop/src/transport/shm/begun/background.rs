//! The background thread's work for begun calls over shared memory.
//!
//! A call that is published, answered and taken by the thread of its handle needs nothing of it. While there are only such calls, the
//! thread sleeps until the server announces a long result, which keeps other results from coming until it is taken. While
//! it manages calls itself, each answer wakes it, unless all of them have pipes: calls beside a pipe take no longer than without it.

use crate::calling::background::{self, Background, Driven, Rest};
use crate::locked::locked;
use crate::transport::shm::begun::managed_calls::{ManagedCalls, State};
use crate::transport::shm::caller::session::Session;
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_shm::listening::{self, Event};

/// While calls are answered on a session before the present one, where the thread does not sleep, it looks so often.
const ELSEWHERE_NS: u64 = 1_000_000;

/// Which session the thread has looked at, and how many of its long results.
pub(crate) struct Seen {
    generation: u64,
    long_results: u32,
}

impl Default for Seen {
    fn default() -> Self {
        Self { generation: u64::MAX, long_results: 0 }
    }
}

impl Driven for ManagedCalls {
    type Memory = Seen;

    fn background(&self) -> &Background {
        &self.background
    }

    fn run_due(self: &Arc<Self>, seen: &mut Seen) -> Rest {
        let session = self.binding.present();
        let announced = listening::long_results(&session.segment);
        if (seen.generation, seen.long_results) != (session.generation, announced) || session.is_lost() {
            self.tables().iter().for_each(|table| table.hand_over_due());
            *seen = Seen { generation: session.generation, long_results: announced };
        }
        self.advance();
        let has_queued = self.state().has_queued();
        if (session.is_lost() || session.is_closing()) && has_queued {
            background::start_binding(self);
            return Rest::For(Duration::from_nanos(self.left_ns().min(ELSEWHERE_NS)));
        }
        let Some(event) = self.awaited_event(has_queued) else { return Rest::Idle };
        self.listen(&session, event, announced);
        Rest::None
    }

    /// Calls that this thread manages keep it busy, also those that were detached since its last turn: their lanes are free.
    /// Handles of calls of a lost session look at them by themselves.
    fn has_nothing_to_do(&self) -> bool {
        let state = self.state();
        let has_calls = state.calls.open_count() > 0 || !state.piped.is_empty();
        drop(state);
        !has_calls && !self.has_lanes_in_use()
    }

    fn interrupt(&self) {
        if let Some(session) = &*locked(&self.listened) {
            listening::wake(&session.segment);
        }
    }

    fn bind_again(self: &Arc<Self>) {
        let lost = self.binding.present();
        let attempted_ns = clock::now_ns();
        let bound = match () {
            () if lost.is_lost() => self.binding.rebind(&lost, None, Instant::NEVER).map(drop),
            () if lost.is_closing() => self.binding.leave(&lost, Instant::NEVER),
            () => return,
        };
        if let Err(why) = bound {
            self.end_queued(attempted_ns, &why);
        }
    }
}

impl ManagedCalls {
    fn has_lanes_in_use(&self) -> bool {
        self.tables().iter().any(|table| !table.session.is_lost() && table.is_in_use())
    }

    /// The event for which the thread waits, if it waits for one.
    fn awaited_event(&self, has_queued: bool) -> Option<Event> {
        let has_lanes_in_use = self.has_lanes_in_use();
        let State { calls, piped, closing, .. } = &mut *self.state();
        let is_open = calls.open_count() > 0 || !piped.is_empty();
        // The server tells of the answer to a call with pipes as of a long message.
        let with_pipes = piped.iter().filter(|piped| piped.is_attended(calls)).count();
        let is_attended = calls.attended() > with_pipes || has_queued || *closing;
        match is_open {
            true if is_attended => Some(Event::Answer),
            true => Some(Event::LongMessage),
            false => has_lanes_in_use.then_some(Event::LongMessage),
        }
    }

    /// Time until the earliest deadline, or until a call is queued again.
    fn left_ns(&self) -> u64 {
        let state = self.state();
        state.calls.earliest_ns().min(state.next_postponed_ns()).saturating_sub(clock::now_ns())
    }

    fn listen(&self, session: &Arc<Session>, event: Event, seen: u32) {
        let mut left_ns = self.left_ns();
        if self.has_calls_elsewhere(session) {
            left_ns = left_ns.min(ELSEWHERE_NS);
        }
        if left_ns > 0 {
            // First: a thread that wakes this one before is seen below.
            *locked(&self.listened) = Some(Arc::clone(session));
            listening::sleep(&session.segment, event, left_ns, || {
                self.background.is_woken()
                    || listening::long_results(&session.segment) != seen
                    || self.can_advance(session, event)
            });
            *locked(&self.listened) = None;
        }
    }
}
