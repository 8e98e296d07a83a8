//! How a caller makes a sealed binding: a handshake of TLS in the arguments and results of calls on a plain, provisional binding.
//!
//! Nothing of the provisional binding counts but its number: the request for the real binding and its answer are messages of TLS.

use crate::error::{BindError, CallError};
use crate::options::{BindOptions, OwnOptions};
use crate::security::Security;
use crate::security::keys::PublicKey;
use crate::security::tls::{CallerHandshake, Failed};
use crate::transport::packet::bind::{self, new_binder, session};
use crate::transport::packet::caller::PacketTransport;
use crate::transport::packet::caller::lane::PacketLane;
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::handshake::{FINISH, HELLO, INTERFACE};
use crate::transport::packet::link::{CallerEndpoint, PacketLink, Share};
use crate::transport::packet::now;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::protection::Protection;
use crate::transport::packet::protection::sealed::SealedBinding;
use crate::transport::packet::session::Session;
use crate::transport::packet::steps::Ended;
use crate::transport::remote::Plan;
use crate::uri::split_key;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_net::host::HostFacts;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId};

/// Bytes of a message of the handshake at most.
const HANDSHAKE_MAX: usize = 32 << 10;

/// Calls of [`HELLO`] at most: the server may ask for another group.
const HELLOS: u32 = 2;

/// Makes a sealed binding; `None`: neither the address nor the options say that it is to be sealed.
pub(super) fn bind<L: PacketLink>(
    plan: &Plan<'_, PacketTransport<L>>,
    deadline: Instant,
    generation: u64,
) -> Option<Result<(Session, Endpoint<L>), BindError>> {
    let said: Security = plan.options.own.of();
    let address = plan.uri.split_once(':').map_or("", |(_, address)| address.trim_start_matches('/'));
    let named = split_key(address).0.map(str::parse::<PublicKey>);
    let security = match (said.keys(), &named) {
        (Some(_), _) => said,
        (None, Some(_)) => Security::of_address(),
        (None, None) => return None,
    };
    let keys = security.keys().expect("it is with keys");
    Some(match named {
        Some(Err(why)) => Err(not_secure(plan.uri, format!("names no key of a server: {why}"))),
        Some(Ok(key)) => Asking { plan, keys, servers: vec![key], deadline }.bind(generation),
        None => Asking { plan, keys, servers: keys.known_servers(), deadline }.bind(generation),
    })
}

fn not_secure(server: &str, why: impl Into<String>) -> BindError {
    BindError::Security { server: server.into(), why: why.into() }
}

/// A caller that makes a sealed binding.
struct Asking<'a, L: PacketLink> {
    plan: &'a Plan<'a, PacketTransport<L>>,
    keys: &'a crate::security::Keys,
    /// The servers that it takes.
    servers: Vec<PublicKey>,
    deadline: Instant,
}

