//! A lane of a calling thread, and one blocking call on it.

use crate::buffers::{NamedRanges, SharedBuffers, WriteArguments};
use crate::calling::counters::CallCounters;
use crate::calling::deadline::{CallTimes, Deadline};
use crate::calling::fate::{Ended, Loss};
use crate::calling::kept_memory;
use crate::calling::lanes::Counted;
use crate::calling::recovery::{lacks_form, refused_in_advance};
use crate::error::{CallError, SendError, UnbindReason};
use crate::transport::remote::{Observed, Plan, RemoteLane};
use crate::transport::shm::ShmTransport;
use crate::transport::shm::caller::published::{NoResult, PublishedCall};
use crate::transport::shm::caller::result_wait::{ResultWait, WaitFailure};
use crate::transport::shm::caller::session::Session;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::{clock, host};
use stoop_probe::{Point, stamp};
use stoop_shm::layout::SLOT;
use stoop_shm::{AnswerKind, Answers, InPlace, Number, Request, RequestKind};
use stoop_wire::MAX_DATAGRAM;

/// A lane with all that a call needs.
pub(crate) struct ShmLane {
    session: Arc<Session>,
    published: PublishedCall,
    /// The arguments that are not borrowed.
    arguments: Vec<u8>,
    arguments_len: usize,
    result: Vec<u8>,
    /// Where the rest of a result begins in `result` whose first bytes are placed in the caller's memory.
    scattered: Option<usize>,
    /// The buffers in the arena that the present call names.
    named: NamedRanges,
    result_wait: ResultWait,
    calls: u64,
    /// The calls when it was last asked to release memory.
    calls_before: u64,
    /// Calls that took one line there and one back.
    fast: u64,
    /// Of the calls of a binding that keeps an account, one in so many is recorded.
    recorded_share: u32,
    /// Calls until the next one is recorded.
    until_recorded: u32,
}

/// A buffer longer than this is freed when the last call used little of it.
const KEPT_MAX: usize = 4 << 20;

impl Counted for ShmLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = CallCounters { calls: self.calls, fast: self.fast, ..CallCounters::default() };
        counters.add_waits(self.result_wait.counts());
        counters
    }

    fn release_memory(&mut self) -> bool {
        let has_called = std::mem::replace(&mut self.calls_before, self.calls) != self.calls;
        if self.keeps_much() && !has_called {
            (self.arguments, self.result) = (vec![0; MAX_DATAGRAM], Vec::new());
        }
        self.keeps_much()
    }
}

impl RemoteLane<ShmTransport> for ShmLane {
    const CAN_GATHER: bool = true;

    #[cold]
    fn new(plan: &Plan<'_, ShmTransport>, session: Arc<Session>, timeout_ns: u64) -> Result<Self, CallError> {
        let lane = session
            .await_lane(Duration::from_nanos(timeout_ns))
            .ok_or(CallError::not_sent(SendError::DeadlinePassed))?;
        let recorded_share = plan.options.account.as_ref().map_or(1, |account| account.shm_share);
        Ok(Self {
            published: PublishedCall::none_on(lane),
            result_wait: ResultWait::new(plan.options.waiting, session.placement),
            session,
            arguments: vec![0; MAX_DATAGRAM],
            arguments_len: 0,
            result: Vec::new(),
            scattered: None,
            named: NamedRanges::default(),
            calls: 0,
            calls_before: 0,
            fast: 0,
            recorded_share,
            until_recorded: recorded_share,
        })
    }

    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A call finds out by itself that its session is lost.
    #[inline]
    fn prepare(&self, _: u64) -> bool {
        self.session.requests.expect(&self.session.segment, 0);
        true
    }

    fn adopt(&mut self, _: &Plan<'_, ShmTransport>, session: Arc<Session>) -> bool {
        let Some(lane) = session.take_lane() else { return false };
        self.result_wait.set_placement(session.placement);
        (self.published, self.session) = (PublishedCall::none_on(lane), session);
        true
    }

