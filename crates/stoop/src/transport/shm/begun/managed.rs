//! A call that the background sees to: one that waits for a lane, is long, is not waited for by a thread alone, or has lost its server.

use crate::calling::call_table::{Outcome, Payload};
use crate::calling::recovery::{EarlierAttempts, no_answer};
use crate::error::{CallError, Failure, FailureCode, SendError, UnbindReason, UnknownCause};
use crate::message_buffer;
use crate::transport::shm::caller::ShmBinding;
use crate::transport::shm::caller::answer;
use crate::transport::shm::caller::session::{Lane, Session};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use stoop_net::{clock, host};
use stoop_shm::layout::SLOT;
use stoop_shm::{Answer, AnswerKind, Answers, Emptying, Filling, Request, RequestKind, Way, listening};

/// A call that has not ended.
pub(super) struct ManagedCall {
    /// Told apart from all others of the binding, whose numbers are used again.
    pub(super) id: u64,
    pub(super) procedure: u16,
    begun_ns: u64,
    /// What became of it on sessions before the present one.
    earlier: EarlierAttempts,
    arguments: Vec<u8>,
    sent: Option<Sent>,
}

/// A call that has been published.
struct Sent {
    session: Arc<Session>,
    lane: Lane,
    ticket: u64,
    /// Its arguments are on their way through that channel.
    filling: Option<(u8, Filling)>,
    /// Its result is.
    emptying: Option<Emptying>,
    /// Bytes of that result.
    announced: usize,
    result: Vec<u8>,
}

/// What has become of a call at a look.
pub(super) enum Step {
    /// Nothing yet.
    Open,
    Ended(Outcome),
    /// Its server is lost, and it may be published to another.
    Again,
}

impl ManagedCall {
    /// A call that has not been published.
    pub(super) fn queued(id: u64, procedure: u16, begun_ns: u64, arguments: Vec<u8>) -> Self {
        Self { id, procedure, begun_ns, earlier: EarlierAttempts::default(), arguments, sent: None }
    }

