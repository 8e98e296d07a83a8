//! Shared memory between real processes: honest, hostile, stopped and killed ones, and those of other users.

#[path = "../harness/mod.rs"]
mod harness;

mod buffers;
mod calls;
mod changing;
mod death;
mod greedy_users;
mod hostile;
mod idle;
mod others;
mod parting;
mod pipes;
mod time;
mod unwanted_descriptors;
mod users;

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    harness::processes::play(&[
        buffers::play,
        greedy_users::play,
        hostile::play,
        idle::play,
        others::play,
        parting::play,
        pipes::play,
        time::play,
        users::play,
    ]);
}
