//! From an address to a binding with memory of its own.

use crate::calling::handshake::{Handshake, NotBound};
use crate::calling::unbind_notice;
use crate::error::BindError;
use crate::transport::remote::Plan;
use crate::transport::shm::caller::ShmTransport;
use crate::transport::shm::caller::session::{Session, Shared};
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_exchange::stream::{Bounds, Reassembler};
use stoop_net::clock;
use stoop_net::poller::Bell;
use stoop_net::waiting::Placement;
use stoop_shm::{Arena, Segment, descriptors, layout};
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId};

/// Connects, gets a binding from the server, and the memory to share with it.
pub(crate) fn connect(
    plan: &Plan<'_, ShmTransport>,
    deadline: Instant,
    generation: u64,
) -> Result<Session, NotBound> {
    let connection = plan.handshake(&plan.own.users);
    let handshake = Handshake::connect(&connection, deadline)?;
    // No result comes this way.
    let bounds = Bounds { long: Kind::Result, message_max: 0, announced_max: 0, lanes: 1, pipes: false };
    let mut intake = Reassembler::new(bounds);
    let bound = handshake.bind(&mut intake)?;
    let not_bound = |error| {
        // The server may have said why behind its answer to the bind.
        let error = handshake.farewell_in(&mut intake).unwrap_or(error);
        NotBound { error, offers: bound.offers.clone() }
    };
    let Attached { segment, arena, bell, clock_ahead_ns } = handshake.attach(&bound).map_err(not_bound)?;
    let placement = Placement::of(&handshake.own, &crate::host_facts::from_wire(&bound.host));
    let server = handshake.stream.peer_credentials().ok().flatten();
    let shared = Shared { stream: handshake.stream, segment, arena, bell, server, clock_ahead_ns };
    Ok(Session::new(generation, bound, placement, shared, plan.options.max_message))
}

/// The descriptors and terms that the server has handed over.
struct Attached {
    segment: Segment,
    arena: Option<Arc<Arena>>,
    bell: Bell,
    /// How far its clock is ahead of this process's.
    clock_ahead_ns: i64,
}

impl Handshake<'_> {
    /// Asks for the memory.
    fn attach(&self, bound: &Bound) -> Result<Attached, BindError> {
        // Only here: the server belongs to a trusted user, and was asked for descriptors.
        self.stream.allow_descriptors(true).map_err(|cause| self.unreachable(cause))?;
        let asked_ns = clock::now_ns();
        let question = Header::bare(Kind::Attach, bound.binding, LaneId(0), CallNumber(0)).to_bytes();
        self.ask(&question)?;
        let mut packet = [0; HEADER_LEN];
        let received = self.await_bytes().and_then(|()| descriptors::receive(&self.stream, &mut packet));
        self.stream.allow_descriptors(false).map_err(|cause| self.unreachable(cause))?;
        let (len, received) = match received {
            Ok((0, _)) => return Err(self.closed()),
            Ok(received) => received,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Err(self.no_answer()),
            Err(cause) => return Err(self.unreachable(cause)),
        };
        if let Some(why) = unbind_notice::parse(&packet[..len]) {
            return Err(self.ended(why));
        }
        let header = Header::from_bytes(&packet).ok().filter(|header| {
            len == HEADER_LEN && (header.kind, header.binding) == (Kind::Attach, bound.binding)
        });
        let Some(header) = header else { return Err(self.protocol("it gives no memory")) };
        if header.time != layout::VERSION {
            return Err(
                self.protocol("it lays out shared memory in another way; build both ends from one version")
            );
        }
        let mut received = received.into_iter();
        let (Some(file), Some(bell)) = (received.next(), received.next()) else {
            return Err(self.protocol("it gives no memory"));
        };
        let unusable = |why: io::Error| match why.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => self.protocol(why),
            _ => self.unreachable(why),
        };
        let (segment, arena) = Segment::attach_with_arena(file).map_err(unusable)?;
        let clock_ahead_ns = stoop_shm::clock::ahead_ns(&segment, asked_ns, clock::now_ns());
        Ok(Attached { segment, arena, bell: Bell::from_descriptor(bell).map_err(unusable)?, clock_ahead_ns })
    }
}
