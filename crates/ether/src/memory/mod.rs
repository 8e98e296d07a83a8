//! Memory that the kernel and this process share, and room for packets in it.

mod descriptors;
mod mapping;
mod room;
mod umem;

pub(crate) use descriptors::{Consumer, Producer};
pub(crate) use mapping::Mapping;
pub use room::Room;
pub(crate) use umem::{Chunk, Sending, Umem};
