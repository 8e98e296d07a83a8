//! The ends of servers and of processes, and new beginnings: shutdown, restart, death and fork.

#[path = "../harness/mod.rs"]
mod harness;

mod activation;
mod binding_again;
mod closing;
mod death;
mod fork;
mod one_thread;
mod open_calls;
mod piped;
mod rolling_restart;
mod rolling_revisions;
mod shutdown;
mod shutdown_queued;
mod slow_readers;
mod two_servers;

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    harness::processes::play(&[
        activation::play,
        death::play,
        fork::play,
        one_thread::play,
        open_calls::play,
        piped::play,
        rolling_restart::play,
        rolling_revisions::play,
        two_servers::play,
    ]);
}