impl<L: PacketLink> Asking<'_, L> {
    fn bind(self, generation: u64) -> Result<(Session, Endpoint<L>), BindError> {
        let &Plan { uri, address, options, .. } = self.plan;
        // Nothing that the user has asked for is told by it.
        let provisional = BindOptions {
            own: OwnOptions::default(),
            account: None,
            max_message: options.max_message.max(HANDSHAKE_MAX),
            ..options.clone()
        };
        let bound = bind::bind::<L>(&INTERFACE, uri, address, self.deadline, &provisional, 0);
        let (session, endpoint) = bound.map_err(|why| match why {
            BindError::NoSuchInterface { .. } => not_secure(
                uri,
                "cannot seal: it was built without the cargo feature `seal`, or has no Server::security. Nothing was sent to it",
            ),
            why => why,
        })?;
        let mut lane = PacketLane::of(Arc::new(session), endpoint, &provisional);
        let made = self.converse(&mut lane, generation);
        let id = lane.session.bound.binding;
        let unbind = Header::bare(Kind::Unbind, id, LaneId(0), CallNumber::ZERO);
        let _ = lane.session.protection.send(&lane.endpoint, &unbind.to_bytes());
        let mut session = made?;
        let endpoint = match options.own.of::<PacketOptions>().shares_endpoints {
            true => Endpoint::connect(address, Share::OneLane, true)
                .map_err(|cause| BindError::Unreachable { server: uri.into(), cause })?,
            false => lane.endpoint,
        };
        session.mechanism = endpoint.describe();
        session.prepare(&endpoint);
        Ok((session, endpoint))
    }

    /// Makes the handshake by calls on the provisional lane.
    fn converse(&self, lane: &mut PacketLane<Endpoint<L>>, generation: u64) -> Result<Session, BindError> {
        let &Plan { interface, uri, address, options, .. } = self.plan;
        let mut handshake = CallerHandshake::begin(self.keys, self.servers.clone());
        let mut hellos = 0;
        while handshake.is_going_on() {
            if hellos == HELLOS {
                return Err(not_secure(uri, "does not end the handshake"));
            }
            hellos += 1;
            let answer = self.call(lane, HELLO, &handshake.output())?;
            handshake.input(&answer).map_err(|failed| self.failed(failed))?;
        }
        let own = HostFacts::gather();
        let (window, required) = (lane.endpoint.window(), L::required_flags(address));
        let mut binder = new_binder(interface, self.deadline, options, &own, window, required);
        let bound = loop {
            match self.ask(lane, &mut handshake, &mut binder)? {
                BindStep::Continue => {}
                BindStep::Bound(bound) => break bound,
                step => return Err(crate::calling::refused_bind::not_bound(step, interface, uri)),
            }
        };
        let seal = Some(bound.binding).filter(|id| id.is_sealed());
        let seal = seal.and_then(|id| handshake.seal(id, now().as_nanos()));
        let seal = seal.ok_or_else(|| not_secure(uri, "has granted a binding that is not sealed"))?;
        let sealed = SealedBinding::new(bound.binding, seal, handshake.server());
        let round_trip = lane.session.round_trip;
        let session = session((uri, address.to_string()), bound, round_trip, &own, options, generation);
        Ok(Session { protection: Protection::sealed(sealed), ..session })
    }

    /// Sends the binder's next packet, and has it take the answer.
    fn ask(
        &self,
        lane: &mut PacketLane<Endpoint<L>>,
        handshake: &mut CallerHandshake,
        binder: &mut Binder,
    ) -> Result<BindStep, BindError> {
        let Some(question) = binder.transmit(now()) else {
            return Err(not_secure(self.plan.uri, "gives an answer that is none to a bind request"));
        };
        handshake.write(&question);
        let answer = self.call(lane, FINISH, &handshake.output())?;
        handshake.input(&answer).map_err(|failed| self.failed(failed))?;
        Ok(binder.handle_packet(now(), &handshake.read()))
    }

    /// Makes a call with these bytes as arguments; returns those of its result.
    fn call(
        &self,
        lane: &mut PacketLane<Endpoint<L>>,
        procedure: u16,
        bytes: &[u8],
    ) -> Result<Vec<u8>, BindError> {
        let needed = HEADER_LEN + bytes.len();
        if lane.call.len() < needed {
            lane.call.resize(needed, 0);
        }
        lane.call[HEADER_LEN..needed].copy_from_slice(bytes);
        let begun = now();
        match lane.exchange::<false>(begun, self.deadline, procedure, bytes.len()) {
            Ok(()) => Ok(lane.result[HEADER_LEN..HEADER_LEN + lane.result_len].to_vec()),
            Err(Ended::With(CallError::Unknown { waited, .. })) => {
                Err(BindError::NoAnswer { server: self.plan.uri.into(), waited })
            }
            Err(Ended::With(why)) => {
                let cause = io::Error::other(format!("in the handshake: {why}"));
                Err(BindError::Unreachable { server: self.plan.uri.into(), cause })
            }
            Err(Ended::Unbound(_)) => {
                let cause = io::Error::other("the server was restarted in the handshake");
                Err(BindError::Unreachable { server: self.plan.uri.into(), cause })
            }
        }
    }

    fn failed(&self, failed: Failed) -> BindError {
        let why = match failed {
            Failed::OtherServer(shown) => format!(
                "is not the server that this client takes: its key is {shown}. If its key was renewed, take the new address from its \
                 administrator"
            ),
            Failed::UnknownCaller => match &self.keys.own {
                Some(own) => format!(
                    "does not know this caller. Its administrator adds the line \"NAME {}\" to the file of callers; no restart is needed",
                    own.public
                ),
                None => {
                    "serves callers with keys only, and this one has none: `stoop keygen` makes one".into()
                }
            },
            Failed::Protocol(why) => format!("does not agree on a handshake: {why}"),
        };
        not_secure(self.plan.uri, why)
    }
}
