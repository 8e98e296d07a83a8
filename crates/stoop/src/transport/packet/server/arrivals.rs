//! Packets that have arrived: the exchange says what each of them leads to.

use crate::context::cancelled::{self, CallId};
use crate::transport::packet::checksum;
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::server::PacketEndpoint;
use crate::transport::packet::server::call::{CallPacket, PacketCall};
use crate::transport::packet::server::worker::WorkerState;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::server::{Arrival, Server};
use stoop_wire::{BindingId, CallNumber, LaneId};

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Takes the packet of `len` bytes that the worker has received by itself. Returns the call that it brings.
    #[inline(always)]
    pub(super) fn take(&self, worker: &mut WorkerState<S>, len: usize) -> Option<PacketCall<S::Peer>> {
        let packet = &worker.buffers.one[..];
        if checksum::says_so(packet.first_chunk().expect("the buffer is longer"))
            && !self.is_intact(&packet[..len])
        {
            return None;
        }
        let mut exchange = self.exchange();
        let (now, peer) = (Instant::from_nanos(worker.clock_ns), self.link.peer(&worker.link));
        match exchange.handle_packet(now, peer, &packet[..len], &mut worker.reply) {
            Arrival::Run(assignment) => {
                drop(exchange);
                Some(PacketCall { assignment, packet: CallPacket::AT_WORKER })
            }
            arrival => {
                self.take_no_call(worker, exchange, arrival, len);
                None
            }
        }
    }

    /// Whether the packet is as it was sent. If not, it is counted, and must be dropped.
    #[cold]
    pub(super) fn is_intact(&self, packet: &[u8]) -> bool {
        let is_intact = checksum::is_right(packet);
        if !is_intact {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        is_intact
    }

    /// Bytes of the packets, `segment` bytes apart, before the first one that has no checksum or a wrong one.
    #[cold]
    pub(super) fn intact_len(&self, packets: &[u8], segment: usize) -> usize {
        let is_expected = |packet: &&[u8]| checksum::is_expected(packet);
        let intact = packets.chunks(segment).take_while(is_expected).take_while(|it| self.is_intact(it));
        intact.map(<[u8]>::len).sum()
    }

    /// Does what a packet leads to that brings no call.
    #[inline(never)]
    fn take_no_call(
        &self,
        worker: &mut WorkerState<S>,
        exchange: MutexGuard<'_, Server<S::Peer>>,
        arrival: Arrival<S::Peer>,
        len: usize,
    ) {
        match arrival {
            Arrival::Run(_) => unreachable!("that is a call"),
            Arrival::Reply => {
                // It may be the first binding, which may never be used: its timeout is noted.
                self.note_and_rouse(exchange);
                self.send(&worker.reply, self.link.peer(&worker.link));
            }
            Arrival::Cancelled(binding, lane, number) => {
                cancel_procedure(binding, lane, number);
                drop(exchange);
                self.send(&worker.reply, self.link.peer(&worker.link));
            }
            Arrival::Transmit | Arrival::Nothing => self.attend_later(worker, exchange, len),
        }
    }
}

/// Tells a running procedure that its call was cancelled. Under the exchange's lock, so that the call cannot end meanwhile.
#[cold]
pub(super) fn cancel_procedure(binding: BindingId, lane: LaneId, number: CallNumber) {
    cancelled::cancel(CallId::new(binding, lane, number));
}
