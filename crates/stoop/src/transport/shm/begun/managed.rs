//! A call that the background thread drives: it waits for a lane, is long, is not waited for by one thread alone, or has lost its
//! server.

use crate::calling::call_table::{Outcome, Payload};
use crate::calling::fate::Fate;
use crate::error::{CallError, RefusalCode, SendError, UnbindReason};
use crate::transport::shm::caller::ShmBinding;
use crate::transport::shm::caller::lanes::Lane;
use crate::transport::shm::caller::published::{NoResult, PublishedCall};
use crate::transport::shm::caller::session::Session;
use crate::transport::shm::pipes::callers::CallersPipes;
use std::sync::Arc;
use std::time::Duration;
use stoop_calls::life::{Next, Told};
use stoop_marshal::GatherList;
use stoop_net::{clock, host};
use stoop_shm::Requests;
use stoop_shm::layout::SLOT;

/// A call that has not ended.
pub(super) struct ManagedCall {
    /// Tells it apart from all other calls of the binding, whose numbers are used again.
    pub(super) id: u64,
    pub(super) procedure: u16,
    pub(super) begun_ns: u64,
    /// Its attempts so far.
    pub(super) fate: Fate,
    /// While it waits to be sent again after a refusal: its error if that fails.
    pub(super) refused: Option<Box<CallError>>,
    arguments: Vec<u8>,
    sent: Option<Sent>,
    pub(super) piped: Option<Box<Piped>>,
}

/// A call that has been published.
struct Sent {
    session: Arc<Session>,
    call: PublishedCall,
    result: Vec<u8>,
}

/// What is known of a call with pipes besides.
pub(super) struct Piped {
    pub(super) pipes: Arc<CallersPipes>,
    /// When the whole call has to have ended.
    pub(super) total_ns: u64,
    /// The server has taken the call, as far as was asked.
    pub(super) is_taken: bool,
}

/// The state in which a look found a call.
pub(super) enum Step {
    /// It has not ended.
    Open,
    Ended(Outcome),
    /// The server has refused it with this error, and will not run it.
    Refused(CallError),
    /// Its server is lost, and it may be published to another.
    Again,
}

impl ManagedCall {
    /// A call that has not been published.
    pub(super) fn queued(id: u64, procedure: u16, begun_ns: u64, arguments: Vec<u8>) -> Self {
        Self {
            id,
            procedure,
            begun_ns,
            fate: Fate::default(),
            refused: None,
            arguments,
            sent: None,
            piped: None,
        }
    }

    /// This call, which has been published on a lane with that ticket.
    pub(super) fn sent(self, session: &Arc<Session>, lane: Lane, ticket: u64) -> Self {
        let mut call = PublishedCall::none_on(lane);
        call.ticket = ticket;
        Self { sent: Some(Sent { session: Arc::clone(session), call, result: Vec::new() }), ..self }
    }

    /// Whether it goes through a channel.
    pub(super) fn is_long(&self) -> bool {
        self.arguments.len() > SLOT
    }

    /// Whether it has been published, and not been taken back.
    pub(super) fn has_left(&self) -> bool {
        self.sent.is_some()
    }

