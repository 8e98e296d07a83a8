//! Begun calls with pipes: they are published at once, and never again.
//!
//! The background thread takes their answers, as those of all managed calls, and attends to the ends of their pipes for which no thread of
//! the program waits.

use crate::calling::background::Driven;
use crate::calling::begun::{CallBatch, PipeTerms};
use crate::calling::call_table::{CallTable, Wakeup};
use crate::context::bounded_deadline;
use crate::error::{CallError, SendError};
use crate::message_buffer::keep_arguments;
use crate::pipes::contract::Ends;
use crate::pipes::error::PipeError;
use crate::transport::shm::begun::managed::{ManagedCall, Piped, Step};
use crate::transport::shm::begun::managed_calls::{CallKey, ManagedCalls, State, find};
use crate::transport::shm::caller::ShmBinding;
use crate::transport::shm::caller::session::Session;
use crate::transport::shm::pipes::callers::{CallersPipes, OfCall, PipeSetup};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_shm::layout::{LANES, SLOT};
use stoop_shm::pipe;

/// A call with pipes that has not ended, or whose ends are in use.
pub(super) struct PipedCall {
    /// `None` once the call has ended, or has been cancelled.
    key: Option<CallKey>,
    pipes: Arc<CallersPipes>,
    /// Its session's.
    generation: u64,
}

impl PipedCall {
    /// Whether it is on a session that is not the present one.
    pub(super) fn is_elsewhere(&self, present: &Session) -> bool {
        self.generation != present.generation
    }

    /// Whether it has not ended, and has a handle.
    pub(super) fn is_attended(&self, calls: &mut CallTable<ManagedCall>) -> bool {
        self.key.is_some_and(|key| find(calls, key).is_some() && calls.detached_as(key.0).is_none())
    }

    /// Whether [`advance_piped`](State::advance_piped) would do something for it.
    pub(super) fn can_advance(&self, calls: &mut CallTable<ManagedCall>) -> bool {
        let can_call = |key| find(calls, key).is_none_or(|managed| managed.can_advance());
        self.key.is_some_and(can_call) || self.pipes.can_advance()
    }
}

