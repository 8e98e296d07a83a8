//! Calls that arrive over UDP.

pub(crate) mod answers;
pub(crate) mod arrivals;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod dedicated;
pub(crate) mod peer;
pub(crate) mod sockets;
pub(crate) mod transmit;
pub(crate) mod worker;

use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::drain::wait_for_readers;
use crate::serving::workers::{Background, Endpoint};
use crate::transport::packet::checksum;
use crate::transport::packet::server::batch::Batch;
use crate::transport::packet::server::call::{DatagramCall, OutBudget, PacketLocation};
use crate::transport::packet::server::dedicated::{Dedication, Reason};
use crate::transport::packet::server::peer::From;
use crate::transport::packet::server::sockets::Seen;
use crate::transport::packet::server::worker::WorkerState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::server::{Limits, Server};
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::udp::{Patience, ServerSocket};
use stoop_net::waiting::{ActiveWaiters, Placement, Waiting};
use stoop_wire::RefusalCode;
use stoop_wire::bind::CHECKSUM;

/// A UDP socket and the server's half of the exchange.
pub(crate) struct DatagramEndpoint {
    socket: ServerSocket,
    exports: Arc<Exports>,
    exchange: Mutex<Server<From>>,
    /// Notified when a call has ended while the server shuts down.
    ended: Condvar,
    shutting_down: AtomicBool,
    /// The exchange's next timeout, so that the background need not ask under the lock.
    next_timeout_ns: AtomicU64,
    waiting: Waiting,
    spinners_max: u32,
    dedication: Dedication,
    /// Datagrams that come together by the address's own socket are received together.
    together: AtomicBool,
    batch: Batch,
    /// The exchange owes receipts, or may have something to send: whoever receives sees to it before it waits. The time until which
    /// somebody who spins goes on receiving before; `u64::MAX`: nothing is to be done.
    attention_ns: AtomicU64,
    loans: OutBudget,
    background: OnceLock<Arc<Background>>,
    /// Datagrams longer than there is room for any.
    too_large: AtomicU64,
    /// Datagrams whose checksum was wrong or missing.
    corrupt: AtomicU64,
}

/// The present moment by a clock that goes on while the machine sleeps.
fn sleepless(now: Instant) -> Instant {
    now.after_nanos(clock::asleep_ns())
}

impl DatagramEndpoint {
    pub(crate) fn new(socket: ServerSocket, exports: Arc<Exports>, limits: Limits, waiting: Waiting) -> Self {
        let limits = Limits { window: window(&socket), flags: limits.flags | CHECKSUM, ..limits };
        let loans = OutBudget::new(limits.retained);
        let own = HostFacts::gather();
        let random = host::random_bytes::<16>();
        let half = |at: usize| u64::from_le_bytes(random[at..at + 8].try_into().expect("eight bytes"));
        let exchange = Server::new(
            // The socket is bound: no server before this one receives there any more.
            Instant::from_nanos(clock::now_ns()),
            exports.interfaces(),
            limits,
            crate::host_facts::to_wire(&own),
            [half(0), half(8)],
        );
        Self {
            exchange: Mutex::new(exchange.with_clock(sleepless)),
            socket,
            exports,
            ended: Condvar::new(),
            shutting_down: AtomicBool::new(false),
            next_timeout_ns: AtomicU64::new(u64::MAX),
            waiting,
            spinners_max: Placement::of(&own, &own).waiting_max,
            dedication: Dedication::default(),
            together: AtomicBool::new(false),
            batch: Batch::default(),
            attention_ns: AtomicU64::new(u64::MAX),
            loans,
            background: OnceLock::new(),
            too_large: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
        }
    }

    #[inline]
    fn exchange(&self) -> MutexGuard<'_, Server<From>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a packet, with its checksum if it has one.
    fn send(&self, packet: &[u8], peer: &From) {
        checksum::sealed(packet, |packet| self.send_as_it_is(packet, peer));
    }

    /// A packet that is not sent is like one that is lost: its receiver asks again.
    fn send_as_it_is(&self, packet: &[u8], peer: &From) {
        let _ = self.socket.send(packet, &peer.0);
    }

    /// Remembers when the exchange has something to do. Returns whether that is sooner than it was.
    fn note_timeout(&self, exchange: &Server<From>) -> bool {
        let next = exchange.next_timeout().as_nanos();
        self.next_timeout_ns.swap(next, Ordering::SeqCst) > next
    }

    fn tell_ended(&self) {
        if self.shutting_down.load(Ordering::Relaxed) {
            self.ended.notify_all();
        }
    }
}

