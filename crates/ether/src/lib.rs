//! Packets in Ethernet frames: the frame, and two mechanisms of Linux that send and receive them without IP and UDP.

#![deny(unsafe_code)]

pub mod address;
pub mod frame;
