//! Packets that have arrived: the exchange says what each of them leads to.

use crate::context::cancelled::{self, CallId};
use crate::context::keeper;
use crate::pipes::helper;
use crate::serving::terms::earliest_arrival;
use crate::transport::packet::link::{Segments, ServerEndpoint, UNKNOWN_AGE};
use crate::transport::packet::protection::{self, Opened};
use crate::transport::packet::server::answers::Answers;
use crate::transport::packet::server::call::{CallPacket, PacketCall};
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::worker::WorkerState;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use stoop_exchange::Instant;
use stoop_exchange::server::{CallKey, Effect, Server};
use stoop_net::{memory, prefetch};
use stoop_wire::{BindingId, CallNumber, LaneId, flags};
#[cfg(feature = "seal")]
use stoop_wire::{Bundle, HEADER_LEN};

/// Packets of one peer that came together, as far as they have not been taken.
struct Arrived<'a> {
    packets: &'a mut [u8],
    segment: usize,
    /// Bytes taken.
    start: usize,
    /// Up to here packets with trailers have been opened.
    opened: usize,
    /// Parts of a long call may come next.
    parts: bool,
    /// They came in a bundle, whose packets begin here in the memory of what was received.
    bundle: Option<usize>,
    /// Calls for whose pipes something has come.
    piped: Vec<CallKey>,
}

