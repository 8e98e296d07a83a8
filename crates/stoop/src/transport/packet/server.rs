//! The server's half of the packet exchange: an endpoint of a packet link, and the worker pool that serves it.

mod answers;
mod arrivals;
mod batch;
mod call;
pub(crate) mod listener;
mod long_results;
mod receiving;
mod worker;

use crate::serving::counters::{PacketServerCounters, ServerCounters, ShmServerCounters};
use crate::serving::dispatch::Exports;
use crate::serving::drain::wait_for_readers;
use crate::serving::workers::{Background, Endpoint};
use crate::transport::packet::checksum;
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::server::batch::Batch;
use crate::transport::packet::server::call::{OutBudget, PacketCall, PacketLocation};
use crate::transport::packet::server::worker::WorkerState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::server::{Limits, Server};
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::waiting::{Placement, Waiting};
use stoop_wire::RefusalCode;
use stoop_wire::bind::CHECKSUM;

/// An endpoint of a packet link and the server's half of the exchange.
pub(crate) struct PacketEndpoint<S: ServerEndpoint> {
    link: S,
    exports: Arc<Exports>,
    exchange: Mutex<Server<S::Peer>>,
    /// Notified when a call has ended while the server shuts down.
    ended: Condvar,
    shutting_down: AtomicBool,
    /// The exchange's next timeout, so that the background thread reads it without the lock.
    next_timeout_ns: AtomicU64,
    waiting: Waiting,
    spinners_max: u32,
    batch: Batch<S::Peer>,
    /// The exchange owes receipts or may have packets to send: the worker that receives sees to it before it waits. A worker that spins
    /// first receives until this time. `u64::MAX`: nothing is owed.
    attention_ns: AtomicU64,
    out_budget: OutBudget,
    background: OnceLock<Arc<Background>>,
    /// Packets dropped because their checksum was wrong or missing.
    corrupt: AtomicU64,
}

/// Adds the time that the machine has slept.
fn with_sleep(now: Instant) -> Instant {
    now.after_nanos(clock::asleep_ns())
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    pub(crate) fn new(link: S, exports: Arc<Exports>, limits: Limits, waiting: Waiting) -> Self {
        let limits = Limits { window: link.window(), flags: limits.flags | CHECKSUM, ..limits };
        let out_budget = OutBudget::new(limits.retained);
        let own = HostFacts::gather();
        let random = host::random_bytes::<16>();
        let half = |at: usize| u64::from_le_bytes(random[at..at + 8].try_into().expect("eight bytes"));
        let exchange = Server::new(
            // The link listens: from now on no earlier server receives at this address.
            Instant::from_nanos(clock::now_ns()),
            exports.interfaces(),
            limits,
            crate::host_facts::to_wire(&own),
            [half(0), half(8)],
        );
        Self {
            exchange: Mutex::new(exchange.with_clock(with_sleep)),
            link,
            exports,
            ended: Condvar::new(),
            shutting_down: AtomicBool::new(false),
            next_timeout_ns: AtomicU64::new(u64::MAX),
            waiting,
            spinners_max: Placement::of(&own, &own).waiting_max,
            batch: Batch::default(),
            attention_ns: AtomicU64::new(u64::MAX),
            out_budget,
            background: OnceLock::new(),
            corrupt: AtomicU64::new(0),
        }
    }

    #[inline]
    fn exchange(&self) -> MutexGuard<'_, Server<S::Peer>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a packet, with its checksum if it has one.
    fn send(&self, packet: &[u8], peer: &S::Peer) {
        checksum::sealed(packet, |packet| self.link.send(packet, peer));
    }

    /// Notes when the exchange has something to do. Returns whether that is earlier than before.
    fn note_timeout(&self, exchange: &Server<S::Peer>) -> bool {
        let next = exchange.next_timeout().as_nanos();
        self.next_timeout_ns.swap(next, Ordering::SeqCst) > next
    }

    fn notify_ended(&self) {
        if self.shutting_down.load(Ordering::Relaxed) {
            self.ended.notify_all();
        }
    }

    #[cold]
    fn rouse_background(&self) {
        if let Some(background) = self.background.get() {
            background.rouse();
        }
    }
}

