//! Calls that are given out to run, and taken back after they have been answered.

use super::assignment::{Assignment, Terms};
use super::lane::{Age, Answer};
use super::parked::Parked;
use super::replies::waiting;
use super::retained::Retention;
use super::{Effect, Next, Peer, Server};
use crate::Instant;
use crate::shares::Owner;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{HEADER_LEN, Header, RefusalCode};

impl<P: Peer> Server<P> {
    #[inline(always)]
    pub(super) fn on_call(
        &mut self,
        now: Instant,
        peer: &P,
        header: &Header,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let Some(binding) = self.bindings.get_mut(header.binding) else {
            return self.unknown_binding(now, header, reply);
        };
        if !binding.is_from(peer) {
            return self.challenge_caller(now, *peer, header, reply);
        }
        binding.heard = now;
        let terms = binding.terms();
        let Some(lane) = binding.lanes.get_or_make(header.lane, self.limits.lanes, |lanes| {
            self.shares.take_lanes(&mut binding.share, lanes)
        }) else {
            return self.no_such_lane(header, reply);
        };
        match lane.on_call(Age::of(header.number, lane.number)) {
            Answer::Start if lane.large.is_none() => {
                let assignment = match lane.begin(header.number) {
                    Some(retained) => retained,
                    None => self.recycled.take(now, peer, lane, &mut self.shares, &mut binding.share),
                };
                self.give_out(now, now, assignment, peer, header, terms, reply)
            }
            answer => self.on_rare_call(now, *peer, answer, header, packet, reply),
        }
    }

    /// Handles a call with a flag that may be ignored: its caller may ask for credit, or the call has pipes.
    #[cold]
    pub(super) fn on_flagged_call(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let mut arrival = self.on_call(now, &peer, header, packet, reply);
        if let Effect::Run(assignment) = &mut arrival
            && Header::has_credit(packet)
        {
            let owner = self.owner_of(header.binding).unwrap_or_else(|| Owner::host(peer.host()));
            assignment.grant(self.credits.grant(now, header.binding, owner));
            self.unasked.note(now, assignment.identity(), peer);
        }
        self.open_pipes(now, arrival, packet[3], reply)
    }

    /// Handles a one-packet call that cannot begin at once.
    #[inline(never)]
    fn on_rare_call(
        &mut self,
        now: Instant,
        peer: P,
        answer: Answer,
        header: &Header,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        match answer {
            Answer::Start => {
                self.leave_large(header);
                self.start(now, now, peer, header, reply)
            }
            Answer::Park => {
                let parked = Parked {
                    number: header.number,
                    peer,
                    arrived: now,
                    // The bytes behind the payload are padding and are not stored.
                    packet: packet[..HEADER_LEN + header.message_len as usize].into(),
                    message: None,
                    message_len: header.message_len,
                    refused: None,
                };
                self.park(header, parked, reply)
            }
            answer => {
                self.counters.duplicates += 1;
                self.repeat(peer, answer, header, reply)
            }
        }
    }

    /// Begins a call of many packets that is newer than all calls of its lane.
    pub(super) fn start_message(
        &mut self,
        now: Instant,
        (arrived, peer, message): (Instant, P, Vec<u8>),
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        self.leave_large(header);
        match self.start(now, arrived, peer, header, reply) {
            Effect::Run(mut assignment) => {
                let in_place = self.interfaces.in_place(assignment.interface, assignment.procedure);
                let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
                let owner = self.shares.begin_running(&mut binding.share, message.len());
                assignment.set_message(message, in_place, owner);
                Effect::Run(assignment)
            }
            refused => {
                self.give_message_back(header, Some(message));
                refused
            }
        }
    }

