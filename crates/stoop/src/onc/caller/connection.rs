//! A connection that all threads of a client share: any number of calls in flight, replies matched by xid.
//!
//! One thread at a time has the receive role, and receives for all: a thread that waits for its own call, or the background
//! thread while calls are begun that no thread waits for.

use crate::calling::deadline::CallTimes;
use crate::calling::receive_role::{Pause, ReceiveRole, RoleGuard};
use crate::calling::waiting_thread::WaitingThread;
use crate::error::{CallError, SendError, UnknownCause};
use crate::onc::caller::background::{Attended, Background, Look};
use crate::onc::caller::link::{Arrival, Incoming, Link, Place};
use crate::onc::caller::outstanding::OutstandingCall;
use crate::onc::caller::request::{self, Request};
use crate::onc::options::ClientOptions;
use crate::onc::placement;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_net::host;
use stoop_net::waiting::Waiter;
use stoop_net::{clock, fork};
use stoop_onc::calls::{Calls, Timeout};
use stoop_onc::message::ProcedureId;
use stoop_onc::record;
use stoop_onc::{Instant, Retransmission, Xid, Xids};
use stoop_xdr::{Encode, EncodeError};

/// A connection to a server, and the calls on it.
pub(crate) struct Connection {
    link: Link,
    options: ClientOptions,
    /// The process that made it, see [`fork::generation`].
    generation: u32,
    /// Messages that wait for the next call, with which they leave; and the right to send.
    outgoing: Mutex<Vec<u8>>,
    calls: Mutex<Calls<Arc<OutstandingCall>>>,
    role: ReceiveRole<Receiver>,
    is_lost: AtomicBool,
    /// When the last call ended.
    used_ns: AtomicU64,
    /// Calls that have been begun and have not ended.
    begun: AtomicUsize,
    background: OnceLock<Background>,
    /// Held by the thread that starts the background thread.
    starting: Mutex<()>,
}

/// State of the thread with the receive role.
struct Receiver {
    incoming: Incoming,
    waiter: Waiter,
}

/// Bytes of messages that wait for the next call.
const WAITING_MAX: usize = 32 << 10;

/// A connection that was not used for so long is looked at before a call: servers close idle ones.
const IDLE_NS: u64 = 1_000_000_000;

