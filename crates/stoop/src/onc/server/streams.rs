//! Calls that arrive over TCP and Unix sockets.
//!
//! One endpoint for a listener and all its connections. Calls of a connection begin in the order in which they arrive; a procedure
//! that takes longer than about a millisecond does not keep the calls behind it waiting.

use crate::onc::placement;
use crate::onc::server::NO_REASON;
use crate::onc::server::answer::{Answer, Origin, answer};
use crate::onc::server::connection::{Connection, Read};
use crate::onc::server::connections::Connections;
use crate::onc::server::program_times::ProgramTimes;
#[cfg(feature = "seal")]
use crate::onc::server::sealing::Sealing;
use crate::program::programs::Programs;
use crate::serving::acceptor::{LISTENER, NOTIFIED};
use crate::serving::activity::Activity;
use crate::serving::counters::ServerCounters;
use crate::serving::running::Setup;
use crate::serving::terms::CallTerms;
#[cfg(feature = "seal")]
use crate::serving::workers::WorkerPool;
use crate::serving::workers::{Background, Endpoint};
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use stoop_exchange::shares::Owner;
use stoop_net::clock;
use stoop_net::poller::Events;
use stoop_net::waiting::{Placement, Waiter, Waiting};
use stoop_onc::record;
use stoop_wire::Refused;

/// A listener, its connections, and the calls that have arrived on them.
pub(crate) struct StreamEndpoint {
    pub(super) connections: Connections,
    programs: Arc<Programs>,
    times: ProgramTimes,
    waiting: Waiting,
    /// Bytes of the longest reply.
    reply_max: usize,
    placement: Placement,
    /// Calls that have arrived together with one that runs.
    pending: Mutex<VecDeque<StreamCall>>,
    pending_count: AtomicUsize,
    pub(super) activity: Activity,
    background: Background,
    /// Calls come under TLS only.
    #[cfg(feature = "seal")]
    pub(super) sealing: Option<Sealing>,
}

/// A call that is to run.
pub(crate) struct StreamCall {
    pub(super) connection: Arc<Connection>,
    pub(super) message: Vec<u8>,
}

/// State that a worker keeps from one call to the next.
pub(crate) struct WorkerState {
    buffer: Vec<u8>,
    /// For the next call's message.
    message: Vec<u8>,
    reply: Vec<u8>,
    events: Events,
    /// Calls that have just arrived.
    found: VecDeque<StreamCall>,
    /// The connection that was last active. Not held, so that one that is closed goes.
    last_active: Weak<Connection>,
    /// Looks at that connection alone since the poller was asked, and when that was.
    looks: u32,
    asked_ns: u64,
    waiter: Waiter,
    clock_ns: u64,
}

/// Bytes received at once.
const BUFFER: usize = 64 << 10;
/// Connections told at once.
const EVENTS: usize = 32;
/// Looks of a spinning worker at the last active connection before it looks at all.
const LOOKS: u32 = 16;
/// Time for which a connection alone may keep the listener waiting.
const ALONE_NS: u64 = 2_000_000;
/// Bytes of a buffer that a worker keeps.
const KEPT_MAX: usize = 1 << 20;

impl StreamEndpoint {
    pub(crate) fn new(connections: Connections, setup: &Setup) -> Self {
        Self {
            connections,
            programs: Arc::clone(&setup.programs),
            times: ProgramTimes::new(),
            waiting: setup.waiting,
            reply_max: setup.max_message.min(record::FRAGMENT_MAX),
            placement: placement::of_this_end(),
            pending: Mutex::default(),
            pending_count: AtomicUsize::new(0),
            activity: Activity::default(),
            background: Background::default(),
            #[cfg(feature = "seal")]
            sealing: None,
        }
    }