impl Endpoint for DatagramEndpoint {
    type Call = DatagramCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        WorkerState::new(self.waiting, self.spinners_max, self.batch.key())
    }

    #[inline]
    fn receive(
        &self,
        worker: &mut WorkerState,
        patient: bool,
        stopping: &AtomicBool,
    ) -> Option<DatagramCall> {
        if self.batch.is_pending()
            && let Some(mut call) = self.take_over(worker)
        {
            if !patient {
                call.keep_packet(worker);
            }
            return Some(call);
        }
        let waiters = ActiveWaiters::of_this_process();
        let mut spinner = None;
        let mut patience = Patience::DontWait;
        if patient {
            let present = worker.waiters.get_or_insert_with(|| waiters.member()).wait();
            if worker.wait.begin(worker.clock_ns, waiters.waiting()) > 0 {
                spinner = Some(present);
            } else {
                worker.wait.sleeps(worker.clock_ns);
                patience = Patience::Block;
            }
        }
        loop {
            let attention_ns = self.attention_ns.load(Ordering::Relaxed);
            let attention = attention_ns != u64::MAX;
            let call = match self.look(worker, if attention { Patience::DontWait } else { patience }) {
                Seen::Packet(len, dedicated) => {
                    worker.clock_ns = clock::now_ns();
                    let call = self.take(worker, len, dedicated);
                    if let Some(call) = &call
                        && patient
                    {
                        self.note_call(worker, dedicated != 0, call);
                    }
                    call
                }
                Seen::Many(segments, peer, dedicated) => {
                    worker.clock_ns = clock::now_ns();
                    self.take_segments(worker, segments, peer, dedicated, patient)
                }
                Seen::Nothing if attention && (spinner.is_none() || attention_ns <= clock::now_ns()) => {
                    self.attend(worker);
                    continue;
                }
                Seen::Nothing if !patient || stopping.load(Ordering::Relaxed) => return None,
                Seen::Nothing => {
                    if spinner.is_some()
                        && let Some(background) = self.background.get()
                    {
                        background.yield_to_running_procedures();
                    }
                    let now_ns = clock::now_ns();
                    if spinner.is_some() && !worker.wait.keeps_spinning(now_ns, waiters.waiting()) {
                        spinner = None;
                        worker.wait.sleeps(now_ns);
                        patience = Patience::Block;
                    }
                    continue;
                }
            };
            if let Some(mut call) = call {
                worker.wait.arrived(worker.clock_ns);
                worker.set_placement(call.assignment.together);
                if !patient {
                    // For a worker, who has another worker.
                    call.keep_packet(worker);
                }
                return Some(call);
            }
        }
    }

    #[inline]
    fn takes_long(&self, call: &DatagramCall) -> bool {
        self.exports.takes_long(call.assignment.interface, call.assignment.procedure)
    }

    #[inline]
    fn run(&self, worker: &mut WorkerState, call: DatagramCall) -> Option<DatagramCall> {
        match call.packet.place() {
            PacketLocation::InBatch(_) => self.run_batch(worker, call),
            PacketLocation::AtDesk(_) | PacketLocation::ManagedCall => self.run_alone(worker, call),
        }
    }

    fn refuse(
        &self,
        worker: &mut WorkerState,
        mut call: DatagramCall,
        code: RefusalCode,
    ) -> Option<DatagramCall> {
        let peer = call.assignment.peer;
        self.send(call.assignment.refuse(code, ""), &peer);
        worker.clock_ns = clock::now_ns();
        self.finish(worker, call.assignment)
    }

    fn defer(&self, call: &mut DatagramCall) {
        call.packet = call.packet.deferred();
    }

    fn next_timeout_ns(&self) -> u64 {
        self.next_timeout_ns.load(Ordering::SeqCst)
    }

    fn handle_timeout(&self, worker: &mut WorkerState, now_ns: u64) {
        self.on_timeout(worker, now_ns);
    }

    fn introduce(&self, background: &Arc<Background>) {
        // Introduced once.
        let _ = self.background.set(Arc::clone(background));
    }

    fn needs_looks(&self) -> bool {
        // Whoever waits at the dedicated socket does not hear the others.
        self.dedication.is_there()
    }

    fn look_after(&self, quiet: bool) {
        if !self.dedication.is_there() {
            return;
        }
        if self.socket.has_waiting().unwrap_or(true) {
            self.dedication.give_up(Reason::Others);
        } else if quiet {
            self.dedication.give_up(Reason::Quiet);
        }
    }

    fn wake(&self) {
        // Cannot fail on a bound socket; a worker that it does not wake leaves with its next call.
        let _ = self.socket.wake_receivers();
        self.dedication.close();
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
        let exchange = self.exchange();
        let counters = exchange.counters();
        ServerCounters {
            calls: counters.calls,
            duplicates: counters.duplicates,
            refused: counters.refused,
            malformed: counters.malformed + self.too_large.load(Ordering::Relaxed),
            corrupt: self.corrupt.load(Ordering::Relaxed),
            given_up: 0,
            bindings: exchange.bindings() as u64,
            dedicated: self.dedication.count(),
        }
    }
}

impl DatagramEndpoint {
    #[cold]
    fn rouse_housekeeper(&self) {
        if let Some(background) = self.background.get() {
            background.rouse();
        }
    }
}

/// Bytes in the socket's buffer that a byte of a long call may take: the kernel counts what it allocates.
const BUFFER_FOR_A_BYTE: usize = 4;

/// How much of a long call the socket can take.
fn window(socket: &ServerSocket) -> u32 {
    let granted = socket.receive_buffer().unwrap_or(0);
    u32::try_from(granted / BUFFER_FOR_A_BYTE).unwrap_or(u32::MAX).max(WINDOW_MIN)
}

/// Bytes of a call that may be under way however little the system grants.
const WINDOW_MIN: u32 = 32 << 10;

/// A server that shuts down gives up callers of whose long results nothing more has arrived for so long: they may have gone.
const READERS_QUIET: Duration = Duration::from_secs(2);