/// Bytes of the longest datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// As [`Link::connect`].
    pub(crate) fn connect(place: &Place, options: &ClientOptions, limit: Duration) -> io::Result<Self> {
        let link = Link::connect(place, options, limit)?;
        let retransmission = if link.is_stream() { Retransmission::Never } else { options.retransmission };
        let waiter = Waiter::new(options.waiting, placement::of_this_end());
        Ok(Self {
            link,
            options: options.clone(),
            generation: fork::generation(),
            outgoing: Mutex::default(),
            calls: Mutex::new(Calls::new(retransmission, Xids::new(host::random_bytes()))),
            role: ReceiveRole::new(Receiver { incoming: Incoming::new(options.message_max), waiter }),
            is_lost: AtomicBool::new(false),
            used_ns: AtomicU64::new(clock::now_ns()),
            begun: AtomicUsize::new(0),
            background: OnceLock::new(),
            starting: Mutex::default(),
        })
    }

    fn calls(&self) -> MutexGuard<'_, Calls<Arc<OutstandingCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether the server has closed it while no call was in flight.
    fn was_closed(&self, now_ns: u64) -> bool {
        let idle_ns = now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed));
        idle_ns >= IDLE_NS && self.calls().is_empty() && self.link.is_closed()
    }

    /// Replies so far that answered no call.
    pub(crate) fn unmatched(&self) -> u64 {
        self.calls().unmatched()
    }

    /// Sends a call. `is_begun`: the background thread receives its reply if no thread waits for it.
    ///
    /// # Errors
    /// It could not be sent, and will not run.
    pub(crate) fn begin<A: Encode + ?Sized>(
        self: &Arc<Self>,
        request: Request<'_, A>,
        is_begun: bool,
    ) -> Result<Arc<OutstandingCall>, CallError> {
        let Request { procedure, times: CallTimes { begun_ns, deadline }, arguments } = request;
        let deadline_ns = deadline.at(begun_ns);
        // Encoded without a lock, for encoding runs code of the user. The xid is filled in when the call is registered.
        let mut message = self.write(procedure, arguments)?;
        let keeps_message = !self.link.is_stream();
        let call = {
            let (now, deadline) = (Instant::from_nanos(begun_ns), Instant::from_nanos(deadline_ns));
            let mut calls = self.calls();
            let (_, call) = calls.begin(now, deadline, |xid| {
                self.put_xid(&mut message, xid);
                let kept = if keeps_message { mem::take(&mut message) } else { Vec::new() };
                Arc::new(OutstandingCall::new(xid, kept, begun_ns, deadline_ns, is_begun))
            });
            Arc::clone(call)
        };
        if is_begun {
            self.begun.fetch_add(1, Ordering::SeqCst);
        }
        let started = if is_begun { self.start_background() } else { Ok(()) };
        let bytes = if keeps_message { &call.message } else { &message };
        match started.and_then(|()| self.send(bytes, deadline_ns)) {
            Ok(()) => Ok(call),
            Err(why) => {
                self.cancel(&call);
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
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
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
                Err(CallError::NotSent(SendError::DeadlinePassed))
            }
            Err(why) => {
                if self.link.is_stream() {
                    self.lose();
                }
                Err(CallError::NotSent(SendError::Io(why)))
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
        let xid = self.calls().draw();
        self.put_xid(&mut message, xid);
        if !self.link.is_stream() {
            return self.send(&message, deadline_ns);
        }
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) fn flush(&self, deadline_ns: u64) -> Result<(), CallError> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = mem::take(&mut *outgoing);
        if waiting.is_empty() { Ok(()) } else { self.send_all(&waiting, deadline_ns) }
    }

    /// Waits for the end of a call, until that time or its deadline. Returns whether it has ended.
    pub(crate) fn wait(self: &Arc<Self>, call: &Arc<OutstandingCall>, until_ns: u64) -> bool {
        let thread = WaitingThread::current();
        call.set_thread(&thread);
        let until_ns = until_ns.min(call.deadline_ns);
        while !call.has_ended() {
            if self.is_lost.load(Ordering::Acquire) {
                self.end_all();
                continue;
            }
            if clock::now_ns() >= until_ns {
                self.handle_timeouts();
                return call.has_ended();
            }
            let is_over = || call.has_ended() || self.is_lost.load(Ordering::Acquire);
            let role = self.role.try_take().or_else(|| {
                self.role.follow(&thread, is_over, || match until_ns.saturating_sub(clock::now_ns()) {
                    0 => Pause::End,
                    left_ns => Pause::Sleep(left_ns),
                })
            });
            if let Some(role) = role {
                self.receive_until(role, call, until_ns);
            }
        }
        self.used_ns.store(call.begun_ns, Ordering::Relaxed);
        true
    }

    /// Receives for all threads, until a call has ended or that time has come.
    fn receive_until(&self, mut role: RoleGuard<'_, Receiver>, call: &OutstandingCall, until_ns: u64) {
        let Receiver { incoming, waiter } = &mut *role;
        let mut now_ns = clock::now_ns();
        let mut wait = waiter.begin(now_ns);
        while !call.has_ended() && now_ns < until_ns && !self.is_lost.load(Ordering::Relaxed) {
            let limit_ns =
                if wait.sleeps() { self.next_timeout_ns().min(until_ns).saturating_sub(now_ns) } else { 0 };
            match self.link.receive(incoming, limit_ns) {
                Ok(Arrival::Bytes(len)) => {
                    now_ns = clock::now_ns();
                    waiter.arrived(&wait, now_ns);
                    self.take_in(incoming, len, now_ns);
                    if !call.has_ended() {
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
    fn take_in(&self, incoming: &mut Incoming, len: usize, now_ns: u64) {
        let now = Instant::from_nanos(now_ns);
        let taken = incoming.messages(&self.link, len, |message| {
            let Some(xid) = Xid::of(message) else { return };
            let completed = self.calls().complete(now, xid);
            if let Some(completed) = completed {
                self.end(&completed.data, Ok((message.to_vec(), completed.transmissions)));
            }
        });
        if taken.is_err() {
            self.lose();
        }
    }

    fn end(&self, call: &OutstandingCall, ended: Result<(Vec<u8>, u32), CallError>) {
        if call.is_begun {
            self.begun.fetch_sub(1, Ordering::SeqCst);
        }
        call.end(ended);
    }

    fn next_timeout_ns(&self) -> u64 {
        self.calls().next_timeout().map_or(u64::MAX, Instant::as_nanos)
    }

    /// Sends calls again, and ends those whose deadline has passed.
    fn handle_timeouts(&self) {
        let now = Instant::from_nanos(clock::now_ns());
        loop {
            let due = match self.calls().handle_timeout(now) {
                None => return,
                Some(Timeout::Retransmit { data, .. }) => Ok(Arc::clone(data)),
                Some(Timeout::Expired { data, transmissions, .. }) => Err((data, transmissions)),
            };
            match due {
                // An error is like a loss: only the deadline ends a call.
                Ok(call) => drop(self.link.send(&call.message, call.deadline_ns)),
                Err((call, transmissions)) => {
                    let why = unknown(&call, transmissions, UnknownCause::DeadlinePassed);
                    self.end(&call, Err(why));
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
    fn start_background(self: &Arc<Self>) -> Result<(), CallError> {
        if self.background.get().is_none() {
            self.start_thread().map_err(|why| CallError::NotSent(SendError::Io(why)))?;
        }
        self.pass_to_background();
        Ok(())
    }

    #[cold]
    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let _one_at_a_time = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.background.get().is_none() {
            let _ = self.background.set(Background::start(&self.link, Arc::downgrade(self))?);
        }
        Ok(())
    }

    /// Abandons a call. Its reply will match nothing.
    pub(crate) fn cancel(&self, call: &OutstandingCall) {
        let cancelled = self.calls().cancel(call.xid);
        if cancelled.is_some() && call.is_begun {
            self.begun.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Lets a call go on without its handle: the connection stays until it has ended.
    pub(crate) fn detach(self: &Arc<Self>, call: Arc<OutstandingCall>) {
        call.keep(self.clone());
    }

    /// The connection cannot go on: its calls end, and the next call connects again.
    #[cold]
    fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.link.shut_down();
        self.end_all();
    }

    #[cold]
    fn end_all(&self) {
        let calls: Vec<_> = self.calls().drain().map(|(_, call)| call).collect();
        for call in calls {
            let why = unknown(&call, 1, UnknownCause::ConnectionLost);
            self.end(&call, Err(why));
        }
        self.role.notify_all();
    }

    /// Over UDP the server's machine says that the port is closed: of calls in flight, some may have run before.
    #[cold]
    fn end_refused(&self) {
        let calls: Vec<_> = self.calls().drain().map(|(_, call)| call).collect();
        for call in calls {
            let why = unknown(&call, 1, UnknownCause::PortClosed);
            self.end(&call, Err(why));
        }
        self.is_lost.store(true, Ordering::Release);
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
fn unknown(call: &OutstandingCall, transmissions: u32, cause: UnknownCause) -> CallError {
    let waited = Duration::from_nanos(clock::now_ns().saturating_sub(call.begun_ns));
    CallError::Unknown { transmissions, waited, cause }
}
