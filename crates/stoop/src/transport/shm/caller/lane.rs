//! One call on a lane: publishing it, and waiting for its answer.

use crate::buffers::{NamedRanges, SharedBuffers, WriteArguments};
use crate::calling::recovery::Ended;
use crate::error::{CallError, Failure, FailureCode, SendError, UnbindReason};
use crate::message_buffer;
use crate::transport::shm::caller::result_wait::{ResultWait, WaitFailure};
use crate::transport::shm::caller::session::{Lane, Session};
use crate::transport::shm::caller::{Deadline, answer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::waiting::Waiting;
use stoop_net::{clock, host};
use stoop_shm::layout::SLOT;
use stoop_shm::{Answer, AnswerKind, Answers, Disorder, Emptying, Filling, Request, RequestKind, Way};
use stoop_wire::MAX_DATAGRAM;

/// A lane with all that a call needs.
pub(crate) struct ShmLane {
    pub(crate) session: Arc<Session>,
    lane: Lane,
    pub(crate) call: Vec<u8>,
    call_len: usize,
    result: Vec<u8>,
    /// Of a result that has scattered in the caller's memory as far as it belongs there: where the rest begins in `result`.
    scattered: Option<usize>,
    /// The buffers of the call that is being made, if it has any.
    pub(crate) lent: NamedRanges,
    pub(crate) result_wait: ResultWait,
    pub(crate) calls: u64,
    /// Calls that took one line there and one back.
    pub(crate) fast: u64,
}

/// A buffer beyond this is given back when it has become far too large.
const KEPT_MAX: usize = 4 << 20;
/// Where a payload that lands is taken up again: its first bytes are in the caller's memory, and those after them keep
/// their alignment.
const ALIGNED: usize = 16;

impl ShmLane {
    /// A lane of `session`; `None` if all have calls outstanding.
    pub(crate) fn new(session: Arc<Session>, waiting: Waiting) -> Option<Self> {
        Some(Self {
            lane: session.lane()?,
            result_wait: ResultWait::new(waiting, session.placement),
            session,
            call: vec![0; MAX_DATAGRAM],
            call_len: 0,
            result: Vec::new(),
            scattered: None,
            lent: NamedRanges::default(),
            calls: 0,
            fast: 0,
        })
    }

    /// Goes over to another session. `false`: all its lanes have calls outstanding.
    pub(crate) fn adopt(&mut self, session: &Arc<Session>) -> bool {
        let Some(lane) = session.lane() else { return false };
        self.result_wait.set_placement(session.placement);
        (self.lane, self.session) = (lane, Arc::clone(session));
        true
    }

    #[inline]
    pub(crate) fn result(&self) -> &[u8] {
        &self.result
    }

    pub(crate) fn scattered(&self) -> Option<Reader<'_>> {
        self.scattered.map(|scattered| Reader::after(&self.result, scattered))
    }

    /// One call: the arguments there, and the result back.
    #[inline]
    pub(crate) fn exchange(
        &mut self,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        self.exchange_as(RequestKind::Call, deadline, procedure, len, pieces)
    }

    /// One call with buffers, whose arguments `write` writes: where the buffers lie in the memory of the present session, or what is
    /// in them.
    pub(crate) fn exchange_in_place(
        &mut self,
        deadline: Deadline,
        procedure: u16,
        limit: usize,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), Ended> {
        let mut lending = SharedBuffers::new(self.session.arena.as_ref(), &mut self.lent);
        let mut arguments = Writer::new(&mut self.call, 0, limit);
        write(&mut arguments, &mut lending);
        let written = arguments.finish();
        let len = written.map_err(|why| Ended::With(CallError::NotSent(SendError::Arguments(why))))?;
        let kind = if self.lent.ranges.is_empty() { RequestKind::Call } else { RequestKind::CallInPlace };
        self.exchange_as(kind, deadline, procedure, len, &mut GatherList::none())
    }

    #[inline(always)]
    fn exchange_as(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        if self.session.is_lost() {
            return Err(Ended::Lost { may_have_run: false });
        }
        self.call_len = len;
        self.scattered = None;
        if len > SLOT {
            return self.exchange_long(kind, deadline, procedure, len, pieces);
        }
        if pieces.borrowed_len() > 0 {
            self.put_together(len, pieces);
        }
        let request = self.request(kind, deadline, procedure, len);
        let ticket = self.session.publish(&request, &self.call[..len]);
        self.calls += 1;
        self.await_answer(deadline).map_err(|vain| self.in_vain(vain, ticket))?;
        self.take_answer(deadline, pieces)
    }

    #[inline]
    fn request(&mut self, kind: RequestKind, deadline: Deadline, procedure: u16, len: usize) -> Request {
        self.lane.last = Answers::next_number(self.lane.last);
        Request {
            kind,
            lane: self.lane.number,
            number: self.lane.last,
            procedure: self.session.bound.procedures[usize::from(procedure)],
            cpu: host::current_cpu() as u16,
            len: len as u32,
            deadline_ns: self.session.deadline_there(deadline.latest_ns),
            channel: 0,
            base: 0,
        }
    }

    /// Arguments that were lent fit into a slot after all.
    #[cold]
    fn put_together(&mut self, len: usize, pieces: &GatherList<'_, '_>) {
        let mut whole = vec![0; len.max(MAX_DATAGRAM)];
        pieces.gather(&self.call[..len - pieces.borrowed_len()], 0, &mut whole[..len]);
        self.call = whole;
    }

    /// Reads the answer, which is there.
    #[inline]
    fn take_answer(&mut self, deadline: Deadline, pieces: &mut GatherList<'_, '_>) -> Result<(), Ended> {
        let session = &*self.session;
        let Some(answer) = Answers::read(&session.segment, self.lane.number) else {
            return Err(self.disorder());
        };
        session.server_cpu.store(answer.cpu, Ordering::Relaxed);
        self.result.clear();
        match answer.kind {
            AnswerKind::Result if answer.len as usize <= SLOT => {
                Answers::message(&session.segment, self.lane.number, &answer, &mut self.result);
                self.fast += 1;
                Ok(())
            }
            AnswerKind::Result => self.take_long(deadline, &answer, pieces),
            AnswerKind::Refusal | AnswerKind::Failure => Err(self.no_result(&answer)),
        }
    }

    #[cold]
    fn no_result(&mut self, answer: &Answer) -> Ended {
        if answer.len as usize > SLOT {
            return self.disorder();
        }
        Answers::message(&self.session.segment, self.lane.number, answer, &mut self.result);
        let why = answer::why_no_result(answer, &self.result);
        Ended::With(why.expect("whoever asks has seen that there is none"))
    }

    /// The server has said something impossible: nothing that it says is believed any more.
    #[cold]
    fn disorder(&mut self) -> Ended {
        self.session.lose(UnbindReason::Disorder);
        Ended::Lost { may_have_run: true }
    }

    #[cold]
    fn in_vain(&mut self, vain: WaitFailure, ticket: u64) -> Ended {
        match vain {
            WaitFailure::Lost => Ended::Lost { may_have_run: !self.session.was_left(ticket) },
            WaitFailure::Late => {
                self.retire(None);
                Ended::Late
            }
        }
    }

    /// The lane's answer is still to come: the thread goes on with another lane.
    fn retire(&mut self, channel: Option<(u8, Filling)>) {
        if !self.lent.ranges.is_empty() {
            self.session.withhold(self.lane, std::mem::take(&mut self.lent.ranges));
        }
        match self.session.lane() {
            Some(fresh) => self.session.abandon(std::mem::replace(&mut self.lane, fresh), channel),
            // A server that owes so many answers will not be waited for.
            None => self.session.lose(UnbindReason::Owing),
        }
    }

    /// Waits for the answer.
    #[inline]
    fn await_answer(&mut self, deadline: Deadline) -> Result<(), WaitFailure> {
        let (lane, number) = (self.lane.number, self.lane.last);
        self.result_wait.wait_until(
            &self.session,
            deadline,
            |session| Answers::is_there(&session.segment, lane, number),
            |session, limit_ns| Answers::sleep(&session.segment, lane, number, limit_ns),
        )
    }

    /// Gives back memory that a far larger call than the last one has left.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.call.len() > KEPT_MAX && self.call_len < self.call.len() / 4 {
            self.call = vec![0; MAX_DATAGRAM];
        }
        if self.result.capacity() > KEPT_MAX && self.result.len() < self.result.capacity() / 4 {
            self.result = Vec::new();
        }
    }
}