    #[inline]
    fn arguments(&mut self, limit: usize) -> Writer<'_> {
        self.trim();
        Writer::new(&mut self.arguments, 0, limit)
    }

    #[inline(always)]
    fn begin(timeout_ns: u64) -> Option<CallTimes> {
        CallTimes::begin_cheaply(timeout_ns)
    }

    #[inline(always)]
    fn attempt<const IS_TIMED: bool>(
        &mut self,
        times: CallTimes,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        match IS_TIMED {
            true => self.exchange_timed(times.deadline, procedure, len, gathered),
            false => self.exchange(RequestKind::Call, times.deadline, procedure, len, gathered),
        }
    }

    /// `write` writes where the buffers lie in the memory of the present session, or what is in them.
    fn attempt_with_buffers(
        &mut self,
        times: CallTimes,
        procedure: u16,
        limit: usize,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), Ended> {
        self.trim();
        let mut shared = SharedBuffers::new(self.session.arena.as_ref(), &mut self.named);
        let mut arguments = Writer::new(&mut self.arguments, 0, limit);
        write(&mut arguments, &mut shared);
        let written = arguments.finish();
        let len = written.map_err(|why| Ended::With(CallError::not_sent(SendError::Arguments(why))))?;
        let kind = if self.named.ranges.is_empty() { RequestKind::Call } else { RequestKind::CallInPlace };
        self.exchange(kind, times.deadline, procedure, len, &mut GatherList::none())
    }

    fn loss(&self) -> Loss {
        self.session.cause_of_loss().into()
    }

    #[inline]
    fn result(&self) -> &[u8] {
        &self.result
    }

    fn call_packet(&mut self) -> (&mut Vec<u8>, usize) {
        (&mut self.arguments, 0)
    }

    fn shorten_result(&mut self, by: usize) {
        self.result.truncate(self.result.len() - by);
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        self.scattered.map(|scattered| Reader::after(&self.result, scattered))
    }

    fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        self.session.arena.as_ref().is_some_and(|arena| buffer.place_in(arena).is_some())
    }

    fn observed(&mut self) -> Observed {
        let ended_ns = clock::now_ns();
        // Only a call that has asked for it, or has a long result, is told: for others the server does not read the clock.
        let answer = Answers::read(&self.session.segment, self.published.lane.number);
        let told = answer.filter(|answer| answer.kind == AnswerKind::Result && answer.word != 0);
        Observed { ended_ns, server_ns: told.map(|answer| answer.word.into()) }
    }

    const IS_SAMPLED: bool = true;

    #[inline(always)]
    fn is_due(&mut self) -> bool {
        self.until_recorded = self.until_recorded.wrapping_sub(1);
        self.until_recorded == 0
    }

    fn stands_for(&mut self, is_taken_apart: bool) -> u32 {
        if !is_taken_apart && self.until_recorded > 0 {
            return 0;
        }
        let left = std::mem::replace(&mut self.until_recorded, self.recorded_share);
        self.recorded_share.saturating_sub(left).max(1)
    }

    fn are_buffers_changed(&self) -> bool {
        self.named.is_changed
    }

    fn release_buffers(&mut self) {
        self.named.clear();
    }
}

impl ShmLane {
    // Out of line: only calls of which an account is kept come here.
    #[inline(never)]
    fn exchange_timed(
        &mut self,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        self.exchange(RequestKind::CallTimed, deadline, procedure, len, gathered)
    }

    /// One call: the arguments there, and the result back.
    #[inline(always)]
    fn exchange(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        if !self.session.takes_calls() {
            return Err(self.not_taken());
        }
        let Some(procedure) = self.session.bound.known(procedure) else {
            return Err(Ended::With(lacks_form()));
        };
        self.arguments_len = len;
        self.scattered = None;
        if len > SLOT {
            return self.send_long(kind, deadline, procedure, len, gathered);
        }
        if gathered.borrowed_len() > 0 {
            self.copy_borrowed(len, gathered);
        }
        let request = self.next_request(kind, procedure, len, deadline);
        stamp(Point::CallLeaves);
        self.published.publish_short(&self.session, &request, &self.arguments[..len]);
        stamp(Point::CallLeft);
        let lane = self.published.lane;
        let answered = self.result_wait.wait_until(
            &self.session,
            deadline,
            |session| Answers::is_there(&session.segment, lane.number, lane.last),
            |session, limit_ns| Answers::sleep(&session.segment, lane.number, lane.last, limit_ns),
        );
        answered.map_err(|failure| self.end_wait(failure))?;
        stamp(Point::ResultSeen);
        self.take_answer(deadline, gathered)
    }

