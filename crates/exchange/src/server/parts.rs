//! Reassembly of calls of many packets, and of runs of data.

use super::assignment::arguments_at;
use super::lane::{Age, Answer};
use super::large::{IncompleteCall, Large};
use super::memory::Spare;
use super::parked::Parked;
use super::pipe_state::{CallKey, Pipes};
use super::replies::{refusal, waiting};
use super::{Effect, Peer, Server};
use crate::Instant;
use crate::bulk::Taken;
use crate::bulk::put_receipt;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId, Receipt, RefusalCode, nanos_of_left};

/// A host gets memory for a whole call at once while it holds at most one part in so many of all.
const LITTLE: usize = 16;
/// Else the memory of a call is at first one part in so many of all, but at least the minimum.
const FIRST_STEP: usize = 1024;
const FIRST_STEP_MIN: usize = 16 * 1024;
/// After that it is at most so many times as long as what has arrived of the call. A step copies what has arrived.
const GROWTH: usize = 32;

impl<P: Peer> Server<P> {
    /// Handles a datagram with parts of a call, nearly always one.
    #[cold]
    #[inline(never)]
    pub(super) fn on_parts(
        &mut self,
        now: Instant,
        peer: P,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let mut outcome = Effect::Nothing;
        for packet in Header::parts_in(datagram) {
            let Ok((header, payload)) = Header::parse(packet) else { break };
            match self.on_part(now, peer, (packet[3], &header), payload, reply) {
                Effect::Nothing => {}
                run @ Effect::Run(_) => return run,
                // Among several answers, the last one has the most information.
                other => outcome = other,
            }
        }
        self.watch(now);
        outcome
    }

    /// Handles a part of a call, or a whole call that is longer than one packet's data.
    #[inline]
    fn on_part(
        &mut self,
        now: Instant,
        peer: P,
        (flags, header): (u8, &Header),
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        if let Some(answered) = self.check_binding(now, peer, header, reply) {
            return answered;
        }
        let binding =
            self.bindings.get_mut(header.binding).expect("packets without a binding are answered before");
        if header.message_len > self.limits.max_message {
            self.counters.refused_too_long += 1;
            return refusal(header, RefusalCode::MessageTooLarge, reply);
        }
        let Some(lane) = binding.lanes.get_or_make(header.lane, self.limits.lanes, |lanes| {
            self.shares.take_lanes(&mut binding.share, lanes)
        }) else {
            return self.no_such_lane(header, reply);
        };
        binding.longest = binding.longest.max(payload.len() as u32);
        match lane.on_call(Age::of(header.number, lane.number)) {
            Answer::Start | Answer::Park => {}
            answer => {
                self.counters.duplicates += 1;
                return self.repeat(peer, answer, header, reply);
            }
        }
        if let Some(parked) = lane.parked.as_ref().filter(|parked| !header.number.is_after(parked.number)) {
            self.counters.duplicates += 1;
            return match parked.number == header.number {
                true => waiting(parked.refused, header, reply),
                false => Effect::Nothing,
            };
        }
        match lane.large.as_ref().and_then(|large| large.incomplete.as_ref()) {
            Some(call) if call.number == header.number => {}
            Some(call) if call.number.is_after(header.number) => {
                self.counters.stale += 1;
                return Effect::Nothing;
            }
            Some(_) | None => {
                if !self.begin_message(now, peer, header) {
                    self.counters.waited += 1;
                    return no_room(header, reply);
                }
            }
        }
        self.take_part(now, peer, (flags, header), payload, reply)
    }

    /// Takes memory for a call whose first part has arrived, in place of an older call. Returns whether there was
    /// memory.
    fn begin_message(&mut self, now: Instant, peer: P, header: &Header) -> bool {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        let older = lane.large.as_mut().and_then(|large| large.incomplete.take());
        // Only the part at offset 0 tells the procedure. If it comes later, `complete` moves the arguments.
        let procedure = (header.offset == 0).then_some(header.procedure);
        let in_place = procedure.and_then(|procedure| self.interfaces.in_place(binding.interface, procedure));
        let start = arguments_at(in_place);
        self.give_message_back(header, older.map(|call| call.message));
        let needed = start + header.message_len as usize;
        let Some(message) = self.memory_for(header.binding, needed, 0) else { return false };
        let lane = self.bindings.lane_mut(header);
        let large = lane.large.get_or_insert_default();
        large.incomplete = Some(Box::new(IncompleteCall::new(now, peer, header, (message, start))));
        let until = now + self.limits.patience;
        self.agenda.set_timer(&mut large.timer, until, (header.binding, header.lane));
        true
    }

