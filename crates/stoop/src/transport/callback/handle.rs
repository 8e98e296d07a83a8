//! The calls of an object that a client offers: their records leave by one pipe, and their answers come by the other.
//!
//! The thread that waits for a callback receives for all, as in other transports ([`ReceiveRole`]). While no thread waits, and callbacks
//! are outstanding, a waker at the pipe has arriving answers noted.

use crate::agreed::Agreed;
use crate::callbacks::session::{Session, find};
use crate::calling::call_table::{CallTable, Payload, Wakeup};
use crate::calling::counters::CallCounters;
use crate::calling::message::Message;
use crate::calling::receive_role::{Pause, ReceiveRole};
use crate::calling::recovery::lacks_form;
use crate::calling::short_result::Short;
use crate::calling::table_lock::attend;
use crate::calling::waiting_thread::WaitingThread;
use crate::context::bounded_deadline;
use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode, SendError};
use crate::interface::Interface;
use crate::locked::locked;
use crate::pipes::contract::{ReceivingEnd, SendingEnd};
use crate::pipes::receiver::{Received, Receiver};
use crate::pipes::record::Record;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;
use stoop_calls::callbacks::record::{AnswerHead, AnswerKind, CALL_HEAD, CallHead, CallKind};
use stoop_exchange::Instant;
use stoop_marshal::EncodeError;
use stoop_net::clock;
use stoop_wire::metadata::{BlockWriter, IN_PROCEDURE};

/// Where arguments lie in memory, so that they are aligned. The head of their record is before them.
pub(super) const ARGUMENTS: usize = 32;

/// Callbacks that a client has not answered, at most: one that takes them and never answers costs the server no more memory.
const OUTSTANDING_MAX: usize = 16_384;

const _: () = assert!(CALL_HEAD <= ARGUMENTS);

/// The calls of an object that a client offers.
pub(crate) struct Handle {
    pub(super) own: Weak<Self>,
    pub(crate) interface: &'static Interface,
    /// What the client has of it, if that is of another revision.
    agreed: Option<Agreed>,
    /// The client, for errors.
    pub(crate) client: String,
    pub(super) sending: Mutex<Arc<dyn SendingEnd>>,
    pub(super) role: ReceiveRole<Receiver<[u8]>>,
    /// Answers came while a thread had the role that may have looked before.
    missed: AtomicBool,
    pub(super) table: Mutex<CallTable<Outstanding>>,
    last_id: AtomicU64,
    /// When the keeper looks next for calls whose deadlines have passed.
    pub(super) looks_ns: AtomicU64,
    /// The client has taken nothing for the whole time of a call.
    is_stuck: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// The number of the object, if the client is bound within this process, and its session, once that was found.
    here: Option<u64>,
    session: OnceLock<Weak<Session>>,
    /// Calls whose records were sent, and those that were run by the threads that made them.
    sent: AtomicU64,
    run_here: AtomicU64,
}

/// A callback that has not ended.
pub(crate) struct Outstanding {
    pub(super) id: u32,
    pub(super) begun: Instant,
}

/// What a thread does that begins a callback and finds no room for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfFull {
    Wait,
    Fail,
    /// It takes the place of one with that key that has found no room.
    Replace(u64),
}

impl Handle {
    /// `here`: the number of the object, if the client is bound within this process.
    pub(crate) fn new(
        (interface, agreed): (&'static Interface, Option<Agreed>),
        (client, here): (String, Option<u64>),
        sending: Arc<dyn SendingEnd>,
        receiving: Arc<dyn ReceivingEnd>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            interface,
            agreed,
            client,
            sending: Mutex::new(sending),
            role: ReceiveRole::new(Receiver::new(receiving, None)),
            missed: AtomicBool::new(false),
            table: Mutex::default(),
            last_id: AtomicU64::new(0),
            looks_ns: AtomicU64::new(u64::MAX),
            is_stuck: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            here,
            session: OnceLock::new(),
            sent: AtomicU64::new(0),
            run_here: AtomicU64::new(0),
        })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, CallTable<Outstanding>> {
        locked(&self.table)
    }

    pub(super) fn sending(&self) -> Arc<dyn SendingEnd> {
        Arc::clone(&locked(&self.sending))
    }

