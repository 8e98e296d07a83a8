//! A connection that all threads of a client share: any number of calls in flight, replies matched by xid.
//!
//! One thread at a time has the receive role, and receives for all: a thread that waits for its own call, or the background
//! thread while calls are begun that no thread waits for.

use crate::calling::begun::OutstandingCalls;
use crate::calling::call_table::{self, CallTable, Wakeup};
use crate::calling::completion_table::CompletionTable;
use crate::calling::deadline::CallTimes;
use crate::calling::receive_role::{ReceiveRole, RoleGuard};
use crate::calling::table_lock::HasCalls;
use crate::error::{CallError, SendError, UnknownCause};
use crate::locked::locked;
use crate::onc::caller::background::{Attended, Background, Look};
use crate::onc::caller::link::{Arrival, Incoming, Link, Place};
use crate::onc::caller::not_connected::NotConnected;
use crate::onc::caller::reply;
use crate::onc::caller::request::{self, Request};
use crate::onc::caller::sealing::Sealing;
use crate::onc::options::ClientOptions;
use crate::onc::placement;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use stoop_net::host;
use stoop_net::waiting::Waiter;
use stoop_net::{clock, fork};
use stoop_onc::calls::{Calls, Completed, Timeout};
use stoop_onc::message::ProcedureId;
use stoop_onc::record;
use stoop_onc::{Instant, Retransmission, Xid, Xids};
use stoop_xdr::{Encode, EncodeError};

/// A connection to a server, and the calls on it.
pub(crate) struct Connection {
    pub(super) link: Link,
    /// Where its server listens.
    pub(super) place: Place,
    options: ClientOptions,
    /// The process that made it, see [`fork::generation`].
    generation: u32,
    /// Messages that wait for the next call, with which they leave; and the right to send.
    outgoing: Mutex<Vec<u8>>,
    pub(super) state: Mutex<State>,
    pub(super) completions: Arc<CompletionTable>,
    pub(super) role: ReceiveRole<Receiver>,
    pub(super) is_lost: AtomicBool,
    /// When the last call ended.
    pub(super) used_ns: AtomicU64,
    /// Calls that have been begun and have not ended.
    pub(super) begun: AtomicUsize,
    background: OnceLock<Background>,
    /// Held by the thread that starts the background thread.
    starting: Mutex<()>,
    pub(super) itself: Weak<Connection>,
}

pub(super) struct State {
    /// The places in the table of the calls that are outstanding, by their xids.
    pub(super) calls: Calls<u32>,
    pub(super) table: CallTable<SentCall>,
    /// The connection itself, while calls without handles are outstanding.
    pub(super) kept: Option<Arc<Connection>>,
}

/// A call that has been sent and has not ended.
pub(super) struct SentCall {
    pub(super) xid: Xid,
    /// The message, where it may have to be sent again.
    message: Option<Arc<Vec<u8>>>,
    begun_ns: u64,
    /// The background thread receives its reply if no thread waits for it.
    pub(super) is_begun: bool,
}

impl HasCalls for State {
    type Call = SentCall;

    fn calls(&mut self) -> &mut CallTable<SentCall> {
        &mut self.table
    }
}

/// State of the thread with the receive role.
pub(super) struct Receiver {
    pub(super) incoming: Incoming,
    waiter: Waiter,
}

/// Bytes of messages that wait for the next call.
const WAITING_MAX: usize = 32 << 10;

/// Bytes of the longest datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

