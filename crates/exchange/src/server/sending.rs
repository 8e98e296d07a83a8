//! Sends results of many packets, and the other packets that do not answer the packet that has just arrived.

use super::agenda::{Agenda, LaneKey};
use super::assignment::Assignment;
use super::large::Sending;
use super::pipe_state::WAITS;
use super::replies::acknowledgement;
use super::retained::Retention;
use super::{Effect, Next, PacketRoom, Peer, Server};
use crate::bulk::is_newer;
use crate::bulk::{Outgoing, Path, Run};
use crate::caller::Framing;
use crate::{Instant, RoundTrip};
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{
    BindingId, FailureCode, HEADER_LEN, Header, Kind, PipeReceipt, Receipt, ReceiptBehind, Template,
};

/// Packets to send to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission<P> {
    /// Where they go.
    pub peer: P,
    /// Length of each packet but the last, which may be shorter.
    pub segment: usize,
}

impl<P: Peer> Server<P> {
    /// The rest of [`finish`](Self::finish), for an answer that is large, or whose packet is.
    #[cold]
    #[inline(never)]
    pub(super) fn finish_large(&mut self, now: Instant, mut assignment: Assignment<P>) -> Next<P> {
        let binding = self.bindings.get_mut(assignment.binding).expect("the caller has looked it up");
        let place = (assignment.binding, assignment.lane);
        let lane = binding.lanes.get_mut(assignment.lane).expect("the caller has looked it up");
        let room = lane.retention != Retention::Nothing
            && self.shares.take_retained(&mut binding.share, assignment.large_bytes());
        if assignment.is_large() && (!room || lane.is_cancelled()) {
            assignment.fail(FailureCode::ResultGone, "");
            self.counters.dropped += u64::from(!room);
            self.agenda.enqueue(lane.large.get_or_insert_default(), place);
        }
        if !room {
            assignment.shorten();
        }
        let is_large = assignment.is_large();
        let tells_length = assignment.tells_pipe_length();
        let has_pipes = assignment.take_pipes();
        if lane.retention == Retention::Nothing {
            self.counters.dropped += 1;
            self.recycled.keep(lane.end_without_packet(assignment));
        } else {
            lane.retention = Retention::Packet;
            lane.end(assignment);
        }
        let parked = lane.parked.take();
        if has_pipes {
            self.answer_pipes(place, tells_length);
        }
        if is_large {
            self.begin_sending(place);
        }
        self.watch(now);
        match parked {
            None => Next::Nothing,
            Some(parked) => self.start_parked(now, *parked),
        }
    }

    /// Begins to send a lane's retained answer, or resumes it. Nothing changes if it is being sent.
    fn begin_sending(&mut self, place: LaneKey) {
        let Some(binding) = self.bindings.get_mut(place.0) else { return };
        let Some(lane) = binding.lanes.get_mut(place.1) else { return };
        let Some(answer) = lane.retained().filter(|answer| answer.len() > HEADER_LEN + place.0.packet_data())
        else {
            return;
        };
        let len = (answer.len() - HEADER_LEN) as u32;
        let large = lane.large.get_or_insert_default();
        if let (Some(sending), Some(path)) = (&mut large.sending, &mut binding.path) {
            if core::mem::take(&mut sending.paused) {
                sending.outgoing.ask_again(path);
                self.agenda.enqueue(large, place);
            }
            return;
        }
        let largest = binding.longest.max(place.0.packet_data() as u32);
        let new = || Box::new(Path::of(place.0, largest, RoundTrip::default(), place.0.0));
        let path = binding.path.get_or_insert_with(new);
        path.set_largest(largest);
        let outgoing = Outgoing::new(len, binding.window);
        large.sending = Some(Box::new(Sending { outgoing, taken: 0, paused: false }));
        self.agenda.enqueue(large, place);
    }

    /// Puts the next datagrams for one peer into `room`, at most `most` bytes. To be called until it returns `None`. If the packets
    /// of the binding have trailers, each packet has space for one behind it.
    pub fn next_transmission(
        &mut self,
        now: Instant,
        most: usize,
        room: &mut impl PacketRoom,
    ) -> Option<Transmission<P>> {
        while let Some((binding, lane)) = self.agenda.receipts.pop() {
            let mut packet = core::mem::take(&mut self.packet);
            let peer = match self.pipe_receipt(now, (binding, lane), &mut packet) {
                Some(peer) => {
                    // The lane may owe one for a message, too.
                    self.agenda.receipts.push((binding, lane));
                    Some(peer)
                }
                None => self.receipt(now, binding, lane, &mut packet),
            };
            let transmission = peer.map(|peer| single(peer, binding, &packet, room));
            self.packet = packet;
            if transmission.is_some() {
                return transmission;
            }
        }
        if let Some((peer, segment)) = self.unasked.next_packets(room) {
            return Some(Transmission { peer, segment });
        }
        while let Some(place) = self.agenda.questions.pop() {
            if let Some(transmission) = self.answer_question(place, room) {
                return Some(transmission);
            }
        }
        while let Some(place) = self.agenda.ready.pop_front() {
            if let Some(transmission) = self.transmission_of(now, place, most, room) {
                return Some(transmission);
            }
        }
        None
    }