    /// Memory for a call of `needed` bytes on that binding, of which `arrived` have arrived: for all of it while the
    /// binding's host holds little, else for some times as much as has arrived. A host that announces much and sends
    /// little so holds little.
    fn memory_for(&mut self, binding: BindingId, needed: usize, arrived: usize) -> Option<Vec<u8>> {
        let share = &mut self.bindings.get_mut(binding)?.share;
        let pool = &self.shares.incomplete;
        let held = self.shares.owners.counts(share.owner).incomplete;
        let is_little = held + needed <= pool.total() / LITTLE;
        let step = arrived.saturating_mul(GROWTH).max(pool.total() / FIRST_STEP).max(FIRST_STEP_MIN);
        let len = if is_little { needed } else { needed.min(step) };
        if len == needed
            && let Some(spare) = self.spare.len_for(needed)
            && self.shares.take_incomplete(share, spare)
        {
            return self.spare.take(needed);
        }
        if !self.shares.take_incomplete(share, len) {
            return None;
        }
        let message = crate::zeroed(len).or_else(|| {
            // Memory that the server keeps for later messages has another size: free it, and try again.
            self.spare = Spare::default();
            crate::zeroed(len)
        });
        if message.is_none() {
            self.shares.give_incomplete_back(share, len);
        }
        message
    }

    /// Replaces the memory of the call that is arriving on that lane by more, if it is too short and at least half of it
    /// has arrived. Returns whether it did.
    #[cold]
    fn grow(&mut self, place: (BindingId, LaneId)) -> bool {
        let Some(call) = self.arriving(place) else { return false };
        let (room, needed, arrived) = (call.room(), call.needed(), call.incoming.received() as usize);
        if call.message.len() >= needed || arrived < room / 2 {
            return false;
        }
        let Some(mut longer) = self.memory_for(place.0, needed, arrived) else { return false };
        let Some(call) = self.arriving(place) else { return false };
        let len = call.message.len();
        if longer.len() > len {
            longer[..len].copy_from_slice(&call.message);
            core::mem::swap(&mut call.message, &mut longer);
        }
        // The shorter of the two.
        let header = Header::bare(Kind::Call, place.0, place.1, CallNumber::ZERO);
        self.give_message_back(&header, Some(longer));
        true
    }

    fn arriving(&mut self, (binding, lane): (BindingId, LaneId)) -> Option<&mut IncompleteCall<P>> {
        self.bindings.get_mut(binding)?.lanes.get_mut(lane)?.large.as_mut()?.incomplete.as_deref_mut()
    }

    /// Takes parts of a long call from the beginning of `datagrams`, each datagram `segment` bytes long, as long as
    /// they need no decision: the call has had parts before, they come from its host, each part begins where the one
    /// before it ends, and no part completes the call. Returns how many bytes of `datagrams` these are; the rest is for
    /// [`handle_packet`](Self::handle_packet). `ahead` prefetches memory as in
    /// [`Span::copy_to`](crate::bulk::Span::copy_to).
    pub fn take_parts(
        &mut self,
        now: Instant,
        peer: P,
        datagrams: &[u8],
        segment: usize,
        ahead: impl Fn(&[u8]),
    ) -> usize {
        let Some(Ok((first, _))) = datagrams.get(..segment).map(Header::parse) else { return 0 };
        if first.kind != Kind::Call || first.message_len as usize <= first.binding.packet_data() {
            return 0;
        }
        let Some(binding) = self.bindings.get_mut(first.binding).filter(|it| it.is_from(&peer)) else {
            return 0;
        };
        let large = binding.lanes.get_mut(first.lane).and_then(|lane| lane.large.as_deref_mut());
        let Some(Large { incomplete: Some(call), owes, .. }) = large else { return 0 };
        if !call.has_part(&first) || call.message.len() < call.needed() {
            return 0;
        }
        let Some(span) = call.incoming.take_span(now, datagrams, segment) else { return 0 };
        span.copy_to(&mut call.message[call.start + span.offset..], datagrams, ahead);
        (call.heard, call.peer, binding.heard) = (now, peer, now);
        binding.longest = binding.longest.max(span.payload as u32);
        if call.incoming.receipt_is_urgent() {
            let place = (first.binding, first.lane);
            if self.agenda.receipts.last() != Some(&place) {
                self.agenda.receipts.push(place);
            }
        } else if !*owes && call.incoming.receipt_is_due() {
            *owes = true;
            self.agenda.owing.push((first.binding, first.lane));
        }
        span.datagrams_len()
    }

