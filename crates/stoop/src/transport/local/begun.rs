//! Outstanding calls to a server of this process.
//!
//! The arguments of a begun call are marshaled like those of a call to another process: its caller goes on, and may
//! change the values that it has passed.

use crate::agreed::Agreed;
use crate::calling::background::{Background, Driven, start};
use crate::calling::begun::{BeginsCalls, CallBatch, OutstandingCalls, PipeTerms};
use crate::calling::call_table::{CallTable, Outcome, Payload, Wakeup};
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::short_result::Short;
use crate::calling::table_lock::{Registered, attend, register, take};
use crate::context::cancelled;
use crate::context::cancelled::CallId;
use crate::context::owner_of;
use crate::context::{Caller, current_call, in_between, is_too_late, take_asked};
use crate::error::{CallError, Failure, FailureCode, RefusalCode, SendError};
use crate::later::deferred::{Given, Later, ReplyError};
use crate::later::lent::Lent;
use crate::later::open_calls::{Answers, ToOpen};
use crate::later::pool::Declined;
use crate::locked::locked;
use crate::message_buffer::keep_arguments;
use crate::pipes::contract::Ends;
use crate::pipes::error::PipeError;
use crate::serving::dispatch::CallLimits;
use crate::serving::here::result_len;
use crate::serving::one_call;
use crate::serving::outcome::Outcome as Ran;
use crate::transport::local::call::{LocalCall, refused};
use crate::transport::local::pipes::{LocalPipes, OfCall};
use crate::transport::local::server::LocalServer;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// A table of outstanding calls to a server of this process.
pub(crate) struct LocalCalls(Arc<Calls>);

pub(crate) struct Calls {
    server: Arc<LocalServer>,
    interface: u16,
    /// What the server has of the client's procedures, if its trait is another.
    agreed: Option<Agreed>,
    table: Mutex<CallTable<LocalCall>>,
    /// Ends polled calls at their deadlines.
    pub(super) background: Background,
    /// Whether the background thread has been started: with the first waker.
    has_background: Mutex<bool>,
    /// When that thread looks next, as far as is known.
    pub(super) looks_ns: AtomicU64,
}

/// A call that waits for a thread.
pub(crate) struct LocalJob {
    pub(super) calls: Arc<Calls>,
    pub(super) call: u32,
    pub(super) id: u64,
}

/// Between two looks of the background thread, at most: in its sleep it keeps the calls, also when their handles are gone.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The last identification that was given to a call.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Memory for the result of the next call that this thread runs: zeros, or nothing.
    static PACKET: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl LocalCalls {
    pub(crate) fn new(server: Arc<LocalServer>, interface: u16, agreed: Option<Agreed>) -> Self {
        Self(Arc::new(Calls {
            server,
            interface,
            agreed,
            table: Mutex::default(),
            background: Background::default(),
            has_background: Mutex::default(),
            looks_ns: AtomicU64::new(u64::MAX),
        }))
    }

    /// Whether the server still runs.
    pub(crate) fn is_open(&self) -> bool {
        self.0.server.is_open()
    }
}

impl BeginsCalls for LocalCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        CallBatch::new(Vec::new(), 0, self.0.server.message_max, timeout_ns)
    }

    fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        self.0.begin(batch, (procedure, len), None)
    }

    fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        let pipes = LocalPipes::new(&terms, batch.timeout_ns);
        let call = self.0.begin(batch, (procedure, len), Some(pipes.clone())).map_err(Some)?;
        let calls: Weak<Calls> = Arc::downgrade(&self.0);
        let calls: Weak<dyn OfCall> = calls;
        Ok((call, pipes.callers_ends((&calls, call), self.0.server.message_max)))
    }

    fn submit(&self, _: CallBatch) {}
}

