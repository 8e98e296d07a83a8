//! A call that arrived over shared memory, and its answer.

use crate::buffers::Memory;
use crate::context::cancelled::CallId;
use crate::context::take_asked;
use crate::error::FailureCode;
use crate::later::deferred::{Given, Later, ReplyError};
use crate::pipes::contract::{Close, Pipes};
use crate::pipes::error::PipeError;
use crate::serving::dispatch::CallLimits;
use crate::serving::message_memory::{Content, NO_MEMORY_FOR_RESULT};
use crate::serving::one_call::{self, detail_bytes, serve, wipe};
use crate::serving::outcome::{NoRoom, Outcome};
use crate::serving::workers::Endpoint;
use crate::transport::shm::server::ShmEndpoint;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::worker::WorkerState;
use std::mem;
use std::sync::Arc;
use stoop_net::{clock, host};
use stoop_probe::{Point, stamp};
use stoop_shm::layout::SLOT;
use stoop_shm::{Answer, AnswerKind, Disorder, Request, RequestKind, listening};
use stoop_wire::HEADER_LEN;
use stoop_wire::{Refused, time_of_result};

/// A call, with its arguments in private memory: its caller cannot change them any more (P12).
pub(crate) struct ShmCall {
    pub(super) binding: Arc<Binding>,
    pub(super) request: Request,
    pub(super) arguments: Vec<u8>,
    /// It did not run as soon as it arrived.
    pub(super) deferred: bool,
}

/// A worker that was away for less still has the receive role.
const SHORT_NS: u64 = 100_000;
/// Bytes of a result buffer that a worker keeps.
const KEPT_MAX: usize = 64 * 1024;

impl ShmCall {
    #[inline]
    pub(super) fn new(binding: Arc<Binding>, request: &Request, arguments: Vec<u8>) -> Self {
        Self { binding, request: *request, arguments, deferred: false }
    }

    #[inline(always)]
    fn limits(&self, message_max: usize) -> CallLimits {
        let Self { binding, request, .. } = self;
        let id = binding.call_id(request.lane, request.number);
        CallLimits::new(request.deadline_ns, binding.caller, id, message_max)
    }

    /// Whether its arguments came through a channel: their memory is counted.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.request.len as usize > SLOT
    }
}

/// A call that is served, and the worker that serves it.
struct Serving<'a> {
    endpoint: &'a ShmEndpoint,
    worker: &'a mut WorkerState,
    call: &'a ShmCall,
}

impl one_call::ReceivedCall for Serving<'_> {
    #[inline(always)]
    fn limits(&self) -> CallLimits {
        self.call.limits(self.endpoint.service.message_max)
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.call.binding.is_closed()
    }

    #[inline(always)]
    fn is_cancelled(&self, id: CallId) -> bool {
        let ShmCall { binding, request, .. } = self.call;
        binding.is_cancelled(id, request.lane, request.number)
    }

    #[inline(always)]
    fn run(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom> {
        match self.call.request.kind {
            RequestKind::Call => self.run_plain(limits),
            _ => self.run_apart(limits),
        }
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), &'static str> {
        let has_room = self.call.binding.memory.take(Content::Results, bytes);
        has_room.then_some(()).ok_or(NO_MEMORY_FOR_RESULT)
    }

    fn release(&mut self, bytes: usize) {
        self.call.binding.memory.give_back(Content::Results, bytes);
    }
}