/// Calls and results that are longer than a slot.
impl ShmLane {
    /// One call whose arguments go through a channel.
    #[cold]
    fn exchange_long(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        let now_ns = clock::now_ns();
        let deadline = Deadline::exact(deadline.at(now_ns));
        let limit = Duration::from_nanos(deadline.latest_ns.saturating_sub(now_ns));
        let Some((channel, base)) = self.session.take_channel(limit) else {
            return Err(match self.session.is_lost() {
                true => Ended::Lost { may_have_run: false },
                false => Ended::With(CallError::NotSent(SendError::DeadlinePassed)),
            });
        };
        let mut filling = Filling::new(Way::Call, channel, base, len);
        let mut request = self.request(kind, deadline, procedure, len);
        (request.channel, request.base) = (channel, filling.base());
        // The first chunks are there when the server is told.
        let inline_len = len - pieces.borrowed_len();
        self.fill(&mut filling, inline_len, pieces);
        let ticket = self.session.publish(&request, &[]);
        self.calls += 1;
        let filled = self.fill_all(&mut filling, deadline, inline_len, pieces);
        if let Err(vain) = filled {
            if let WaitFailure::Late = vain {
                self.retire(Some((channel, filling)));
                return Err(Ended::Late);
            }
            return Err(self.in_vain(vain, ticket));
        }
        // The server has emptied it, or has answered without: in both cases it will look there no more.
        self.session.give_channel_back(channel, &filling);
        self.await_answer(deadline).map_err(|vain| self.in_vain(vain, ticket))?;
        self.take_answer(deadline, pieces)
    }

