//! The server's half of the protocol: a call runs once, and its duplicates are answered from the retained result.
//!
//! A [`Server`] decides what an arriving packet leads to; its driver receives, runs procedures and sends. The server
//! gives out each call to run as an [`Assignment`], which owns the packet for the result, and takes it back in
//! [`Server::finish`]. It then retains that packet in place of the one before (Firefly §3.2), until the next call of
//! the lane acknowledges it or the call's deadline has passed.
//!
//! The server assembles calls of many packets in its own memory, which is bounded. Results of many packets are sent by
//! [`Server::next_transmission`], as fast as their callers accept them.

mod admission;
mod agenda;
mod assignment;
mod batches;
mod calls;
mod cancel;
mod clock;
mod closing;
pub(crate) mod credits;
mod hosts;
mod lane;
mod lanes;
mod large;
mod limits;
mod memory;
mod parked;
mod parts;
mod peer;
mod peers;
mod pipe_state;
mod pipes;
mod provisional;
mod quiet;
mod recycled;
mod replies;
mod retained;
mod sending;
mod shares;
mod sweep;
mod table;
mod unasked;

use crate::pipe::News;
pub use crate::room::{PacketRoom, Part};
use crate::shares::Owner;
use crate::{Instant, Interfaces};
use admission::Admission;
use agenda::Agenda;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use assignment::{Assignment, Work};
use clock::Clock;
use credits::Credits;
pub use limits::{Counters, Limits};
use memory::Spare;
pub use peer::Peer;
pub use peers::{Authenticated, AuthenticatedCaller};
pub use pipe_state::{CallKey, PipeDue};
use quiet::Watch;
use recycled::Recycled;
pub use sending::Transmission;
use shares::Shares;
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, Header, HeaderError, Kind, LaneId, Versions};
use table::Table;
use unasked::Unasked;

/// The effect of an arriving packet.
#[derive(Debug)]
pub enum Effect<P> {
    /// Run this procedure; the arriving packet's payload has its arguments.
    Run(Assignment<P>),
    /// Send the packet in `reply` back to the sender of this one.
    Reply,
    /// [`Server::next_transmission`] has something to send.
    Transmit,
    /// The caller has cancelled this call, whose procedure runs and may want to know. Send the packet in `reply`.
    Cancelled(BindingId, LaneId, CallNumber),
    /// A pipe of this call has something new for its procedure. [`Server::next_transmission`] may have something to send, too.
    Pipe(CallKey, News),
    /// The caller has given up this binding: none of its calls that run will be answered.
    Unbound(BindingId),
    /// Nothing.
    Nothing,
}

/// The effect of a procedure's return.
#[derive(Debug)]
pub enum Next<P> {
    /// Nothing.
    Nothing,
    /// Run this call of the same lane, which arrived in this packet.
    Run(Assignment<P>, Box<[u8]>),
    /// Send this packet.
    Reply(P, Vec<u8>),
}

/// The server's half of the protocol, for all bindings of one endpoint.
#[derive(Debug)]
pub struct Server<P> {
    interfaces: Interfaces,
    limits: Limits,
    credits: Credits,
    host: HostFacts,
    clock: Clock,
    admission: Admission,
    bindings: Table<P>,
    shares: Shares,
    /// Assignments that have not been taken back.
    running: usize,
    shutting_down: bool,
    /// See [`sealed_only`](Self::sealed_only).
    sealed_only: bool,
    provisional: provisional::Provisional,
    /// Number of receipts that reported newly arrived parts of results.
    progress: u64,
    next_sweep: Instant,
    watch: Watch,
    recycled: Recycled<P>,
    spare: Spare,
    agenda: Agenda,
    unasked: Unasked<P>,
    /// Memory for a packet that is about to be sent.
    packet: Vec<u8>,
    counters: Counters,
}

/// The number of the server's start that is made with `secret`, as callers learn it when they bind.
pub fn incarnation_of(secret: [u64; 2]) -> u64 {
    Admission::new(secret).incarnation()
}