    /// One that has.
    pub(super) fn sent(
        id: u64,
        (procedure, begun_ns): (u16, u64),
        arguments: Vec<u8>,
        (session, lane, ticket): (&Arc<Session>, Lane, u64),
    ) -> Self {
        let session = Arc::clone(session);
        let sent =
            Sent { session, lane, ticket, filling: None, emptying: None, announced: 0, result: Vec::new() };
        Self { id, procedure, begun_ns, earlier: EarlierAttempts::default(), arguments, sent: Some(sent) }
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
    fn waited(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.begun_ns))
    }

    /// What its caller is told when its last attempt ends with this error.
    pub(super) fn explain(&self, error: CallError) -> CallError {
        self.earlier.or_not_run(error, self.waited())
    }

    /// Publishes it on `lane`, and through `channel` if it is long.
    pub(super) fn publish(
        &mut self,
        session: &Arc<Session>,
        mut lane: Lane,
        channel: Option<(u8, u32)>,
        deadline_ns: u64,
    ) {
        lane.last = Answers::next_number(lane.last);
        let len = self.arguments.len();
        let filling = channel.map(|(channel, base)| (channel, Filling::new(Way::Call, channel, base, len)));
        let request = Request {
            kind: RequestKind::Call,
            lane: lane.number,
            number: lane.last,
            procedure: session.bound.procedures[usize::from(self.procedure)],
            cpu: host::current_cpu() as u16,
            len: len as u32,
            deadline_ns: session.deadline_there(deadline_ns),
            channel: channel.map_or(0, |(channel, _)| channel),
            base: filling.map_or(0, |(_, filling)| filling.base()),
        };
        let mut sent = Sent {
            session: Arc::clone(session),
            lane,
            ticket: 0,
            filling,
            emptying: None,
            announced: 0,
            result: Vec::new(),
        };
        // The first chunks are there when the server is told.
        sent.fill(&self.arguments);
        let message = if filling.is_some() { &[][..] } else { &self.arguments };
        sent.ticket = session.publish(&request, message);
        self.sent = Some(sent);
    }

    /// Whether [`advance`](Self::advance) would do something.
    pub(super) fn can_advance(&self) -> bool {
        let Some(sent) = &self.sent else { return false };
        if sent.session.is_lost() {
            return true;
        }
        let segment = &sent.session.segment;
        if let Some(emptying) = &sent.emptying {
            return emptying.has_more(segment) != Ok(false);
        }
        let can_fill = |(_, filling): &(u8, Filling)| match filling.is_done() {
            true => filling.is_emptied(segment),
            false => filling.has_room(segment),
        };
        sent.is_answered() || sent.filling.as_ref().is_some_and(can_fill)
    }

    /// Goes on with it as far as that is possible without waiting.
    pub(super) fn advance(&mut self, may_run_again: bool) -> Step {
        let Some(sent) = &mut self.sent else { return Step::Open };
        sent.fill(&self.arguments);
        if !sent.is_answered() {
            return if sent.session.is_lost() { self.lost(may_run_again) } else { Step::Open };
        }
        sent.end_filling();
        if sent.emptying.is_none() {
            let answer = Answers::read(&sent.session.segment, sent.lane.number);
            match answer {
                Some(answer) if answer.kind == AnswerKind::Result && answer.len as usize > SLOT => {
                    if let Some(step) = self.begin_to_empty(&answer, may_run_again) {
                        return step;
                    }
                }
                Some(answer) if answer.len as usize <= SLOT => return self.answered(&answer),
                _ => return self.disorder(may_run_again),
            }
        }
        self.empty(may_run_again)
    }

    fn answered(&mut self, answer: &Answer) -> Step {
        let sent = self.sent.take().expect("it has been published");
        let mut message = Vec::with_capacity(answer.len as usize);
        Answers::message(&sent.session.segment, sent.lane.number, answer, &mut message);
        sent.session.give_back([sent.lane]);
        Step::Ended(match answer::why_no_result(answer, &message) {
            None => Ok(Payload::new(message, 0, answer.len as usize)),
            Some(why) => Err(self.explain(why)),
        })
    }

    /// A long result begins. Returns what it ends with if it is not to be taken.
    fn begin_to_empty(&mut self, answer: &Answer, may_run_again: bool) -> Option<Step> {
        let sent = self.sent.as_mut().expect("it has been published");
        let len = answer.len as usize;
        if len > sent.session.longest_result {
            let (code, detail) = (FailureCode::ResultTooLarge, answer::too_long(&sent.session, len));
            self.abandon();
            return Some(Step::Ended(Err(CallError::Failed(Failure { code, detail }))));
        }
        sent.emptying = Emptying::new(Way::Result, answer.channel, answer.base, len);
        if sent.emptying.is_none() {
            return Some(self.disorder(may_run_again));
        }
        sent.announced = len;
        None
    }

    /// Takes what has come of a long result.
    fn empty(&mut self, may_run_again: bool) -> Step {
        let sent = self.sent.as_mut().expect("it has been published");
        let Some(emptying) = &mut sent.emptying else { return Step::Open };
        let mut taken = false;
        let more = loop {
            match emptying.has_more(&sent.session.segment) {
                Ok(true)
                    if message_buffer::reserve(&mut sent.result, emptying.next_len(), sent.announced)
                        .is_err() =>
                {
                    return self.no_memory();
                }
                Ok(true) => emptying.take(&sent.session.segment, &mut sent.result),
                more => break more,
            }
            taken = true;
        };
        if taken {
            sent.session.ring();
        }
        if emptying.is_done() {
            let sent = self.sent.take().expect("it has been published");
            sent.session.give_back([sent.lane]);
            let len = sent.result.len();
            return Step::Ended(Ok(Payload::new(sent.result, 0, len)));
        }
        match more {
            Err(_) => self.disorder(may_run_again),
            Ok(_) if sent.session.is_lost() => self.lost(may_run_again),
            Ok(_) => Step::Open,
        }
    }

    /// There is no memory for the rest of a long result: the server need not send it.
    #[cold]
    fn no_memory(&mut self) -> Step {
        let len = self.sent.as_ref().map_or(0, |sent| sent.announced);
        self.abandon();
        let (code, detail) = (FailureCode::ResultTooLarge, message_buffer::no_memory_for_result(len));
        Step::Ended(Err(CallError::Failed(Failure { code, detail })))
    }

    /// The server has said something impossible: nothing that it says is believed any more.
    #[cold]
    fn disorder(&mut self, may_run_again: bool) -> Step {
        if let Some(sent) = &self.sent {
            sent.session.lose(UnbindReason::Disorder);
        }
        self.lost(may_run_again)
    }

    /// Its server is lost.
    #[cold]
    fn lost(&mut self, may_run_again: bool) -> Step {
        let mut cause = UnknownCause::ConnectionLost;
        if let Some(sent) = self.sent.take() {
            if !sent.is_answered() && sent.session.was_left(sent.ticket) {
                return Step::Again;
            }
            cause = sent.session.cause_of_loss();
        }
        self.earlier.lose(cause);
        match self.earlier.allows_another(may_run_again) {
            true => Step::Again,
            false => Step::Ended(Err(self.earlier.lost(self.waited()))),
        }
    }

    /// Its deadline has passed.
    pub(super) fn expire(&mut self, binding: &ShmBinding) -> CallError {
        let is_sent = self.sent.is_some();
        self.abandon();
        if is_sent {
            return self.earlier.late(self.waited());
        }
        if binding.present().is_lost() {
            return self.explain(no_answer(&binding.uri, self.waited()));
        }
        let why = "no lane of the binding was free, or there was no server, until the call's deadline";
        self.explain(CallError::NotSent(SendError::Io(io::Error::new(io::ErrorKind::TimedOut, why))))
    }

    /// Nobody waits for it any more: its server is told.
    pub(super) fn abandon(&mut self) {
        let Some(mut sent) = self.sent.take() else { return };
        let is_answered = sent.is_answered();
        if is_answered {
            sent.end_filling();
        }
        match is_answered && sent.is_over() {
            true => sent.session.give_back([sent.lane]),
            false => sent.session.abandon(sent.lane, sent.filling),
        }
    }
}