impl Serving<'_> {
    #[inline(always)]
    fn run_plain(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom> {
        let ShmCall { binding, request, arguments, .. } = self.call;
        let (exports, result) = (&self.endpoint.service.exports, &mut self.worker.result);
        exports.run(binding.interface, request.procedure, arguments, result, limits)
    }

    /// Runs the procedure of a call of any kind, away from the code that runs plain calls: a copy of the dispatch for each kind would keep
    /// the compiler from inlining what plain calls need.
    #[cold]
    #[inline(never)]
    fn run_apart(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom> {
        let ShmCall { binding, request, arguments, .. } = self.call;
        if request.kind == RequestKind::CallInPlace {
            let (exports, result) = (&self.endpoint.service.exports, &mut self.worker.result);
            let memory = Memory::of(binding.arena.as_ref());
            let procedure = (binding.interface, request.procedure);
            return exports.run_with_memory(procedure, arguments, memory, result, limits);
        }
        // The clock is not read for other calls: that would take longer than many procedures.
        let is_timed = request.kind == RequestKind::CallTimed;
        let begun_ns = if is_timed { clock::now_ns() } else { 0 };
        let outcome = self.run_plain(limits);
        if is_timed && matches!(outcome, Ok(Outcome::Result(_))) {
            self.worker.told_ns = told(clock::now_ns() - begun_ns);
        }
        outcome
    }
}

impl ShmEndpoint {
    /// Runs a call's procedure and answers it, unless the answer comes later.
    #[inline(always)]
    pub(super) fn answer(&self, worker: &mut WorkerState, call: &ShmCall) -> Option<Box<Later>> {
        let (binding, request) = (&call.binding, &call.request);
        let begun_ns = if call.deferred { clock::now_ns() } else { worker.clock_ns };
        if worker.result.is_empty() || worker.result_of != binding.token {
            let unused = || binding.outgoing().take_buffer(&binding.memory);
            wipe(&mut worker.result, &mut worker.result_of, binding.token, unused);
        }
        worker.count_call();
        let Some(outcome) = serve(&mut Serving { endpoint: self, worker, call }, begun_ns) else {
            worker.uncount_call();
            binding.forget(request.lane, request.number);
            return None;
        };
        if binding.is_closed() {
            // The procedure may have returned early because of that. The caller may still live, and must not see such a result.
            binding.forget(request.lane, request.number);
            return None;
        }
        let procedure = (binding.interface, request.procedure);
        let outcome = match outcome {
            Outcome::Result(len) if self.may_be_late(procedure, len) => {
                outcome.unless_late(request.deadline_ns, clock::now_ns())
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Result(len) if len <= SLOT => {
                outcome.has_nothing_to_drop();
                let told = (mem::take(&mut worker.told_ns), worker.cpu);
                send_short(call, &worker.result[HEADER_LEN..HEADER_LEN + len], told);
            }
            Outcome::Result(len) => {
                // Before the result is copied.
                self.note_time(worker, call, begun_ns);
                let told_ns = told(worker.clock_ns.saturating_sub(begun_ns));
                worker.told_ns = 0;
                self.send_long(&mut worker.result, call, (len, told_ns), worker.cpu);
                trim(worker);
                return None;
            }
            Outcome::Refused(why) => {
                worker.uncount_call();
                self.refuse_request(binding, request, why.0, &why.1, worker.cpu);
                // For calls that are all refused, this is the only look at the clock. Their times are not those of a procedure.
                worker.read_clock();
                trim(worker);
                return None;
            }
            Outcome::Failed(why) => {
                worker.told_ns = 0;
                self.send_failure(call, why.0, &why.1, worker.cpu);
            }
            Outcome::Later(later) => {
                worker.told_ns = 0;
                self.note_time(worker, call, begun_ns);
                return Some(later);
            }
        }
        trim(worker);
        worker.has_more = binding.has_request();
        let is_one_of_many = worker.has_more
            && self.service.exports.time(procedure.0, procedure.1).is_short()
            && !call.deferred;
        if !(is_one_of_many && worker.skips_clock()) {
            // Behind the answer, so that it does not wait for the clock.
            self.note_time(worker, call, begun_ns);
        }
        None
    }

    /// Lets a call that has run wait for its answer. It counts as active, as the worker does that has run it.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_open(&self, call: ShmCall, mut later: Later) {
        self.service.activity.begin_more_calls(1);
        let pipes = later.pipes();
        if pipes != Pipes::default() {
            self.give_pipes(&call, pipes, &mut later);
        }
        let (owner, id, _) = self.terms(&call).identity();
        // The queue has its earliest deadline: there a call is refused rather than run too late. An answer may come until the latest.
        let deadline_ns = call.request.deadline_ns;
        self.open_calls.open(call, (owner, id, deadline_ns), later);
    }

    /// Gives a call the pipes of its procedure. Without them it is refused.
    #[cold]
    fn give_pipes(&self, call: &ShmCall, pipes: Pipes, later: &mut Later) {
        let ShmCall { binding, request, .. } = call;
        let waiting = (self.service.waiting, self.service.spinners_max);
        let id = (request.lane, request.number);
        match binding.open_pipes(id, pipes, waiting, self.service.message_max) {
            Ok(ends) => later.give_ends(ends),
            // The caller has made a call on a lane whose pipes it had not read to the end.
            Err(Disorder) => binding.end_for_disorder(),
        }
    }

    /// Answers a call that has been open.
    pub(super) fn answer_later(&self, call: &ShmCall, given: Given<'_>) -> Result<(), ReplyError> {
        let reached = self.conclude(call, given);
        self.service.activity.end_call();
        reached
    }

    fn conclude(&self, call: &ShmCall, given: Given<'_>) -> Result<(), ReplyError> {
        let (binding, request) = (&call.binding, &call.request);
        if binding.is_closed() {
            let id = (request.lane, request.number);
            binding.end_pipes(id, Some(Close::Aborted), &PipeError::Cancelled);
            binding.forget(request.lane, request.number);
            return Err(ReplyError::CallerGone);
        }
        let (now_ns, limits) = (clock::now_ns(), call.limits(self.service.message_max));
        let (mut packet, cpu) = (vec![0; HEADER_LEN], host::current_cpu() as u16);
        let (outcome, reached) =
            one_call::conclude(&self.service.exports, &limits, given, &mut packet, now_ns);
        let how = match &outcome {
            Outcome::Result(_) => Some(Close::Whole),
            Outcome::Refused(_) => None,
            _ => Some(Close::Aborted),
        };
        let why = match reached {
            Err(ReplyError::Cancelled) => PipeError::Cancelled,
            _ => PipeError::Ended,
        };
        binding.end_pipes((request.lane, request.number), how, &why);
        match outcome {
            Outcome::Result(len) if len <= SLOT => {
                send_short(call, &packet[HEADER_LEN..HEADER_LEN + len], (0, cpu));
            }
            Outcome::Result(len) => self.send_long(&mut packet, call, (len, 0), cpu),
            Outcome::Failed(why) => self.send_failure(call, why.0, &why.1, cpu),
            Outcome::Refused(why) => self.refuse_request(binding, request, why.0, &why.1, cpu),
            Outcome::Later(_) => unreachable!("this is its answer"),
        }
        // It ends the pipes of the call, for which a caller's thread listens that does not listen for answers.
        listening::tell_of_chunks(&binding.segment);
        reached
    }

    /// Whether the clock is to be compared with the deadline of a call that has returned a result of `len` bytes. Not if the procedure
    /// is known to be short and has not learnt of its deadline: then what it returns is a result, and the clock would take
    /// longer than the procedure.
    #[inline]
    fn may_be_late(&self, (interface, procedure): (u16, u16), len: usize) -> bool {
        take_asked() || len > SLOT || !self.service.exports.time(interface, procedure).is_short()
    }

    /// Remembers how long the procedure of a call took, which has returned at this moment.
    #[inline(always)]
    fn note_time(&self, worker: &mut WorkerState, call: &ShmCall, begun_ns: u64) {
        let took_ns = worker.time_since(begun_ns);
        self.service.exports.time(call.binding.interface, call.request.procedure).took(took_ns);
        worker.was_short = took_ns < SHORT_NS;
    }

    /// Answers that the procedure has not run and will not run for this call.
    #[cold]
    pub(super) fn refuse_request(
        &self,
        binding: &Binding,
        request: &Request,
        refused: impl Into<Refused>,
        detail: &str,
        cpu: u16,
    ) {
        let Refused { code, retry_after } = refused.into();
        self.service.activity.refused.count(code);
        let (word, base) = (code.code(), retry_after.millis().into());
        send_without_result(binding, request, AnswerKind::Refusal, (word, base), detail, cpu);
    }

    /// Answers that the procedure ran, but there is no result.
    #[cold]
    pub(super) fn send_failure(&self, call: &ShmCall, code: FailureCode, detail: &str, cpu: u16) {
        let ShmCall { binding, request, .. } = call;
        send_without_result(binding, request, AnswerKind::Failure, (code.code(), 0), detail, cpu);
    }
}

/// How an answer tells nanoseconds at the server. 0 would mean that it does not tell them.
fn told(at_server_ns: u64) -> u32 {
    match time_of_result(at_server_ns, 0) {
        u32::MAX => 0,
        ns => ns.max(2),
    }
}

/// Gives back a result buffer that is longer than a worker keeps.
#[inline]
fn trim(worker: &mut WorkerState) {
    if worker.result.len() > KEPT_MAX {
        worker.result = Vec::new();
    }
}

/// Answers a call with a result that fits into a slot.
#[inline(always)]
fn send_short(ShmCall { binding, request, .. }: &ShmCall, message: &[u8], (told_ns, cpu): (u32, u16)) {
    let len = message.len() as u32;
    let answer = Answer { kind: AnswerKind::Result, len, word: told_ns, cpu, channel: 0, base: 0 };
    stamp(Point::ResultLeaves);
    binding.answer(request.lane, request.number, &answer, message);
    stamp(Point::ResultLeft);
}

fn send_without_result(
    binding: &Binding,
    request: &Request,
    kind: AnswerKind,
    (word, base): (u32, u32),
    detail: &str,
    cpu: u16,
) {
    let detail = detail_bytes(detail);
    let answer = Answer { kind, len: detail.len() as u32, word, cpu, channel: 0, base };
    binding.answer(request.lane, request.number, &answer, detail);
    // The call may be one with pipes.
    listening::tell_of_chunks(&binding.segment);
}
