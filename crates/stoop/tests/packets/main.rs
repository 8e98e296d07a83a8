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
mod metadata;
mod moving;
mod raw_caller;
mod unknowns;
mod waiting_calls;

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    harness::processes::play(&[waiting_calls::play]);
}