    /// Whether [`next_transmission`](Self::next_transmission) may have something to send, except what
    /// [`handle_timeout`](Self::handle_timeout) has just added: the driver sends that behind it in any case.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        let Agenda { ready, receipts, questions, .. } = &self.agenda;
        !(ready.is_empty() && receipts.is_empty() && questions.is_empty())
    }

    /// Queues the receipts that are due once nothing more has arrived. Returns whether there is anything to send.
    #[inline]
    pub fn drained(&mut self) -> bool {
        if !self.agenda.owing.is_empty() {
            self.queue_receipts();
        }
        self.may_transmit()
    }

    #[cold]
    fn queue_receipts(&mut self) {
        while let Some((binding, lane)) = self.agenda.owing.pop() {
            let state = self.bindings.get_mut(binding).and_then(|binding| binding.lanes.get_mut(lane));
            let Some(large) = state.and_then(|lane| lane.large.as_mut()) else { continue };
            large.owes = false;
            let owes_for_pipe = large.pipes.as_ref().is_some_and(|pipes| pipes.owes_receipt(true));
            if large.incomplete.is_none() && !owes_for_pipe {
                continue;
            }
            self.agenda.receipts.push((binding, lane));
        }
    }

    fn transmission_of(
        &mut self,
        now: Instant,
        place: LaneKey,
        most: usize,
        room: &mut impl PacketRoom,
    ) -> Option<Transmission<P>> {
        let binding = self.bindings.get_mut(place.0)?;
        let lane = binding.lanes.get_mut(place.1)?;
        let large = lane.large.as_mut()?;
        large.queued = false;
        if large.pipes.is_some()
            && let Some(transmission) = self.pipe_transmission(now, place, most, room)
        {
            return Some(transmission);
        }
        let binding = self.bindings.get_mut(place.0)?;
        let lane = binding.lanes.get_mut(place.1)?;
        let (peer, answer) = lane.retained_for()?;
        let framing = framing(answer, place)?;
        // Split borrow: the answer is stored beside the state of its sending.
        let large = lane.large.as_mut()?;
        let outgoing = match large.sending.as_deref_mut() {
            Some(Sending { paused: true, .. }) => return None,
            Some(Sending { outgoing, .. }) => outgoing,
            None => return self.send_whole(place, room),
        };
        let path = binding.path.as_mut()?;
        let run = outgoing.next_run(now, path, most);
        let timer = outgoing.next_timeout(path);
        self.agenda.set_timer(&mut large.timer, timer, place);
        let Some(run) = run else {
            if outgoing.has_more() {
                // The window has no space, for any lane of the binding: the others are tried before this one.
                if !core::mem::replace(&mut large.waits, true) {
                    binding.waiting.get_or_insert_default().push_back(place.1);
                }
            } else {
                // This lane needs no more space in the window: another lane is tried.
                self.enqueue_waiting(place.0, 1);
            }
            return None;
        };
        self.agenda.enqueue(large, place);
        let segment = path.packet_len(run.fragment);
        let (_, answer) = lane.retained_for()?;
        frame(&framing, &run, answer, segment, room);
        Some(Transmission { peer, segment })
    }

    /// Acknowledges the question: the answer is being sent.
    fn answer_question(
        &mut self,
        (id, lane): LaneKey,
        room: &mut impl PacketRoom,
    ) -> Option<Transmission<P>> {
        let state = self.bindings.get_mut(id)?.lanes.get_mut(lane)?;
        state.large.as_mut()?.asks = false;
        let (peer, _) = state.retained_for()?;
        let packet = Header::bare(Kind::Acknowledgement, id, lane, state.number).to_bytes();
        Some(single(peer, id, &packet, room))
    }

    /// Sends an answer of one packet in place of one of many.
    #[cold]
    fn send_whole(&mut self, (id, lane): LaneKey, room: &mut impl PacketRoom) -> Option<Transmission<P>> {
        let lane = self.bindings.get_mut(id)?.lanes.get_mut(lane)?;
        let most = HEADER_LEN + id.packet_data();
        let (peer, answer) = lane.retained_for().filter(|(_, answer)| answer.len() <= most)?;
        Some(single(peer, id, answer, room))
    }

    /// Handles a receipt: a caller reports which parts of a result it has.
    #[cold]
    #[inline(never)]
    pub(super) fn on_receipt(&mut self, now: Instant, peer: P, header: &Header, payload: &[u8]) -> Effect<P> {
        let binding =
            self.bindings.get_mut(header.binding).expect("packets without a binding are answered before");
        let Some(receipt) = Receipt::decode(payload) else {
            self.counters.malformed += 1;
            return Effect::Nothing;
        };
        if let Some(of_pipe) = PipeReceipt::of(header) {
            let receipt = ReceiptBehind { number: header.time, of_pipe, receipt };
            return self.on_pipe_receipt(now, peer, header, &receipt);
        }
        let lane = binding.lanes.get_mut(header.lane);
        if lane.is_none_or(|lane| lane.number != header.number) {
            self.counters.stale += 1;
            return Effect::Nothing;
        }
        // The server may have stopped sending, because the caller was silent for long.
        self.begin_sending((header.binding, header.lane));
        let Some(binding) = self.bindings.get_mut(header.binding) else { return Effect::Nothing };
        let Some(lane) = binding.lanes.get_mut(header.lane) else { return Effect::Nothing };
        lane.redirect(peer);
        let Some(large) = &mut lane.large else { return Effect::Nothing };
        let (Some(Sending { outgoing, taken, .. }), Some(path)) =
            (large.sending.as_deref_mut(), &mut binding.path)
        else {
            return Effect::Nothing;
        };
        if !is_newer(header.time, *taken) {
            self.counters.stale += 1;
            return Effect::Nothing;
        }
        *taken = header.time;
        if outgoing.on_receipt(now, &receipt, path) {
            self.progress += 1;
        } else {
            // The receipt reports nothing new, so it asks whether the server is alive.
            if !core::mem::replace(&mut large.asks, true) {
                self.agenda.questions.push((header.binding, header.lane));
            }
        }
        if outgoing.is_acknowledged() {
            large.end_sending(&mut binding.path);
            let refused = lane.deliver();
            debug_assert!(refused.is_none(), "refusals are not large");
            self.enqueue_senders(header.binding);
        } else {
            self.enqueue_senders(header.binding);
            // After the lanes that have waited.
            self.enqueue_sender((header.binding, header.lane));
        }
        if self.may_transmit() { Effect::Transmit } else { Effect::Nothing }
    }

    /// The path to a caller may have space again: tries the lanes that have waited longest, as many as there is space
    /// for packets. A lane that has nothing more to send lets another try, and a lane that finds no space waits again.
    /// Therefore the work is proportional to what is sent, however many lanes wait.
    pub(super) fn enqueue_senders(&mut self, id: BindingId) {
        let room =
            self.bindings.get_mut(id).and_then(|binding| binding.path.as_ref()).map(|path| path.room());
        if let Some(packets) = room {
            self.enqueue_waiting(id, packets.max(1));
        }
    }

    /// Lets a lane try, if it is sending an answer.
    pub(super) fn enqueue_sender(&mut self, place: LaneKey) {
        let lane = self.bindings.get_mut(place.0).and_then(|binding| binding.lanes.get_mut(place.1));
        let Some(large) = lane.and_then(|lane| lane.large.as_mut()) else { return };
        if large.is_sending() {
            self.agenda.enqueue(large, place);
        }
    }

    /// Lets up to `most` of the lanes that wait for space try.
    pub(super) fn enqueue_waiting(&mut self, id: BindingId, most: usize) {
        let Some(binding) = self.bindings.get_mut(id) else { return };
        let mut tried = 0;
        while tried < most
            && let Some(lane) = binding.waiting.as_mut().and_then(|waiting| waiting.pop_front())
        {
            let Some(large) = binding.lanes.get_mut(lane).and_then(|state| state.large.as_mut()) else {
                continue;
            };
            large.waits = false;
            if large.is_sending() {
                self.agenda.enqueue(large, (id, lane));
                tried += 1;
            }
        }
    }

    /// Answers a question about a call whose answer is being sent.
    pub(super) fn resend_large(&mut self, peer: P, header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
        let lane = self.bindings.get_mut(header.binding).and_then(|it| it.lanes.get_mut(header.lane));
        if let Some(lane) = lane {
            lane.redirect(peer);
        }
        // The answer has its own timers. The acknowledgement keeps the caller from sending its call again.
        self.begin_sending((header.binding, header.lane));
        self.enqueue_sender((header.binding, header.lane));
        acknowledgement(header, reply)
    }

    /// Handles the lanes whose timers have expired.
    pub(super) fn handle_timers(&mut self, now: Instant) {
        while let Some(&(at, id, lane_id)) = self.agenda.timers.first().filter(|(at, ..)| *at <= now) {
            self.agenda.timers.pop_first();
            let place = (id, lane_id);
            let binding = self.bindings.get_mut(id);
            let Some(binding) = binding else { continue };
            let Some(lane) = binding.lanes.get_mut(lane_id) else { continue };
            let expired = lane.retained_deadline().is_some_and(|deadline| deadline < now);
            let Some(large) = lane.large.as_mut().filter(|large| large.timer == at) else { continue };
            large.timer = Instant::NEVER;
            let mut next = Instant::NEVER;
            if let (Some(pipes), Some(path)) = (&mut large.pipes, &mut binding.path) {
                pipes.on_timeout(now, path);
                if let Some(due) = pipes.look(now) {
                    self.agenda.due_pipes.push(((id, lane_id, pipes.number), due));
                }
                next = pipes.next_timeout(path);
                if pipes.owes_receipt(false) {
                    self.agenda.receipts.push(place);
                }
                if pipes.is_sending() {
                    self.agenda.enqueue(large, place);
                }
            }
            if expired {
                large.end_sending(&mut binding.path);
                large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
            } else if let (Some(sending), Some(path)) = (&mut large.sending, &mut binding.path) {
                if now >= sending.outgoing.next_timeout(path) {
                    sending.outgoing.on_timeout(now, path);
                }
                if sending.outgoing.waits() >= WAITS {
                    // The caller is gone, or it has the whole answer and its last receipt was lost. Other answers use
                    // the path. Any packet about this call resumes it.
                    sending.outgoing.pause(path);
                    sending.paused = true;
                } else {
                    next = next.min(sending.outgoing.next_timeout(path));
                    self.agenda.enqueue(large, place);
                }
            }
            if expired || next == Instant::NEVER {
                self.enqueue_senders(id);
            }
            if let Some(until) = self.abandon_incomplete(now, place) {
                next = next.min(until);
            }
            let lane = self.bindings.get_mut(id).and_then(|binding| binding.lanes.get_mut(lane_id));
            let Some(lane) = lane else { continue };
            match &mut lane.large {
                // Not at `now`: what was due then has been done.
                Some(large) if next != Instant::NEVER => {
                    self.agenda.set_timer(&mut large.timer, next.max(now.after_nanos(1)), place);
                }
                _ => lane.drop_unused_large(),
            }
        }
    }
}