    /// Drops what is being sent, assembled or kept for earlier calls of this lane.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_large(&mut self, header: &Header) {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        self.shares.give_retained_back(&mut binding.share, lane.large_retained());
        let Some(large) = &mut lane.large else { return };
        large.end_sending(&mut binding.path);
        large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
        let older = large.drop_incomplete(header.number);
        lane.drop_idle_large(&mut self.agenda, (header.binding, header.lane));
        self.give_message_back(header, older);
    }

    /// Begins a call that is newer than all calls of its lane, after [`leave_large`](Self::leave_large).
    pub(super) fn start(
        &mut self,
        now: Instant,
        arrived: Instant,
        peer: P,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let terms = binding.terms();
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        debug_assert!(lane.large_retained() == 0 || lane.large.is_some());
        let assignment = match lane.begin(header.number) {
            Some(retained) => retained,
            None => self.recycled.take(now, &peer, lane, &mut self.shares, &mut binding.share),
        };
        self.give_out(now, arrived, assignment, &peer, header, terms, reply)
    }

    /// Gives out a call to run, on a binding with these terms, or refuses it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn give_out(
        &mut self,
        now: Instant,
        arrived: Instant,
        mut assignment: Assignment<P>,
        peer: &P,
        header: &Header,
        terms: Terms,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        assignment.begin(arrived, peer, header, terms);
        self.running += 1;
        let known =
            usize::from(header.procedure) < self.interfaces.procedure_count(usize::from(terms.interface));
        if !known || self.shutting_down {
            return self.give_out_or_refuse(now, assignment, reply);
        }
        self.counters.calls += 1;
        Effect::Run(assignment)
    }

    /// Gives out a call with metadata, or in an older form. Refuses any other.
    #[cold]
    #[inline(never)]
    fn give_out_or_refuse(
        &mut self,
        now: Instant,
        assignment: Assignment<P>,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let known = self.interfaces.has_procedure(usize::from(assignment.interface), assignment.procedure);
        if self.shutting_down || !known {
            return self.refuse_new(now, assignment, reply);
        }
        self.counters.calls += 1;
        Effect::Run(assignment)
    }

    /// Refuses a call instead of giving it out: the server is shutting down, or there is no such procedure.
    #[cold]
    #[inline(never)]
    fn refuse_new(&mut self, now: Instant, mut assignment: Assignment<P>, reply: &mut Vec<u8>) -> Effect<P> {
        let (code, count) = match self.shutting_down {
            true => (RefusalCode::ShuttingDown, &mut self.counters.refused_in_shutdown),
            false => (RefusalCode::UnknownProcedure, &mut self.counters.refused_procedures),
        };
        *count += 1;
        reply.clear();
        reply.extend_from_slice(assignment.refuse(code, ""));
        // No call can be parked behind one that has only just begun.
        let next = self.finish(now, assignment);
        debug_assert!(matches!(next, Next::Nothing));
        Effect::Reply
    }

    /// Takes back an assignment whose answer has been sent. The answer is retained, and the call that waited for this
    /// one, if any, may start. A [large](Assignment::is_large) answer is sent from now on by
    /// [`next_transmission`](Self::next_transmission).
    #[inline(always)]
    pub fn finish(&mut self, now: Instant, mut assignment: Assignment<P>) -> Next<P> {
        self.running -= 1;
        // The binding may have been released meanwhile, and the answer with it.
        let Some(binding) = self.bindings.get_mut(assignment.binding) else {
            self.end_message(&mut assignment);
            return Next::Nothing;
        };
        let state = binding.lanes.get_mut(assignment.lane).expect("a lane that runs is there");
        debug_assert_eq!(state.number, assignment.number);
        if assignment.is_or_was_large() {
            state.large.get_or_insert_default();
            self.end_message(&mut assignment);
            return self.finish_large(now, assignment);
        }
        if state.retention == Retention::Packet {
            state.end(assignment);
        } else {
            self.counters.dropped += u64::from(state.retention == Retention::Nothing);
            self.recycled.keep(state.end_without_packet(assignment));
        }
        match state.parked.take() {
            None => Next::Nothing,
            Some(parked) => self.start_parked(now, *parked),
        }
    }

    /// Parks a call until the running one has returned, unless a newer one is parked already.
    pub(super) fn park(&mut self, header: &Header, parked: Parked<P>, reply: &mut Vec<u8>) -> Effect<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        let (newer, refused) = match &lane.parked {
            Some(waits) => (parked.number.is_after(waits.number), waits.refused),
            None => (true, None),
        };
        if lane.parked.is_none() && !self.shares.take_packet(&mut binding.share) {
            self.counters.dropped += 1;
            self.give_message_back(header, parked.message);
            return Effect::Nothing;
        }
        if !newer {
            self.give_message_back(header, parked.message);
            return waiting(refused, header, reply);
        }
        let refused = parked.refused;
        if let Some(superseded) = lane.parked.replace(Box::new(parked)) {
            self.give_message_back(header, superseded.message);
        }
        waiting(refused, header, reply)
    }

    /// Takes back the memory of a call of many packets that has not begun to run and will not.
    pub(super) fn give_message_back(&mut self, header: &Header, message: Option<Vec<u8>>) {
        let Some(message) = message else { return };
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        self.shares.give_incomplete_back(&mut binding.share, message.len());
        self.spare.keep(Some(message));
    }

    /// Takes back the memory of a call that is given out, of its arguments and for its answer: its procedure has returned, and its answer
    /// may come much later. Before that is made, the assignment [resumes](Assignment::resume).
    #[cold]
    pub fn suspend(&mut self, assignment: &mut Assignment<P>) {
        drop(assignment.take_packet());
        self.end_message(assignment);
        *assignment.packet_mut() = Vec::new();
    }

    /// Takes back the memory of a call of many packets that has ended. It may be other memory than that of its message,
    /// if that has become the result.
    fn end_message(&mut self, assignment: &mut Assignment<P>) {
        if let Some((message, owner, bytes)) = assignment.take_message() {
            self.spare.keep(Some(message));
            self.shares.end_running(owner, bytes);
        }
    }

    #[cold]
    pub(super) fn start_parked(&mut self, now: Instant, parked: Parked<P>) -> Next<P> {
        let (header, _) = Header::parse(&parked.packet).expect("parsed when it was parked");
        let header = Header { message_len: parked.message_len, ..header };
        let binding = self.bindings.get_mut(header.binding).expect("its lane has had the call until now");
        self.shares.give_packet_back(&mut binding.share);
        if let Some(code) = parked.refused {
            self.forbid(&header, code);
            return Next::Nothing;
        }
        let mut reply = Vec::new();
        let arrival = match parked.message {
            None => {
                self.leave_large(&header);
                self.start(now, parked.arrived, parked.peer, &header, &mut reply)
            }
            Some(message) => {
                self.start_message(now, (parked.arrived, parked.peer, message), &header, &mut reply)
            }
        };
        match self.open_pipes(now, arrival, parked.packet[3], &mut reply) {
            Effect::Run(assignment) => Next::Run(assignment, parked.packet),
            Effect::Reply => Next::Reply(parked.peer, reply),
            Effect::Nothing
            | Effect::Transmit
            | Effect::Cancelled(..)
            | Effect::Pipe(..)
            | Effect::Unbound(_) => Next::Nothing,
        }
    }
}
