//! Calls coming in: run once, answered again from the retained result.
//!
//! A [`Server`] decides what an arriving packet leads to; its driver receives, runs procedures and sends. A call that
//! is to run leaves as an [`Assignment`], which owns the packet for the result, and comes back through
//! [`Server::finish`]; that packet is then retained in place of the one before it (Firefly §3.2), until the next call
//! of the lane acknowledges it or the call's deadline has passed.
//!
//! Calls of many packets are put together in memory of the server's, of which there is a bound; results of many packets
//! leave by [`Server::next_transmission`], as fast as their callers take them.

mod admission;
mod assignment;
mod cancel;
mod lane;
mod lanes;
mod limits;
mod memory;
mod peers;
mod reception;
mod sending;
mod table;

use crate::{Instant, Interfaces};
use admission::Admission;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use assignment::{Assignment, Work};
use core::time::Duration;
use lane::{Age, Answer, Parked};
pub use limits::{Counters, Limits};
use memory::Memory;
use sending::Agenda;
pub use sending::Transmission;
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, FailureCode, HEADER_LEN, Header, Kind, LaneId, RefusalCode};
use table::Table;

/// Where a packet came from and its answer goes.
pub trait Peer: Copy {
    /// The network address without the port; IPv4 as mapped IPv6.
    fn host(&self) -> [u8; 16];
    /// The port.
    fn port(&self) -> u16;
    /// Whether it is at that address: asked of each call.
    #[inline]
    fn is_at(&self, host: &[u8; 16]) -> bool {
        self.host() == *host
    }
}

/// What an arriving packet leads to.
#[derive(Debug)]
pub enum Arrival<P> {
    /// Run this procedure; the arriving packet's payload has its arguments.
    Run(Assignment<P>),
    /// Send the packet left in `reply` back to where this one came from.
    Reply,
    /// [`Server::next_transmission`] has something to send.
    Transmit,
    /// Nobody waits for this call any more, of which the procedure runs: it may want to know. Send the packet left in
    /// `reply`.
    Cancelled(BindingId, LaneId, CallNumber),
    /// Nothing.
    Nothing,
}

/// What the return of a procedure leads to.
#[derive(Debug)]
pub enum Next<P> {
    /// Nothing.
    Nothing,
    /// Run this call of the same lane, which came in this packet.
    Run(Assignment<P>, Box<[u8]>),
    /// Send this packet.
    Reply(P, Vec<u8>),
}

/// The server's half of the protocol, for all bindings of one endpoint.
#[derive(Debug)]
pub struct Server<P> {
    interfaces: Interfaces,
    limits: Limits,
    host: HostFacts,
    admission: Admission,
    bindings: Table<P>,
    /// Answers retained and calls that wait.
    packets: usize,
    /// Assignments that have not come back.
    running: usize,
    shutting_down: bool,
    next_sweep: Instant,
    spare: Vec<Assignment<P>>,
    memory: Memory,
    agenda: Agenda,
    counters: Counters,
}

/// Assignments kept for reuse.
const SPARE_ASSIGNMENTS: usize = 64;

/// Time between two looks for silent bindings and results that nobody waits for any more.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// However short the silence that a server bears: its driver has other things to do.
const SHORTEST_SWEEP_INTERVAL: Duration = Duration::from_millis(1);

impl<P: Peer> Server<P> {
    /// A server that knows no binding. `secret` is drawn anew for every start of a server: bindings, cookies and the
    /// incarnation come from it.
    pub fn new(interfaces: Interfaces, limits: Limits, host: HostFacts, secret: [u64; 2]) -> Self {
        Self {
            interfaces,
            limits,
            host,
            admission: Admission::new(secret),
            bindings: Table::default(),
            packets: 0,
            running: 0,
            shutting_down: false,
            next_sweep: Instant::NEVER,
            spare: Vec::new(),
            memory: Memory::default(),
            agenda: Agenda::default(),
            counters: Counters::default(),
        }
    }

