//! A lane of a calling thread, and one blocking call on it.

use crate::buffers::{NamedRanges, SharedBuffers, WriteArguments};
use crate::calling::deadline::Deadline;
use crate::calling::recovery::Ended;
use crate::error::{CallError, SendError, UnbindReason};
use crate::transport::shm::caller::published::{NoResult, PublishedCall};
use crate::transport::shm::caller::result_wait::{ResultWait, WaitFailure};
use crate::transport::shm::caller::session::Session;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::waiting::Waiting;
use stoop_net::{clock, host};
use stoop_shm::layout::SLOT;
use stoop_shm::{AnswerKind, Answers, Request, RequestKind};
use stoop_wire::MAX_DATAGRAM;

/// A lane with all that a call needs.
pub(crate) struct ShmLane {
    pub(crate) session: Arc<Session>,
    published: PublishedCall,
    /// The arguments that are not borrowed.
    pub(crate) arguments: Vec<u8>,
    arguments_len: usize,
    result: Vec<u8>,
    /// Where the rest of a result begins in `result` whose first bytes are placed in the caller's memory.
    scattered: Option<usize>,
    /// The buffers in the arena that the present call names.
    pub(crate) named: NamedRanges,
    pub(crate) result_wait: ResultWait,
    pub(crate) calls: u64,
    /// Calls that took one line there and one back.
    pub(crate) fast: u64,
}

/// A buffer longer than this is freed when the last call used little of it.
const KEPT_MAX: usize = 4 << 20;

impl ShmLane {
    /// A lane of `session`; `None` if all have calls outstanding.
    pub(crate) fn of(session: Arc<Session>, waiting: Waiting) -> Option<Self> {
        Some(Self {
            published: PublishedCall::none_on(session.take_lane()?),
            result_wait: ResultWait::new(waiting, session.placement),
            session,
            arguments: vec![0; MAX_DATAGRAM],
            arguments_len: 0,
            result: Vec::new(),
            scattered: None,
            named: NamedRanges::default(),
            calls: 0,
            fast: 0,
        })
    }

    /// Goes over to another session. `false`: all its lanes have calls outstanding.
    pub(crate) fn move_to(&mut self, session: Arc<Session>) -> bool {
        let Some(lane) = session.take_lane() else { return false };
        self.result_wait.set_placement(session.placement);
        (self.published, self.session) = (PublishedCall::none_on(lane), session);
        true
    }

    /// The bytes of the result, or of its rest if some were placed in the caller's memory.
    #[inline]
    pub(crate) fn received(&self) -> &[u8] {
        &self.result
    }

