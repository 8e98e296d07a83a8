//! Calls that arrive over byte streams: TCP and Unix sockets.
//!
//! One endpoint for a listener and all its connections. While its receiver spins, it looks at the connection that was
//! last active and only now and then at the others; when it sleeps, it waits for all of them, or, while only one is
//! there and busy, briefly for that one alone, which saves asking the poller.

pub(crate) mod arguments;
pub(crate) mod call;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod incoming;
pub(crate) mod numbers;
pub(crate) mod pending;
pub(crate) mod piped;
pub(crate) mod receiving;
#[cfg(feature = "seal")]
pub(crate) mod sealed;
#[cfg(feature = "seal")]
pub(crate) mod sealing;
pub(crate) mod unsent_answers;
pub(crate) mod worker;

use crate::context::cancelled;
use crate::context::keeper;
use crate::context::owner_on;
use crate::later::deferred::{Given, ReplyError};
use crate::later::open_calls::OpenCalls;
use crate::security::Security;
use crate::serving::counters::ServerCounters;
use crate::serving::message_memory::MessageMemory;
use crate::serving::running::Setup;
use crate::serving::service::Service;
use crate::serving::terms::{CallTerms, may_be_behind};
use crate::serving::workers::{Background, Endpoint, Looked, WorkerPool};
use crate::transport::stream::server::call::StreamCall;
use crate::transport::stream::server::connection::{Connection, LANES};
use crate::transport::stream::server::connections::Connections;
use crate::transport::stream::server::pending::PendingCalls;
#[cfg(feature = "seal")]
use crate::transport::stream::server::sealed::Sealing;
use crate::transport::stream::server::worker::WorkerState;
use crate::users::Users;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use stoop_exchange::shares::Owner;
use stoop_net::clock;
use stoop_net::host;
use stoop_net::stream::StreamListener;
use stoop_wire::{BindingId, MAX_DATAGRAM, Refused};

/// A listener, its connections, and the calls that have arrived on them.
pub(crate) struct StreamEndpoint {
    connections: Connections,
    service: Service,
    /// Calls that arrived together with one that runs now.
    pending: PendingCalls,
    /// Buffers of calls and results.
    unused_buffers: Mutex<Vec<Vec<u8>>>,
    /// When a thread last looked at all connections and found nothing.
    drained_ns: AtomicU64,
    open_calls: OpenCalls<WorkerPool<Self>>,
    #[cfg(feature = "seal")]
    sealing: Option<Sealing<StreamCall>>,
}

/// Bindings at the same time, unless set, if the process has descriptors for them.
const BINDINGS_MAX: usize = 4096;

/// A caller that has been told of the end and sends nothing for so long has most likely received it: longer than TCP delays an
/// acknowledgement. How long callers that go on sending are waited for, and the time between two looks.
const LINGER: Duration = Duration::from_millis(50);
const LINGER_MAX: Duration = Duration::from_secs(1);
const LINGER_LOOK: Duration = Duration::from_millis(1);

/// Buffers kept for calls and results, and bytes of the largest.
const BUFFERS: usize = 16;
const BUFFER_MAX: usize = 4 << 20;

impl StreamEndpoint {
    pub(crate) fn new(
        listener: StreamListener,
        setup: &Setup,
        (allowed, security): (Users, &Security),
    ) -> io::Result<Self> {
        let incarnation = u64::from_le_bytes(host::random_bytes());
        let bindings_max = setup.limits.bindings.unwrap_or(BINDINGS_MAX);
        let memory = MessageMemory::new(&setup.limits, setup.max_message);
        #[cfg_attr(not(feature = "seal"), expect(unused_mut, reason = "nothing is added"))]
        let mut service = Service::new(setup, incarnation, LANES.into());
        #[cfg(feature = "seal")]
        let sealing = Sealing::new(security, &mut service);
        #[cfg(not(feature = "seal"))]
        let _ = security;
        Ok(Self {
            connections: Connections::new(listener, setup.max_message, allowed, bindings_max, memory)?,
            service,
            #[cfg(feature = "seal")]
            sealing,
            pending: PendingCalls::default(),
            unused_buffers: Mutex::default(),
            drained_ns: AtomicU64::new(0),
            open_calls: OpenCalls::new(&setup.exports.open_room),
        })
    }