    /// Takes a packet from `peer`. What is to be sent back is left in `reply`, whose former contents are lost.
    // A call of one packet in full where a driver takes one packet at a time: a tenth of its instructions here.
    #[inline(always)]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        peer: &P,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Arrival<P> {
        match Header::parse_whole(Kind::Call, packet) {
            Some(header) => self.on_call(now, peer, &header, packet, reply),
            None => self.on_other_packet(now, *peer, packet, reply),
        }
    }

    /// Takes whatever is not a call of one packet.
    #[inline(never)]
    fn on_other_packet(&mut self, now: Instant, peer: P, packet: &[u8], reply: &mut Vec<u8>) -> Arrival<P> {
        let Ok((header, payload)) = Header::parse(packet) else {
            self.counters.malformed += 1;
            return Arrival::Nothing;
        };
        match header.kind {
            Kind::Call if header.message_len as usize > stoop_wire::PACKET_DATA => {
                self.on_part(now, peer, &header, payload, reply)
            }
            Kind::Probe => self.on_probe(now, peer, &header, reply),
            Kind::Bind => self.on_bind(now, peer, &header, payload, reply),
            Kind::Describe => self.on_describe(payload, reply),
            Kind::Proof => self.on_proof(now, peer, &header),
            Kind::Unbind => self.on_unbind(peer, &header),
            Kind::Receipt => self.on_receipt(now, peer, &header, payload, reply),
            Kind::Cancel => self.on_cancel(now, peer, &header, reply),
            // A call of one packet has no second part.
            Kind::Call
            | Kind::BindReply
            | Kind::Result
            | Kind::Acknowledgement
            | Kind::Refusal
            | Kind::Failure
            | Kind::Challenge
            | Kind::Description
            | Kind::Attach => {
                self.counters.malformed += 1;
                Arrival::Nothing
            }
        }
    }

    #[inline(always)]
    fn on_call(
        &mut self,
        now: Instant,
        peer: &P,
        header: &Header,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Arrival<P> {
        let Some(binding) = self.bindings.get_mut(header.binding) else {
            return self.unknown_binding(header, reply);
        };
        if !peer.is_at(&binding.host) {
            return self.challenge(now, *peer, header, header.binding.0, reply);
        }
        binding.heard = now;
        let Some(lane) = binding.lanes.get_or_make(header.lane, self.limits.lanes) else {
            return self.no_such_lane(header, reply);
        };
        match lane.on_call(Age::of(header.number, lane.number)) {
            Answer::Start if lane.large.is_none() => {
                let terms = (binding.interface, binding.together, binding.result_max);
                let assignment = match lane.begin(header.number) {
                    Some(retained) => {
                        self.packets -= 1;
                        retained
                    }
                    None => spare_or_blank(&mut self.spare, peer),
                };
                self.give_out(now, now, assignment, peer, header, terms, reply)
            }
            answer => self.on_rare_call(now, *peer, answer, header, packet, reply),
        }
    }

    /// A call of one packet to which something else leads than to begin it at once.
    #[inline(never)]
    fn on_rare_call(
        &mut self,
        now: Instant,
        peer: P,
        answer: Answer,
        header: &Header,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Arrival<P> {
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
                    // What follows the payload is padding: nobody keeps it.
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

    #[cold]
    fn no_such_lane(&mut self, header: &Header, reply: &mut Vec<u8>) -> Arrival<P> {
        self.counters.refused += 1;
        refusal(header, RefusalCode::TooManyLanes, reply)
    }

    /// Keeps a call until the one that runs has returned, unless a newer one is kept already.
    fn park(&mut self, header: &Header, parked: Parked<P>, reply: &mut Vec<u8>) -> Arrival<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        let (newer, refused) = match &lane.parked {
            Some(waits) => (parked.number.is_after(waits.number), waits.refused),
            None => (true, None),
        };
        if lane.parked.is_none() && self.packets >= self.limits.packets {
            self.counters.dropped += 1;
            self.memory.give_back(parked.message);
            return Arrival::Nothing;
        }
        if !newer {
            self.memory.give_back(parked.message);
            return match refused {
                Some(code) => refusal(header, code, reply),
                None => acknowledgement(header, reply),
            };
        }
        let refused = parked.refused;
        match lane.parked.replace(Box::new(parked)) {
            Some(superseded) => self.memory.give_back(superseded.message),
            None => self.packets += 1,
        }
        match refused {
            Some(code) => refusal(header, code, reply),
            None => acknowledgement(header, reply),
        }
    }

    /// Begins a call of many packets that is newer than all of its lane.
    fn start_message(
        &mut self,
        now: Instant,
        (arrived, peer, message): (Instant, P, Vec<u8>),
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Arrival<P> {
        self.leave_large(header);
        match self.start(now, arrived, peer, header, reply) {
            Arrival::Run(mut assignment) => {
                let work = &mut *assignment.0;
                work.in_place = self.interfaces.in_place(work.interface, work.procedure);
                (work.counted, work.message) = (message.len(), Some(message));
                Arrival::Run(assignment)
            }
            refused => {
                self.memory.give_back(Some(message));
                refused
            }
        }
    }

    /// Nothing more is to be sent, put together or kept for the calls of a lane before this one.
    #[cold]
    #[inline(never)]
    fn leave_large(&mut self, header: &Header) {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        self.memory.release(&mut binding.retained, lane.large_retained());
        let Some(large) = &mut lane.large else { return };
        sending::end(large, &mut binding.path);
        let outdated = large.reception.take_if(|reception| !reception.number.is_after(header.number));
        self.memory.give_back(outdated.map(|reception| reception.message));
    }

    /// Begins a call that is newer than all of its lane, which has [left](Self::leave_large) what was large before.
    fn start(
        &mut self,
        now: Instant,
        arrived: Instant,
        peer: P,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Arrival<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        debug_assert!(lane.large_retained() == 0 || lane.large.is_some());
        let terms = (binding.interface, binding.together, binding.result_max);
        let retained = lane.begin(header.number);
        self.packets -= usize::from(retained.is_some());
        let assignment = retained.unwrap_or_else(|| spare_or_blank(&mut self.spare, &peer));
        self.give_out(now, arrived, assignment, &peer, header, terms, reply)
    }

    /// Gives a call out to run, on a binding of that interface whose sides can run together or not, and which takes results
    /// of so many bytes; or refuses it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn give_out(
        &mut self,
        now: Instant,
        arrived: Instant,
        mut assignment: Assignment<P>,
        peer: &P,
        header: &Header,
        (interface, together, result_max): (u16, bool, u32),
        reply: &mut Vec<u8>,
    ) -> Arrival<P> {
        let work = &mut *assignment.0;
        work.peer = *peer;
        work.interface = interface;
        work.procedure = header.procedure;
        work.deadline = arrived.after_nanos(u64::from(header.time) * 1000);
        work.arrived = arrived;
        work.together = together;
        work.arguments_len = header.message_len as usize;
        work.result_max = result_max as usize;
        work.binding = header.binding;
        work.lane = header.lane;
        work.number = header.number;
        work.len = HEADER_LEN;
        self.running += 1;
        let known = usize::from(header.procedure) < self.interfaces.procedure_count(usize::from(interface));
        if !known || self.shutting_down {
            return self.refuse_new(now, assignment, reply);
        }
        self.counters.calls += 1;
        Arrival::Run(assignment)
    }

    /// Refuses a call instead of giving it out: no new ones are begun, or there is no such procedure.
    #[cold]
    #[inline(never)]
    fn refuse_new(&mut self, now: Instant, mut assignment: Assignment<P>, reply: &mut Vec<u8>) -> Arrival<P> {
        let code = if self.shutting_down { RefusalCode::ShuttingDown } else { RefusalCode::UnknownProcedure };
        self.counters.refused += 1;
        reply.clear();
        reply.extend_from_slice(assignment.refuse(code, ""));
        // Nothing can be parked behind a call that has only just begun.
        let next = self.finish(now, assignment);
        debug_assert!(matches!(next, Next::Nothing));
        Arrival::Reply
    }

    fn on_probe(&mut self, now: Instant, peer: P, header: &Header, reply: &mut Vec<u8>) -> Arrival<P> {
        if let Some(elsewhere) = self.turn_away(now, peer, header, reply) {
            return elsewhere;
        }
        let binding = self.bindings.get_mut(header.binding).expect("whoever has no binding is turned away");
        let Some(lane) = binding.lanes.get_mut(header.lane) else {
            self.counters.stale += 1;
            return Arrival::Nothing;
        };
        if let Some(parked) = lane.parked.as_ref().filter(|parked| parked.number == header.number) {
            return match parked.refused {
                Some(code) => refusal(header, code, reply),
                None => acknowledgement(header, reply),
            };
        }
        match lane.on_probe(Age::of(header.number, lane.number)) {
            Answer::Drop => {
                self.counters.stale += 1;
                Arrival::Nothing
            }
            answer => self.repeat(peer, answer, header, reply),
        }
    }

    /// Notes that a binding is in use, or answers a packet that is not for one of `peer`'s. For whatever is rarer than a
    /// call of one packet, which looks its binding up once.
    fn turn_away(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Option<Arrival<P>> {
        let Some(binding) = self.bindings.get_mut(header.binding) else {
            return Some(self.unknown_binding(header, reply));
        };
        if binding.host != peer.host() {
            return Some(self.challenge(now, peer, header, header.binding.0, reply));
        }
        binding.heard = now;
        None
    }

    #[cold]
    fn unknown_binding(&mut self, header: &Header, reply: &mut Vec<u8>) -> Arrival<P> {
        self.counters.unknown_bindings += 1;
        refusal(header, RefusalCode::UnknownBinding, reply)
    }

    /// Takes back an assignment whose answer has been sent: it is retained, and the call that has waited for this one
    /// to return, if any, may start. A [large](Assignment::is_large) answer is sent from now on by
    /// [`next_transmission`](Self::next_transmission).
    #[inline]
    pub fn finish(&mut self, now: Instant, mut assignment: Assignment<P>) -> Next<P> {
        self.running -= 1;
        // The binding may have been given up meanwhile, and the answer with it.
        let Some(binding) = self.bindings.get_mut(assignment.binding) else {
            self.memory.give_back_other(assignment.0.message.take(), assignment.0.counted);
            return Next::Nothing;
        };
        let state = binding.lanes.get_mut(assignment.lane).expect("a lane that runs is there");
        debug_assert_eq!(state.number, assignment.number);
        if assignment.is_or_was_large() {
            state.large.get_or_insert_default();
            self.memory.give_back_other(assignment.0.message.take(), assignment.0.counted);
            return self.finish_large(now, assignment);
        }
        if self.packets < self.limits.packets {
            self.packets += 1;
            state.end(assignment);
        } else {
            self.counters.dropped += 1;
            keep_spare(&mut self.spare, state.end_unretained(assignment));
        }
        match state.parked.take() {
            None => Next::Nothing,
            Some(parked) => self.start_parked(now, *parked),
        }
    }

    #[cold]
    fn start_parked(&mut self, now: Instant, parked: Parked<P>) -> Next<P> {
        self.packets -= 1;
        let (header, _) = Header::parse(&parked.packet).expect("parsed when it was parked");
        let header = Header { message_len: parked.message_len, ..header };
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
        match arrival {
            Arrival::Run(assignment) => Next::Run(assignment, parked.packet),
            Arrival::Reply => Next::Reply(parked.peer, reply),
            Arrival::Nothing | Arrival::Transmit | Arrival::Cancelled(..) => Next::Nothing,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do; [`Instant::NEVER`] without bindings.
    pub fn next_timeout(&self) -> Instant {
        self.next_sweep.min(self.agenda.next_timer())
    }

    fn sweep_interval(&self) -> Duration {
        (self.limits.silence / 4).clamp(SHORTEST_SWEEP_INTERVAL, SWEEP_INTERVAL)
    }

    /// Releases what silent peers hold, and sees to messages of many packets of which nothing is heard; afterwards
    /// [`next_transmission`](Self::next_transmission) may have something to send.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timers(now);
        if now < self.next_sweep {
            return;
        }
        let (silence, spare, packets) = (self.limits.silence, &mut self.spare, &mut self.packets);
        let memory = &mut self.memory;
        let released = self.bindings.retain(|binding| {
            let path = &mut binding.path;
            for lane in binding.lanes.iter_mut() {
                let Some(answered) = lane.release(now) else { continue };
                if let Some(large) = &mut lane.large {
                    sending::end(large, path);
                }
                *packets -= 1;
                memory.release(&mut binding.retained, answered.large_bytes());
                keep_spare(spare, answered);
            }
            let stays = binding.is_running() || now.since(binding.heard) < silence;
            if !stays {
                *packets -= binding.packets();
                memory.let_go(binding);
            }
            stays
        });
        self.memory.age();
        self.counters.silent += released as u64;
        self.next_sweep = if self.bindings.len() == 0 { Instant::NEVER } else { now + self.sweep_interval() };
    }

    /// From now on new calls and bindings are refused; what runs may finish, and its callers are answered.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Calls given out that have not come back.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether results of many packets are on their way: somebody may not have all of one. It looks at all bindings.
    pub fn is_sending(&self) -> bool {
        self.bindings.is_sending()
    }

    /// Bindings known now.
    pub fn bindings(&self) -> usize {
        self.bindings.len()
    }

    /// What this server has seen so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes held for bindings: their lanes, retained results and parked calls. For tests of what bounds it.
    pub fn bytes_held(&self) -> usize {
        debug_assert_eq!(self.packets, self.bindings.packets(), "packets are counted right");
        debug_assert_eq!(
            Some(self.memory.retained),
            self.bindings.large_retained(),
            "retained bytes are counted right"
        );
        self.bindings.bytes_held()
            + self.spare.iter().map(Assignment::bytes_held).sum::<usize>()
            + self.memory.spare_bytes()
    }

    /// Bytes of calls of many packets that are arriving, wait for their lanes or run; at most [`Limits::incomplete`].
    pub fn incomplete_bytes(&self) -> usize {
        self.memory.incomplete
    }

    /// Bytes of results of many packets that are retained; at most [`Limits::retained`].
    pub fn retained_bytes(&self) -> usize {
        self.memory.retained
    }

    /// Answers a packet about a call that is not new.
    fn repeat(&mut self, peer: P, answer: Answer, header: &Header, reply: &mut Vec<u8>) -> Arrival<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        match answer {
            Answer::Acknowledge => acknowledgement(header, reply),
            Answer::Resend => match lane.retained() {
                Some(retained) if retained.len() <= stoop_wire::MAX_DATAGRAM => {
                    reply.clear();
                    reply.extend_from_slice(retained);
                    Arrival::Reply
                }
                _ => self.resend_large(peer, header, reply),
            },
            Answer::SayGone => {
                let mut gone = Header::bare(Kind::Failure, header.binding, header.lane, header.number);
                gone.time = FailureCode::ResultGone.code();
                put(reply, &gone, &[]);
                Arrival::Reply
            }
            Answer::SayRefused(code) => refusal(header, code, reply),
            Answer::Forbid | Answer::ForbidNext => refusal(header, RefusalCode::Cancelled, reply),
            Answer::Drop | Answer::Start | Answer::Park | Answer::TellProcedure | Answer::Release => {
                Arrival::Nothing
            }
        }
    }
}

/// An assignment for a call of a lane that has none.
#[cold]
#[inline(never)]
fn spare_or_blank<P: Peer>(spare: &mut Vec<Assignment<P>>, peer: &P) -> Assignment<P> {
    spare.pop().unwrap_or_else(|| Assignment::blank(*peer))
}

/// Keeps an assignment for another call, if there are not enough of them.
fn keep_spare<P>(spare: &mut Vec<Assignment<P>>, assignment: Assignment<P>) {
    if spare.len() < SPARE_ASSIGNMENTS {
        spare.push(assignment.wiped());
    }
}

fn acknowledgement<P>(header: &Header, reply: &mut Vec<u8>) -> Arrival<P> {
    put(reply, &Header::bare(Kind::Acknowledgement, header.binding, header.lane, header.number), &[]);
    Arrival::Reply
}

fn refusal<P>(header: &Header, code: RefusalCode, reply: &mut Vec<u8>) -> Arrival<P> {
    let mut refused = Header::bare(Kind::Refusal, header.binding, header.lane, header.number);
    refused.time = code.code();
    put(reply, &refused, &[]);
    Arrival::Reply
}

fn put(reply: &mut Vec<u8>, header: &Header, payload: &[u8]) {
    reply.clear();
    reply.extend_from_slice(&header.to_bytes());
    reply.extend_from_slice(payload);
}

#[cfg(test)]
mod tests;