    /// Fills chunks as long as there is room.
    fn fill(&self, filling: &mut Filling, inline_len: usize, pieces: &GatherList<'_, '_>) -> bool {
        let mut has_filled = false;
        while !filling.is_done() && filling.has_room(&self.session.segment) {
            let (start, end) = (filling.sent(), filling.sent() + filling.next_len());
            let mut chunk = filling.chunk(&self.session.segment);
            pieces.slices(&self.call[..inline_len], start, end, |stretch| chunk.put(stretch));
            chunk.finish();
            has_filled = true;
        }
        has_filled
    }

    /// Fills chunks until the server has emptied all, or has answered.
    fn fill_all(
        &mut self,
        filling: &mut Filling,
        deadline: Deadline,
        inline_len: usize,
        pieces: &GatherList<'_, '_>,
    ) -> Result<(), WaitFailure> {
        let (lane, number) = (self.lane.number, self.lane.last);
        let is_answered = |session: &Session| Answers::is_there(&session.segment, lane, number);
        let mut has_waited = false;
        loop {
            let has_filled = self.fill(filling, inline_len, pieces);
            if has_filled {
                self.session.ring();
            }
            let is_over = |session: &Session| match filling.is_done() {
                true => filling.is_emptied(&session.segment) || is_answered(session),
                false => is_answered(session),
            };
            if is_over(&self.session) {
                return Ok(());
            }
            // A server that takes back the room that it gave must not keep this thread beyond the deadline.
            if has_waited && !has_filled && clock::now_ns() >= deadline.latest_ns {
                return Err(WaitFailure::Late);
            }
            has_waited = true;
            let goes_on = |session: &Session| {
                is_over(session) || !filling.is_done() && filling.has_room(&session.segment)
            };
            self.result_wait.wait_until(&self.session, deadline, goes_on, |session, limit_ns| {
                filling.sleep_unless(&session.segment, limit_ns, || goes_on(session));
            })?;
        }
    }

