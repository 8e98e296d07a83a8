//! The packet exchange, over a packet link.

pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod checksum;
#[allow(dead_code, reason = "the exchange is being converted to it")]
pub(crate) mod link;
pub(crate) mod options;
pub(crate) mod server;
pub(crate) mod session;
