//! Calls in Ethernet frames, each test on a private Ethernet of its own.

#[path = "../harness/mod.rs"]
mod harness;

mod attacks;
mod changes;
mod checksums;
mod credits;
mod forged;
mod fork;
mod frames;
mod held;
mod interfaces;
mod names;
mod soak;
mod threads;
mod upgrades;