    /// The same address, which serves calls under TLS only, if there is something for handshakes.
    #[cfg(feature = "seal")]
    pub(crate) fn sealed_by(self, sealing: Option<Sealing>) -> Self {
        Self { sealing, ..self }
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<StreamCall>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a connection, for that long at most. Returns whether it is still open.
    #[inline]
    fn read(&self, worker: &mut WorkerState, connection: &Arc<Connection>, limit_ns: u64) -> bool {
        let WorkerState { buffer, message, found, clock_ns, .. } = worker;
        let now_ns = || {
            *clock_ns = clock::now_ns();
            *clock_ns
        };
        let now_ns = std::cell::RefCell::new(now_ns);
        let mut has_room = true;
        let read = connection.read(
            buffer,
            limit_ns,
            || (now_ns.borrow_mut())(),
            |record| has_room &= self.find(connection, record, message, found),
        );
        match read {
            Read::Some | Read::Nothing if has_room => true,
            #[cfg(feature = "seal")]
            Read::Refused(calls) => {
                self.count_refused(calls);
                true
            }
            #[cfg(feature = "seal")]
            Read::Handshake(bytes) => {
                worker.last_active = Weak::new();
                self.leave_to_thread(connection, bytes);
                false
            }
            // Sun RPC has no word for it: the caller learns that there is no reply.
            Read::Some | Read::Nothing | Read::NoMemory => {
                self.activity.refused.count(NO_REASON);
                self.connections.close(connection);
                false
            }
            Read::Ended { is_broken } => {
                if is_broken {
                    self.activity.malformed.fetch_add(1, Ordering::Relaxed);
                }
                self.connections.close(connection);
                false
            }
        }
    }

    /// Finds a call in a record. `message` is taken for it. `false`: there is no memory for it.
    #[inline]
    pub(super) fn find(
        &self,
        connection: &Arc<Connection>,
        record: &[u8],
        message: &mut Vec<u8>,
        found: &mut VecDeque<StreamCall>,
    ) -> bool {
        // A record without bytes is whole, and no message.
        if record.is_empty() {
            return true;
        }
        if !self.activity.begin_call() {
            self.activity.end_call();
            return true;
        }
        let mut room = mem::take(message);
        if !connection.make_room(&mut room, record.len()) {
            self.activity.end_call();
            return false;
        }
        room.extend_from_slice(record);
        connection.active.fetch_add(1, Ordering::Relaxed);
        found.push_back(StreamCall { connection: Arc::clone(connection), message: room });
        true
    }

    /// The first call that was found; the others wait where all workers can take them.
    #[inline]
    fn take_found(&self, worker: &mut WorkerState) -> Option<StreamCall> {
        if worker.found.len() <= 1 {
            return worker.found.pop_front().or_else(|| self.next_pending());
        }
        self.share(worker)
    }

    #[cold]
    fn share(&self, worker: &mut WorkerState) -> Option<StreamCall> {
        let mut pending = self.pending();
        pending.append(&mut worker.found);
        let first = pending.pop_front();
        self.pending_count.store(pending.len(), Ordering::SeqCst);
        drop(pending);
        // If the background thread has found them, a worker may sleep at the poller already.
        self.connections.acceptor.notifier.wake();
        first
    }

    /// Leaves calls where all workers can take them.
    #[cfg(feature = "seal")]
    pub(super) fn leave(&self, found: &mut VecDeque<StreamCall>) {
        let mut pending = self.pending();
        pending.append(found);
        self.pending_count.store(pending.len(), Ordering::SeqCst);
        drop(pending);
        self.connections.acceptor.notifier.wake();
    }

    #[inline]
    fn next_pending(&self) -> Option<StreamCall> {
        if self.pending_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut pending = self.pending();
        let first = pending.pop_front();
        self.pending_count.store(pending.len(), Ordering::SeqCst);
        first
    }

    /// Asks the poller, and does what it tells.
    fn ask(&self, worker: &mut WorkerState, limit: Option<Duration>) {
        let mut events = mem::replace(&mut worker.events, Events::with_capacity(0));
        // Fails for no reason that waiting again would not show.
        let _ = self.connections.acceptor.poller.wait(&mut events, limit);
        worker.clock_ns = clock::now_ns();
        (worker.looks, worker.asked_ns) = (0, worker.clock_ns);
        for ready in events.iter() {
            match ready.token {
                LISTENER => {
                    if self.connections.accept(worker.clock_ns) {
                        // Somebody has to look after connections that send nothing.
                        self.background.wake();
                    }
                }
                NOTIFIED => drop(self.connections.acceptor.notifier.drain()),
                token => {
                    // The end of all sleeps, or closed by another since the poller told it.
                    let Some(connection) = self.connections.find(token) else { continue };
                    if ready.writable {
                        let flushed = connection.flush(&self.connections.acceptor.poller, worker.clock_ns);
                        if flushed.is_err() {
                            self.connections.close(&connection);
                        }
                    }
                    if ready.readable && !connection.holds_back() && self.read(worker, &connection, 0) {
                        worker.last_active = Arc::downgrade(&connection);
                    } else if ready.closed && !ready.readable {
                        self.connections.close(&connection);
                    }
                }
            }
        }
        worker.events = events;
    }

    /// Looks at the connection that was last active.
    #[inline]
    fn look_at_last_active(&self, worker: &mut WorkerState, limit_ns: u64) {
        worker.looks = worker.looks.saturating_add(1);
        let is_open = worker.last_active.upgrade().is_some_and(|last_active| {
            !last_active.is_closed() && !last_active.holds_back() && self.read(worker, &last_active, limit_ns)
        });
        if !is_open {
            worker.looks = u32::MAX;
        }
    }

    /// Sleeps until something happens.
    fn sleep(&self, worker: &mut WorkerState) {
        let limit = self.connections.acceptor.sleep_limit();
        let is_alone = limit.is_none()
            && self.connections.count() == 1
            && self.activity.is_quiet()
            && worker.clock_ns.saturating_sub(worker.asked_ns) < ALONE_NS
            && !self.activity.is_shutting_down()
            && worker.last_active.upgrade().is_some_and(|active| !active.is_closed() && active.unread() == 0);
        match is_alone {
            true => self.look_at_last_active(worker, ALONE_NS),
            false => self.ask(worker, limit),
        }
    }

    /// Bytes of replies that no caller has taken; `None`: there are no more.
    fn unread(&self) -> Option<u64> {
        let mut sum = None;
        for connection in self.connections.all() {
            let is_open = connection.flush(&self.connections.acceptor.poller, clock::now_ns()).is_ok();
            if is_open && connection.unread() > 0 {
                sum = Some(sum.unwrap_or(0) + connection.unread() as u64);
            }
        }
        sum
    }

    fn end(&self, call: &StreamCall) {
        call.connection.active.fetch_sub(1, Ordering::Relaxed);
        call.connection.uncount(call.message.len());
        self.activity.end_call();
    }
}

impl Endpoint for StreamEndpoint {
    type Call = StreamCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        WorkerState {
            buffer: vec![0; BUFFER],
            message: Vec::new(),
            reply: Vec::new(),
            events: Events::with_capacity(EVENTS),
            found: VecDeque::new(),
            last_active: Weak::new(),
            looks: u32::MAX,
            asked_ns: 0,
            waiter: Waiter::new(self.waiting, self.placement),
            clock_ns: clock::now_ns(),
        }
    }

