//! Datagrams that have arrived: given to the exchange, which says what they lead to.

use crate::context::cancelled;
use crate::context::cancelled::CallId;
use crate::transport::packet::checksum;
use crate::transport::packet::server::call::{CallPacket, DatagramCall};
use crate::transport::packet::server::worker::WorkerState;
use crate::transport::packet::server::{DatagramEndpoint, From};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::server::{Arrival, Server};
use stoop_net::udp;
use stoop_wire::{BindingId, CallNumber, LaneId, MAX_DATAGRAM};

impl DatagramEndpoint {
    /// Takes the datagram of so many bytes that is at the worker, and came in by the dedicated socket of so many changes (0: by
    /// the address's own); returns the call that it brings.
    #[inline(always)]
    pub(super) fn take(&self, worker: &mut WorkerState, len: usize, dedicated: u64) -> Option<DatagramCall> {
        let mut answer_by = dedicated;
        if worker.packet_has_checksum() {
            if !self.is_intact(&worker.packet[..len]) {
                return None;
            }
            answer_by = CallPacket::BY_OWN;
        }
        let now = Instant::from_nanos(worker.clock_ns);
        let mut exchange = self.exchange();
        let peer = if dedicated == 0 { &worker.own_peer } else { &worker.dedicated_peer };
        match exchange.handle_packet(now, peer, &worker.packet[..len], &mut worker.reply) {
            Arrival::Run(assignment) => {
                drop(exchange);
                return Some(DatagramCall { assignment, packet: CallPacket::at_desk(answer_by) });
            }
            arrival => self.take_no_call(worker, exchange, arrival, len, dedicated),
        }
        None
    }

    /// Whether the datagram is as it was sent. If it is not, it is dropped and counted.
    #[cold]
    pub(super) fn is_intact(&self, datagram: &[u8]) -> bool {
        let is_intact = checksum::is_right(datagram);
        if !is_intact {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        is_intact
    }

    /// How many bytes of datagrams, `segment` bytes apart, begin with those that have a checksum that is right.
    #[cold]
    pub(super) fn intact_len(&self, datagrams: &[u8], segment: usize) -> usize {
        let is_expected = |datagram: &&[u8]| checksum::is_expected(datagram);
        let intact = datagrams.chunks(segment).take_while(is_expected).take_while(|it| self.is_intact(it));
        intact.map(<[u8]>::len).sum()
    }

    /// Sees to what has led to no call.
    #[inline(never)]
    fn take_no_call(
        &self,
        worker: &mut WorkerState,
        exchange: MutexGuard<'_, Server<From>>,
        arrival: Arrival<From>,
        len: usize,
        dedicated: u64,
    ) {
        let peer = if dedicated == 0 { worker.own_peer } else { worker.dedicated_peer };
        match arrival {
            Arrival::Run(_) => unreachable!("that is a call"),
            Arrival::Reply => {
                // It may be the first binding, which may never be used.
                self.note_and_rouse(exchange);
                self.send(&worker.reply, &peer);
            }
            Arrival::Cancelled(binding, lane, number) => {
                tell_procedure(binding, lane, number);
                drop(exchange);
                self.send(&worker.reply, &peer);
            }
            Arrival::Transmit | Arrival::Nothing => {
                self.attend_later(worker, exchange);
                if len >= MAX_DATAGRAM {
                    self.receive_together(worker, dedicated != 0);
                }
            }
        }
    }

    /// Takes a datagram, or several, where several might have come together.
    pub(super) fn take_segments(
        &self,
        worker: &mut WorkerState,
        segments: udp::Segments,
        peer: udp::Peer,
        dedicated: u64,
        patient: bool,
    ) -> Option<DatagramCall> {
        let count = segments.count() as u32;
        if dedicated == 0 {
            worker.own_peer = From(peer);
            if patient {
                self.count_in_a_row(worker, count);
            }
        }
        if count > 1 || segments.len > MAX_DATAGRAM {
            worker.bunching.singles = 0;
            return self.take_many(worker, segments, peer);
        }
        worker.bunching.singles += 1;
        worker.packet[..segments.len].copy_from_slice(&worker.batch.received()[..segments.len]);
        self.take(worker, segments.len, dedicated)
    }
}

/// Nobody waits any more for a call whose procedure runs. Under the exchange's lock, under which it ends.
#[cold]
pub(super) fn tell_procedure(binding: BindingId, lane: LaneId, number: CallNumber) {
    cancelled::cancel(CallId::new(binding, lane, number));
}
