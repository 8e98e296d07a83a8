//! A server's endpoint: a packet link and the server's half of the exchange.

use crate::later::open_calls::OpenCalls;
use crate::security::Security;
#[cfg(feature = "seal")]
use crate::security::tls::{Acceptor, Purpose};
use crate::serving::counters::Refusals;
use crate::serving::dispatch::Exports;
use crate::serving::workers::{Background, WorkerPool};
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::protection::Protection;
use crate::transport::packet::server::batch::Batch;
use crate::transport::packet::server::out_budget::OutBudget;
use crate::transport::packet::server::piped::PipeTable;
#[cfg(feature = "seal")]
use crate::transport::packet::server::sealing::Sealing;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use stoop_exchange::Instant;
use stoop_exchange::server::{Limits, Server};
use stoop_net::clock;
use stoop_net::host::HostFacts;
use stoop_net::waiting::{Placement, Waiting};
use stoop_wire::bind::CHECKSUM;

/// An endpoint of a packet link and the server's half of the exchange.
pub(crate) struct PacketEndpoint<S: ServerEndpoint> {
    pub(super) link: S,
    pub(super) exports: Arc<Exports>,
    pub(super) exchange: Mutex<Server<S::Peer>>,
    /// Notified when a call has ended while the server shuts down.
    pub(super) ended: Condvar,
    pub(super) shutting_down: AtomicBool,
    /// The exchange's next timeout, so that the background thread reads it without the lock.
    pub(super) next_timeout_ns: AtomicU64,
    pub(super) waiting: Waiting,
    pub(super) spinners_max: u32,
    pub(super) batch: Batch<S::Peer>,
    /// The exchange owes receipts or may have packets to send: the worker that receives sees to it before it waits. A worker that spins
    /// first receives until this time. `u64::MAX`: nothing is owed.
    pub(super) attention_ns: AtomicU64,
    /// When a worker last looked for packets and found none.
    pub(super) drained_ns: AtomicU64,
    pub(super) out_budget: OutBudget,
    pub(super) background: Background,
    pub(super) open_calls: OpenCalls<WorkerPool<Self>>,
    pub(super) pipes: PipeTable<S>,
    /// Bytes of the longest item of a pipe.
    pub(super) message_max: usize,
    pub(super) protection: Protection,
    /// Of an address that makes sealed bindings only.
    #[cfg(feature = "seal")]
    pub(super) sealing: Option<Sealing<S::Peer>>,
    /// Packets dropped because their checksum was wrong or missing.
    pub(super) corrupt: AtomicU64,
    /// Calls that the exchange gave out and that were refused.
    pub(super) refused: Refusals,
}

/// Most notices of a shutdown: so many packets leave within a tenth of a second.
const NOTICES_MAX: usize = 65_536;

/// Adds the time that the machine has slept.
fn with_sleep(now: Instant) -> Instant {
    now.after_nanos(clock::asleep_ns())
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    pub(crate) fn new(
        link: S,
        exports: Arc<Exports>,
        limits: Limits,
        waiting: Waiting,
        (secret, security): ([u64; 2], &Security),
    ) -> Self {
        let flags = limits.flags | CHECKSUM | link.flags();
        let limits = Limits { window: link.window(), calls: link.packets(), flags, ..limits };
        let message_max = limits.max_message as usize;
        let out_budget = OutBudget::new(limits.retained);
        let own = HostFacts::gather();
        #[cfg_attr(not(feature = "seal"), expect(unused_mut, reason = "nothing is added"))]
        let mut interfaces = exports.interfaces();
        #[cfg(feature = "seal")]
        let sealing = security
            .keys()
            .and_then(|keys| Acceptor::new(keys, Purpose::BINDING))
            .map(|it| Sealing::new(it, &mut interfaces));
        #[cfg(not(feature = "seal"))]
        let _ = security;
        let exchange = Server::new(
            // The link listens: from now on no earlier server receives at this address.
            Instant::from_nanos(clock::now_ns()),
            interfaces,
            limits,
            crate::host_facts::to_wire(&own),
            secret,
        );
        #[cfg(feature = "seal")]
        let exchange = if sealing.is_some() { exchange.sealed_only() } else { exchange };
        Self {
            #[cfg(feature = "seal")]
            protection: sealing
                .as_ref()
                .map_or_else(Protection::default, |it| Protection::of_server(&it.bindings)),
            #[cfg(not(feature = "seal"))]
            protection: Protection::default(),
            #[cfg(feature = "seal")]
            sealing,
            exchange: Mutex::new(exchange.with_clock(with_sleep)),
            link,
            open_calls: OpenCalls::new(&exports.open_room),
            pipes: PipeTable::default(),
            message_max,
            exports,
            ended: Condvar::new(),
            shutting_down: AtomicBool::new(false),
            next_timeout_ns: AtomicU64::new(u64::MAX),
            waiting,
            spinners_max: Placement::of(&own, &own).waiting_max,
            batch: Batch::default(),
            attention_ns: AtomicU64::new(u64::MAX),
            drained_ns: AtomicU64::new(0),
            out_budget,
            background: Background::default(),
            corrupt: AtomicU64::new(0),
            refused: Refusals::default(),
        }
    }

    #[inline]
    pub(super) fn exchange(&self) -> MutexGuard<'_, Server<S::Peer>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a packet, protected.
    pub(super) fn send(&self, packet: &[u8], peer: &S::Peer) {
        let _ = self.protection.protected(packet, |packet| self.link.send(packet, peer));
    }

    /// Notes when the exchange has something to do. Returns whether that is earlier than before.
    pub(super) fn note_timeout(&self, exchange: &Server<S::Peer>) -> bool {
        let next = exchange.next_timeout().as_nanos();
        self.next_timeout_ns.swap(next, Ordering::SeqCst) > next
    }

    /// The server shuts down: tells callers that their next calls are refused. They wait in the callers' sockets for these calls.
    pub(super) fn announce_end(&self) {
        let notices = self.exchange().closing_notices(NOTICES_MAX);
        notices.iter().for_each(|(peer, notice)| self.send(notice, peer));
    }

    pub(super) fn notify_ended(&self) {
        if self.shutting_down.load(Ordering::Relaxed) {
            self.ended.notify_all();
        }
    }
}