impl ManagedCalls {
    /// Begins a call with pipes.
    ///
    /// # Errors
    /// It has not left, and will not run.
    #[cold]
    pub(super) fn begin_piped(
        self: &Arc<Self>,
        batch: &CallBatch,
        (procedure, len): (u16, usize),
        terms: PipeTerms,
    ) -> Result<(u32, Ends), CallError> {
        if batch.deadline <= batch.begun {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let begun_ns = batch.begun.as_nanos();
        let mut arguments = Vec::new();
        keep_arguments(&mut arguments, &batch.packet[batch.start..batch.start + len])?;
        let session = self.session_for_pipes(batch.deadline)?;
        let left = || Duration::from_nanos(batch.deadline.as_nanos().saturating_sub(clock::now_ns()));
        let too_many = || CallError::not_sent(SendError::TooManyCalls { in_flight: LANES });
        let lane = session.await_lane(left()).ok_or_else(too_many)?;
        if !session.takes_calls() {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let channel = match len > SLOT {
            false => None,
            true => match session.take_channel(left()) {
                None => {
                    session.give_back([lane]);
                    return Err(CallError::not_sent(SendError::DeadlinePassed));
                }
                channel => channel,
            },
        };
        pipe::reset(&session.segment, lane.number);
        let total_ns = bounded_deadline(begun_ns, terms.total_ns);
        let id = self.new_id();
        let setup = PipeSetup {
            pipes: terms.pipes,
            window: terms.window,
            waiting: self.binding.options.waiting,
            step_ns: batch.timeout_ns,
            item_max: self.binding.options.max_message,
        };
        let managed = ManagedCall::queued(id, procedure, begun_ns, arguments);
        let mut state = self.state();
        let call = state.calls.open(batch.deadline.as_nanos().min(total_ns), managed);
        let calls: Weak<Self> = Arc::downgrade(self);
        let (pipes, ends) = CallersPipes::new((&session, lane.number), (calls, (call, id)), &setup);
        let pipes = Arc::new(pipes);
        let managed = state.calls.get_mut(call).expect("it has just been opened");
        managed.piped = Some(Box::new(Piped { pipes: Arc::clone(&pipes), total_ns, is_taken: false }));
        managed.publish(&session, lane, channel, total_ns);
        let generation = session.generation;
        state.piped.push(PipedCall { key: Some((call, id)), pipes, generation });
        state.published += 1;
        drop(state);
        self.count_slow();
        self.count_queued();
        self.wake_background();
        Ok((call, self.binding.counted(procedure, ends)))
    }

    /// The present session, or another if that is lost.
    fn session_for_pipes(&self, deadline: Instant) -> Result<Arc<Session>, CallError> {
        let unbound = |why| CallError::not_sent(SendError::Bind(Box::new(why)));
        let session = self.binding.present();
        match () {
            () if session.is_lost() => self.binding.rebind(&session, None, deadline).map_err(unbound),
            () if session.is_closing() => {
                self.binding.leave(&session, deadline).map_err(unbound)?;
                Ok(self.binding.present())
            }
            () => Ok(session),
        }
    }
}

impl State {
    /// Goes on with the calls that have pipes.
    #[cold]
    pub(super) fn advance_piped(
        &mut self,
        binding: &ShmBinding,
        wakeups: &mut Vec<Wakeup>,
        wakers: &mut Vec<Waker>,
    ) {
        let Self { calls, piped, .. } = self;
        piped.retain_mut(|piped| {
            if let Some(key) = piped.key {
                let ended = match find(calls, key) {
                    None => true,
                    Some(managed) => match managed.advance_with_pipes(binding, wakers) {
                        Step::Ended(outcome) => {
                            wakeups.extend(calls.end(key.0, outcome).if_awaited());
                            true
                        }
                        Step::Open | Step::Again | Step::Refused(_) => false,
                    },
                };
                if ended {
                    piped.key = None;
                }
            }
            piped.pipes.advance(wakers);
            if piped.key.is_none() {
                // Its result is here, and no longer tells of a loss.
                piped.pipes.fail_if_lost(wakers);
            }
            piped.key.is_some() || piped.pipes.is_in_use()
        });
    }
}

impl ManagedCall {
    /// As [`advance`](Self::advance), of a call with pipes: it is never sent again.
    fn advance_with_pipes(&mut self, binding: &ShmBinding, wakers: &mut Vec<Waker>) -> Step {
        let outcome = match self.advance(false) {
            Step::Open => return Step::Open,
            Step::Ended(outcome) => outcome,
            Step::Refused(error) => Err(self.explain(error)),
            Step::Again => Err(self.explain(binding.not_bound_within(self.waited()))),
        };
        self.end_pipes(outcome.as_ref().err(), wakers);
        Step::Ended(outcome)
    }

    /// Its pipes, if it has some, end at this side: it has ended with a result or with this error.
    pub(super) fn end_pipes(&self, error: Option<&CallError>, wakers: &mut Vec<Waker>) {
        if let Some(piped) = &self.piped {
            piped.pipes.end(error, wakers);
        }
    }

    /// It has been cancelled.
    pub(super) fn cancel_pipes(&self) {
        let mut wakers = Vec::new();
        if let Some(piped) = &self.piped {
            piped.pipes.fail(&PipeError::Cancelled, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl OfCall for ManagedCalls {
    fn left(&self) {
        self.wake_background();
    }

    fn expect_result(&self, (call, id): (u32, u64), step_ns: u64) {
        let deadline_ns = clock::now_ns().saturating_add(step_ns);
        let mut state = self.state();
        if find(&mut state.calls, (call, id)).is_none() {
            return;
        }
        state.calls.set_deadline(call, |managed| {
            let piped = managed.piped.as_mut()?;
            piped.is_taken = true;
            Some(piped.total_ns.min(deadline_ns))
        });
    }
}
