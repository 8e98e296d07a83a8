//! The packet exchange over networks that lose, change, reorder and forge packets, and with peers made by hand.

#[path = "../harness/mod.rs"]
mod harness;

mod alternating;
mod batches;
mod corruption;
mod forgetful_server;
mod greedy_callers;
mod large;
mod long_paths;
mod lossy;
mod moving;
mod raw_caller;
mod unknowns;
