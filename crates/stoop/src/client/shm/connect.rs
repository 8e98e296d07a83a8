//! From an address to a binding with memory of its own.

use super::session::{Session, Shared};
use crate::error::BindError;
use crate::stub::Interface;
use std::io;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::stream::{Arrival, Bounds, Intake};
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::poller::Bell;
use stoop_net::stream::{Stream, StreamAddress, StreamArrival};
use stoop_net::waiting::Company;
use stoop_shm::{Segment, descriptors, layout};
use stoop_wire::bind::BindStatus;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId};

/// What a binding is made of.
pub(super) struct Plan<'a> {
    pub(super) interface: &'static Interface,
    pub(super) uri: &'a str,
    pub(super) address: &'a StreamAddress,
    pub(super) max_message: usize,
}

/// Why there is no binding over shared memory.
#[derive(Debug)]
pub(in crate::client) struct NotBound {
    pub(in crate::client) error: BindError,
    /// Where else the server can be reached, if it has said so.
    pub(in crate::client) offers: String,
}

impl From<BindError> for NotBound {
    fn from(error: BindError) -> Self {
        Self { error, offers: String::new() }
    }
}

/// Connects, gets a binding from the server, and the memory to share with it.
pub(super) fn connect(plan: &Plan<'_>, deadline: Instant, generation: u64) -> Result<Session, NotBound> {
    let begun = now();
    let unreachable = |cause: io::Error| plan.unreachable(cause);
    let stream = Stream::connect(plan.address, deadline.since(begun)).map_err(unreachable)?;
    let own = HostFacts::gather();
    let bound = plan.bind(&stream, &own, begun, deadline)?;
    let attached = plan.attach(&stream, &bound, begun, deadline);
    let (segment, bell) = attached.map_err(|error| NotBound { error, offers: bound.offers.clone() })?;
    let company = Company::of(&own, &crate::from_wire(&bound.host));
    let server = stream.peer_credentials().ok().flatten();
    let shared = Shared { stream, segment, bell, server };
    Ok(Session::new(generation, bound, company, shared, plan.max_message))
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

impl Plan<'_> {
    fn unreachable(&self, cause: io::Error) -> BindError {
        BindError::Unreachable { server: self.uri.into(), cause }
    }

    fn protocol(&self, why: &str) -> BindError {
        BindError::Protocol { server: self.uri.into(), why: why.into() }
    }

    fn no_answer(&self, begun: Instant) -> BindError {
        BindError::NoAnswer { server: self.uri.into(), waited: now().since(begun) }
    }

    fn closed(&self) -> BindError {
        let why = "it closed the connection instead of binding";
        self.unreachable(io::Error::new(io::ErrorKind::ConnectionAborted, why))
    }

    fn bind(
        &self,
        stream: &Stream,
        own: &HostFacts,
        begun: Instant,
        deadline: Instant,
    ) -> Result<Bound, NotBound> {
        let nonce = u64::from_le_bytes(host::random_bytes());
        let interface = crate::bound_interface(self.interface);
        let mut binder = Binder::new(begun, deadline, interface, crate::to_wire(own), nonce);
        let bounds = Bounds { long: Kind::Result, message_max: 0, announced_max: 0, lanes: 1 };
        let mut intake = Intake::new(bounds);
        let mut packet = vec![0; Intake::BUFFER_LEN];
        loop {
            // Once each: nothing is lost on a stream.
            if binder.transmissions() == 0
                && let Some(question) = binder.transmit(now())
            {
                stream.send_all(&question, &[]).map_err(|cause| self.unreachable(cause))?;
            }
            if now() >= deadline {
                return Err(self.no_answer(begun).into());
            }
            let Some(len) = self.receive(stream, &mut intake, &mut packet, deadline)? else { continue };
            match binder.handle_packet(now(), &packet[..len]) {
                BindStep::Continue => {}
                BindStep::Bound(bound) => return Ok(bound),
                BindStep::Refused(status, text) => {
                    let offers = if status == BindStatus::NotAllowed { text.clone() } else { String::new() };
                    let error = crate::not_bound(BindStep::Refused(status, text), self.interface, self.uri);
                    return Err(NotBound { error, offers });
                }
                step => return Err(crate::not_bound(step, self.interface, self.uri).into()),
            }
        }
    }

    /// Waits for a packet and puts it into `packet`; `None` when there is none yet.
    fn receive(
        &self,
        stream: &Stream,
        intake: &mut Intake,
        packet: &mut Vec<u8>,
        deadline: Instant,
    ) -> Result<Option<usize>, BindError> {
        let limit_ns = deadline.since(now()).as_nanos() as u64;
        match stream.recv_within(intake.space(), limit_ns.max(1)) {
            Ok(StreamArrival::Bytes(len)) => intake.received(len),
            Ok(StreamArrival::Nothing) => return Ok(None),
            Ok(StreamArrival::Closed) => return Err(self.closed()),
            Err(cause) => return Err(self.unreachable(cause)),
        }
        match intake.poll().map_err(|why| self.protocol(&why.to_string()))? {
            None => Ok(None),
            Some(Arrival::Message(message)) => {
                let len = HEADER_LEN + message.header.message_len as usize;
                message.take(packet);
                Ok(Some(len))
            }
            Some(Arrival::NotTaken(..)) => Err(self.protocol("it sends a result before any call")),
        }
    }

    /// Asks for the memory.
    fn attach(
        &self,
        stream: &Stream,
        bound: &Bound,
        begun: Instant,
        deadline: Instant,
    ) -> Result<(Segment, Bell), BindError> {
        let question = Header::bare(Kind::Attach, bound.binding, LaneId(0), CallNumber(0)).to_bytes();
        stream.send_all(&question, &[]).map_err(|cause| self.unreachable(cause))?;
        let mut packet = [0; HEADER_LEN];
        let limit_ns = deadline.since(now()).as_nanos() as u64;
        let received = match stream.set_receive_limit(limit_ns.max(1)) {
            Ok(()) => descriptors::receive(stream, &mut packet),
            Err(cause) => Err(cause),
        };
        let (len, received) = match received {
            Ok((0, _)) => return Err(self.closed()),
            Ok(received) => received,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Err(self.no_answer(begun)),
            Err(cause) => return Err(self.unreachable(cause)),
        };
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
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => self.protocol(&why.to_string()),
            _ => self.unreachable(why),
        };
        let segment = Segment::attach(file).map_err(unusable)?;
        Ok((segment, Bell::from_descriptor(bell).map_err(unusable)?))
    }
}