impl Calls {
    fn begin(
        self: &Arc<Self>,
        batch: &mut CallBatch,
        (procedure, len): (u16, usize),
        pipes: Option<LocalPipes>,
    ) -> Result<u32, CallError> {
        let calls = self;
        batch.read_clock();
        if batch.deadline <= batch.begun {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let number = calls.agreed.as_ref().map_or(Some(procedure), |agreed| agreed.number(procedure));
        let Some(procedure) = number else {
            return Err(refused(RefusalCode::UnknownProcedure, String::new()));
        };
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let mut arguments = Vec::new();
        keep_arguments(&mut arguments, &batch.packet[batch.start..batch.start + len])?;
        let arguments = Some(arguments);
        let deadline_ns = batch.deadline.as_nanos();
        let call = LocalCall { id, procedure, begun: batch.begun, arguments, pipes };
        let call = calls.table().open(deadline_ns, call);
        let declined = match calls.server.pool.submit(LocalJob { calls: Arc::clone(calls), call, id }) {
            Ok(()) => return Ok(call),
            Err(declined) => declined,
        };
        // No handle has it yet.
        drop(calls.table().abandon(call));
        Err(match declined {
            Declined::Closed => CallError::not_sent(SendError::Closed),
            Declined::Full => refused(RefusalCode::Overloaded, String::new()),
            Declined::NoThread(why) => CallError::not_sent(SendError::Io(why)),
        })
    }
}

impl OutstandingCalls for LocalCalls {
    fn server(&self) -> String {
        format!("local:{}", self.0.server.name())
    }

    fn is_ready(&self, call: u32) -> bool {
        self.0.look(&[call], Instant::NEVER).is_some()
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        let Self(calls) = self;
        if self.is_ready(call) {
            return true;
        }
        match register(&calls.table, call, waker) {
            Registered::Ended => return true,
            Registered::Before => return self.is_ready(call),
            Registered::Now => {}
        }
        let deadline_ns = calls.table().deadline_ns(call);
        calls.look_by(deadline_ns);
        false
    }

    fn wait_any(&self, waited: &[u32], until: Instant) -> Option<usize> {
        let Self(calls) = self;
        loop {
            match calls.look(waited, until) {
                Some(Look::Ended(place)) => return Some(place),
                Some(Look::Late) => return None,
                None => {}
            }
            if until == Instant::NEVER && calls.must_help() && calls.run_one_of(waited) {
                continue;
            }
            attend(&calls.table, waited, |deadline_ns| {
                let limit_ns = deadline_ns.min(until.as_nanos()).saturating_sub(clock::now_ns());
                thread::park_timeout(Duration::from_nanos(limit_ns));
            });
        }
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        self.0.table.try_lock().ok()?.take_short(call)
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Result<Reader<'_>, CallError>)) -> bool {
        take(self, &self.0.table, call, with)
    }

    fn cancel(&self, call: u32) {
        let mut table = self.0.table();
        let (abandoned, waker) = table.abandon(call);
        if let Some(LocalCall { id, arguments: None, .. }) = &abandoned {
            // Under the lock, which the call takes when it ends.
            cancelled::cancel(CallId::local(*id));
        }
        drop(table);
        drop(waker);
        if let Some(pipes) = abandoned.and_then(|call| call.pipes) {
            pipes.fail(&PipeError::Cancelled);
        }
    }

    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let waker = self.0.table().detach(call, ordered);
        drop(waker);
    }

    fn has_left(&self, _: u32) -> bool {
        true
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        self.0.table().reclaim(which)
    }

    fn detached(&self) -> usize {
        self.0.table().detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.0.table().failures);
    }

    fn wait_for_reclaimed(&self, call: u32, until: Instant) {
        if !(self.0.must_help() && self.0.run_one_of(&[call])) {
            self.wait_any(&[call], until);
        }
    }
}

/// The result of a look at several calls.
enum Look {
    /// The call at that index has ended.
    Ended(usize),
    /// The time of waiting is over.
    Late,
}

