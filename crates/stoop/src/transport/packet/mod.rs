//! The packet exchange, over a packet link.

pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod checksum;
pub(crate) mod server;
pub(crate) mod session;