impl<S: ServerEndpoint> Endpoint for PacketEndpoint<S> {
    type Call = PacketCall<S::Peer>;
    type WorkerState = WorkerState<S>;

    fn worker(&self) -> WorkerState<S> {
        WorkerState::new(self.link.worker(), self.waiting, self.spinners_max, self.batch.key())
    }

    #[inline(never)]
    fn receive(
        &self,
        worker: &mut WorkerState<S>,
        patient: bool,
        stopping: &AtomicBool,
    ) -> Option<PacketCall<S::Peer>> {
        let waiting = if self.batch.is_pending() { self.take_over(worker) } else { None };
        let mut call = match waiting {
            Some(call) => call,
            None => self.receive_next(worker, patient, stopping)?,
        };
        if !patient {
            // The background thread hands the call to a worker, which has other buffers.
            call.keep_packet(&worker.buffers);
        }
        Some(call)
    }

    #[inline]
    fn takes_long(&self, call: &PacketCall<S::Peer>) -> bool {
        self.exports.takes_long(call.assignment.interface, call.assignment.procedure)
    }

    #[inline(never)]
    fn run(&self, worker: &mut WorkerState<S>, call: PacketCall<S::Peer>) -> Option<PacketCall<S::Peer>> {
        match call.packet.location() {
            PacketLocation::InBatch(_) => self.run_batch(worker, call),
            PacketLocation::AtWorker | PacketLocation::Kept => self.run_alone(worker, call),
        }
    }

    fn refuse(
        &self,
        worker: &mut WorkerState<S>,
        mut call: PacketCall<S::Peer>,
        code: RefusalCode,
    ) -> Option<PacketCall<S::Peer>> {
        let peer = call.assignment.peer;
        self.send(call.assignment.refuse(code, ""), &peer);
        worker.clock_ns = clock::now_ns();
        self.finish(worker, call.assignment)
    }

    fn defer(&self, call: &mut PacketCall<S::Peer>) {
        call.packet = call.packet.deferred();
    }

    fn next_timeout_ns(&self) -> u64 {
        self.next_timeout_ns.load(Ordering::SeqCst)
    }

    fn handle_timeout(&self, worker: &mut WorkerState<S>, now_ns: u64) {
        self.on_timeout(worker, now_ns);
    }

    fn introduce(&self, background: &Arc<Background>) {
        // Called once.
        let _ = self.background.set(Arc::clone(background));
    }

    fn needs_looks(&self) -> bool {
        self.link.needs_looks()
    }

    fn look_after(&self, quiet: bool) {
        self.link.look_after(quiet);
    }

    fn wake(&self) {
        self.link.wake();
    }

    fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.exchange().shut_down();
    }

    fn drain(&self) {
        let running = self.ended.wait_while(self.exchange(), |exchange| exchange.running() > 0);
        let exchange = running.unwrap_or_else(PoisonError::into_inner);
        // Workers take the receipts, and do not notify of the last one.
        wait_for_readers(exchange, &self.ended, READERS_QUIET, |exchange| {
            exchange.is_sending().then(|| exchange.progress())
        });
    }

    fn counters(&self) -> ServerCounters {
        let link = self.link.counters();
        let exchange = self.exchange();
        let counters = exchange.counters();
        ServerCounters {
            calls: counters.calls,
            refused: counters.refused,
            malformed: counters.malformed + link.too_large,
            bindings: exchange.bindings() as u64,
            packet: PacketServerCounters {
                duplicates: counters.duplicates,
                corrupt: self.corrupt.load(Ordering::Relaxed),
                dedicated: link.dedicated,
            },
            shm: ShmServerCounters::default(),
        }
    }
}

/// While the server shuts down: callers of which no receipt for a long result arrives for so long may have gone.
const READERS_QUIET: Duration = Duration::from_secs(2);
