//! The packet exchange, over a packet link.

pub(crate) mod begun;
pub(crate) mod bind;
pub(crate) mod caller;
pub(crate) mod caller_endpoint;
pub(crate) mod endpoint;
pub(crate) mod link;
pub(crate) mod mailbox;
pub(crate) mod options;
pub(crate) mod packet_run;
pub(crate) mod pipes;
pub(crate) mod protection;
pub(crate) mod room;
pub(crate) mod server;
pub(crate) mod server_endpoint;
pub(crate) mod session;
pub(crate) mod shared_endpoint;
pub(crate) mod steps;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod transport;

use stoop_exchange::Instant;

/// The time, by the clock of the exchange.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::from_nanos(stoop_net::clock::now_ns())
}
