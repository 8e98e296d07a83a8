//! From an address to a binding.

use crate::calling::handshake::{Handshake, Plan};
use crate::error::BindError;
use crate::transport::stream::caller::session::{MOST_LANES, Session};
use stoop_exchange::Instant;
use stoop_exchange::stream::{Bounds, Reassembler};
use stoop_net::waiting::Placement;
use stoop_wire::Kind;

/// Connects, and gets a binding from the server.
pub(crate) fn connect(plan: &Plan<'_>, deadline: Instant, generation: u64) -> Result<Session, BindError> {
    let handshake = Handshake::connect(plan, deadline)?;
    let mut intake = Reassembler::new(Bounds {
        long: Kind::Result,
        message_max: plan.max_message,
        // As many results as there are lanes to ask on.
        announced_max: usize::MAX,
        lanes: MOST_LANES,
    });
    let bound = handshake.bind(&mut intake).map_err(|not_bound| not_bound.error)?;
    let placement = Placement::of(&handshake.own, &crate::host_facts::from_wire(&bound.host));
    Ok(Session::new(generation, bound, placement, handshake.stream, intake))
}
