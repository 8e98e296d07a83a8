//! A session of callbacks at the client: it receives their records, runs the procedures, and sends the answers.
//!
//! One thread receives at a time, and then runs what it has received, when it has its [turn](Turns). While a callback waits for a call of
//! its own, another thread runs others.
//!
//! A thread of a server in this process that waits for a callback [runs](here) it itself, if no other comes first.

mod here;
#[cfg(test)]
mod tests;

pub(crate) use crate::callbacks::session::here::find;

use crate::agreed::Agreed;
use crate::callbacks::nested::{self, RunsCallbacks};
use crate::context::cancelled::{self, CallId};
use crate::context::{Caller, begun_latest_ns, is_too_late, noting_asked};
use crate::error::{FailureCode, RefusalCode};
use crate::later::deferred::{Given, Held, Open, ReplyError};
use crate::locked::locked;
use crate::pipes::contract::{Ends, SendingEnd};
use crate::pipes::receiver::Receiver;
use crate::pipes::record::Record;
use crate::serving::dispatch::{CallLimits, Exports};
use crate::serving::one_call;
use crate::serving::outcome::Outcome;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use stoop_calls::callbacks::record::{ANSWER_HEAD, AnswerHead, AnswerKind, CallHead, CallKind};
use stoop_calls::callbacks::{Admitted, Turns};
use stoop_net::{clock, threads};
use stoop_wire::HEADER_LEN;

/// Detail of the refusal of a callback that is nested deeper.
const TOO_DEEP: &str = "eight callbacks of this client wait for calls of their own; a callback that calls its server, which calls back, \
    may go on for so long only";

const _: () = assert!(ANSWER_HEAD <= HEADER_LEN, "the head of an answer has the place of a header");

/// The first identification of the callbacks of the next session; each has its own 2³².
static NEXT_IDS: AtomicU64 = AtomicU64::new(1 << 63);

/// A session of callbacks.
pub(crate) struct Session {
    exports: Arc<Exports>,
    /// Callbacks that run at the same time, at most.
    most: usize,
    /// What the server has of the object's interface, if that is of another revision.
    agreed: Option<Agreed>,
    incoming: Mutex<Incoming>,
    sending: Arc<dyn SendingEnd>,
    /// The handle of the call in whose pipes the records travel.
    call: Mutex<Option<Box<dyn Send>>>,
    /// The number of the object, if the server is in this process.
    here: Option<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    turns: Turns,
    /// With those of the server that run callbacks themselves.
    threads: usize,
    /// Threads that wait until fewer run.
    delayed: usize,
    /// The numbers and names of those that run.
    current: Vec<(u64, CallId)>,
    /// The numbers of those whose answers come later, and whether they are over.
    unanswered: HashMap<u64, Arc<AtomicBool>>,
    next_id: u64,
    skipped: u64,
}

impl State {
    /// The callback in the record begins. Returns its name.
    fn begin(&mut self, record: &[u8]) -> CallId {
        let call = CallId::local(self.next_id);
        self.next_id += 1;
        self.current.extend(CallHead::split(record).ok().map(|(head, _)| (head.number, call)));
        call
    }
}

/// The pipe in which the server sends callbacks and cancels.
struct Incoming {
    receiver: Receiver<[u8]>,
    /// The offset up to which the session has looked for cancels.
    seen: u64,
    /// The callbacks whose cancels lie before that offset and have not been received.
    cancelled: HashSet<u64>,
}

impl Incoming {
    /// Whether the server has cancelled this callback while it waited behind others: the cancel lies behind it in the pipe.
    fn is_cancelled(&mut self, number: u64) -> bool {
        let Self { receiver, seen, cancelled } = self;
        *seen = receiver.look_ahead(*seen, |record| {
            if let Ok((CallHead { kind: CallKind::Cancel, number, .. }, _)) = CallHead::split(record) {
                cancelled.insert(number);
            }
        });
        cancelled.contains(&number)
    }
}

/// The ends of the two pipes of a session.
pub(crate) struct SessionEnds {
    pub(crate) receiver: Receiver<[u8]>,
    pub(crate) sending: Arc<dyn SendingEnd>,
}

