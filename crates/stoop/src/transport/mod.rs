//! The transports: one folder for each.

pub(crate) mod local;
pub(crate) mod packet;
pub(crate) mod shm;
pub(crate) mod stream;
