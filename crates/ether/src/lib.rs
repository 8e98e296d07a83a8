//! Packets in Ethernet frames: the frame, and two mechanisms of Linux that send and receive them without IP and UDP.

#![deny(unsafe_code)]

pub mod address;
mod arrival;
mod counters;
mod error;
mod exclusive;
pub mod frame;
mod interface;
mod memory;
mod options;
mod packet_ring;
pub mod ports;
mod privilege;
mod sleep;
mod xdp;
pub use arrival::Arrival;
pub use counters::Counted;
pub use error::OpenError;
pub use interface::{Interface, State, XdpProgram};
pub use memory::Room;
pub use options::Options;
pub use packet_ring::PacketRing;
pub use privilege::Capability;
pub use xdp::{Mode, Xdp, XdpOptions};