    /// Handles packets of data of a call that runs from the beginning of `datagrams`, as
    /// [`Receiving::take_parts`](crate::pipe::Receiving::take_parts) does. After some that were
    /// handled by themselves.
    pub fn take_pipe_parts(
        &mut self,
        now: Instant,
        peer: P,
        call: CallKey,
        (datagrams, segment): (&[u8], usize),
    ) -> usize {
        let first = datagrams.get(..segment).and_then(|first| Header::parse(first).ok());
        let Some((header, _)) = first else { return 0 };
        if (header.binding, header.lane, header.number) != call || header.kind != Kind::Data {
            return 0;
        }
        let Some(binding) = self.bindings.get_mut(call.0).filter(|it| it.is_from(&peer)) else { return 0 };
        let lane = binding.lanes.get_mut(call.1).filter(|lane| lane.number == call.2 && lane.is_running());
        let Some(large) = lane.and_then(|lane| lane.large.as_deref_mut()) else { return 0 };
        let Some(Pipes { from: Some(from), heard, .. }) = large.pipes.as_deref_mut() else { return 0 };
        let taken = from.take_parts(now, datagrams, segment);
        if taken > 0 {
            (binding.heard, *heard.get_mut()) = (now, now);
            if from.owes_receipt(false) && self.agenda.receipts.last() != Some(&(call.0, call.1)) {
                self.agenda.receipts.push((call.0, call.1));
            }
        }
        taken
    }

    /// Copies a part to its place in the call.
    #[inline]
    fn take_part(
        &mut self,
        now: Instant,
        peer: P,
        (flags, header): (u8, &Header),
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let end = header.offset as usize + payload.len();
        let place = (header.binding, header.lane);
        if self.arriving(place).is_some_and(|call| end > call.room() && call.has_part(header)) {
            self.grow(place);
        }
        let lane = self.bindings.lane_mut(header);
        let Some(Large { incomplete: Some(call), owes, .. }) = lane.large.as_deref_mut() else {
            return Effect::Nothing;
        };
        let is_other = |procedure| header.offset == 0 && procedure != header.procedure;
        if !call.has_part(header) || call.procedure.is_some_and(is_other) {
            self.counters.malformed += 1;
            return Effect::Nothing;
        }
        if end > call.room() {
            // It was sent before the receipt that says how far the memory reaches.
            self.counters.waited += 1;
            return Effect::Nothing;
        }
        let transmission = (header.offset != 0).then_some(header.time);
        match call.incoming.take(now, header.offset, payload.len() as u32, transmission) {
            Taken::New => {
                let start = call.start + header.offset as usize;
                call.message[start..start + payload.len()].copy_from_slice(payload);
                (call.heard, call.peer) = (now, peer);
                if header.offset == 0 {
                    call.procedure = Some(header.procedure);
                    call.flags = flags;
                    call.deadline = (now, header.time);
                }
            }
            Taken::Duplicate => {}
            Taken::TooScattered => {
                self.counters.dropped += 1;
                return Effect::Nothing;
            }
        }
        if call.incoming.is_complete() {
            return self.complete(now, header, reply);
        }
        if call.incoming.receipt_is_urgent() {
            return self
                .receipt(now, header.binding, header.lane, reply)
                .map_or(Effect::Nothing, |_| Effect::Reply);
        }
        if !*owes && call.incoming.receipt_is_due() {
            *owes = true;
            self.agenda.owing.push((header.binding, header.lane));
        }
        Effect::Nothing
    }

