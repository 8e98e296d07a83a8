//! Calls that arrive over byte streams: TCP and Unix sockets.
//!
//! One endpoint for a listener and all its connections. While its receiver spins, it looks at the connection that was
//! last active and only now and then at the others; when it sleeps, it waits for all of them, or, while only one is
//! there and busy, briefly for that one alone, which saves asking the poller.

pub(crate) mod call;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod incoming;
pub(crate) mod numbers;
pub(crate) mod outgoing;
pub(crate) mod receiving;
pub(crate) mod worker;

use crate::options::Waiting;
use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::drain::wait_for_readers;
use crate::serving::running::Setup;
use crate::serving::workers::{Background, Endpoint};
use crate::transport::stream::server::call::StreamCall;
use crate::transport::stream::server::connection::Connection;
use crate::transport::stream::server::connections::{Connections, END, PENDING};
use crate::transport::stream::server::worker::WorkerState;
use crate::users::Users;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::Interfaces;
use stoop_exchange::stream::Reassembler;
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::poller::{Interest, Waker};
use stoop_net::stream::StreamListener;
use stoop_net::waiting::Placement;
use stoop_wire::RefusalCode;

/// A listener, its connections, and the calls that have arrived on them.
pub(crate) struct StreamEndpoint {
    reception: Connections,
    exports: Arc<Exports>,
    interfaces: Interfaces,
    own: HostFacts,
    incarnation: u64,
    /// When it began to receive, by [`boot_now_ns`](clock::boot_now_ns).
    started_ns: u64,
    message_max: usize,
    waiting: Waiting,
    spinners_max: u32,
    /// Calls that arrived together with one that runs now.
    pending: Mutex<VecDeque<StreamCall>>,
    pending_count: AtomicUsize,
    /// Calls that have arrived and are not answered.
    active: AtomicUsize,
    shutting_down: AtomicBool,
    /// Guards nothing: for whoever waits until all is answered and sent.
    quiet: Mutex<()>,
    ended: Condvar,
    /// Buffers of calls and results.
    spares: Mutex<Vec<Vec<u8>>>,
    /// Tells whoever waits that there are pending calls.
    has_pending: Waker,
    /// Ends all waiting.
    end: Waker,
    counts: Counts,
    background: OnceLock<Arc<Background>>,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    refused: AtomicU64,
    malformed: AtomicU64,
    bindings: AtomicU64,
}

/// Buffers kept for calls and results, and bytes of the largest.
const SPARES: usize = 16;
const SPARE_MAX: usize = 4 << 20;
/// A server that shuts down gives up readers that have taken nothing for so long.
const READERS_QUIET: Duration = Duration::from_secs(5);

impl StreamEndpoint {
    pub(crate) fn new(listener: StreamListener, setup: &Setup, allowed: Users) -> io::Result<Self> {
        let Setup { exports, waiting, max_message, .. } = setup;
        let (own, exports) = (HostFacts::gather(), Arc::clone(exports));
        let reception = Connections::new(listener, *max_message, allowed)?;
        let (has_pending, end) = (Waker::new()?, Waker::new()?);
        reception.poller.add(&has_pending, PENDING, Interest::READ)?;
        reception.poller.add(&end, END, Interest::READ)?;
        Ok(Self {
            reception,
            interfaces: exports.interfaces(),
            exports,
            spinners_max: Placement::of(&own, &own).waiting_max,
            own,
            incarnation: u64::from_le_bytes(host::random_bytes()),
            started_ns: clock::boot_now_ns(),
            message_max: *max_message,
            waiting: *waiting,
            pending: Mutex::default(),
            pending_count: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            shutting_down: AtomicBool::new(false),
            quiet: Mutex::new(()),
            ended: Condvar::new(),
            spares: Mutex::default(),
            has_pending,
            end,
            counts: Counts::default(),
            background: OnceLock::new(),
        })
    }

    /// Bytes that no stream has taken yet; `None`: there are no more.
    fn unread(&self) -> Option<u64> {
        let (mut unread, mut left) = (None, Vec::new());
        for connection in self.reception.all() {
            // A poller tells of room only when there is much of it, and a slow reader makes little at a time. The worker with the
            // receive role learns that a connection is broken.
            if !connection.is_flushed()
                && !matches!(connection.flush(&self.reception.poller, &mut left), Ok(true))
            {
                unread = Some(unread.unwrap_or(0) + connection.unread() as u64);
            }
        }
        unread
    }