impl<P: Peer> Server<P> {
    /// Makes a server without bindings, which begins to receive at its address at `now` or later. `secret` is drawn
    /// anew for every start of a server: the numbers of bindings, the cookies and the incarnation are derived from it.
    pub fn new(
        now: Instant,
        interfaces: Interfaces,
        limits: Limits,
        host: HostFacts,
        secret: [u64; 2],
    ) -> Self {
        let shares = Shares::new(&limits);
        Self {
            interfaces,
            credits: Credits::new(limits.calls),
            limits,
            host,
            clock: Clock::new(now),
            admission: Admission::new(secret),
            bindings: Table::default(),
            shares,
            running: 0,
            shutting_down: false,
            sealed_only: false,
            provisional: provisional::Provisional::default(),
            progress: 0,
            next_sweep: Instant::NEVER,
            watch: Watch::default(),
            recycled: Recycled::default(),
            spare: Spare::default(),
            agenda: Agenda::default(),
            unasked: Unasked::default(),
            packet: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Tells callers another clock than the driver's, one that does not stop while the machine sleeps. `sleepless`
    /// converts the present moment from the driver's clock to that one.
    #[must_use]
    pub fn with_clock(mut self, sleepless: fn(Instant) -> Instant) -> Self {
        self.clock.replace(sleepless);
        self
    }

    /// Handles a packet from `peer`. The packet to send back is put into `reply`, whose former contents are lost.
    // Inlined where a driver handles one packet at a time: that saves a tenth of the instructions here.
    #[inline(always)]
    pub fn handle_packet(&mut self, now: Instant, peer: &P, packet: &[u8], reply: &mut Vec<u8>) -> Effect<P> {
        match Header::parse_whole(Kind::Call, packet) {
            Some(header) => self.on_call(now, peer, &header, packet, reply),
            None => self.on_other_packet(now, *peer, packet, reply),
        }
    }

    /// Handles a packet that is not a plain call of one packet. An empty one means nothing: the server's own machine sends it to wake
    /// a thread that receives.
    #[inline(never)]
    fn on_other_packet(&mut self, now: Instant, peer: P, packet: &[u8], reply: &mut Vec<u8>) -> Effect<P> {
        let (header, payload) = match Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(HeaderError::Truncated { got: 0 }) => return Effect::Nothing,
            Err(why) => {
                self.counters.malformed += 1;
                return tell_versions(why, packet, reply);
            }
        };
        match header.kind {
            Kind::Call if header.message_len as usize > header.binding.packet_data() => {
                self.on_parts(now, peer, packet, reply)
            }
            Kind::Bind => self.on_bind(now, peer, &header, payload, reply),
            Kind::Describe => self.on_describe(&header, payload, reply),
            Kind::Proof => self.on_proof(now, peer, &header),
            Kind::Unbind => self.on_unbind(peer, &header),
            Kind::Probe | Kind::Probes | Kind::Data | Kind::Receipt | Kind::Cancel => {
                let answered = self.check_binding(now, peer, &header, reply);
                answered.unwrap_or_else(|| self.on_bound(now, peer, &header, payload, reply))
            }
            // A call with a flag that may be ignored.
            Kind::Call => self.on_flagged_call(now, peer, &header, packet, reply),
            Kind::BindReply
            | Kind::Result
            | Kind::Acknowledgement
            | Kind::Refusal
            | Kind::Failure
            | Kind::Challenge
            | Kind::Description
            | Kind::Attach
            | Kind::Handshake
            | Kind::Versions
            | Kind::Acknowledgements => {
                self.counters.malformed += 1;
                Effect::Nothing
            }
        }
    }

    /// Handles a packet about calls that began before, from a caller whose binding is there.
    fn on_bound(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        match header.kind {
            Kind::Probe => self.on_probe(peer, header, reply),
            Kind::Probes => self.on_probes(now, header, payload, reply),
            Kind::Data => self.on_data(now, peer, header, payload, reply),
            Kind::Receipt => self.on_receipt(now, peer, header, payload),
            _ => self.on_cancel(now, peer, header, reply),
        }
    }

    /// Calls given out and not taken back.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether results of many packets or pipes are being sent, of which a caller may not have all. Looks at all bindings.
    pub fn is_sending(&self) -> bool {
        self.bindings.is_sending()
    }

    /// A number that changes whenever a caller reports more of a result of many packets.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Number of bindings, without the provisional ones on which callers authenticate themselves.
    pub fn bindings(&self) -> usize {
        self.bindings.len() - self.provisional.count(|id| self.bindings.has(id))
    }

    /// Whether there is such a binding. If not, the answers of its calls go to no caller.
    pub fn is_bound(&mut self, binding: BindingId) -> bool {
        self.bindings.get_mut(binding).is_some()
    }

    /// The owner of a binding; `None` if there is no such binding.
    pub fn owner_of(&mut self, binding: BindingId) -> Option<Owner> {
        self.bindings.get_mut(binding).map(|binding| self.shares.owners.at(binding.share.owner))
    }

    /// This server's counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes held for bindings: their lanes, retained results and waiting calls. For tests of the bounds.
    pub fn bytes_held(&self) -> usize {
        debug_assert_eq!(self.bindings.miscounted(&self.shares), None);
        self.bindings.bytes_held() + self.recycled.bytes_held() + self.spare.bytes_held()
    }

    /// Retained answers, calls that run whose answers will be retained, and waiting calls; at most [`Limits::packets`].
    pub fn packets(&self) -> usize {
        self.shares.packets.held()
    }

    /// Bytes of calls of many packets that are arriving, waiting or running; at most [`Limits::incomplete`].
    pub fn incomplete_bytes(&self) -> usize {
        self.shares.incomplete.held()
    }

    /// Bytes of retained results of many packets; at most [`Limits::retained`].
    pub fn retained_bytes(&self) -> usize {
        self.shares.retained.held()
    }
}

/// Tells a peer of another version which versions are spoken here.
fn tell_versions<P>(why: HeaderError, packet: &[u8], reply: &mut Vec<u8>) -> Effect<P> {
    match Versions::answer_to(packet).filter(|_| matches!(why, HeaderError::Version(_))) {
        Some(answer) => {
            reply.clear();
            reply.extend_from_slice(&answer);
            Effect::Reply
        }
        None => Effect::Nothing,
    }
}

#[cfg(test)]
mod tests;