    #[inline]
    fn receive(&self, worker: &mut WorkerState, patient: bool, stopping: &AtomicBool) -> Option<StreamCall> {
        let pending = self.next_pending();
        if pending.is_some() {
            return pending;
        }
        if !patient {
            self.ask(worker, Some(Duration::ZERO));
            return self.take_found(worker);
        }
        let mut wait = worker.waiter.begin(worker.clock_ns);
        loop {
            if wait.sleeps() {
                wait.uncount();
                self.sleep(worker);
            } else if worker.looks < LOOKS {
                self.look_at_last_active(worker, 0);
            } else {
                self.ask(worker, Some(Duration::ZERO));
            }
            if let Some(call) = self.take_found(worker) {
                worker.waiter.arrived(&wait, worker.clock_ns);
                return Some(call);
            }
            if stopping.load(Ordering::Relaxed) {
                return None;
            }
            if wait.spins() {
                self.background.yield_to_running_procedures();
            }
            worker.clock_ns = clock::now_ns();
            worker.waiter.go_on(&mut wait, worker.clock_ns);
        }
    }

    #[inline]
    fn takes_long(&self, call: &StreamCall) -> bool {
        self.times.of(&call.message).is_long()
    }

    fn run(&self, worker: &mut WorkerState, mut call: StreamCall) -> Option<StreamCall> {
        self.activity.calls.fetch_add(1, Ordering::Relaxed);
        let Connection { caller, .. } = *call.connection;
        let (message, origin) = (&call.message, Origin { caller, binding: call.connection.binding() });
        // 4 bytes for the mark.
        match answer((&self.programs, &self.times), message, origin, &mut worker.reply, 4, self.reply_max) {
            Answer::Reply(end) => {
                let mark = record::mark(end - 4).expect("a reply is no longer than a record");
                worker.reply[..4].copy_from_slice(&mark);
                let sent = call.connection.send(&worker.reply[..end], &self.connections.acceptor.poller);
                if sent.is_err() {
                    self.connections.close(&call.connection);
                }
            }
            Answer::None => {}
            Answer::Broken => {
                self.activity.malformed.fetch_add(1, Ordering::Relaxed);
                self.connections.close(&call.connection);
            }
        }
        if worker.reply.len() > KEPT_MAX {
            worker.reply = Vec::new();
        }
        self.end(&call);
        let message = mem::take(&mut call.message);
        if message.capacity() <= KEPT_MAX {
            worker.message = message;
        }
        None
    }

