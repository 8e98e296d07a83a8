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
mod agenda;
mod assignment;
mod calls;
mod cancel;
mod clock;
mod lane;
mod lanes;
mod large;
mod limits;
mod memory;
mod parked;
mod parts;
mod peers;
mod recycled;
mod replies;
mod sending;
mod sweep;
mod table;
mod together;

use crate::{Instant, Interfaces};
use admission::Admission;
use agenda::Agenda;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use assignment::{Assignment, Work};
use clock::Clock;
pub use limits::{Counters, Limits};
use memory::Memory;
use recycled::Recycled;
pub use sending::Transmission;
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, Header, HeaderError, Kind, LaneId, Versions};
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
    clock: Clock,
    admission: Admission,
    bindings: Table<P>,
    /// Answers retained and calls that wait.
    packets: usize,
    /// Assignments that have not come back.
    running: usize,
    shutting_down: bool,
    /// Receipts that told of parts of results that had not been known to have arrived.
    progress: u64,
    next_sweep: Instant,
    recycled: Recycled<P>,
    memory: Memory,
    agenda: Agenda,
    counters: Counters,
}

impl<P: Peer> Server<P> {
    /// A server that knows no binding and begins to receive at its address `now`, no earlier. `secret` is drawn anew for every
    /// start of a server: bindings, cookies and the incarnation come from it.
    pub fn new(
        now: Instant,
        interfaces: Interfaces,
        limits: Limits,
        host: HostFacts,
        secret: [u64; 2],
    ) -> Self {
        Self {
            interfaces,
            limits,
            host,
            clock: Clock::new(now),
            admission: Admission::new(secret),
            bindings: Table::default(),
            packets: 0,
            running: 0,
            shutting_down: false,
            progress: 0,
            next_sweep: Instant::NEVER,
            recycled: Recycled::default(),
            memory: Memory::default(),
            agenda: Agenda::default(),
            counters: Counters::default(),
        }
    }

    /// Callers are told the time of another clock than the one by which packets are handed in: one that goes on while the
    /// machine sleeps. `sleepless` turns the present moment of the one into that of the other.
    #[must_use]
    pub fn with_clock(mut self, sleepless: fn(Instant) -> Instant) -> Self {
        self.clock.replace(sleepless);
        self
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
        let (header, payload) = match Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(why) => {
                self.counters.malformed += 1;
                return tell_versions(why, packet, reply);
            }
        };
        match header.kind {
            Kind::Call if header.message_len as usize > header.binding.packet_data() => {
                self.on_parts(now, peer, packet, reply)
            }
            Kind::Probe => self.on_probe(now, peer, &header, reply),
            Kind::Bind => self.on_bind(now, peer, &header, payload, reply),
            Kind::Describe => self.on_describe(&header, payload, reply),
            Kind::Proof => self.on_proof(now, peer, &header),
            Kind::Unbind => self.on_unbind(peer, &header),
            Kind::Receipt => self.on_receipt(now, peer, &header, payload, reply),
            Kind::Cancel => self.on_cancel(now, peer, &header, reply),
            // It has a flag that can be passed over.
            Kind::Call => self.on_call(now, &peer, &header, packet, reply),
            Kind::BindReply
            | Kind::Result
            | Kind::Acknowledgement
            | Kind::Refusal
            | Kind::Failure
            | Kind::Challenge
            | Kind::Description
            | Kind::Attach
            | Kind::Handshake
            | Kind::Versions => {
                self.counters.malformed += 1;
                Arrival::Nothing
            }
        }
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

    /// Changes whenever a caller tells that more of a result of many packets has arrived.
    pub fn progress(&self) -> u64 {
        self.progress
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
        self.bindings.bytes_held() + self.recycled.bytes_held() + self.memory.spare_bytes()
    }

    /// Answers retained and calls that wait for their lanes; at most [`Limits::packets`].
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes of calls of many packets that are arriving, wait for their lanes or run; at most [`Limits::incomplete`].
    pub fn incomplete_bytes(&self) -> usize {
        self.memory.incomplete
    }

    /// Bytes of results of many packets that are retained; at most [`Limits::retained`].
    pub fn retained_bytes(&self) -> usize {
        self.memory.retained
    }
}

/// A peer of another version is told which are spoken.
fn tell_versions<P>(why: HeaderError, packet: &[u8], reply: &mut Vec<u8>) -> Arrival<P> {
    match Versions::answer_to(packet).filter(|_| matches!(why, HeaderError::Version(_))) {
        Some(answer) => {
            reply.clear();
            reply.extend_from_slice(&answer);
            Arrival::Reply
        }
        None => Arrival::Nothing,
    }
}

#[cfg(test)]
mod tests;