    /// Starts or parks a call that has arrived completely.
    fn complete(&mut self, now: Instant, header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        let call = lane.large.as_mut().and_then(|large| large.incomplete.take());
        let IncompleteCall { peer, mut message, start, procedure, flags, deadline: (arrived, time), .. } =
            *call.expect("the caller has looked it up");
        let procedure = procedure.expect("all of it is here, and so is the part at offset 0");
        let place = arguments_at(self.interfaces.in_place(binding.interface, procedure));
        if place != start {
            message.copy_within(start..start + header.message_len as usize, place);
        }
        let header = Header { offset: 0, procedure, time, ..*header };
        match lane.on_call(Age::of(header.number, lane.number)) {
            Answer::Start => {
                let begun = self.start_message(now, (arrived, peer, message), &header, reply);
                self.open_pipes(now, begun, flags, reply)
            }
            _ => {
                // A parked packet is parsed again later, so its header describes a message without bytes behind it.
                let mut packet: Box<[u8]> = Header { message_len: 0, ..header }.to_bytes().into();
                packet[3] |= flags & !stoop_wire::flags::CRITICAL;
                let parked = Parked {
                    number: header.number,
                    peer,
                    arrived,
                    packet,
                    message: Some(message),
                    message_len: header.message_len,
                    refused: None,
                };
                self.park(&header, parked, reply)
            }
        }
    }

    /// Writes a receipt for the call that is arriving on that lane into `reply`, and returns its caller.
    pub(super) fn receipt(
        &mut self,
        now: Instant,
        binding: BindingId,
        lane: LaneId,
        reply: &mut Vec<u8>,
    ) -> Option<P> {
        let call = self.arriving((binding, lane))?;
        if call.message.len() < call.needed() {
            self.grow((binding, lane));
        }
        let window = self.limits.window;
        let call = self.arriving((binding, lane))?;
        call.receipts = call.receipts.wrapping_add(1);
        let receipt = call.incoming.receipt(now, window.min(call.unfilled()));
        let header = Header::bare(Kind::Receipt, binding, lane, call.number);
        put(&receipt, header, call.receipts, reply);
        Some(call.peer)
    }

    /// Refuses a call that has been arriving for too long. Returns when to look again, if it is still arriving.
    pub(super) fn abandon_incomplete(
        &mut self,
        now: Instant,
        (binding, lane): (BindingId, LaneId),
    ) -> Option<Instant> {
        let patience = self.limits.patience;
        let state = self.bindings.get_mut(binding)?.lanes.get_mut(lane)?;
        let call = state.large.as_ref()?.incomplete.as_ref()?;
        let until = call.heard + patience;
        // Even if parts keep arriving: after the deadline the caller has stopped waiting.
        let (arrived, left) = call.deadline;
        let until =
            until.min(arrived.after_nanos(nanos_of_left(left)).max(call.begun + Duration::from_millis(1)));
        if now < until {
            return Some(until);
        }
        self.refuse_incomplete(now, (binding, lane));
        None
    }

    /// Refuses for good the call that is arriving on that lane, if there is one.
    pub(super) fn refuse_incomplete(&mut self, now: Instant, (binding, lane): (BindingId, LaneId)) {
        let Some(it) = self.bindings.get_mut(binding) else { return };
        let Some(state) = it.lanes.get_mut(lane) else { return };
        let Some(call) = state.large.as_ref().and_then(|large| large.incomplete.as_ref()) else { return };
        self.counters.incomplete += 1;
        let header = Header::bare(Kind::Call, binding, lane, call.number);
        if state.is_running() {
            let peer = call.peer;
            let mut unsent = Vec::new();
            let _: Effect<P> = self.forbid_next(now, peer, &header, RefusalCode::Incomplete, &mut unsent);
        } else {
            self.forbid(&header, RefusalCode::Incomplete);
        }
    }
}

/// There is no memory for the call: the caller is to ask again. The server remembers nothing about it.
fn no_room<P>(header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
    let receipt = Receipt::new(0, 0, 0, 0);
    // Its number is 0, so that every later receipt of the call is newer.
    put(&receipt, Header::bare(Kind::Receipt, header.binding, header.lane, header.number), 0, reply);
    Effect::Reply
}

fn put(receipt: &Receipt, header: Header, number: u32, reply: &mut Vec<u8>) {
    let mut packet = [0; Receipt::MAX_PACKET];
    let len = put_receipt(receipt, header, number, &mut packet);
    reply.clear();
    reply.extend_from_slice(&packet[..len]);
}