    /// Takes a result that comes through a channel.
    #[cold]
    fn take_long(
        &mut self,
        deadline: Deadline,
        answer: &Answer,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        let len = answer.len as usize;
        let Some(mut emptying) = Emptying::new(Way::Result, answer.channel, answer.base, len) else {
            return Err(self.disorder());
        };
        // A result that is shorter than what should land is none; whoever reads it will say so.
        let scatter_len = if len >= pieces.scatter_end() { pieces.scatter_end() } else { 0 };
        let elsewhere = scatter_len - scatter_len % ALIGNED;
        if len - elsewhere > self.session.longest_result {
            self.retire(None);
            let detail = answer::too_long(&self.session, len);
            let code = FailureCode::ResultTooLarge;
            return Err(Ended::With(CallError::Failed(Failure { code, detail })));
        }
        self.result.resize(scatter_len - elsewhere, 0);
        self.scattered = (scatter_len > 0).then_some(scatter_len - elsewhere);
        while !emptying.is_done() {
            let there = self.result_wait.wait_until(
                &self.session,
                deadline,
                |session| emptying.has_more(&session.segment) != Ok(false),
                |session, limit_ns| emptying.sleep(&session.segment, limit_ns),
            );
            match there {
                Ok(()) => {}
                Err(WaitFailure::Lost) => return Err(Ended::Lost { may_have_run: true }),
                Err(WaitFailure::Late) => {
                    self.retire(None);
                    return Err(Ended::Late);
                }
            }
            match emptying.has_more(&self.session.segment) {
                Ok(true) => {}
                // The server has taken back what it had filled. Until the deadline it may fill it again.
                Ok(false) if clock::now_ns() < deadline.latest_ns => continue,
                Ok(false) => {
                    self.retire(None);
                    return Err(Ended::Late);
                }
                Err(Disorder) => return Err(self.disorder()),
            }
            let rest = len - emptying.received().max(scatter_len);
            if message_buffer::reserve(&mut self.result, emptying.next_len().min(rest), len - elsewhere)
                .is_err()
            {
                return Err(self.no_memory(len));
            }
            self.take_chunk(&mut emptying, scatter_len, pieces);
            self.session.ring();
        }
        Ok(())
    }

    /// There is no memory for the rest of a result of `len` bytes: the server need not send it.
    #[cold]
    fn no_memory(&mut self, len: usize) -> Ended {
        self.retire(None);
        self.result = Vec::new();
        let (code, detail) = (FailureCode::ResultTooLarge, message_buffer::no_memory_for_result(len));
        Ended::With(CallError::Failed(Failure { code, detail }))
    }

    fn take_chunk(&mut self, emptying: &mut Emptying, scatter_len: usize, pieces: &mut GatherList<'_, '_>) {
        let segment = &self.session.segment;
        let (start, end) = (emptying.received(), emptying.received() + emptying.next_len());
        if start >= scatter_len {
            return emptying.take(segment, &mut self.result);
        }
        let result = &mut self.result;
        let mut chunk = emptying.chunk(segment);
        let mut at = start;
        pieces.places(start, end, |place| match place {
            Ok(place) => {
                chunk.take(place);
                at += place.len();
            }
            // Between two places is what aligns the second; behind the last is the rest.
            Err(len) if at < scatter_len => {
                chunk.skip(len);
                at += len;
            }
            Err(len) => chunk.append(len, result),
        });
        chunk.finish();
    }
}