    /// What follows the bytes that were placed in the caller's memory; `None` if none were.
    pub(crate) fn rest_of_scattered(&self) -> Option<Reader<'_>> {
        self.scattered.map(|scattered| Reader::after(&self.result, scattered))
    }

    /// One call: the arguments there, and the result back.
    #[inline]
    pub(crate) fn exchange(
        &mut self,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        self.exchange_as(RequestKind::Call, deadline, procedure, len, gathered)
    }

    /// One call with buffers. `write` writes its arguments: where the buffers lie in the memory of the present session, or what is in
    /// them.
    pub(crate) fn exchange_in_place(
        &mut self,
        deadline: Deadline,
        procedure: u16,
        limit: usize,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), Ended> {
        let mut shared = SharedBuffers::new(self.session.arena.as_ref(), &mut self.named);
        let mut arguments = Writer::new(&mut self.arguments, 0, limit);
        write(&mut arguments, &mut shared);
        let written = arguments.finish();
        let len = written.map_err(|why| Ended::With(CallError::NotSent(SendError::Arguments(why))))?;
        let kind = if self.named.ranges.is_empty() { RequestKind::Call } else { RequestKind::CallInPlace };
        self.exchange_as(kind, deadline, procedure, len, &mut GatherList::none())
    }

    #[inline(always)]
    fn exchange_as(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        if self.session.is_lost() {
            return Err(Ended::Lost { may_have_run: false });
        }
        self.arguments_len = len;
        self.scattered = None;
        let mut deadline = deadline;
        if len > SLOT {
            deadline = self.send_long(kind, deadline, procedure, len, gathered)?;
        } else {
            if gathered.borrowed_len() > 0 {
                self.copy_borrowed(len, gathered);
            }
            let request = self.next_request(kind, procedure, len, deadline);
            self.published.ticket = self.session.publish(&request, &self.arguments[..len]);
        }
        self.await_answer(deadline).map_err(|failure| self.abandon_wait(failure))?;
        self.take_answer(deadline, gathered)
    }

    #[inline(always)]
    fn next_request(&mut self, kind: RequestKind, procedure: u16, len: usize, deadline: Deadline) -> Request {
        self.calls += 1;
        self.published.lane = self.published.lane.next();
        let (lane, cpu) = (self.published.lane, host::current_cpu() as u16);
        let request = self.session.request(lane, procedure, len, deadline.latest_ns, cpu);
        Request { kind, ..request }
    }

    /// Borrowed arguments that fit into a slot all the same are copied behind the others.
    #[cold]
    fn copy_borrowed(&mut self, len: usize, gathered: &GatherList<'_, '_>) {
        let mut whole = vec![0; len.max(MAX_DATAGRAM)];
        gathered.gather(&self.arguments[..len - gathered.borrowed_len()], 0, &mut whole[..len]);
        self.arguments = whole;
    }

    /// Waits for the answer.
    #[inline]
    fn await_answer(&mut self, deadline: Deadline) -> Result<(), WaitFailure> {
        let lane = self.published.lane;
        self.result_wait.wait_until(
            &self.session,
            deadline,
            |session| Answers::is_there(&session.segment, lane.number, lane.last),
            |session, limit_ns| Answers::sleep(&session.segment, lane.number, lane.last, limit_ns),
        )
    }

    /// Reads the answer, which is there.
    #[inline]
    fn take_answer(&mut self, deadline: Deadline, gathered: &mut GatherList<'_, '_>) -> Result<(), Ended> {
        let lane = self.published.lane.number;
        match Answers::read(&self.session.segment, lane) {
            Some(answer) if answer.kind == AnswerKind::Result && answer.len as usize <= SLOT => {
                self.session.server_cpu.store(answer.cpu, Ordering::Relaxed);
                self.result.clear();
                Answers::message(&self.session.segment, lane, &answer, &mut self.result);
                self.fast += 1;
                Ok(())
            }
            _ => self.take_other_answer(deadline, gathered),
        }
    }

    /// Reads an answer that is not a short result.
    #[cold]
    fn take_other_answer(
        &mut self,
        deadline: Deadline,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        let read = self.published.read_answer(&self.session, &mut self.result, gathered);
        match read.and_then(|is_whole| if is_whole { Ok(Ok(())) } else { self.receive(deadline, gathered) }) {
            Ok(received) => received.map_err(|failure| self.abandon_wait(failure)),
            Err(NoResult::Answered(error)) => Err(Ended::With(error)),
            Err(NoResult::NotTaken(error)) => {
                self.abandon();
                Err(Ended::With(error))
            }
            Err(NoResult::Disorder) => {
                self.session.lose(UnbindReason::Disorder);
                Err(Ended::Lost { may_have_run: true })
            }
        }
    }

    /// Publishes a call whose arguments go through a channel, and sends them. Returns its deadline by the precise clock.
    #[cold]
    fn send_long(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        gathered: &GatherList<'_, '_>,
    ) -> Result<Deadline, Ended> {
        let now_ns = clock::now_ns();
        let deadline = Deadline::exact(deadline.at(now_ns));
        let limit = Duration::from_nanos(deadline.latest_ns.saturating_sub(now_ns));
        let Some(channel) = self.session.take_channel(limit) else {
            return Err(match self.session.is_lost() {
                true => Ended::Lost { may_have_run: false },
                false => Ended::With(CallError::NotSent(SendError::DeadlinePassed)),
            });
        };
        let request = self.next_request(kind, procedure, len, deadline);
        let inline_len = len - gathered.borrowed_len();
        self.published.publish(
            &self.session,
            request,
            Some(channel),
            &self.arguments[..inline_len],
            gathered,
        );
        match self.send_rest(deadline, inline_len, gathered) {
            Ok(()) => Ok(deadline),
            Err(failure) => Err(self.abandon_wait(failure)),
        }
    }

    /// Sends chunks until the server has taken all, or has answered.
    fn send_rest(
        &mut self,
        deadline: Deadline,
        inline_len: usize,
        gathered: &GatherList<'_, '_>,
    ) -> Result<(), WaitFailure> {
        while !self.published.stop_sending(&self.session) {
            self.result_wait.wait_until(
                &self.session,
                deadline,
                |session| self.published.can_send(session),
                |session, limit_ns| self.published.sleep_until_sendable(session, limit_ns),
            )?;
            let has_sent = self.published.send(&self.session, &self.arguments[..inline_len], gathered);
            // A server that takes back the room that it gave must not keep this thread beyond the deadline.
            if !has_sent
                && !self.published.stop_sending(&self.session)
                && clock::now_ns() >= deadline.latest_ns
            {
                return Err(WaitFailure::Late);
            }
        }
        Ok(())
    }

    /// Receives a long result until it is whole.
    fn receive(
        &mut self,
        deadline: Deadline,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<Result<(), WaitFailure>, NoResult> {
        self.scattered = self.published.scattered();
        while !self.published.has_received() {
            let there = self.result_wait.wait_until(
                &self.session,
                deadline,
                |session| self.published.can_receive(session),
                |session, limit_ns| self.published.sleep_until_receivable(session, limit_ns),
            );
            if let Err(failure) = there {
                return Ok(Err(failure));
            }
            let has_received = self.published.receive(&self.session, &mut self.result, gathered)?;
            // The server has taken back what it had sent. Until the deadline it may send it again.
            if !has_received && clock::now_ns() >= deadline.latest_ns {
                return Ok(Err(WaitFailure::Late));
            }
        }
        Ok(Ok(()))
    }

    /// How a call ends whose wait has failed.
    #[cold]
    fn abandon_wait(&mut self, failure: WaitFailure) -> Ended {
        match failure {
            WaitFailure::Lost => Ended::Lost { may_have_run: !self.session.was_left(self.published.ticket) },
            WaitFailure::Late => {
                self.abandon();
                Ended::Late
            }
        }
    }

    /// The answer is still to come: the thread goes on with another lane.
    fn abandon(&mut self) {
        let ranges = std::mem::take(&mut self.named.ranges);
        match self.session.take_lane() {
            Some(fresh) => {
                let mut abandoned = std::mem::replace(&mut self.published, PublishedCall::none_on(fresh));
                self.session.abandon(abandoned.lane, abandoned.take_channel(), ranges);
            }
            // A server that owes so many answers is not waited for.
            None => self.session.lose(UnbindReason::Owing),
        }
    }

    /// Frees memory that a far longer call than the last one has left.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.arguments.len() > KEPT_MAX && self.arguments_len < self.arguments.len() / 4 {
            self.arguments = vec![0; MAX_DATAGRAM];
        }
        if self.result.capacity() > KEPT_MAX && self.result.len() < self.result.capacity() / 4 {
            self.result = Vec::new();
        }
    }
}
