//! Begun calls that the server has refused, and that are sent again: later if it is overloaded, on another connection if it shuts
//! down. Their answers may still come on the connection before.

use crate::calling::background::Driven;
use crate::calling::call_table::Wakeup;
use crate::error::CallError;
use crate::transport::stream::begun::{BegunCall, Outstanding, Progress, State, locked};
use crate::transport::stream::caller::lane_table::CallId;
use crate::transport::stream::caller::session::Session;
use std::sync::Arc;
use stoop_calls::life::Next;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_wire::HEADER_LEN;

impl Outstanding {
    /// Ends a call with this error of its latest attempt, unless that is a refusal after which the call is sent again.
    #[cold]
    pub(super) fn end_or_come_again(
        &self,
        state: &mut State,
        id: CallId,
        error: CallError,
    ) -> Option<Wakeup> {
        let (left, deadline_ns) = (state.left, state.calls.deadline_ns(id.place));
        let call = state.known(id)?;
        if call.pipes.is_some() {
            // Its items are not kept, so that it is never sent again.
            let error = call.explain(error);
            return self.fail_with(state, id, error);
        }
        let idempotent = self.is_idempotent(call.procedure);
        // Its packet is needed, and a part of it still leaves.
        if call.progress == Progress::Leaving && call.fate.may_come_again(&error, idempotent) {
            (call.progress, call.refused) = (Progress::LeavingRefused, Some(Box::new(error)));
            return None;
        }
        let wait = |refused, refusals| {
            self.binding.wait_after_begun(left, refused, refusals, Instant::from_nanos(deadline_ns))
        };
        match call.fate.after_error(&error, idempotent, wait) {
            Next::End(told) => {
                let error = call.fate.error(told, Some(error), || call.waited());
                return self.fail_with(state, id, error);
            }
            Next::Later(wait) => {
                (call.progress, call.refused) = (Progress::Postponed, Some(Box::new(error)));
                let until = Instant::from_nanos(clock::now_ns()) + wait;
                state.postponed.push((until.as_nanos(), id));
                if self.background.is_idle() {
                    self.wake_background();
                }
            }
            Next::Bind(_) | Next::Send => {
                let Progress::Sent { generation, .. } = call.progress else { return None };
                (call.progress, call.refused) = (Progress::Queued, Some(Box::new(error)));
                state.requeue(id);
                let present = self.binding.present();
                if present.generation == generation {
                    present.note_closing();
                }
                self.wake_background();
            }
        }
        None
    }

    /// Queues the calls again whose time has come.
    pub(super) fn queue_postponed(&self) {
        let state = &mut *self.state();
        if state.postponed.is_empty() {
            return;
        }
        let now_ns = clock::now_ns();
        let (due, later) = state.postponed.drain(..).partition(|(due_ns, _)| *due_ns <= now_ns);
        state.postponed = later;
        let due: Vec<(u64, CallId)> = due;
        for (_, id) in due {
            if let Some(call) = state.known(id)
                && call.progress == Progress::Postponed
            {
                call.progress = Progress::Queued;
                state.requeue(id);
            }
        }
    }

    /// The session of that generation, if its calls may not have ended.
    pub(super) fn session_of(&self, generation: u64) -> Option<Arc<Session>> {
        locked(&self.sessions).iter().find(|session| session.generation == generation).cloned()
    }

    /// Receives on the connections before the present one, on which servers that shut down finish their calls. Returns whether there
    /// are any.
    pub(super) fn receive_on_former(&self, present: &Session) -> bool {
        let is_former = |session: &Arc<Session>| session.generation < present.generation;
        let former: Vec<_> =
            locked(&self.sessions).iter().filter(|session| is_former(session)).cloned().collect();
        if former.is_empty() {
            return false;
        }
        let lost = former.iter().filter(|session| session.is_lost() || !session.receive_all()).count();
        if lost > 0 {
            self.recover_lost();
        }
        // The lock of the calls first, as for threads that end calls. It is held to the end: no call is put on a session that goes.
        let state = self.state();
        let has_calls = |generation: u64| {
            let is_there = |call: &BegunCall| match call.progress {
                Progress::Sent { generation: on, .. } => on == generation,
                Progress::Leaving | Progress::LeavingRefused => true,
                Progress::Queued | Progress::Postponed => false,
            };
            !state.calls.open_where(is_there).is_empty()
        };
        // The rest of a pipe comes behind the answer of its call.
        let has_pipes = |session: &Session| !session.is_lost() && !session.pipes.is_empty();
        locked(&self.sessions)
            .retain(|session| !is_former(session) || has_calls(session.generation) || has_pipes(session));
        true
    }

    /// Whether the answer to one of these calls does not come on the present session, or not before that is left.
    pub(super) fn are_elsewhere(&self, calls: &[u32], present: &Session) -> bool {
        let mut state = self.state();
        calls.iter().any(|&call| match state.calls.get_mut(call).map(|call| call.progress) {
            Some(Progress::Sent { generation, .. }) => generation != present.generation,
            _ => false,
        })
    }
}

impl State {
    /// Queues a call that has left before.
    pub(super) fn requeue(&mut self, id: CallId) {
        let Some(call) = self.known(id) else { return };
        let len = call.packet.len().saturating_sub(HEADER_LEN);
        self.queue_for(len).push_back(id);
    }
}