impl Connection {
    /// Connects; a connection by [`Sealing`] is under TLS.
    ///
    /// # Errors
    /// As [`Link::connect`] and [`Link::connect_sealed`].
    pub(crate) fn connect(
        place: &Place,
        options: &ClientOptions,
        limit: Duration,
        sealing: Option<&Sealing>,
    ) -> Result<Arc<Self>, NotConnected> {
        let link = match (sealing, place) {
            (Some(sealing), Place::Stream(server)) => Link::connect_sealed(server, options, limit, sealing)?,
            _ => Link::connect(place, options, limit)?,
        };
        let place = place.clone();
        let retransmission = if link.is_stream() { Retransmission::Never } else { options.retransmission };
        let waiter = Waiter::new(options.waiting, placement::of_this_end());
        let completions = Arc::<CompletionTable>::default();
        let calls = Calls::new(retransmission, Xids::new(host::random_bytes()));
        let table = CallTable::with_completions(Arc::clone(&completions));
        Ok(Arc::new_cyclic(|itself| Self {
            link,
            place,
            options: options.clone(),
            generation: fork::generation(),
            outgoing: Mutex::default(),
            state: Mutex::new(State { calls, table, kept: None }),
            completions,
            role: ReceiveRole::new(Receiver { incoming: Incoming::new(options.message_max), waiter }),
            is_lost: AtomicBool::new(false),
            used_ns: AtomicU64::new(clock::now_ns()),
            begun: AtomicUsize::new(0),
            background: OnceLock::new(),
            starting: Mutex::default(),
            itself: Weak::clone(itself),
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Whether this process made it, and no parent did.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Whether a call can be made on it.
    #[inline]
    pub(crate) fn is_usable(&self, now_ns: u64) -> bool {
        !self.is_lost.load(Ordering::Relaxed) && self.is_of_this_process() && !self.was_closed(now_ns)
    }

    /// Replies so far that answered no call.
    pub(crate) fn unmatched(&self) -> u64 {
        self.state().calls.unmatched()
    }

    /// Sends a call, and returns its place in the table. `is_begun`: the background thread receives its reply if no thread waits for it.
    ///
    /// # Errors
    /// It could not be sent, and will not run.
    pub(crate) fn begin<A: Encode + ?Sized>(
        &self,
        request: Request<'_, A>,
        is_begun: bool,
    ) -> Result<u32, CallError> {
        let Request { procedure, times: CallTimes { begun_ns, deadline }, arguments } = request;
        let deadline_ns = deadline.at(begun_ns);
        // Encoded without a lock, for encoding runs code of the user. The xid is filled in when the call is registered.
        let mut message = self.write(procedure, arguments)?;
        let mut kept = None;
        let call = {
            let (now, deadline) = (Instant::from_nanos(begun_ns), Instant::from_nanos(deadline_ns));
            let State { calls, table, .. } = &mut *self.state();
            *calls
                .begin(now, deadline, |xid| {
                    self.put_xid(&mut message, xid);
                    if !self.link.is_stream() {
                        kept = Some(Arc::new(mem::take(&mut message)));
                    }
                    table.open(deadline_ns, SentCall { xid, message: kept.clone(), begun_ns, is_begun })
                })
                .1
        };
        if is_begun {
            self.begun.fetch_add(1, Ordering::SeqCst);
        }
        let started = if is_begun { self.start_background() } else { Ok(()) };
        let bytes = kept.as_deref().unwrap_or(&message);
        match started.and_then(|()| self.send(bytes, deadline_ns)) {
            Ok(()) => Ok(call),
            Err(why) => {
                self.cancel(call);
                Err(why)
            }
        }
    }

    /// Bytes before the message.
    fn mark_len(&self) -> usize {
        if self.link.is_stream() { 4 } else { 0 }
    }

    fn put_xid(&self, message: &mut [u8], xid: Xid) {
        let start = self.mark_len();
        message[start..start + 4].copy_from_slice(&xid.0.to_be_bytes());
    }

    /// The message of a call without its xid, with its record mark if there is to be one.
    fn write<A: Encode + ?Sized>(&self, procedure: ProcedureId, arguments: &A) -> Result<Vec<u8>, CallError> {
        let start = self.mark_len();
        let mut message = Vec::with_capacity(256);
        let authentication = &*self.options.authentication;
        let len = request::write(Xid(0), procedure, authentication, arguments, &mut message, start)?;
        message.truncate(len);
        let too_long = |room| request::no_form(EncodeError::NoRoom { needed: len, room });
        if start == 0 {
            return if len > DATAGRAM_MAX { Err(too_long(DATAGRAM_MAX)) } else { Ok(message) };
        }
        let most = self.options.message_max.min(record::FRAGMENT_MAX);
        let mark = record::mark(len - start).filter(|_| len - start <= most);
        let mark = mark.ok_or_else(|| too_long(most))?;
        message[..start].copy_from_slice(&mark);
        Ok(message)
    }

    /// Sends a message, behind those that wait.
    fn send(&self, message: &[u8], deadline_ns: u64) -> Result<(), CallError> {
        let mut outgoing = locked(&self.outgoing);
        if outgoing.is_empty() {
            return self.send_all(message, deadline_ns);
        }
        let mut together = mem::take(&mut *outgoing);
        together.extend_from_slice(message);
        self.send_all(&together, deadline_ns)
    }

    fn send_all(&self, bytes: &[u8], deadline_ns: u64) -> Result<(), CallError> {
        match self.link.send(bytes, deadline_ns) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            // Part of a record has left: nothing can follow it, and the server will not run it.
            Ok(_) => {
                self.lose();
                Err(CallError::not_sent(SendError::DeadlinePassed))
            }
            Err(why) => {
                if self.link.is_stream() {
                    self.lose();
                }
                Err(CallError::not_sent(SendError::Io(why)))
            }
        }
    }

    /// Sends a call to which no reply is expected: with the next one, if it is a record.
    ///
    /// # Errors
    /// It could not be sent, and will not run.
    pub(crate) fn queue<A: Encode + ?Sized>(&self, request: Request<'_, A>) -> Result<(), CallError> {
        let Request { procedure, times, arguments } = request;
        let deadline_ns = times.deadline.latest_ns;
        let mut message = self.write(procedure, arguments)?;
        let xid = self.state().calls.draw();
        self.put_xid(&mut message, xid);
        if !self.link.is_stream() {
            return self.send(&message, deadline_ns);
        }
        let mut outgoing = locked(&self.outgoing);
        outgoing.extend_from_slice(&message);
        if outgoing.len() < WAITING_MAX {
            return Ok(());
        }
        let waiting = mem::take(&mut *outgoing);
        self.send_all(&waiting, deadline_ns)
    }

    /// Sends the calls that wait.
    ///
    /// # Errors
    /// They could not be sent, and will not run.
    pub(crate) fn send_waiting(&self, deadline_ns: u64) -> Result<(), CallError> {
        let mut outgoing = locked(&self.outgoing);
        let waiting = mem::take(&mut *outgoing);
        if waiting.is_empty() { Ok(()) } else { self.send_all(&waiting, deadline_ns) }
    }

    /// Receives for all threads, until one of these calls has ended or that time has come.
    pub(super) fn receive_until(&self, mut role: RoleGuard<'_, Receiver>, calls: &[u32], until_ns: u64) {
        let has_ended = || self.ended_among(calls).is_some();
        let Receiver { incoming, waiter } = &mut *role;
        let mut now_ns = clock::now_ns();
        let mut wait = waiter.begin(now_ns);
        while !has_ended() && now_ns < until_ns && !self.is_lost.load(Ordering::Relaxed) {
            let limit_ns =
                if wait.sleeps() { self.next_timeout_ns().min(until_ns).saturating_sub(now_ns) } else { 0 };
            match self.link.receive(incoming, limit_ns) {
                Ok(Arrival::Bytes(len)) => {
                    now_ns = clock::now_ns();
                    waiter.arrived(&wait, now_ns);
                    self.take_in(incoming, len, now_ns);
                    if !has_ended() {
                        waiter.begin_again(&mut wait, now_ns);
                    }
                    continue;
                }
                Ok(Arrival::Refused) => self.end_refused(),
                Ok(Arrival::Nothing) => {}
                Err(_) => self.lose(),
            }
            now_ns = clock::now_ns();
            if now_ns >= self.next_timeout_ns() {
                self.handle_timeouts();
            }
            waiter.go_on(&mut wait, now_ns);
        }
        drop(wait);
        drop(role);
        self.pass_to_background();
    }

    /// Ends the calls whose replies have arrived.
    pub(super) fn take_in(&self, incoming: &mut Incoming, len: usize, now_ns: u64) {
        let now = Instant::from_nanos(now_ns);
        let taken = incoming.messages(&self.link, len, |message| {
            let Some(xid) = Xid::of(message) else { return };
            // Copied before: a long one would keep other threads from the lock.
            let packet = reply::copied(message);
            let mut state = self.state();
            let Some(Completed { data: call, transmissions, .. }) = state.calls.complete(now, xid) else {
                return;
            };
            self.end(state, [(call, Ok(reply::kept(packet, transmissions)))]);
        });
        if taken.is_err() {
            self.lose();
        }
    }

    /// Ends calls, and wakes the threads and tasks that wait for them.
    fn end(
        &self,
        mut state: MutexGuard<'_, State>,
        ended: impl IntoIterator<Item = (u32, call_table::Outcome)>,
    ) {
        let end = |(call, outcome)| {
            let is_begun = state.table.get_mut(call).is_some_and(|sent| sent.is_begun);
            self.begun.fetch_sub(usize::from(is_begun), Ordering::SeqCst);
            state.table.end(call, outcome).if_awaited()
        };
        let wakeups: Vec<Wakeup> = ended.into_iter().filter_map(end).collect();
        let kept = if state.table.detached() == 0 { state.kept.take() } else { None };
        // A waker is code of the user, and the connection may end here.
        drop(state);
        wakeups.into_iter().for_each(Wakeup::give);
        drop(kept);
    }

    fn next_timeout_ns(&self) -> u64 {
        self.state().calls.next_timeout().map_or(u64::MAX, Instant::as_nanos)
    }

    /// Sends calls again, and ends those whose deadline has passed.
    pub(super) fn handle_timeouts(&self) {
        let now = Instant::from_nanos(clock::now_ns());
        loop {
            let mut state = self.state();
            let State { calls, table, .. } = &mut *state;
            match calls.handle_timeout(now) {
                None => return,
                Some(Timeout::Retransmit { data: call, .. }) => {
                    let deadline_ns = table.deadline_ns(*call);
                    let message = table.get_mut(*call).and_then(|sent| sent.message.clone());
                    drop(state);
                    // An error is like a loss: only the deadline ends a call.
                    let _ = message.map(|message| self.link.send(&message, deadline_ns));
                }
                Some(Timeout::Expired { data: call, transmissions, .. }) => {
                    let why = unknown(table, call, transmissions, UnknownCause::DeadlinePassed);
                    self.end(state, [(call, Err(why))]);
                }
            }
        }
    }

    /// A thread has given the role back while begun calls are in flight.
    #[inline]
    fn pass_to_background(&self) {
        if self.begun.load(Ordering::SeqCst) > 0
            && let Some(background) = self.background.get()
        {
            background.wake();
        }
    }

    /// Makes sure that the background thread runs, and that it knows of the latest call.
    fn start_background(&self) -> Result<(), CallError> {
        if self.background.get().is_none() {
            self.start_thread().map_err(|why| CallError::not_sent(SendError::Io(why)))?;
        }
        self.pass_to_background();
        Ok(())
    }

    #[cold]
    fn start_thread(&self) -> io::Result<()> {
        let _one_at_a_time = locked(&self.starting);
        if self.background.get().is_none() {
            let _ = self.background.set(Background::start(&self.link, Weak::clone(&self.itself))?);
        }
        Ok(())
    }

    /// The connection cannot go on: its calls end, and the next call connects again.
    #[cold]
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.link.shut_down();
        self.end_all();
    }

    #[cold]
    pub(super) fn end_all(&self) {
        self.end_as_unknown(UnknownCause::ConnectionLost);
        self.role.notify_all();
    }

    /// Over UDP the server's machine says that the port is closed: of calls in flight, some may have run before.
    #[cold]
    fn end_refused(&self) {
        self.end_as_unknown(UnknownCause::PortClosed);
        self.is_lost.store(true, Ordering::Release);
    }

    fn end_as_unknown(&self, cause: UnknownCause) {
        let mut state = self.state();
        let State { calls, table, .. } = &mut *state;
        let ended = |(_, &call, transmissions)| (call, Err(unknown(table, call, transmissions, cause)));
        let ended: Vec<_> = calls.iter().map(ended).collect();
        drop(calls.drain());
        self.end(state, ended);
    }
}

impl Attended for Connection {
    fn look(&self) -> Look {
        if self.is_lost.load(Ordering::Acquire) {
            self.end_all();
            return Look::End;
        }
        if self.begun.load(Ordering::SeqCst) == 0 {
            return Look::Sleep;
        }
        let (Some(background), Some(mut role)) = (self.background.get(), self.role.try_take()) else {
            // The thread that has the role wakes this one when it gives it back.
            return Look::Sleep;
        };
        background.wait(Duration::from_nanos(self.next_timeout_ns().saturating_sub(clock::now_ns())));
        match self.link.receive(&mut role.incoming, 0) {
            Ok(Arrival::Bytes(len)) => self.take_in(&mut role.incoming, len, clock::now_ns()),
            Ok(Arrival::Refused) => self.end_refused(),
            Ok(Arrival::Nothing) => {}
            Err(_) => self.lose(),
        }
        self.handle_timeouts();
        Look::Again
    }
}

impl Drop for Connection {
    /// Calls without a reply that wait for the next one leave, as far as the server takes them at once.
    fn drop(&mut self) {
        let waiting = mem::take(self.outgoing.get_mut().unwrap_or_else(PoisonError::into_inner));
        let is_usable = self.is_of_this_process() && !self.is_lost.load(Ordering::Relaxed);
        if is_usable && !waiting.is_empty() {
            let _ = self.link.send(&waiting, 0);
        }
    }
}

#[cold]
fn unknown(table: &mut CallTable<SentCall>, call: u32, transmissions: u32, cause: UnknownCause) -> CallError {
    let begun_ns = table.get_mut(call).map_or(0, |sent| sent.begun_ns);
    let waited = Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns));
    CallError::Unknown { transmissions, waited, cause, callee: None }
}
