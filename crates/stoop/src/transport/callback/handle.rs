//! The calls of an object that a client offers: their records leave by one pipe, and their answers come by the other.
//!
//! The thread that waits for a callback receives for all, as in other transports ([`ReceiveRole`]). While no thread waits, and callbacks
//! are outstanding, a waker at the pipe has arriving answers noted.

use crate::agreed::Agreed;
use crate::callbacks::PANIC_STAYS;
use crate::callbacks::session::Session;
use crate::calling::call_table::{CallTable, Payload, Wakeup};
use crate::calling::receive_role::{Pause, ReceiveRole};
use crate::calling::recovery::lacks_form;
use crate::calling::short_result::Short;
use crate::calling::table_lock::attend;
use crate::calling::waiting_thread::WaitingThread;
use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode, SendError};
use crate::interface::Interface;
use crate::locked::locked;
use crate::pipes::contract::{ReceivingEnd, SendingEnd};
use crate::pipes::helper;
use crate::pipes::receiver::{Received, Receiver};
use crate::pipes::record::Record;
use crate::transport::callback::alone::Own;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
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
    pub(super) agreed: Option<Agreed>,
    /// The client, for errors.
    pub(crate) client: Arc<str>,
    pub(super) sending: Mutex<Arc<dyn SendingEnd>>,
    /// Bytes of the longest record.
    pub(super) item_max: u32,
    pub(super) role: ReceiveRole<HandleEnds>,
    /// Answers came while a thread had the role that may have looked before.
    pub(super) missed: AtomicBool,
    /// Calls have ended here before they were answered. Their answers are taken when they come: a client that finds no room for one takes the
    /// server for gone.
    pub(super) has_given_up: AtomicBool,
    /// From the first call on that is not made by [the thread that receives](Own).
    table: OnceLock<Box<Mutex<CallTable<Outstanding>>>>,
    pub(super) last_id: AtomicU64,
    /// When the keeper looks next for calls whose deadlines have passed.
    pub(super) looks_ns: AtomicU64,
    /// The client has taken nothing for the whole time of a call.
    is_stuck: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// There are [as many](OUTSTANDING_MAX) calls in the table as there may be, or were when one was last added.
    pub(super) is_full: AtomicBool,
    /// If the client is bound within this process.
    pub(super) here: Option<Box<Here>>,
    /// Calls whose records were not sent.
    pub(super) not_sent: AtomicU64,
}

/// An object of a client that is bound within this process.
pub(super) struct Here {
    pub(super) object: u64,
    /// Once it was found.
    pub(super) session: OnceLock<Weak<Session>>,
    /// Calls that were run by the threads that made them.
    pub(super) run: AtomicU64,
}