impl SessionEnds {
    pub(crate) fn of(ends: Ends) -> Option<Self> {
        Some(Self { receiver: Receiver::new(ends.receiving?, None), sending: ends.sending? })
    }
}

impl Session {
    /// A session in the pipes of a call that has this handle, for at most so many callbacks at a time. `here`: the number of the object, if
    /// the server is in this process.
    pub(crate) fn new(
        (exports, most, agreed): (&Arc<Exports>, usize, Option<Agreed>),
        SessionEnds { receiver, sending }: SessionEnds,
        call: Box<dyn Send>,
        here: Option<u64>,
    ) -> Arc<Self> {
        let (turns, next_id) = (Turns::new(most), NEXT_IDS.fetch_add(1 << 32, Ordering::Relaxed));
        let session = Arc::new(Self {
            exports: Arc::clone(exports),
            most,
            agreed,
            incoming: Mutex::new(Incoming { receiver, seen: 0, cancelled: HashSet::new() }),
            sending,
            call: Mutex::new(Some(call)),
            here,
            state: Mutex::new(State {
                turns,
                threads: 0,
                delayed: 0,
                current: Vec::new(),
                unanswered: HashMap::new(),
                next_id,
                skipped: 0,
            }),
            changed: Condvar::new(),
        });
        session.be_found();
        session
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Runs callbacks in this thread, and in others, until the session has ended and none runs: those of the next session come behind
    /// them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn serve(self: &Arc<Self>) -> io::Result<()> {
        for _ in 1..self.most {
            self.start_thread()?;
        }
        self.state().threads += 1;
        self.work(true);
        self.wait_for_running();
        Ok(())
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        self.state().threads += 1;
        let own = Arc::clone(self);
        let started = threads::start("stoop-callback", move || own.work(false));
        if started.is_err() {
            self.state().threads -= 1;
        }
        started.map(|_| ())
    }

    /// How many one-way callbacks others have replaced before they left.
    pub(crate) fn skipped(&self) -> u64 {
        self.state().skipped
    }

    /// The session has ended, or is to end.
    pub(crate) fn end(&self) {
        self.state().turns.close();
        self.changed.notify_all();
        self.be_lost();
        let call = locked(&self.call).take();
        drop(call);
    }

    fn work(self: &Arc<Self>, stays: bool) {
        let (mut record, mut packet) = (Vec::new(), vec![0; HEADER_LEN]);
        let _serves = nested::in_thread_of(Arc::clone(self) as _);
        let mut may_begin_kept = true;
        loop {
            let kept = if may_begin_kept { self.begin_kept(&mut record) } else { None };
            if kept.is_none() && !stays && self.leave_if_spare() {
                return;
            }
            let Some(call) = kept.or_else(|| self.receive(&mut record)) else { break };
            may_begin_kept = self.run(call, &record, &mut packet);
        }
        self.state().threads -= 1;
    }

    /// Ends a thread of which there is no need.
    fn leave_if_spare(&self) -> bool {
        let mut state = self.state();
        let is_spare = state.threads - state.turns.begun() > self.most;
        state.threads -= usize::from(is_spare);
        is_spare
    }

    /// Receives a callback, which runs now. `None`: the session has ended.
    fn receive(&self, record: &mut Vec<u8>) -> Option<CallId> {
        let mut incoming = locked(&self.incoming);
        loop {
            let receiver = &mut incoming.receiver;
            let skipped = receiver.skipped();
            let received = receiver.recv_with(|bytes| {
                record.clear();
                record.extend_from_slice(bytes);
            });
            match receiver.skipped() - skipped {
                0 => {}
                more => self.note_skipped(more),
            }
            let head = CallHead::split(record);
            let (Ok(Some(())), Ok((head, _))) = (received, head) else {
                self.end();
                return None;
            };
            let (admitted, call) = match head.kind {
                CallKind::Call if incoming.is_cancelled(head.number) => {
                    self.state().turns.skip(1);
                    continue;
                }
                CallKind::Call | CallKind::OneWay => self.admit(head.kind, record),
                CallKind::Cancel => {
                    incoming.cancelled.remove(&head.number);
                    self.cancel(head.number);
                    continue;
                }
                CallKind::Accepted => continue,
            };
            match admitted {
                Admitted::Run => return call,
                Admitted::Kept | Admitted::NotYet => {}
                Admitted::TooDeep => {
                    let refused = Outcome::refused(RefusalCode::Overloaded, TOO_DEEP.into());
                    self.answer(head.number, &refused, &mut vec![0; HEADER_LEN]);
                }
                Admitted::Over => return None,
            }
        }
    }

