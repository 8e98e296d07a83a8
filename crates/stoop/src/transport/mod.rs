//! The transports: one folder for each, and their contract.

pub(crate) mod callback;
pub(crate) mod contract;
#[cfg(feature = "ether")]
pub(crate) mod ether;
pub(crate) mod local;
#[cfg(feature = "test-transports")]
pub(crate) mod memory;
pub(crate) mod packet;
pub(crate) mod remote;
pub(crate) mod shm;
pub(crate) mod stream;
pub(crate) mod udp;