impl Sent {
    fn is_answered(&self) -> bool {
        Answers::is_there(&self.session.segment, self.lane.number, self.lane.last)
    }

    /// Of a call that has been answered: whether nothing more comes.
    fn is_over(&self) -> bool {
        if self.emptying.is_some() {
            return false;
        }
        let answer = Answers::read(&self.session.segment, self.lane.number);
        answer.is_none_or(|answer| answer.len as usize <= SLOT)
    }

    /// Fills chunks as long as there is room.
    fn fill(&mut self, arguments: &[u8]) {
        let Some((_, filling)) = &mut self.filling else { return };
        let segment = &self.session.segment;
        let mut has_filled = false;
        while !filling.is_done() && filling.has_room(segment) {
            let (start, end) = (filling.sent(), filling.sent() + filling.next_len());
            filling.fill(segment, [&arguments[start..end]]);
            has_filled = true;
        }
        if has_filled {
            self.session.ring();
        }
        if filling.is_done() && filling.is_emptied(segment) {
            self.end_filling();
        }
    }

    /// The server has emptied the channel, or has answered without: in both cases it will look there no more.
    fn end_filling(&mut self) {
        if let Some((channel, filling)) = self.filling.take() {
            self.session.give_channel_back(channel, &filling);
        }
    }
}

/// How many long results a server has announced.
pub(super) fn long_results(session: &Session) -> u32 {
    listening::long_results(&session.segment)
}