    fn note_skipped(&self, more: u64) {
        let mut state = self.state();
        state.turns.skip(more);
        state.skipped += more;
    }

    /// Whether a callback that has come runs now, perhaps after one that was kept before; and the one in the record, if it does.
    fn admit(&self, kind: CallKind, record: &mut Vec<u8>) -> (Admitted, Option<CallId>) {
        let mut state = self.state();
        loop {
            match state.turns.admit(kind == CallKind::OneWay, record) {
                Admitted::NotYet => {}
                Admitted::Run => return (Admitted::Run, Some(state.begin(record))),
                admitted => return (admitted, None),
            }
            state = self.wait_for_less(state);
        }
    }

    /// Waits until fewer callbacks run, or less.
    fn wait_for_less<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.delayed += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.delayed -= 1;
        state
    }

    /// Waits for the callbacks that run in other threads, but not for those that wait for calls of their own: these may need callbacks of
    /// the next session.
    fn wait_for_running(&self) {
        let mut state = self.state();
        while state.turns.running() > 0 {
            state = self.wait_for_less(state);
        }
    }

    fn begin_kept(&self, record: &mut Vec<u8>) -> Option<CallId> {
        let mut state = self.state();
        state.turns.begin_kept(record).then(|| state.begin(record))
    }

    /// Runs the callback in the record, which has begun. Returns whether others that were kept may begin.
    fn run(self: &Arc<Self>, call: CallId, record: &[u8], packet: &mut Vec<u8>) -> bool {
        let Ok((head, arguments)) = CallHead::split(record) else { return self.ended(call) };
        let limits = self.limits(begun_latest_ns(head.left_ns).saturating_add(head.left_ns), call);
        let procedure = self.own(head.procedure);
        let run = || self.exports.run(0, procedure, arguments, packet, limits);
        let (ran, asked) = match head.left_ns {
            0 => (Ok(Outcome::refused(RefusalCode::DeadlinePassed, String::new())), false),
            _ => nested::running_here(|| noting_asked(run)),
        };
        let is_answered = head.kind == CallKind::Call;
        match ran.unwrap_or_else(|why| why.refused(limits.result_max)) {
            Outcome::Later(mut later) => {
                let (number, held) = (is_answered.then_some(head.number), Mutex::new(later.take_held()));
                let (session, is_over) = (Arc::clone(self), Arc::new(AtomicBool::new(false)));
                self.note_unanswered(number, call, &is_over);
                later.goes_to(Arc::new(Unanswered { session, number, limits, held, is_over }));
            }
            _ if !is_answered => {}
            Outcome::Result(_) if is_too_late(limits.deadline_ns, asked) => {
                let late = Outcome::failed(FailureCode::FinishedTooLate, String::new());
                self.answer(head.number, &late, packet);
            }
            outcome => self.answer(head.number, &outcome, packet),
        }
        self.ended(call)
    }

    /// A callback has run, and its answer comes later: a cancel ends it, as one that has come meanwhile.
    fn note_unanswered(&self, number: Option<u64>, call: CallId, is_over: &Arc<AtomicBool>) {
        let mut state = self.state();
        is_over.store(cancelled::is_cancelled(call), Ordering::SeqCst);
        state.unanswered.extend(number.map(|number| (number, Arc::clone(is_over))));
    }

    /// The object's own number of a procedure.
    fn own(&self, procedure: u16) -> u16 {
        self.agreed.as_ref().map_or(procedure, |agreed| agreed.own(procedure))
    }

    fn limits(&self, deadline_ns: u64, call: CallId) -> CallLimits {
        let result_max = self.sending.item_max().saturating_sub(ANSWER_HEAD);
        CallLimits { deadline_ns, caller: Caller::Local, call, result_max, out_limit: result_max }
    }

    /// A callback has ended. Returns whether others that were kept may begin.
    fn ended(&self, call: CallId) -> bool {
        let mut state = self.state();
        let leaves_kept = state.turns.end();
        state.current.retain(|(_, current)| *current != call);
        // Under the lock under which it can be cancelled.
        cancelled::ended(call);
        self.wake_delayed(state);
        leaves_kept
    }

    /// Fewer callbacks run than before.
    fn wake_delayed(&self, state: MutexGuard<'_, State>) {
        let is_any = state.delayed > 0;
        drop(state);
        if is_any {
            self.changed.notify_all();
        }
    }

    fn cancel(&self, number: u64) {
        let mut state = self.state();
        if let Some((_, call)) = state.current.iter().find(|(current, _)| *current == number) {
            cancelled::cancel(*call);
        }
        if let Some(is_over) = state.unanswered.get(&number) {
            is_over.store(true, Ordering::SeqCst);
        }
        // One-way callbacks are never cancelled, and a call is kept only behind them.
        let is_it = |record: &[u8]| CallHead::split(record).is_ok_and(|(head, _)| head.number == number);
        state.turns.cancel_kept(is_it);
    }

    /// Sends the answer of a callback; a result is in `packet`, behind the place of a header.
    fn answer(&self, number: u64, outcome: &Outcome, packet: &mut Vec<u8>) {
        let (kind, code, detail) = match outcome {
            Outcome::Result(_) => (AnswerKind::Result, 0, ""),
            Outcome::Refused(why) => (AnswerKind::Refusal, why.0.code(), &*why.1),
            // The message of a panic is the client's own affair.
            Outcome::Failed(why) if why.0 == FailureCode::Panicked => (AnswerKind::Failure, why.0.code(), ""),
            Outcome::Failed(why) => (AnswerKind::Failure, why.0.code(), &*why.1),
            Outcome::Later(_) => unreachable!("it has no answer yet"),
        };
        let len = match outcome {
            Outcome::Result(len) => *len,
            _ => {
                let detail = one_call::detail_bytes(detail);
                packet.truncate(HEADER_LEN);
                packet.extend_from_slice(detail);
                detail.len()
            }
        };
        let begin = HEADER_LEN - ANSWER_HEAD;
        packet[begin..HEADER_LEN].copy_from_slice(&AnswerHead { number, kind, code }.to_bytes());
        self.send(&packet[begin..HEADER_LEN + len]);
    }

    /// Sends a record. A server that leaves no room for it has gone.
    fn send(&self, item: &[u8]) {
        let (record, mut until_ns) = (Record::of(item), None);
        loop {
            let appended = self.sending.append(&record);
            if let Ok(true) = appended {
                return;
            }
            let now_ns = clock::now_ns();
            let until_ns = *until_ns.get_or_insert(now_ns.saturating_add(self.sending.step_ns()));
            match appended {
                Ok(_) if now_ns < until_ns => self.sending.wait_for_room(until_ns),
                _ => return self.end(),
            }
        }
    }
}

