//! Packets in Ethernet frames on private Ethernets.

#[path = "../network/mod.rs"]
mod network;

mod hostile;
mod names;
mod neighbours;
mod packets;
mod strangers;
