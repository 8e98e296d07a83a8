//! How a caller makes a sealed binding over packets.

use crate::calling::sealing::{Asking, Carrier, HANDSHAKE_MAX, WAIT, cannot_seal};
use crate::error::{BindError, CallError};
use crate::options::{BindOptions, OwnOptions};
use crate::security::handshake::INTERFACE;
use crate::transport::packet::bind::{self, new_binder, session};
use crate::transport::packet::caller::PacketTransport;
use crate::transport::packet::caller::lane::PacketLane;
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, PacketLink, Share};
use crate::transport::packet::now;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::protection::Protection;
use crate::transport::packet::protection::sealed::SealedBinding;
use crate::transport::packet::session::Session;
use crate::transport::packet::steps::Ended;
use crate::transport::remote::Plan;
use std::io;
use std::sync::Arc;
use std::thread;
use stoop_exchange::Instant;
use stoop_net::host::HostFacts;
use stoop_seal::Side;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId, RefusalCode};

/// Makes a sealed binding; `None`: neither the address nor the options say that it is to be sealed.
pub(super) fn bind<L: PacketLink>(
    plan: &Plan<'_, PacketTransport<L>>,
    deadline: Instant,
    generation: u64,
) -> Option<Result<(Session, Endpoint<L>), BindError>> {
    let asking = Asking::new(plan.uri, plan.options).transpose()?;
    Some(asking.and_then(|asking| {
        loop {
            match bind_sealed(plan, &asking, deadline, generation) {
                // The server was restarted, or takes the handshake for given up because so many callers begin one.
                Err(Failed { is_forgotten: true, .. }) if now() + WAIT < deadline => thread::sleep(WAIT),
                bound => return bound.map_err(|failed| failed.why),
            }
        }
    }))
}

/// The end of a handshake without a binding.
struct Failed {
    why: BindError,
    /// The server does not know the provisional binding any more.
    is_forgotten: bool,
}

impl From<BindError> for Failed {
    fn from(why: BindError) -> Self {
        Self { why, is_forgotten: false }
    }
}

fn bind_sealed<L: PacketLink>(
    plan: &Plan<'_, PacketTransport<L>>,
    asking: &Asking,
    deadline: Instant,
    generation: u64,
) -> Result<(Session, Endpoint<L>), Failed> {
    let &Plan { interface, uri, address, options, .. } = plan;
    // Nothing that the user has asked for is told by it.
    let provisional = BindOptions {
        own: OwnOptions::default(),
        account: None,
        max_message: options.max_message.max(HANDSHAKE_MAX),
        ..options.clone()
    };
    let bound = bind::bind::<L>(&INTERFACE, uri, address, deadline, &provisional, 0);
    let (session_of_handshake, endpoint) = bound.map_err(|why| cannot_seal(uri, why))?;
    let round_trip = session_of_handshake.round_trip;
    let mut lane = PacketLane::of(Arc::new(session_of_handshake), endpoint, &provisional);
    let own = HostFacts::gather();
    let (window, required) = (lane.endpoint.window(), L::required_flags(address));
    let mut binder = new_binder(interface, deadline, options, &own, window, required);
    let mut carrier = LaneOfHandshake { lane: &mut lane, uri, deadline, is_forgotten: false };
    let granted = asking.converse(interface, &mut carrier, &mut binder);
    let is_forgotten = carrier.is_forgotten;
    let id = lane.session.bound.binding;
    let unbind = Header::bare(Kind::Unbind, id, LaneId(0), CallNumber::ZERO);
    let _ = lane.session.protection.send(&lane.endpoint, &unbind.to_bytes());
    let granted = granted.map_err(|why| Failed { why, is_forgotten })?;
    let seal = granted.keys.seal(Side::Caller, now().as_nanos());
    let sealed = SealedBinding::new(granted.bound.binding, seal, granted.server);
    let mut session =
        session((uri, address.to_string()), granted.bound, round_trip, &own, options, generation);
    session.protection = Protection::sealed(sealed);
    let endpoint = match options.own.of::<PacketOptions>().shares_endpoints {
        true => Endpoint::connect(address, Share::OneLane, true)
            .map_err(|cause| BindError::Unreachable { server: uri.into(), cause })?,
        false => lane.endpoint,
    };
    session.mechanism = endpoint.describe();
    session.prepare(&endpoint);
    Ok((session, endpoint))
}

/// The lane of a provisional binding.
struct LaneOfHandshake<'a, L: PacketLink> {
    lane: &'a mut PacketLane<Endpoint<L>>,
    uri: &'a str,
    deadline: Instant,
    is_forgotten: bool,
}

impl<L: PacketLink> Carrier for LaneOfHandshake<'_, L> {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn uri(&self) -> &str {
        self.uri
    }

    fn try_call(&mut self, procedure: u16, bytes: &[u8]) -> Result<Option<Vec<u8>>, BindError> {
        let Self { lane, uri, deadline, is_forgotten } = self;
        let needed = HEADER_LEN + bytes.len();
        if lane.call.len() < needed {
            lane.call.resize(needed, 0);
        }
        lane.call[HEADER_LEN..needed].copy_from_slice(bytes);
        let begun = now();
        let unreachable = |cause| BindError::Unreachable { server: (*uri).into(), cause };
        match lane.exchange::<false>(begun, *deadline, procedure, bytes.len()) {
            Ok(()) => Ok(Some(lane.result[HEADER_LEN..HEADER_LEN + lane.result_len].to_vec())),
            Err(Ended::With(CallError::Refused(why, ..))) if why.code == RefusalCode::Overloaded => Ok(None),
            Err(Ended::With(CallError::Unknown { waited, .. })) => {
                Err(BindError::NoAnswer { server: (*uri).into(), waited })
            }
            Err(Ended::With(why)) => Err(unreachable(io::Error::other(format!("in the handshake: {why}")))),
            Err(Ended::Unbound(_)) => {
                *is_forgotten = true;
                Err(unreachable(io::Error::other("the server was restarted in the handshake")))
            }
        }
    }
}