impl Calls {
    pub(super) fn table(&self) -> MutexGuard<'_, CallTable<LocalCall>> {
        locked(&self.table)
    }

    /// Looks whether one of these calls has ended, and ends those whose deadlines have passed.
    fn look(&self, calls: &[u32], until: Instant) -> Option<Look> {
        let ended = self.table().ended_among(calls);
        if let Some(place) = ended {
            return Some(Look::Ended(place));
        }
        let now_ns = clock::now_ns();
        if self.expire(now_ns) {
            let ended = self.table().ended_among(calls);
            if let Some(place) = ended {
                return Some(Look::Ended(place));
            }
        }
        (until.as_nanos() <= now_ns).then_some(Look::Late)
    }

    /// Ends the calls whose deadlines have passed. Returns whether there were any.
    pub(super) fn expire(&self, now_ns: u64) -> bool {
        let mut table = self.table();
        let (mut expired, mut piped) = (table.expired(now_ns), Vec::new());
        expired.retain(|&call| {
            let due_ns = table.get_mut(call).and_then(|known| known.due_ns(now_ns));
            table.set_deadline(call, |_| due_ns);
            due_ns.is_none()
        });
        let wakeups: Vec<Wakeup> = expired
            .iter()
            .map(|&call| {
                let known = table.get_mut(call).expect("what expires is open");
                let error = known.too_late(now_ns);
                piped.extend(known.pipes.take().map(|pipes| (pipes, error.clone())));
                table.end(call, Err(error))
            })
            .collect();
        drop(table);
        piped.iter().for_each(|(pipes, error)| pipes.end(Err(error)));
        let any = !wakeups.is_empty();
        wakeups.into_iter().for_each(Wakeup::give);
        any
    }

    /// Has the background thread look by that time. Without that thread, a waker is woken only when the call has run.
    fn look_by(self: &Arc<Self>, deadline_ns: u64) {
        let mut has_background = locked(&self.has_background);
        if !*has_background {
            *has_background = start(self).is_ok();
        }
        drop(has_background);
        if self.looks_ns.load(Ordering::SeqCst) > deadline_ns {
            self.wake_background();
        }
    }

    /// The earliest deadline, if a call has a waker; otherwise `u64::MAX`.
    pub(super) fn next_look_ns(&self) -> u64 {
        let table = self.table();
        if table.is_polled() { table.earliest_ns() } else { u64::MAX }
    }

    /// Whether the thread should run calls for which it waits: procedures that wait for calls to their own server could have taken
    /// all its threads.
    fn must_help(&self) -> bool {
        current_call().is_some() && self.server.pool.is_busy()
    }

    /// Runs one of these calls that no thread has begun to run. Returns whether there was one.
    fn run_one_of(self: &Arc<Self>, calls: &[u32]) -> bool {
        let mut table = self.table();
        let waiting = calls.iter().find_map(|&call| {
            let known = table.get_mut(call).filter(|known| known.arguments.is_some())?;
            Some((call, known.id))
        });
        drop(table);
        let Some((call, id)) = waiting else { return false };
        in_between(|| self.run(call, id));
        true
    }

    /// Runs a call, unless it has been abandoned or another thread runs it.
    pub(super) fn run(self: &Arc<Self>, call: u32, id: u64) {
        let mut table = self.table();
        let mut deadline_ns = table.deadline_ns(call);
        let Some(known) = table.get_mut(call).filter(|known| known.id == id) else { return };
        let Some(arguments) = known.arguments.take() else { return };
        let (procedure, pipes) = (known.procedure, known.pipes.clone());
        let now_ns = clock::now_ns();
        if let Some(pipes) = pipes.as_ref().filter(|_| now_ns < deadline_ns) {
            // The first step of the call has ended in time.
            deadline_ns = pipes.deadline_ns();
            table.set_deadline(call, |_| Some(pipes.due_ns(now_ns)));
        }
        drop(table);
        if deadline_ns <= now_ns {
            let outcome = Err(refused(RefusalCode::DeadlinePassed, String::new()));
            return self.end(call, id, outcome);
        }
        let limits = self.limits(id, deadline_ns);
        let mut packet = PACKET.take();
        if packet.is_empty() {
            packet = vec![0; MAX_DATAGRAM];
        }
        let ran = self.server.exports.run(self.interface, procedure, &arguments, &mut packet, limits);
        let ran = ran.unwrap_or_else(|why| why.refused(limits.result_max));
        let outcome = match ran {
            Ran::Result(len) => {
                ran.has_nothing_to_drop();
                match is_too_late(deadline_ns, take_asked()) {
                    true => failed(FailureCode::FinishedTooLate),
                    false => Ok(payload(packet, len)),
                }
            }
            Ran::Later(mut later) => {
                if let Some(pipes) = pipes.filter(|pipes| pipes.are(later.pipes())) {
                    later.give_ends(pipes.servers_ends(limits.result_max));
                }
                return self.leave_open(OpenLocal { call, id, limits }, *later);
            }
            ran => outcome(ran, packet),
        };
        self.end(call, id, outcome);
    }

    /// Lets a call that has run wait for its answer.
    #[cold]
    fn leave_open(self: &Arc<Self>, call: OpenLocal, later: Later) {
        let to_open = ToOpen {
            answers: Lent::new(Arc::downgrade(self)),
            room: Arc::clone(&self.server.exports.open_room),
            owner: owner_of(&call.limits.caller),
            id: call.limits.call,
            deadline_ns: call.limits.deadline_ns,
        };
        to_open.open(call, later);
    }

    fn limits(&self, id: u64, deadline_ns: u64) -> CallLimits {
        let result_max = self.server.message_max;
        let (caller, call) = (Caller::Local, CallId::local(id));
        CallLimits { deadline_ns, caller, call, result_max, out_limit: result_max }
    }

    /// Ends a call, if it has not been abandoned.
    pub(super) fn end(&self, call: u32, id: u64, outcome: Outcome) {
        let mut table = self.table();
        if let Some(known) = table.get_mut(call).filter(|known| known.id == id) {
            let piped = known.pipes.take().map(|pipes| (pipes, outcome.as_ref().err().cloned()));
            let wakeup = table.end(call, outcome);
            drop(table);
            if let Some((pipes, error)) = piped {
                pipes.end(error.as_ref().map_or(Ok(()), Err));
            }
            cancelled::ended(CallId::local(id));
            return wakeup.give();
        }
        drop(table);
        cancelled::ended(CallId::local(id));
    }
}