impl RunsCallbacks for Session {
    fn begin_wait(self: Arc<Self>) {
        let mut state = self.state();
        state.turns.begin_wait();
        let receives_none = state.threads == state.turns.begun();
        self.wake_delayed(state);
        if receives_none {
            // Without one, callbacks wait until this one has ended.
            let _ = self.start_thread();
        }
    }

    fn end_wait(&self) {
        self.state().turns.end_wait();
    }
}

/// A callback that has run and whose answer comes later.
struct Unanswered {
    session: Arc<Session>,
    /// `None`: it is a one-way callback.
    number: Option<u64>,
    limits: CallLimits,
    held: Mutex<Option<Held>>,
    is_over: Arc<AtomicBool>,
}

impl Open for Unanswered {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        if let Some(number) = self.number {
            self.session.state().unanswered.remove(&number);
        }
        if self.is_over.swap(true, Ordering::SeqCst) {
            return Err(ReplyError::CallerGone);
        }
        let mut packet = vec![0; HEADER_LEN];
        let exports = &self.session.exports;
        let (outcome, reached) =
            one_call::conclude(exports, &self.limits, given, &mut packet, clock::now_ns());
        if let Some(number) = self.number {
            self.session.answer(number, &outcome, &mut packet);
        }
        let held = locked(&self.held).take();
        drop(held);
        reached
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || self.session.state().turns.is_over()
    }
}
