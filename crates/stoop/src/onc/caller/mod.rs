//! Calls to one server, written once for all clients: by datagrams of the calling thread's own, or over a connection that all
//! threads share.

pub(crate) mod background;
pub(crate) mod carrier;
pub(crate) mod connection;
pub(crate) mod datagrams;
pub(crate) mod link;
pub(crate) mod not_connected;
pub(crate) mod outstanding;
pub(crate) mod reply;
pub(crate) mod request;
#[cfg_attr(not(feature = "seal"), path = "no_sealing.rs")]
pub(crate) mod sealing;
