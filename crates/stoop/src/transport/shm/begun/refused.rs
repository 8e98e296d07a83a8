//! Begun calls that the server has refused, and that are sent again: later if it is overloaded, to another server if it shuts down.

use crate::calling::background::Driven;
use crate::calling::call_table::Wakeup;
use crate::error::CallError;
use crate::transport::shm::begun::managed_calls::{CallKey, ManagedCalls, State, find};
use crate::transport::shm::caller::session::Session;
use stoop_calls::life::Next;
use stoop_exchange::Instant;
use stoop_net::clock;

impl ManagedCalls {
    /// Ends a call with this refusal, unless it is to be sent again.
    #[cold]
    pub(super) fn end_or_come_again(&self, key: CallKey, error: CallError) -> Option<Wakeup> {
        let left = self.left();
        let mut state = self.state();
        let deadline = Instant::from_nanos(state.calls.deadline_ns(key.0));
        let managed = find(&mut state.calls, key)?;
        let idempotent = self.binding.is_idempotent(managed.procedure);
        let wait = |refused, refusals| self.binding.wait_after_begun(left, refused, refusals, deadline);
        match managed.fate.after_error(&error, idempotent, wait) {
            Next::End(told) => {
                let error = managed.fate.error(told, Some(error), || managed.waited());
                return state.calls.end(key.0, Err(error)).if_awaited();
            }
            Next::Later(wait) => {
                managed.refused = Some(Box::new(error));
                let until = Instant::from_nanos(clock::now_ns()) + wait;
                state.postponed.push((until.as_nanos(), key));
            }
            Next::Bind(_) | Next::Send => {
                managed.refused = Some(Box::new(error));
                state.requeue(key);
            }
        }
        drop(state);
        self.wake_background();
        None
    }

    /// Whether calls have left on a session before the present one, whose server may answer them still.
    pub(super) fn has_calls_elsewhere(&self, present: &Session) -> bool {
        let State { calls, sent, piped, .. } = &mut *self.state();
        piped.iter().any(|piped| piped.is_elsewhere(present))
            || sent.iter().any(|&key| find(calls, key).is_some_and(|managed| managed.is_elsewhere(present)))
    }
}

impl State {
    /// Queues the calls again whose time has come.
    pub(super) fn queue_postponed(&mut self) {
        if self.postponed.is_empty() {
            return;
        }
        let now_ns = clock::now_ns();
        let (due, later): (Vec<_>, _) = self.postponed.drain(..).partition(|(due_ns, _)| *due_ns <= now_ns);
        self.postponed = later;
        due.into_iter().for_each(|(_, key)| self.requeue(key));
    }

    /// When the next of these is due.
    pub(super) fn next_postponed_ns(&self) -> u64 {
        self.postponed.iter().map(|(due_ns, _)| *due_ns).min().unwrap_or(u64::MAX)
    }

    fn requeue(&mut self, key: CallKey) {
        let Some(managed) = find(&mut self.calls, key) else { return };
        let queue = if managed.is_long() { &mut self.long } else { &mut self.queue };
        queue.push_back(key);
    }
}