    /// The call cannot leave: the binding is lost, or the server has said that it shuts down.
    #[cold]
    fn not_taken(&self) -> Ended {
        match self.session.is_lost() {
            true => Ended::Lost { may_have_run: false },
            false => refused_in_advance(),
        }
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
                stamp(Point::ResultFound);
                Ok(())
            }
            _ => self.finish(deadline, 0, gathered),
        }
    }

    /// Publishes a call whose arguments go through a channel, and goes on with it until it has ended.
    #[cold]
    fn send_long(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        let now_ns = clock::now_ns();
        let deadline = Deadline::exact(deadline.at(now_ns));
        let limit = Duration::from_nanos(deadline.latest_ns.saturating_sub(now_ns));
        let Some(channel) = self.session.take_channel(limit) else {
            return Err(match self.session.is_lost() {
                true => Ended::Lost { may_have_run: false },
                false => Ended::With(CallError::not_sent(SendError::DeadlinePassed)),
            });
        };
        let request = self.next_request(kind, procedure, len, deadline);
        let inline_len = len - gathered.borrowed_len();
        let inline = &self.arguments[..inline_len];
        self.published.publish_long(&self.session, request, channel, inline, gathered);
        self.finish(deadline, inline_len, gathered)
    }

    /// Goes on with a published call until it has ended.
    #[cold]
    fn finish(
        &mut self,
        deadline: Deadline,
        inline_len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        let mut is_late = false;
        loop {
            let (inline, result) = (&self.arguments[..inline_len], &mut self.result);
            match self.published.advance(&self.session, inline, result, gathered) {
                Ok(true) => {
                    self.scattered = self.published.take_scattered();
                    if self.keeps_much() {
                        kept_memory::note();
                    }
                    return Ok(());
                }
                Ok(false) => {}
                Err(NoResult::Answered(error)) => return Err(Ended::With(error)),
                Err(NoResult::NotTaken(error)) => {
                    self.abandon();
                    return Err(Ended::With(error));
                }
                Err(NoResult::Disorder) => {
                    self.session.lose(UnbindReason::Disorder);
                    return Err(Ended::Lost { may_have_run: true });
                }
            }
            // A server that goes on slowly, or takes back what it announced, must not keep this thread beyond the deadline.
            if is_late {
                return Err(self.end_wait(WaitFailure::Late));
            }
            let waited = self.result_wait.wait_until(
                &self.session,
                deadline,
                |session| self.published.can_advance(session),
                |session, limit_ns| self.published.sleep(session, limit_ns),
            );
            waited.map_err(|failure| self.end_wait(failure))?;
            is_late = clock::now_ns() >= deadline.latest_ns;
        }
    }

    /// How a call ends whose wait has failed.
    #[cold]
    fn end_wait(&mut self, failure: WaitFailure) -> Ended {
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

    /// Whether it keeps buffers of a long call.
    fn keeps_much(&self) -> bool {
        self.arguments.len() > KEPT_MAX || self.result.capacity() > KEPT_MAX
    }

    /// Frees memory that a far longer call than the last one has left.
    #[inline]
    fn trim(&mut self) {
        if self.arguments.len() > KEPT_MAX && self.arguments_len < self.arguments.len() / 4 {
            self.arguments = vec![0; MAX_DATAGRAM];
        }
        if self.result.capacity() > KEPT_MAX && self.result.len() < self.result.capacity() / 4 {
            self.result = Vec::new();
        }
    }
}
