//! Packets in Ethernet frames: the frame, and two mechanisms of Linux that send and receive them without IP and UDP.

#![deny(unsafe_code)]

pub mod address;
mod error;
pub mod frame;
mod interface;
pub mod ports;
mod privilege;
pub use error::OpenError;
pub use interface::{Interface, State, XdpProgram};
pub use privilege::Capability;