    pub(super) fn counters(&self) -> CallCounters {
        let calls = self.sent.load(Ordering::Relaxed) + self.run_here.load(Ordering::Relaxed);
        CallCounters { calls, ..CallCounters::default() }
    }

    /// Bytes of the longest arguments.
    pub(super) fn arguments_max(&self) -> usize {
        self.sending().item_max().saturating_sub(CALL_HEAD)
    }

    /// Tells the client that callbacks may come from now on.
    pub(crate) fn accept(&self) {
        let head = CallHead { number: 0, kind: CallKind::Accepted, procedure: 0, left_ns: 0 };
        // The pipe is empty, so there is room; if it has ended, the client knows.
        let _ = self.sending().append(&Record::of(&head.to_bytes()));
    }

    /// Whether the client can be called.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst) && self.sending().over().is_none()
    }

    /// The client's number of a form of a procedure; `None`: it has another form of it, or none.
    pub(super) fn agreed_number(&self, made: u16) -> Option<u16> {
        self.agreed.as_ref().map_or(Some(made), |agreed| agreed.number(made))
    }

    /// The number of the form in which a procedure is called; `None`: the client lacks it.
    pub(super) fn form(&self, procedure: u16) -> Option<u16> {
        self.agreed.as_ref().map_or(Some(procedure), |agreed| agreed.form(procedure))
    }

    /// Makes a callback of `procedure` with `len` bytes of arguments, and leaves its result in `message`.
    pub(super) fn call(
        &self,
        message: &mut Message,
        (procedure, len): (u16, usize),
        timeout_ns: u64,
    ) -> Result<(), CallError> {
        let now_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(now_ns, timeout_ns);
        if deadline_ns > now_ns
            && let Some(agreed) = self.agreed_number(procedure)
            && let Some(session) = self.session_here()
        {
            let (sent, arguments) = (self.sent.load(Ordering::SeqCst), ARGUMENTS..ARGUMENTS + len);
            if let Some(ended) = session.run_here(sent, message, (agreed, arguments), deadline_ns) {
                self.run_here.fetch_add(1, Ordering::Relaxed);
                return ended;
            }
        }
        let times = (Instant::from_nanos(now_ns), Instant::from_nanos(deadline_ns));
        let call = self.begin_call(&mut message.arguments, len, procedure, times, IfFull::Wait)?;
        while self.wait_for(&[call], Instant::NEVER).is_none() {}
        let result = self.table().take(call)?;
        message.set_result(result);
        Ok(())
    }

    /// The session of the client, if it is in this process and bound within it.
    fn session_here(&self) -> Option<Arc<Session>> {
        let number = self.here.filter(|_| !self.is_over.load(Ordering::SeqCst))?;
        match self.session.get() {
            Some(session) => session.upgrade(),
            None => {
                let session = find(number)?;
                // Another thread may have found it.
                let _ = self.session.set(Arc::downgrade(&session));
                Some(session)
            }
        }
    }

    /// Begins a callback, whose arguments lie [there](ARGUMENTS) in `packet`.
    pub(super) fn begin_call(
        &self,
        packet: &mut Vec<u8>,
        len: usize,
        procedure: u16,
        (begun, deadline): (Instant, Instant),
        if_full: IfFull,
    ) -> Result<u32, CallError> {
        if deadline <= begun {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        if self.is_over.load(Ordering::SeqCst) {
            return Err(CallError::not_sent(SendError::ClientGone));
        }
        let Some(agreed) = self.agreed_number(procedure) else { return Err(lacks_form()) };
        if self.table().open_count() >= OUTSTANDING_MAX {
            return Err(CallError::not_sent(SendError::ClientBusy { waited: Duration::ZERO }));
        }
        let is_one_way = self.is_one_way(procedure);
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) as u32;
        let call = self.table().open(deadline.as_nanos(), Outstanding { id, begun });
        let kind = if is_one_way { CallKind::OneWay } else { CallKind::Call };
        let left_ns = deadline.as_nanos().saturating_sub(begun.as_nanos());
        let head = CallHead { number: number(call, id), kind, procedure: agreed, left_ns };
        // Without arguments it may be empty.
        packet.resize(packet.len().max(ARGUMENTS + len), 0);
        let record = (head, &mut packet[ARGUMENTS - CALL_HEAD..ARGUMENTS + len]);
        // Before the client can have had it.
        self.sent.fetch_add(1, Ordering::SeqCst);
        if let Err(error) = self.append(record, (begun, deadline), if_full) {
            self.sent.fetch_sub(1, Ordering::SeqCst);
            // No handle has it yet.
            drop(self.table().abandon(call));
            return Err(error);
        }
        if is_one_way {
            let result = match procedure & IN_PROCEDURE {
                0 => Vec::new(),
                _ => no_metadata(),
            };
            let (len, mut table) = (result.len(), self.table());
            // The end of the client may have ended it.
            let is_open = table.get_mut(call).is_some();
            let wakeup = is_open.then(|| table.end(call, Ok(Payload::new(result, 0, len))));
            drop(table);
            wakeup.into_iter().for_each(Wakeup::give);
        } else if !self.is_open() {
            // It ended after the call was opened, perhaps before the end could find the call.
            self.end();
        }
        Ok(call)
    }

    pub(super) fn is_one_way(&self, procedure: u16) -> bool {
        let base = self.interface.base(procedure & !IN_PROCEDURE);
        self.interface.procedures.get(usize::from(base)).is_some_and(|each| each.one_way)
    }

    /// Sends a record, whose bytes behind the head are there.
    fn append(
        &self,
        (mut head, record): (CallHead, &mut [u8]),
        (begun, deadline): (Instant, Instant),
        if_full: IfFull,
    ) -> Result<(), CallError> {
        let not_sent = |why| Err(CallError::not_sent(why));
        let sending = self.sending();
        let (needed_at_least, limit) = (record.len(), sending.item_max());
        if needed_at_least > limit {
            return not_sent(SendError::Arguments(EncodeError::TooLarge { needed_at_least, limit }));
        }
        record[..CALL_HEAD].copy_from_slice(&head.to_bytes());
        if let IfFull::Replace(key) = if_full {
            let appended = sending.append_latest(key, &Record::of(record));
            return appended.or_else(|_| not_sent(SendError::ClientGone));
        }
        loop {
            match sending.append(&Record::of(record)) {
                Ok(true) => {
                    if self.is_stuck.load(Ordering::Relaxed) {
                        self.is_stuck.store(false, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                Ok(false) => {}
                Err(_) => return not_sent(SendError::ClientGone),
            }
            let now = Instant::from_nanos(clock::now_ns());
            let is_stuck = self.is_stuck.load(Ordering::Relaxed);
            if if_full == IfFull::Fail || is_stuck || now >= deadline {
                self.is_stuck.store(is_stuck || now >= deadline, Ordering::Relaxed);
                return not_sent(SendError::ClientBusy { waited: now.since(begun) });
            }
            sending.wait_for_room(deadline.as_nanos());
            head.left_ns = deadline.as_nanos().saturating_sub(clock::now_ns()).max(1);
            record[..CALL_HEAD].copy_from_slice(&head.to_bytes());
        }
    }

    /// Waits until one of these calls has ended, at most until that time.
    pub(super) fn wait_for(&self, calls: &[u32], until: Instant) -> Option<usize> {
        loop {
            let now = clock::now_ns();
            self.expire_calls(now);
            let ended = self.table().ended_among(calls);
            if ended.is_some() || until.as_nanos() <= now {
                return ended;
            }
            let wakers = attend(&self.table, calls, |deadline_ns| {
                self.receive_until(calls, deadline_ns.min(until.as_nanos()))
            });
            wakers.into_iter().flatten().for_each(Waker::wake);
            self.receive_in_background();
        }
    }

    /// Receives, or waits while another thread does, until one of these calls has ended or that time has come. Returns the wakers of
    /// calls that have ended.
    fn receive_until(&self, calls: &[u32], until_ns: u64) -> Vec<Waker> {
        let has_ended = || self.table().ended_among(calls).is_some();
        let role = self.role.try_take().or_else(|| {
            self.role.follow(&WaitingThread::current(), has_ended, || {
                match until_ns.saturating_sub(clock::now_ns()) {
                    0 => Pause::End,
                    left_ns => Pause::Sleep(left_ns),
                }
            })
        });
        let mut wakers = Vec::new();
        let Some(mut receiver) = role else { return wakers };
        loop {
            self.take_answers(&mut receiver, &mut wakers);
            // A task that waits is woken when the role is free.
            if !wakers.is_empty() || has_ended() || clock::now_ns() >= until_ns {
                return wakers;
            }
            receiver.end().wait_for_bytes(until_ns);
        }
    }

    /// If calls are outstanding and no thread receives, has their answers noted when they come.
    pub(super) fn receive_in_background(&self) {
        loop {
            if self.is_over.load(Ordering::SeqCst) {
                return self.let_go();
            }
            if self.table().open_count() == 0 {
                return;
            }
            // Its holder comes here when it has given it back, or is here and looks once more.
            self.missed.store(true, Ordering::SeqCst);
            let Some(mut receiver) = self.role.try_take() else { return };
            self.missed.store(false, Ordering::SeqCst);
            let (mut wakers, waker) = (Vec::new(), Waker::from(Arc::new(Arrivals(self.own.clone()))));
            let mut is_registered = false;
            while !is_registered && self.take_answers(&mut receiver, &mut wakers) {
                is_registered = !receiver.end().poll_bytes(&waker);
            }
            drop(receiver);
            wakers.into_iter().for_each(Waker::wake);
            let has_missed = self.missed.load(Ordering::SeqCst);
            if is_registered && !has_missed {
                return;
            }
        }
    }

    /// Ends the calls whose answers have arrived. Returns whether more may come.
    fn take_answers(&self, receiver: &mut Receiver<[u8]>, wakers: &mut Vec<Waker>) -> bool {
        loop {
            match receiver.look_with(|record| self.take_answer(record)) {
                Ok(Received::Item(Some(wakeup))) => wakers.extend(wakeup.unpark()),
                Ok(Received::Nothing) => return true,
                // The client has closed the pipe, or has sent what is no answer.
                Ok(Received::Item(None) | Received::End) | Err(_) => {
                    receiver.end().stop();
                    wakers.extend(self.end_calls());
                    return false;
                }
            }
        }
    }

    /// `None`: it is no answer. Those of calls that have ended have no effect.
    fn take_answer(&self, record: &[u8]) -> Option<Wakeup> {
        let (AnswerHead { number, kind, code }, rest) = AnswerHead::split(record).ok()?;
        let (call, id) = (number as u32, (number >> 32) as u32);
        let detail = || String::from_utf8_lossy(rest).into_owned();
        let outcome = match kind {
            AnswerKind::Result => {
                Ok(Short::of(rest).map_or_else(|| Payload::new(rest.to_vec(), 0, rest.len()), Payload::Short))
            }
            AnswerKind::Refusal => {
                Err(CallError::refused(Refusal::new(RefusalCode::from_code(code), detail())))
            }
            AnswerKind::Failure => {
                Err(CallError::failed(Failure { code: FailureCode::from_code(code), detail: detail() }))
            }
        };
        let mut table = self.table();
        let is_open = table.get_mut(call).is_some_and(|known| known.id == id);
        Some(if is_open { table.end(call, outcome) } else { Wakeup::default() })
    }
}

impl CallTable<Outstanding> {
    /// The number of a call that has not ended, in records.
    pub(super) fn number_of(&mut self, call: u32) -> Option<u64> {
        self.get_mut(call).map(|known| number(call, known.id))
    }
}

pub(super) fn number(call: u32, id: u32) -> u64 {
    u64::from(id) << 32 | u64::from(call)
}

/// The result of a one-way callback that carries metadata: that its answer has none.
fn no_metadata() -> Vec<u8> {
    let mut block = Vec::new();
    BlockWriter::new(&mut block).finish();
    block
}

/// Notes answers that have arrived while no thread waits.
struct Arrivals(Weak<Handle>);

impl Wake for Arrivals {
    fn wake(self: Arc<Self>) {
        if let Some(handle) = self.0.upgrade() {
            handle.receive_in_background();
        }
    }
}
