//! Byte streams: TCP and Unix sockets.

pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod server;
