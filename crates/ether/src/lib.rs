//! Packets in Ethernet frames: the frame, and two mechanisms of Linux that send and receive them without IP
//! and UDP.
//!
//! | | [`PacketRing`] | [`Xdp`] |
//! |---|---|---|
//! | mechanism | a packet socket that receives into a ring of memory | a socket of AF_XDP with an XDP program |
//! | needs | CAP_NET_RAW | CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF |
//! | endpoints at an interface | as many as there are ports; the kernel looks at a frame once for up to 64 callers of a process | one |
//! | longest packet | the interface's MTU less ten bytes | the same, or 3,816 bytes |
//!
//! An [`Endpoint`] is either of them. It has an [`Address`](address::Address): the interface's hardware
//! address and a [port](ports), and callers can find it by a [name](names). [`frame`] says how a packet lies in
//! a frame. The crate knows nothing about the packets.
//!
//! Neither mechanism changes the interface or disturbs other traffic, and nothing stays behind when a process
//! ends, also by `kill -9`. A process that forks leaves its endpoints to the parent.
//!
//! `unsafe` code is only in `memory` (mappings and what is read and written there), `packet_ring::ring` and
//! `xdp::socket` (the frames of the kernel), `packet_socket`, `ethtool` and `xdp::system` (system calls), and
//! `exclusive` (a lock).

#![deny(unsafe_code)]

pub mod address;
mod arrival;
mod counters;
mod endpoint;
mod error;
mod ethtool;
mod exclusive;
pub mod frame;
mod interface;
mod memory;
pub mod names;
mod options;
mod packet_ring;
mod packet_socket;
pub mod ports;
pub mod posts;
mod privilege;
mod reserved;
mod sleep;
mod xdp;

pub use arrival::Arrival;
pub use counters::Counted;
pub use endpoint::{Backend, Endpoint};
pub use error::OpenError;
pub use ethtool::set_feature;
pub use interface::{Interface, State, XdpProgram};
pub use memory::Room;
pub use options::Options;
pub use packet_ring::PacketRing;
pub use privilege::Capability;
pub use xdp::{Mode, Xdp, XdpOptions};
