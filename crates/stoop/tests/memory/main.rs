//! The memory that servers and clients take and give back. Each test measures a process that has no other task.

#[path = "../harness/mod.rs"]
mod harness;

mod kept;
mod kept_handles;
mod little;
mod many_bindings;
mod onc;
mod open_calls;
mod soak;
mod waiting;

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    harness::processes::play(&[
        kept_handles::play,
        little::play,
        many_bindings::play,
        open_calls::play,
        soak::play,
        waiting::play,
    ]);
}