    /// Time since it was begun.
    pub(super) fn waited(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.begun_ns))
    }

    /// The error of its caller when its last attempt ends with this error.
    pub(super) fn explain(&self, error: CallError) -> CallError {
        self.fate.error(Told::Latest, Some(error), || self.waited())
    }

    /// Publishes it on `lane`, and through `channel` if it is long.
    pub(super) fn publish(
        &mut self,
        session: &Arc<Session>,
        lane: Lane,
        channel: Option<(u8, u32)>,
        deadline_ns: u64,
    ) {
        let mut call = PublishedCall::none_on(lane.next());
        let (len, cpu) = (self.arguments.len(), host::current_cpu() as u16);
        let procedure = session.bound.number(self.procedure);
        let request = session.request(call.lane, procedure, len, deadline_ns, cpu);
        match channel {
            Some(channel) => {
                call.publish_long(session, request, channel, &self.arguments, &GatherList::none());
            }
            None => call.publish_short(session, &request, &self.arguments),
        }
        self.sent = Some(Sent { session: Arc::clone(session), call, result: Vec::new() });
        self.refused = None;
    }

    /// Whether [`advance`](Self::advance) would do something.
    pub(super) fn can_advance(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.session.is_lost() || sent.call.can_advance(&sent.session))
    }

    /// Whether its arguments or its result are on their way through a channel.
    pub(super) fn holds_channel(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.call.holds_channel())
    }

    /// The deadline of a call with pipes that its server has taken in time: the time of the first step has passed.
    #[cold]
    pub(super) fn next_deadline_ns(&mut self) -> Option<u64> {
        let (sent, piped) = (self.sent.as_ref()?, self.piped.as_mut()?);
        let is_first = !piped.is_taken && !Requests::was_left(&sent.session.segment, sent.call.ticket);
        piped.is_taken |= is_first;
        is_first.then_some(piped.total_ns)
    }

    /// Goes on with it as far as that is possible without waiting.
    pub(super) fn advance(&mut self, may_run_again: bool) -> Step {
        let Some(Sent { session, call, result }) = &mut self.sent else { return Step::Open };
        let piped = self.piped.as_deref();
        // Asked first: an answer that came before the loss is found, and is the call's.
        let is_lost = session.is_lost();
        match call.advance(session, &self.arguments, result, &mut GatherList::none()) {
            Ok(false) if is_lost => self.lose(may_run_again),
            Ok(false) => Step::Open,
            Ok(true) => {
                give_back(session, call.lane, piped);
                let len = result.len();
                Step::Ended(Ok(Payload::new(std::mem::take(result), 0, len)))
            }
            Err(NoResult::Answered(CallError::Refused(why, ..))) => {
                if why.code == RefusalCode::ShuttingDown {
                    session.note_closing();
                }
                give_back(session, call.lane, piped);
                self.sent = None;
                Step::Refused(CallError::refused(why))
            }
            Err(NoResult::Answered(error)) => {
                give_back(session, call.lane, piped);
                Step::Ended(Err(self.explain(error)))
            }
            Err(NoResult::NotTaken(error)) => {
                self.abandon();
                Step::Ended(Err(error))
            }
            Err(NoResult::Disorder) => {
                session.lose(UnbindReason::Disorder);
                self.lose(may_run_again)
            }
        }
    }

    /// Whether it has left on a session that is not the present one.
    pub(super) fn is_elsewhere(&self, present: &Session) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.session.generation != present.generation)
    }

    /// Its server is lost.
    #[cold]
    fn lose(&mut self, may_run_again: bool) -> Step {
        let may_have_run =
            |sent: &Sent| sent.call.is_answered(&sent.session) || !sent.session.was_left(sent.call.ticket);
        let sent = self.sent.take().filter(may_have_run);
        let loss = sent.map(|sent| sent.session.cause_of_loss().into());
        match self.fate.after_loss(loss, may_run_again) {
            Next::End(told) => Step::Ended(Err(self.fate.error(told, None, || self.waited()))),
            Next::Bind(_) | Next::Send | Next::Later(_) => Step::Again,
        }
    }

    /// Its deadline has passed.
    pub(super) fn expire(&mut self, binding: &ShmBinding) -> CallError {
        let is_sent = self.sent.is_some();
        self.abandon();
        if is_sent {
            return self.fate.error(Told::Late, None, || self.waited());
        }
        if let Some(refused) = self.refused.take() {
            return self.explain(*refused);
        }
        if binding.present().is_lost() {
            return self.explain(binding.not_bound_within(self.waited()));
        }
        self.explain(CallError::not_sent(SendError::DeadlinePassed))
    }

    /// No thread waits for it any more: its server is told, unless it has answered.
    pub(super) fn abandon(&mut self) {
        let Some(Sent { session, mut call, .. }) = self.sent.take() else { return };
        match (call.is_over(&session), self.piped.as_deref()) {
            (true, piped) => give_back(&session, call.lane, piped),
            (false, None) => session.abandon(call.lane, call.take_channel(), Vec::new()),
            (false, Some(piped)) => {
                session.publish_cancel(call.lane);
                session.give_piped_back(call.lane, call.take_channel(), piped.pipes.owed());
            }
        }
    }
}

/// A call has been answered: its lane can have the next, as soon as no end uses its pipes.
fn give_back(session: &Session, lane: Lane, piped: Option<&Piped>) {
    match piped {
        None => session.give_back([lane]),
        Some(piped) => session.give_piped_back(lane, None, piped.pipes.owed()),
    }
}