impl Arrived<'_> {
    fn rest(&self) -> &[u8] {
        &self.packets[self.start..]
    }

    /// Bytes of the next packet.
    fn next_len(&self) -> usize {
        self.segment.min(self.packets.len() - self.start)
    }
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Takes the packet of `len` bytes that the worker has received by itself. Returns the call that it brings.
    #[inline(always)]
    pub(super) fn take(&self, worker: &mut WorkerState<S>, len: usize) -> Option<PacketCall<S::Peer>> {
        let packet = &mut worker.buffers.one[..];
        let has_trailer = protection::says_so(packet.first_chunk().expect("the buffer is longer"));
        if has_trailer && !self.opens(&mut packet[..len]) {
            return None;
        }
        #[cfg(feature = "seal")]
        if has_trailer && Bundle::is_one(packet) {
            return self.take_bundle_alone(worker, len);
        }
        let mut exchange = self.exchange();
        let (now, peer) = (self.arrived(worker), self.link.peer(&worker.link));
        match exchange.handle_packet(now, peer, &worker.buffers.one[..len], &mut worker.reply) {
            Effect::Run(assignment) => {
                drop(exchange);
                let call = PacketCall { assignment, packet: CallPacket::AT_WORKER };
                #[cfg(feature = "seal")]
                if self.is_of_handshake(&call) {
                    self.hand_over(worker, call);
                    return None;
                }
                Some(call)
            }
            arrival => {
                self.take_no_call(worker, exchange, arrival, len);
                None
            }
        }
    }

    /// When the packets came that this worker has received last: the time that a call has left counts from then.
    #[inline(always)]
    fn arrived(&self, worker: &WorkerState<S>) -> Instant {
        match self.link.age_ns(&worker.link) {
            0 => Instant::from_nanos(worker.clock_ns),
            age_ns => self.arrived_before(worker, age_ns),
        }
    }

    /// When packets came that had waited for so long; or, if that is not known, when there were none for the last time.
    #[cold]
    fn arrived_before(&self, worker: &WorkerState<S>, age_ns: u64) -> Instant {
        Instant::from_nanos(match age_ns {
            UNKNOWN_AGE => earliest_arrival(worker.clock_ns, self.drained_ns.load(Ordering::Relaxed)),
            age_ns => worker.clock_ns.saturating_sub(age_ns),
        })
    }

    /// Opens a packet. If it does not open, it is counted, and must be dropped.
    #[inline(never)]
    fn opens(&self, packet: &mut [u8]) -> bool {
        let opens = match self.protection.try_open(packet) {
            Opened::Yes => true,
            Opened::No => false,
            Opened::Unknown => is_for_nobody(&mut self.exchange(), packet),
        };
        if !opens {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        opens
    }

    /// Opens packets that came together `segment` bytes apart, as long as they have trailers and open. Returns their length.
    #[cold]
    fn open_some(&self, exchange: &mut Server<S::Peer>, packets: &mut [u8], segment: usize) -> usize {
        let mut opened = 0;
        for packet in packets.chunks_mut(segment).take_while(|packet| protection::is_expected(packet)) {
            match self.protection.try_open(packet) {
                Opened::Yes => {}
                Opened::Unknown if is_for_nobody(exchange, packet) => {}
                Opened::No | Opened::Unknown => break,
            }
            opened += packet.len();
        }
        opened
    }

    /// Carries out the step for a packet that brings no call.
    #[inline(never)]
    fn take_no_call(
        &self,
        worker: &mut WorkerState<S>,
        exchange: MutexGuard<'_, Server<S::Peer>>,
        effect: Effect<S::Peer>,
        len: usize,
    ) {
        match effect {
            Effect::Run(_) => unreachable!("that is a call"),
            Effect::Nothing if len == 0 => {
                drop(exchange);
                // The background thread has asked for it, or a peer has: then the process has not grown, and this takes no time.
                memory::give_back_end_of_arena();
            }
            Effect::Reply => {
                // It may be the first binding, which may never be used: its timeout is noted.
                self.note_and_wake(exchange);
                self.send(&worker.reply, self.link.peer(&worker.link));
            }
            Effect::Cancelled(binding, lane, number) => {
                self.cancel_procedure(binding, lane, number);
                drop(exchange);
                self.send(&worker.reply, self.link.peer(&worker.link));
            }
            Effect::Unbound(binding) => {
                keeper::end_binding(binding);
                #[cfg(feature = "seal")]
                self.forget_handshake(binding);
                self.attend_later(worker, exchange, len);
            }
            Effect::Pipe(call, _) => {
                worker.has_part = true;
                let mut exchange = exchange;
                let wakeups = self.look_at_pipes(&mut exchange, &[call]);
                self.attend_later(worker, exchange, len);
                wakeups.into_iter().for_each(helper::wake_unlocked);
            }
            Effect::Transmit | Effect::Nothing => self.attend_later(worker, exchange, len),
        }
    }

    /// Takes packets that came together. Returns the first call that they bring; the others wait in the batch.
    #[inline(never)]
    pub(super) fn take_many(
        &self,
        worker: &mut WorkerState<S>,
        segments: Segments,
        patient: bool,
    ) -> Option<PacketCall<S::Peer>> {
        if patient && self.link.note_calls(&mut worker.link, segments.count() as u32, None) {
            self.background.wake_if_asleep();
        }
        self.take_received(worker, segments, 0)
    }

    /// The same, of which the first `opened` bytes have been opened.
    fn take_received(
        &self,
        worker: &mut WorkerState<S>,
        segments: Segments,
        opened: usize,
    ) -> Option<PacketCall<S::Peer>> {
        let mut packets = worker.buffers.take_received();
        let memory = Arc::get_mut(&mut packets).expect("no call has them yet");
        let segment = segments.segment.max(1);
        let mut arrived = Arrived {
            packets: &mut memory[..segments.len],
            segment,
            start: 0,
            opened,
            parts: false,
            bundle: None,
            piped: Vec::new(),
        };
        let (mut replies, mut attention) = (Answers::default(), false);
        let mut exchange = self.exchange();
        while !arrived.rest().is_empty() {
            attention |= self.take_next(worker, &mut exchange, &mut arrived, &mut replies);
        }
        let wakeups = match &arrived.piped[..] {
            [] => Vec::new(),
            piped => {
                worker.has_part = true;
                self.look_at_pipes(&mut exchange, piped)
            }
        };
        match attention {
            true => self.attend_later(worker, exchange, 0),
            false => self.note_and_wake(exchange),
        }
        wakeups.into_iter().for_each(helper::wake_unlocked);
        for (peer, packets, segment) in replies.groups() {
            self.link.send_many(&worker.link, packets, segment, peer);
        }
        worker.batch.flushed_ns = worker.clock_ns;
        worker.buffers.put_back(&packets);
        #[cfg(feature = "seal")]
        self.hand_over_some(worker, &packets);
        self.share(worker, packets)
    }

    /// Takes the next of packets that came together, and those behind it as far as they are alike. Returns whether it was no call and no
    /// question.
    #[inline]
    fn take_next(
        &self,
        worker: &mut WorkerState<S>,
        exchange: &mut Server<S::Peer>,
        arrived: &mut Arrived<'_>,
        replies: &mut Answers<S::Peer>,
    ) -> bool {
        let peer = self.link.peer(&worker.link);
        let (now, start, segment) = (self.arrived(worker), arrived.start, arrived.segment);
        let mut end = arrived.packets.len();
        if protection::is_expected(arrived.rest()) {
            if start >= arrived.opened {
                arrived.opened = start + self.open_some(exchange, &mut arrived.packets[start..], segment);
            }
            if start >= arrived.opened {
                self.corrupt.fetch_add(1, Ordering::Relaxed);
                arrived.start += arrived.next_len();
                return false;
            }
            #[cfg(feature = "seal")]
            if arrived.bundle.is_none()
                && let Some(bundle) = Bundle::of(arrived.rest())
            {
                return self.take_bundle(worker, exchange, arrived, bundle, replies);
            }
            end = arrived.opened;
        }
        let ready = &arrived.packets[start..end];
        if mem::take(&mut arrived.parts) {
            let of_pipe = arrived.piped.last();
            let taken =
                of_pipe.map_or(0, |call| exchange.take_pipe_parts(now, *peer, *call, (ready, segment)));
            arrived.start += match taken {
                0 => exchange.take_parts(now, *peer, ready, segment, prefetch),
                taken => taken,
            };
            return false;
        }
        let calls = &mut worker.batch.calls;
        let bundle = arrived.bundle;
        let mut run = |assignment, at| {
            let packet = call_packet(bundle, start + at);
            calls.push_back(PacketCall { assignment, packet });
        };
        let taken = exchange.take_calls(now, peer, ready, segment, &mut run);
        if taken > 0 {
            arrived.start += taken;
            return false;
        }
        arrived.start += arrived.next_len();
        let packet = &arrived.packets[start..arrived.start];
        match exchange.handle_packet(now, peer, packet, &mut worker.reply) {
            Effect::Run(assignment) => run(assignment, 0),
            Effect::Reply => replies.push(peer, &worker.reply, &self.protection),
            Effect::Cancelled(binding, lane, number) => {
                self.cancel_procedure(binding, lane, number);
                replies.push(peer, &worker.reply, &self.protection);
            }
            Effect::Unbound(binding) => {
                keeper::end_binding(binding);
                #[cfg(feature = "seal")]
                self.forget_handshake(binding);
                return true;
            }
            Effect::Pipe(call, _) => {
                arrived.piped.retain(|known| *known != call);
                arrived.piped.push(call);
                arrived.parts = true;
                return true;
            }
            Effect::Transmit | Effect::Nothing => {
                arrived.parts = true;
                return true;
            }
        }
        false
    }

    /// Takes the packets of a bundle, which is the next of packets that came together. Returns whether one of them was no call and no
    /// question.
    #[cfg(feature = "seal")]
    fn take_bundle(
        &self,
        worker: &mut WorkerState<S>,
        exchange: &mut Server<S::Peer>,
        arrived: &mut Arrived<'_>,
        Bundle { apart, len }: Bundle,
        replies: &mut Answers<S::Peer>,
    ) -> bool {
        let begin = arrived.start + HEADER_LEN;
        arrived.start += arrived.next_len();
        let (packets, piped) = (&mut arrived.packets[begin..begin + len], mem::take(&mut arrived.piped));
        let bundle = Some(begin);
        let mut inner =
            Arrived { packets, segment: apart, start: 0, opened: len, parts: false, bundle, piped };
        let mut attention = false;
        while !inner.rest().is_empty() {
            attention |= self.take_next(worker, exchange, &mut inner, replies);
        }
        arrived.piped = inner.piped;
        attention
    }

    /// Takes the packets of a bundle of `len` bytes that the worker has received by itself and opened. Returns the first call that they
    /// bring.
    #[cfg(feature = "seal")]
    #[inline(never)]
    fn take_bundle_alone(&self, worker: &mut WorkerState<S>, len: usize) -> Option<PacketCall<S::Peer>> {
        worker.buffers.move_to_many(len)?;
        self.take_received(worker, Segments { len, segment: len }, len)
    }

    /// Tells the procedure, or the queue in which the call waits, that its call was cancelled. Under the exchange's lock, so that the call
    /// cannot end meanwhile.
    #[cold]
    pub(super) fn cancel_procedure(&self, binding: BindingId, lane: LaneId, number: CallNumber) {
        cancelled::cancel(CallId::new(binding, lane, number));
        self.background.wake_if_asleep();
    }
}

/// Where the packet of a call is that came together with others, at that byte of these, perhaps in a bundle.
#[inline(always)]
fn call_packet(bundle: Option<usize>, at: usize) -> CallPacket {
    match bundle {
        #[cfg(feature = "seal")]
        Some(begin) => CallPacket::in_batch(begin + at).bundled(),
        _ => CallPacket::in_batch(at),
    }
}

/// Whether a packet for whose binding there are no keys is of a binding that the exchange does not know either, and tells its sender so.
#[cold]
fn is_for_nobody<P: stoop_exchange::server::Peer>(exchange: &mut Server<P>, packet: &mut [u8]) -> bool {
    // A bundle is answered as the first of its calls.
    packet[3] &= !flags::BUNDLE;
    packet.first_chunk().is_some_and(|header| !exchange.is_bound(BindingId::of_header(header)))
}