    /// Bytes that no stream has taken yet, also of pipes whose calls have been answered; `None`: there are no more.
    fn unread(&self) -> Option<u64> {
        let (mut unread, mut left) = (None, Vec::new());
        for connection in self.connections.all() {
            // A poller tells of room only when there is much of it, and a slow reader makes little at a time. The worker with the
            // receive role learns that a connection is broken.
            if !connection.is_flushed()
                && !matches!(connection.flush(&self.connections.acceptor.poller, &mut left), Ok(true))
            {
                unread = Some(unread.unwrap_or(0) + connection.unread() as u64);
            }
            if let Some(of_pipes) = connection.pipes.unsent() {
                unread = Some(unread.unwrap_or(0) + of_pipes);
            }
        }
        unread
    }

    fn unused_buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.unused_buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn unused_buffer(&self) -> Vec<u8> {
        self.unused_buffers().pop().unwrap_or_default()
    }

    fn recycle_buffer(&self, buffer: Vec<u8>) {
        let mut unused = self.unused_buffers();
        if unused.len() < BUFFERS && !buffer.is_empty() && buffer.len() <= BUFFER_MAX {
            unused.push(buffer);
        }
    }

    /// An answer that is held back for another which takes longer than was thought goes without it.
    #[cold]
    fn send_held(&self) {
        for connection in self.connections.all() {
            if connection.send_held(&self.connections.acceptor.poller).is_err() {
                self.close(&connection);
            }
        }
    }

    /// The connection is a binding from now on.
    fn count_binding(&self, connection: &Connection, binding: BindingId) {
        connection.set_bound(binding);
        self.service.bindings.fetch_add(1, Ordering::Relaxed);
    }

    fn close(&self, connection: &Connection) {
        if self.connections.close(connection) {
            #[cfg(feature = "seal")]
            self.forget_caller(connection);
            if let Some(binding) = connection.bound_as() {
                self.service.bindings.fetch_sub(1, Ordering::Relaxed);
                keeper::end_binding(binding);
            }
            self.service.activity.announce_end();
        }
    }

    /// The peer broke the protocol.
    #[cold]
    fn close_malformed(&self, connection: &Connection) {
        self.service.activity.malformed.fetch_add(1, Ordering::Relaxed);
        self.close(connection);
    }

    /// Lets all workers take the calls that arrived behind the one that this worker runs first.
    #[inline]
    fn share_others(&self, worker: &mut WorkerState) {
        if worker.others.is_empty() {
            return;
        }
        // Before another worker can end them. The first has been counted, so that the server waits for these, too.
        self.service.activity.begin_more_calls(worker.others.len());
        self.pending.append(&mut worker.key, &mut worker.others);
        if !worker.patient {
            // The background thread may have lost the role to a worker that waits already.
            self.connections.acceptor.notifier.wake();
        }
    }

    #[inline]
    fn next_pending(&self, worker: &mut WorkerState) -> Option<StreamCall> {
        self.pending.take_first(&mut worker.key, |_| true)
    }
}

impl StreamEndpoint {
    /// Tells all callers that the server has answered what it has run, and closes their connections. A connection that is closed
    /// while calls are unread is reset, and TCP then gives up what it has not sent. So what arrives is thrown away until the caller has
    /// closed the connection, or has been silent for a while.
    fn end_bindings(&self) {
        let poller = &self.connections.acceptor.poller;
        let ended: Vec<_> =
            self.connections.all().into_iter().filter(|connection| connection.end(poller)).collect();
        let begun = Instant::now();
        let mut open: Vec<_> = ended.iter().map(|connection| (connection, begun)).collect();
        while begun.elapsed() < LINGER_MAX {
            open.retain_mut(|(connection, heard)| match connection.throw_away() {
                Some(true) => {
                    *heard = Instant::now();
                    true
                }
                Some(false) => heard.elapsed() < LINGER,
                None => false,
            });
            if open.is_empty() {
                break;
            }
            thread::sleep(LINGER_LOOK);
        }
        ended.iter().for_each(|connection| self.close(connection));
    }
}

