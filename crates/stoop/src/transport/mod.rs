//! The transports: one folder for each, and their contract.

pub(crate) mod contract;
pub(crate) mod local;
pub(crate) mod packet;
pub(crate) mod shm;
pub(crate) mod stream;
#[allow(dead_code, reason = "the exchange is being converted to it")]
pub(crate) mod udp;