/// The transmission of one packet.
fn single<P>(peer: P, binding: BindingId, packet: &[u8], room: &mut impl PacketRoom) -> Transmission<P> {
    let segment = packet.len() + binding.trailer_len();
    room.put(segment, segment, |place| place[..packet.len()].copy_from_slice(packet));
    Transmission { peer, segment }
}

/// The header fields that all packets of an answer share.
fn framing(answer: &[u8], (binding, lane): LaneKey) -> Option<Framing> {
    let header = Header::from_bytes(answer.first_chunk()?).ok()?;
    Some(Framing {
        template: Template::new(Kind::Result, binding, lane),
        procedure: header.procedure,
        number: header.number,
        message_len: header.message_len,
        time: header.time,
        flags: 0,
    })
}

/// Writes the packets of a run, each of `segment` bytes with the space for its trailer.
fn frame(framing: &Framing, run: &Run, answer: &[u8], segment: usize, room: &mut impl PacketRoom) {
    let from = HEADER_LEN + run.offset as usize;
    let mut parts = answer[from..from + run.len as usize].chunks(run.fragment as usize);
    let len = run.len as usize + parts.len() * (segment - run.fragment as usize);
    let (mut offset, mut transmission) = (run.offset, run.transmission);
    room.put(len, segment, |packet| {
        let part = parts.next().expect("a packet for each part");
        let (header, payload) = packet.split_first_chunk_mut().expect("a packet has a header");
        framing.stamp(header, (offset, part.len() as u32), transmission);
        payload[..part.len()].copy_from_slice(part);
        offset += part.len() as u32;
        transmission = transmission.wrapping_add(1);
    });
}