impl Endpoint for StreamEndpoint {
    type Call = StreamCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        WorkerState::new(self.service.waiting, self.service.spinners_max, self.pending.key())
    }

    #[inline]
    fn receive(
        &self,
        worker: &mut WorkerState,
        patient: bool,
        interrupted: &AtomicBool,
    ) -> Option<StreamCall> {
        let pending = self.next_pending(worker);
        if pending.is_some() {
            return pending;
        }
        worker.patient = patient;
        if !patient {
            let looked_ns = clock::now_ns();
            self.ask(worker, Some(Duration::ZERO));
            if worker.found.is_none() {
                self.drained_ns.store(looked_ns, Ordering::Relaxed);
            }
            return worker.found.take();
        }
        self.wait_for_call(worker, interrupted)
    }

    fn look(&self, worker: &mut WorkerState, sleep_ns: u64) -> Option<Looked<StreamCall>> {
        Some(self.look_once(worker, sleep_ns))
    }

    #[inline]
    fn takes_long(&self, call: &StreamCall) -> bool {
        self.service.exports.time(call.interface, call.procedure).is_long()
    }

    fn time_of(&self, worker: &WorkerState, call: &StreamCall) -> u64 {
        if call.deferred { clock::now_ns() } else { worker.clock_ns }
    }

    fn terms(&self, call: &StreamCall) -> CallTerms {
        let owner = owner_on(call.id().binding(), &call.connection.caller);
        let caller = (owner, call.connection.token, call.id());
        self.service.exports.terms((call.interface, call.procedure), caller, call.deadline_ns)
    }

    #[inline]
    fn tag(&self, call: &StreamCall) -> u64 {
        call.connection.token
    }

    fn owner_of(&self, tag: u64) -> Option<Owner> {
        let connection = self.connections.find(tag)?;
        Some(owner_on(connection.bound_as().unwrap_or(BindingId::NONE), &connection.caller))
    }

    #[inline]
    fn is_behind(&self, worker: &mut WorkerState, call: &StreamCall) -> bool {
        // Calls that have come are read, as many as a buffer holds, and wait among those that are pending.
        may_be_behind(worker.clock_ns, call.arrived_ns)
    }

    #[inline]
    fn run(&self, worker: &mut WorkerState, mut call: StreamCall) -> Option<StreamCall> {
        match self.answer(worker, &mut call) {
            None => {
                cancelled::ended(call.id());
                self.give_back(worker, call);
                worker.in_a_row += 1;
            }
            Some(later) => self.leave_open(call, *later),
        }
        let next = worker.next.take();
        if next.is_none() {
            self.service.activity.end_calls(mem::take(&mut worker.in_a_row));
        }
        next
    }

    fn answer_open(
        &self,
        call: StreamCall,
        given: Given<'_>,
    ) -> (Option<StreamCall>, Result<(), ReplyError>) {
        (None, self.answer_later(&call, given))
    }

    fn has_caller(&self, call: &StreamCall) -> bool {
        !call.connection.is_closed()
    }

    fn open_calls(&self) -> Option<&OpenCalls<WorkerPool<Self>>> {
        Some(&self.open_calls)
    }

    fn refuse(&self, worker: &mut WorkerState, call: StreamCall, refused: Refused) -> Option<StreamCall> {
        self.send_bare_refusal(worker, &call, refused);
        cancelled::ended(call.id());
        self.give_back(worker, call);
        self.service.activity.end_calls(1);
        None
    }

    fn give_back(&self, worker: &mut WorkerState) {
        if worker.result.len() > MAX_DATAGRAM {
            worker.result = Vec::new();
        }
    }

    fn defer(&self, _: &mut WorkerState, call: &mut StreamCall) {
        call.deferred = true;
    }

    #[cfg(not(feature = "seal"))]
    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    #[cfg(feature = "seal")]
    fn next_timeout_ns(&self) -> u64 {
        self.next_look_ns()
    }

    fn handle_timeout(&self, _: &mut WorkerState, now_ns: u64) {
        #[cfg(feature = "seal")]
        self.look_at_callers(now_ns);
        let _ = now_ns;
    }

    fn background(&self) -> &Background {
        &self.service.background
    }

    fn look_after(&self, _is_quiet: bool) -> bool {
        let is_holding = self.connections.is_holding();
        if is_holding {
            self.send_held();
        }
        is_holding
    }

    fn release_memory(&self) {
        *self.unused_buffers() = Vec::new();
    }

    fn notify_of_growth(&self) {
        self.connections.acceptor.notifier.wake();
    }

    fn wake(&self) {
        self.connections.acceptor.end.wake();
    }

    fn shut_down(&self) {
        self.service.activity.shut_down();
        self.connections.acceptor.shut_down();
        for connection in self.connections.all() {
            if connection.announce_end(&self.connections.acceptor.poller).is_err() {
                self.close(&connection);
            }
            self.end_pipes_soon(&connection);
        }
    }

    fn drain(&self) {
        // A caller that does not go on taking its results finds the connection closed.
        self.service.activity.drain(|| self.unread());
        self.end_bindings();
    }

    fn counters(&self) -> ServerCounters {
        let memory = self.connections.memory.counters();
        ServerCounters {
            memory,
            #[cfg(feature = "seal")]
            handshakes: self.sealing.as_ref().map_or_else(Default::default, |it| it.handshakes.counters()),
            ..self.service.counters()
        }
    }
}