    /// Something that [`drain`](Self::drain) may wait for has happened.
    fn announce_end(&self) {
        if self.shutting_down.load(Ordering::SeqCst) {
            drop(self.quiet.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    fn spares(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn spare(&self) -> Vec<u8> {
        self.spares().pop().unwrap_or_default()
    }

    fn keep_spare(&self, spare: Vec<u8>) {
        let mut spares = self.spares();
        if spares.len() < SPARES && !spare.is_empty() && spare.len() <= SPARE_MAX {
            spares.push(spare);
        }
    }

    /// An answer that is held back for another which takes longer than was thought goes without it.
    #[cold]
    fn send_held(&self) {
        for connection in self.reception.all() {
            if connection.send_held(&self.reception.poller).is_err() {
                self.close(&connection);
            }
        }
    }

    fn close(&self, connection: &Connection) {
        if self.reception.close(connection) {
            if connection.was_bound() {
                self.counts.bindings.fetch_sub(1, Ordering::Relaxed);
            }
            self.announce_end();
        }
    }

    /// The peer broke the protocol.
    #[cold]
    fn close_malformed(&self, connection: &Connection) {
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
        self.close(connection);
    }

    #[inline]
    fn next_pending(&self) -> Option<StreamCall> {
        if self.pending_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.pop_pending()
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<StreamCall>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn pop_pending(&self) -> Option<StreamCall> {
        let mut pending = self.pending();
        let call = pending.pop_front();
        self.pending_count.store(pending.len(), Ordering::Release);
        call
    }

    /// A call has arrived. The first is served by whoever found it, the others by whoever comes next.
    #[inline]
    fn take(&self, worker: &mut WorkerState, call: StreamCall) {
        if worker.found.is_none() {
            worker.waiter.set_together(call.together);
            worker.found = Some(call);
            return;
        }
        let mut pending = self.pending();
        pending.push_back(StreamCall { deferred: true, ..call });
        self.pending_count.store(pending.len(), Ordering::Release);
        if !worker.patient {
            // The background may have lost the role meanwhile to a worker that waits already.
            self.has_pending.wake();
        }
    }
}

impl Endpoint for StreamEndpoint {
    type Call = StreamCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        WorkerState::new(self.waiting, self.spinners_max)
    }

    #[inline]
    fn receive(&self, worker: &mut WorkerState, patient: bool, stopping: &AtomicBool) -> Option<StreamCall> {
        let pending = self.next_pending();
        if pending.is_some() {
            return pending;
        }
        worker.patient = patient;
        if !patient {
            self.ask(worker, Some(Duration::ZERO));
            return worker.found.take();
        }
        self.wait_for_call(worker, stopping)
    }

    #[inline]
    fn takes_long(&self, call: &StreamCall) -> bool {
        self.exports.takes_long(call.interface, call.procedure)
    }

    #[inline]
    fn run(&self, worker: &mut WorkerState, mut call: StreamCall) -> Option<StreamCall> {
        self.answer(worker, &mut call);
        let packet = std::mem::take(&mut call.packet);
        match worker.packet.is_empty() && packet.len() == Reassembler::BUFFER_LEN {
            true => worker.packet = packet,
            false => self.give_back(&call.connection, packet),
        }
        self.finish(&call);
        let next = worker.next.take();
        worker.in_a_row = if next.is_some() { worker.in_a_row + 1 } else { 0 };
        next
    }

    fn refuse(&self, _: &mut WorkerState, mut call: StreamCall, code: RefusalCode) -> Option<StreamCall> {
        self.send_refusal(&call.connection, &call.header, code, "");
        self.give_back(&call.connection, std::mem::take(&mut call.packet));
        self.finish(&call);
        None
    }

    fn defer(&self, call: &mut StreamCall) {
        call.deferred = true;
    }

    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn handle_timeout(&self, _: &mut WorkerState, _now_ns: u64) {}

    fn introduce(&self, background: &Arc<Background>) {
        // Introduced once.
        let _ = self.background.set(Arc::clone(background));
    }

    fn needs_looks(&self) -> bool {
        self.reception.is_holding()
    }

    fn look_after(&self, _quiet: bool) {
        if self.reception.is_holding() {
            self.send_held();
        }
    }

    fn wake(&self) {
        self.end.wake();
    }

    fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.reception.shut_down();
    }

    fn drain(&self) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = |_: &mut ()| self.active.load(Ordering::SeqCst) > 0;
        let quiet = self.ended.wait_while(quiet, is_active).unwrap_or_else(PoisonError::into_inner);
        // A caller that does not go on taking its results finds the connection closed.
        wait_for_readers(quiet, &self.ended, READERS_QUIET, |()| self.unread());
    }

    fn counters(&self) -> ServerCounters {
        ServerCounters {
            calls: self.counts.calls.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            malformed: self.counts.malformed.load(Ordering::Relaxed),
            bindings: self.counts.bindings.load(Ordering::Relaxed),
            ..ServerCounters::default()
        }
    }
}
