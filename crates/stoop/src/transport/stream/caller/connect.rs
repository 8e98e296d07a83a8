//! From an address to a binding.

use crate::calling::handshake::{Handshake, NotBound};
#[cfg(feature = "seal")]
use crate::calling::sealing::Asking;
use crate::transport::remote::{Plan, Replaced, next_generation};
use crate::transport::stream::caller::StreamTransport;
#[cfg(feature = "seal")]
use crate::transport::stream::caller::sealing::{self, SealedConnection};
use crate::transport::stream::caller::session::{MOST_LANES, Session};
use crate::transport::stream::channel::Channel;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_exchange::stream::{Bounds, Reassembler};
use stoop_net::host::HostFacts;
use stoop_net::waiting::Placement;
use stoop_wire::Kind;

/// Connects, and gets a binding from the server.
pub(crate) fn connect(
    plan: &Plan<'_, StreamTransport>,
    deadline: Instant,
    replaced: Option<Replaced<'_, Session>>,
) -> Result<Session, NotBound> {
    let mut reassembler = Reassembler::new(Bounds {
        long: Kind::Result,
        message_max: plan.options.max_message,
        // As many results as there are lanes to ask on.
        announced_max: usize::MAX,
        lanes: MOST_LANES,
        pipes: true,
    });
    #[cfg(feature = "seal")]
    if let Some(asking) = Asking::new(plan.uri, plan.options)? {
        let SealedConnection { channel, bound, own } = sealing::connect(plan, &asking, deadline)?;
        return Ok(session((channel, reassembler), bound, &own, replaced));
    }
    let connection = plan.handshake(&plan.own.users);
    let handshake = Handshake::connect(&connection, deadline)?;
    let bound = handshake.bind(&mut reassembler)?;
    let channel = Channel::new(handshake.stream);
    Ok(session((channel, reassembler), bound, &handshake.own, replaced))
}

/// The session of a binding on a connection.
fn session(
    connection: (Channel, Reassembler),
    bound: Bound,
    own: &HostFacts,
    replaced: Option<Replaced<'_, Session>>,
) -> Session {
    let placement = Placement::of(own, &crate::host_facts::from_wire(&bound.host));
    let (replaced, ignored) = (replaced.as_ref(), replaced.as_ref().map_or(0, |lost| lost.session.ignored()));
    Session::new(next_generation(replaced), bound, placement, connection, ignored)
}
