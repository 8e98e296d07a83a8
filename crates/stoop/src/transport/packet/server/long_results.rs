//! Packets that the exchange sends by itself: parts of long results, and receipts for long calls.
//!
//! A worker that receives looks at the link between two transmissions, so that a long result delays no call. A worker that does not
//! receive sends all that may leave now. No worker waits for a slow reader: the exchange holds back what the reader or the path cannot
//! take, until a receipt or the background thread's look at the clock lets it continue.

use crate::transport::packet::link::{MAX_SEGMENTS_LEN, ServerEndpoint};
use crate::transport::packet::pipes::Protected;
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::worker::WorkerState;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::bulk::RECEIPT_WAITS_NANOS;
use stoop_exchange::server::Server;
use stoop_net::clock;

/// Transmissions, each of up to 64 KiB, between two looks at the link.
const AT_ONCE: u32 = 2;

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Notes that a packet has come that leads to no call. If it is part of a message, more parts may come together, and receipts may be
    /// due when nothing more has come. `len`: bytes of the packet, if it came by itself.
    #[cold]
    pub(super) fn attend_later(
        &self,
        worker: &mut WorkerState<S>,
        exchange: MutexGuard<'_, Server<S::Peer>>,
        len: usize,
    ) {
        let until_ns = match exchange.may_transmit() {
            true => 0,
            false if worker.has_part => {
                // Short items may come for long, one soon after the other.
                let owed_ns = self.attention_ns.load(Ordering::Relaxed);
                owed_ns.min(worker.clock_ns + RECEIPT_WAITS_NANOS)
            }
            false => worker.clock_ns + RECEIPT_WAITS_NANOS,
        };
        self.attention_ns.store(until_ns, Ordering::Relaxed);
        self.note_and_wake(exchange);
        self.link.expect_more(&mut worker.link, len);
    }

    /// Nothing more has come: sends the receipts that are owed and some of what may leave. If there is more, the next look at the link
    /// does not wait.
    #[cold]
    pub(super) fn attend(&self, worker: &mut WorkerState<S>) {
        self.attention_ns.store(u64::MAX, Ordering::Relaxed);
        let mut exchange = self.exchange();
        exchange.drained();
        let exchange = self.transmit((&worker.link, &mut worker.room), exchange, AT_ONCE);
        if exchange.may_transmit() {
            self.attention_ns.store(0, Ordering::Relaxed);
        }
        self.note_and_wake(exchange);
    }

    /// Sends all that may leave now.
    #[cold]
    pub(super) fn transmit_all(
        &self,
        worker: &mut WorkerState<S>,
        exchange: MutexGuard<'_, Server<S::Peer>>,
    ) {
        let exchange = self.transmit((&worker.link, &mut worker.room), exchange, u32::MAX);
        self.note_and_wake(exchange);
    }

    /// Lets the exchange look at the clock, and sends what is due then.
    pub(super) fn on_timeout(&self, worker: &mut WorkerState<S>, now_ns: u64) {
        worker.clock_ns = now_ns;
        let mut exchange = self.exchange();
        exchange.handle_timeout(Instant::from_nanos(now_ns));
        self.look_at_due_pipes(&mut exchange, Instant::from_nanos(now_ns));
        #[cfg(feature = "seal")]
        self.sweep_seals(&mut exchange, now_ns);
        let exchange = self.transmit((&worker.link, &mut worker.room), exchange, u32::MAX);
        self.next_timeout_ns.store(exchange.next_timeout().as_nanos(), Ordering::SeqCst);
    }

    pub(super) fn transmit<'a>(
        &'a self,
        (link, kept): (&S::Worker, &mut Option<S::Room>),
        mut exchange: MutexGuard<'a, Server<S::Peer>>,
        most: u32,
    ) -> MutexGuard<'a, Server<S::Peer>> {
        let mut room = kept.take().unwrap_or_default();
        for _ in 0..most {
            // Not the worker's clock: round trips and pacing are measured from the time of sending.
            let now = Instant::from_nanos(clock::now_ns());
            self.link.lend(&mut room);
            let protected = &mut Protected(&mut room, &self.protection);
            let Some(next) = exchange.next_transmission(now, MAX_SEGMENTS_LEN, protected) else { break };
            // The lock is not held while the system sends, because other workers begin and end calls.
            drop(exchange);
            self.link.send_room(link, &mut room, &next.peer);
            exchange = self.exchange();
        }
        *kept = Some(room);
        exchange
    }

    pub(super) fn note_and_wake(&self, exchange: MutexGuard<'_, Server<S::Peer>>) {
        let is_earlier = self.note_timeout(&exchange);
        drop(exchange);
        if is_earlier {
            self.background.wake_if_asleep();
        }
    }
}