    fn refuse(&self, _: &mut WorkerState, call: StreamCall, _: Refused) -> Option<StreamCall> {
        // Sun RPC has no word for it, and over a stream no call is sent again: the caller learns that there is no reply.
        self.activity.refused.count(NO_REASON);
        self.connections.close(&call.connection);
        self.end(&call);
        None
    }

    fn give_back(&self, worker: &mut WorkerState) {
        if !worker.found.is_empty()
            && let Some(call) = self.share(worker)
        {
            self.pending().push_front(call);
            self.pending_count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tag(&self, call: &StreamCall) -> u64 {
        call.connection.token
    }

    fn owner_of(&self, tag: u64) -> Option<Owner> {
        self.connections.find(tag).map(|connection| connection.owner())
    }

    fn terms(&self, call: &StreamCall) -> CallTerms {
        self.times.terms(call.connection.owner(), call.connection.token, &call.message)
    }

    fn defer(&self, _: &mut WorkerState, _: &mut StreamCall) {}

    #[cfg(feature = "seal")]
    fn belong_to(&self, pool: &Arc<WorkerPool<Self>>) {
        if let Some(sealing) = &self.sealing {
            let _ = sealing.pool.set(pool.lent.clone());
        }
    }

    fn next_timeout_ns(&self) -> u64 {
        self.connections.next_sweep_ns()
    }

    fn handle_timeout(&self, _: &mut WorkerState, now_ns: u64) {
        #[cfg(feature = "seal")]
        self.look_at_callers();
        self.connections.sweep(now_ns);
    }

    fn background(&self) -> &Background {
        &self.background
    }

    fn wake(&self) {
        self.connections.acceptor.end.wake();
    }

    fn shut_down(&self) {
        self.activity.shut_down();
        self.connections.acceptor.shut_down();
    }

    fn drain(&self) {
        // A caller that does not go on taking its replies finds the connection closed.
        self.activity.drain(|| self.unread());
    }

    fn counters(&self) -> ServerCounters {
        let memory = self.connections.memory.counters();
        let bindings = self.connections.count() as u64;
        ServerCounters { bindings, memory, ..self.activity.counters() }
    }
}
