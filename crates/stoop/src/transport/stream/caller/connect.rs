//! From an address to a binding.

use crate::calling::handshake::{Handshake, NotBound};
use crate::transport::remote::{Plan, Replaced, next_generation};
use crate::transport::stream::caller::StreamTransport;
use crate::transport::stream::caller::session::{MOST_LANES, Session};
use crate::transport::stream::channel::Channel;
use stoop_exchange::Instant;
use stoop_exchange::stream::{Bounds, Reassembler};
use stoop_net::waiting::Placement;
use stoop_wire::Kind;

/// Connects, and gets a binding from the server.
pub(crate) fn connect(
    plan: &Plan<'_, StreamTransport>,
    deadline: Instant,
    replaced: Option<Replaced<'_, Session>>,
) -> Result<Session, NotBound> {
    let connection = plan.handshake(&plan.own.users);
    let handshake = Handshake::connect(&connection, deadline)?;
    let mut reassembler = Reassembler::new(Bounds {
        long: Kind::Result,
        message_max: plan.options.max_message,
        // As many results as there are lanes to ask on.
        announced_max: usize::MAX,
        lanes: MOST_LANES,
    });
    let bound = handshake.bind(&mut reassembler)?;
    let placement = Placement::of(&handshake.own, &crate::host_facts::from_wire(&bound.host));
    let (replaced, ignored) = (replaced.as_ref(), replaced.as_ref().map_or(0, |lost| lost.session.ignored()));
    Ok(Session::new(
        next_generation(replaced),
        bound,
        placement,
        (Channel::new(handshake.stream), reassembler),
        ignored,
    ))
}