/// The result of a call that has just run, whose `len` bytes are in `packet`. The thread keeps the memory of a short one.
fn payload(mut packet: Vec<u8>, len: usize) -> Payload {
    let Some(short) = Short::of(&packet[HEADER_LEN..HEADER_LEN + len]) else {
        return Payload::new(packet, HEADER_LEN, len);
    };
    if packet.len() == MAX_DATAGRAM {
        // A procedure sees its OUT arguments where they lie in the packet, and nothing of another call there.
        packet[HEADER_LEN..].fill(0);
        PACKET.set(packet);
    }
    Payload::Short(short)
}

/// What the caller gets of a call that has run so, with its result in `packet`.
fn outcome(ran: Ran, packet: Vec<u8>) -> Outcome {
    result_len(ran).map(|len| Payload::new(packet, HEADER_LEN, len))
}

fn failed(code: FailureCode) -> Outcome {
    Err(CallError::failed(Failure { code, detail: String::new() }))
}

/// A call that has run and waits for its answer.
pub(crate) struct OpenLocal {
    call: u32,
    id: u64,
    limits: CallLimits,
}

impl Answers for Calls {
    type Call = OpenLocal;

    /// The client has gone, and with it all who could learn of a call that it has detached.
    const GONE: ReplyError = ReplyError::CallerGone;

    fn has_caller(&self, _: &OpenLocal) -> bool {
        true
    }

    fn answer_open(&self, call: OpenLocal, given: Given<'_>) -> Result<(), ReplyError> {
        let OpenLocal { call, id, limits } = call;
        let (mut packet, now_ns) = (vec![0; HEADER_LEN], clock::now_ns());
        let (ran, reached) = one_call::conclude(&self.server.exports, &limits, given, &mut packet, now_ns);
        self.end(call, id, outcome(ran, packet));
        reached
    }
}

impl OfCall for Calls {
    fn expect_result(&self, call: u32, pipes: &LocalPipes) {
        let is_it = |own: &&LocalPipes| own.is(pipes);
        self.table()
            .set_deadline(call, |known| known.pipes.as_ref().filter(is_it).map(LocalPipes::deadline_ns));
    }
}
