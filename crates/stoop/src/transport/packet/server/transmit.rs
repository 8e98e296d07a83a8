//! What the exchange sends of its own accord: results of many packets, receipts for calls of many packets.
//!
//! Whoever receives looks at the socket between two transmissions, so that a long result keeps no call waiting; whoever
//! does not receive sends all that may leave now. Nobody waits for a slow reader: the exchange holds back what its
//! receiver, or the way there, cannot take, until a receipt or the background's look at the clock lets it go on.

use crate::transport::packet::checksum;
use crate::transport::packet::server::worker::WorkerState;
use crate::transport::packet::server::{DatagramEndpoint, From};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::bulk::RECEIPT_WAITS_NANOS;
use stoop_exchange::server::Server;
use stoop_net::clock;
use stoop_net::udp::MAX_SEGMENTS_LEN;

/// Transmissions, each of up to 64 KiB, between two looks at the socket.
const AT_ONCE: u32 = 2;

impl DatagramEndpoint {
    /// Something has come that leads to no call. If it is part of something longer, more may be to come together, and
    /// something may have to be sent when nothing more has arrived.
    #[cold]
    pub(super) fn attend_later(&self, worker: &mut WorkerState, exchange: MutexGuard<'_, Server<From>>) {
        let until_ns = if exchange.may_transmit() { 0 } else { worker.clock_ns + RECEIPT_WAITS_NANOS };
        self.attention_ns.store(until_ns, Ordering::Relaxed);
        self.note_and_rouse(exchange);
        worker.bunching.singles = 0;
    }

    /// Nothing more has arrived: pays the receipts that are owed and sends some of what may leave. If there is more, the
    /// next look at the sockets must not wait.
    #[cold]
    pub(super) fn attend(&self, worker: &mut WorkerState) {
        self.attention_ns.store(u64::MAX, Ordering::Relaxed);
        let mut exchange = self.exchange();
        exchange.drained();
        let exchange = self.transmit(worker, exchange, AT_ONCE);
        if exchange.may_transmit() {
            self.attention_ns.store(0, Ordering::Relaxed);
        }
        self.note_and_rouse(exchange);
    }

    /// Sends all that may leave now.
    #[cold]
    pub(super) fn transmit_all(&self, worker: &mut WorkerState, exchange: MutexGuard<'_, Server<From>>) {
        let exchange = self.transmit(worker, exchange, u32::MAX);
        self.note_and_rouse(exchange);
    }

    /// Lets the exchange look at the clock, and sends what that leads to.
    pub(super) fn on_timeout(&self, worker: &mut WorkerState, now_ns: u64) {
        worker.clock_ns = now_ns;
        let mut exchange = self.exchange();
        exchange.handle_timeout(Instant::from_nanos(now_ns));
        let exchange = self.transmit(worker, exchange, u32::MAX);
        self.next_timeout_ns.store(exchange.next_timeout().as_nanos(), Ordering::SeqCst);
    }

    fn transmit<'a>(
        &'a self,
        worker: &mut WorkerState,
        mut exchange: MutexGuard<'a, Server<From>>,
        most: u32,
    ) -> MutexGuard<'a, Server<From>> {
        let mut out = std::mem::take(&mut worker.batch.out);
        for _ in 0..most {
            // Not the worker's: from when it was sent follow round trip and pace.
            let now = Instant::from_nanos(clock::now_ns());
            let Some(next) = exchange.next_transmission(now, MAX_SEGMENTS_LEN, &mut out) else { break };
            // Not under the lock: others have calls to take and to give back.
            drop(exchange);
            checksum::seal_all(&mut out, next.segment);
            self.send_together(worker, &out, next.segment, &next.peer.0);
            exchange = self.exchange();
        }
        worker.batch.out = out;
        exchange
    }

    pub(super) fn note_and_rouse(&self, exchange: MutexGuard<'_, Server<From>>) {
        let sooner = self.note_timeout(&exchange);
        drop(exchange);
        if sooner {
            // Nobody else would look at it.
            self.rouse_housekeeper();
        }
    }
}
