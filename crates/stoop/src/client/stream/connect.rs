//! From an address to a binding.

use super::session::{MOST_LANES, Session};
use crate::error::BindError;
use crate::stub::Interface;
use std::fmt::Display;
use std::io;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::stream::{Arrival, Bounds, Intake};
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::stream::{Stream, StreamAddress, StreamArrival};
use stoop_net::waiting::Company;
use stoop_wire::{HEADER_LEN, Kind};

/// What a binding is made of.
pub(super) struct Plan<'a> {
    pub(super) interface: &'static Interface,
    pub(super) uri: &'a str,
    pub(super) address: &'a StreamAddress,
    pub(super) max_message: usize,
}

/// Connects, and gets a binding from the server.
pub(super) fn connect(plan: &Plan<'_>, deadline: Instant, generation: u64) -> Result<Session, BindError> {
    let begun = now();
    let unreachable = |cause: io::Error| plan.unreachable(cause);
    let stream = Stream::connect(plan.address, deadline.since(begun)).map_err(unreachable)?;
    let own = HostFacts::gather();
    let nonce = u64::from_le_bytes(host::random_bytes());
    let interface = crate::bound_interface(plan.interface);
    let mut binder = Binder::new(begun, deadline, interface, crate::to_wire(&own), nonce);
    let mut intake = Intake::new(Bounds {
        long: Kind::Result,
        message_max: plan.max_message,
        // As many results as there are lanes to ask on.
        announced_max: usize::MAX,
        lanes: MOST_LANES,
    });
    let mut packet = vec![0; Intake::BUFFER_LEN];
    let bound = loop {
        // Once each: nothing is lost on a stream.
        if binder.transmissions() == 0
            && let Some(question) = binder.transmit(now())
        {
            stream.send_all(&question, &[]).map_err(unreachable)?;
        }
        if now() >= deadline {
            return Err(BindError::NoAnswer { server: plan.uri.into(), waited: now().since(begun) });
        }
        if let Some(len) = plan.receive(&stream, &mut intake, &mut packet, deadline)? {
            match binder.handle_packet(now(), &packet[..len]) {
                BindStep::Continue => {}
                BindStep::Bound(bound) => break bound,
                step => return Err(crate::not_bound(step, plan.interface, plan.uri)),
            }
        }
    };
    let company = Company::of(&own, &crate::from_wire(&bound.host));
    Ok(Session::new(generation, bound, company, stream, intake))
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

impl Plan<'_> {
    fn unreachable(&self, cause: io::Error) -> BindError {
        BindError::Unreachable { server: self.uri.into(), cause }
    }

    fn protocol(&self, why: impl Display) -> BindError {
        BindError::Protocol { server: self.uri.into(), why: why.to_string() }
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
            Ok(StreamArrival::Closed) => {
                let why = "it closed the connection instead of binding";
                return Err(self.unreachable(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
            }
            Err(cause) => return Err(self.unreachable(cause)),
        }
        match intake.poll().map_err(|why| self.protocol(why))? {
            None => Ok(None),
            Some(Arrival::Message(message)) => {
                let len = HEADER_LEN + message.header.message_len as usize;
                message.take(packet);
                Ok(Some(len))
            }
            Some(Arrival::NotTaken(..)) => Err(self.protocol("it sends a result before any call")),
        }
    }
}