/// The ends of the two pipes, for the thread that receives.
pub(super) struct HandleEnds {
    pub(super) receiver: Receiver<[u8]>,
    /// It may send, too, without the lock of the other.
    pub(super) sending: Arc<dyn SendingEnd>,
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
        (client, here): (Arc<str>, Option<u64>),
        sending: Arc<dyn SendingEnd>,
        receiving: Arc<dyn ReceivingEnd>,
    ) -> Arc<Self> {
        let item_max = u32::try_from(sending.item_max()).unwrap_or(u32::MAX);
        let ends = HandleEnds { receiver: Receiver::new(receiving, None), sending: Arc::clone(&sending) };
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            interface,
            agreed,
            client,
            sending: Mutex::new(sending),
            item_max,
            role: ReceiveRole::new(ends),
            missed: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
            table: OnceLock::new(),
            last_id: AtomicU64::new(0),
            looks_ns: AtomicU64::new(u64::MAX),
            is_stuck: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            here: here
                .map(|object| Box::new(Here { object, session: OnceLock::new(), run: AtomicU64::new(0) })),
            not_sent: AtomicU64::new(0),
        })
    }

    /// Calls that have not ended, or whose results were not taken.
    pub(super) fn calls(&self) -> &Mutex<CallTable<Outstanding>> {
        self.table.get().unwrap_or_else(|| {
            let table = self.table.get_or_init(Box::default);
            // Either this thread finds that the client has gone, or the end of the client finds the table.
            fence(Ordering::SeqCst);
            table
        })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, CallTable<Outstanding>> {
        locked(self.calls())
    }

    /// The table, if there is one.
    pub(super) fn known_table(&self) -> Option<MutexGuard<'_, CallTable<Outstanding>>> {
        self.table.get().map(|table| locked(table))
    }

    pub(super) fn sending(&self) -> Arc<dyn SendingEnd> {
        Arc::clone(&locked(&self.sending))
    }

    /// How many records of calls the client may have had.
    pub(super) fn sent(&self) -> u64 {
        let not_sent = self.not_sent.load(Ordering::SeqCst);
        self.last_id.load(Ordering::SeqCst) - not_sent
    }

    /// Bytes of the longest arguments.
    pub(super) fn arguments_max(&self) -> usize {
        (self.item_max as usize).saturating_sub(CALL_HEAD)
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
        let is_one_way = self.is_one_way(procedure);
        let mut table = self.table();
        let open = table.open_count();
        self.is_full.store(open + 1 >= OUTSTANDING_MAX, Ordering::Relaxed);
        if open >= OUTSTANDING_MAX {
            return Err(CallError::not_sent(SendError::ClientBusy { waited: Duration::ZERO }));
        }
        // Counts as sent from now on.
        let id = self.last_id.fetch_add(1, Ordering::SeqCst) as u32;
        let call = table.open(deadline.as_nanos(), Outstanding { id, begun });
        drop(table);
        let kind = if is_one_way { CallKind::OneWay } else { CallKind::Call };
        let left_ns = deadline.as_nanos().saturating_sub(begun.as_nanos());
        let head = CallHead { number: number(call, id), kind, procedure: agreed, left_ns };
        // Without arguments it may be empty.
        packet.resize(packet.len().max(ARGUMENTS + len), 0);
        let record = (head, &mut packet[ARGUMENTS - CALL_HEAD..ARGUMENTS + len]);
        if let Err(error) = self.append(record, (begun, deadline), if_full) {
            self.not_sent.fetch_add(1, Ordering::SeqCst);
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
                    self.note_taking();
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

    /// There was room for a callback: the client takes them.
    pub(super) fn note_taking(&self) {
        if self.is_stuck.load(Ordering::Relaxed) {
            self.is_stuck.store(false, Ordering::Relaxed);
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
            let wakers = attend(self.calls(), calls, |deadline_ns| {
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
        let Some(mut ends) = role else { return wakers };
        loop {
            self.take_answers(&mut ends.receiver, &mut wakers, None);
            // A task that waits is woken when the role is free.
            if !wakers.is_empty() || has_ended() || clock::now_ns() >= until_ns {
                return wakers;
            }
            ends.receiver.end().wait_for_bytes(until_ns);
        }
    }

    /// If answers are to come and no thread receives, has them noted when they do.
    pub(super) fn receive_in_background(&self) {
        loop {
            if self.is_over.load(Ordering::SeqCst) {
                return self.let_go();
            }
            let expects_none = || self.known_table().is_none_or(|table| table.open_count() == 0);
            if !self.has_given_up.load(Ordering::SeqCst) && expects_none() {
                return;
            }
            // Its holder comes here when it has given it back, or is here and looks once more.
            self.missed.store(true, Ordering::SeqCst);
            let Some(mut ends) = self.role.try_take() else { return };
            self.missed.store(false, Ordering::SeqCst);
            let (mut wakers, waker) = (Vec::new(), Waker::from(Arc::new(Arrivals(self.own.clone()))));
            let mut is_registered = false;
            while !is_registered && self.take_answers(&mut ends.receiver, &mut wakers, None) {
                is_registered = !ends.receiver.end().poll_bytes_at_once(&waker);
            }
            drop(ends);
            // This may be a thread of the transport.
            helper::wake_all(wakers);
            let has_missed = self.missed.load(Ordering::SeqCst);
            if is_registered && !has_missed {
                return;
            }
        }
    }

    /// Ends the calls whose answers have arrived, and `own`, which is not in the table. Returns whether more may come.
    pub(super) fn take_answers(
        &self,
        receiver: &mut Receiver<[u8]>,
        wakers: &mut Vec<Waker>,
        mut own: Option<&mut Own>,
    ) -> bool {
        loop {
            match receiver.look_with(|record| self.take_answer(record, own.as_deref_mut())) {
                Ok(Received::Item(Some(wakeup))) => wakers.extend(wakeup.unpark()),
                Ok(Received::Nothing) => return true,
                // The client has closed the pipe, or has sent what is no answer.
                Ok(Received::Item(None) | Received::End) | Err(_) => {
                    receiver.end().stop();
                    wakers.extend(self.end_calls());
                    return false;
                }
            }
            if own.as_ref().is_some_and(|own| own.outcome.is_some()) && !receiver.has_more() {
                return true;
            }
        }
    }

    /// `None`: it is no answer. Those of calls that have ended have no effect.
    fn take_answer(&self, record: &[u8], own: Option<&mut Own>) -> Option<Wakeup> {
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
            AnswerKind::Failure => Err(CallError::failed(match FailureCode::from_code(code) {
                code @ FailureCode::Panicked => Failure { code, detail: PANIC_STAYS.into() },
                code => Failure { code, detail: detail() },
            })),
        };
        if let Some(own) = own.filter(|own| own.number == number) {
            own.outcome.get_or_insert(outcome);
            return Some(Wakeup::default());
        }
        let Some(mut table) = self.known_table() else { return Some(Wakeup::default()) };
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
