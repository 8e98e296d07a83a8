//! Promises to the programs that use the library, beyond those of every transport (see `conformance`): calls, options, names, accounts.

#[path = "../harness/mod.rs"]
mod harness;

mod account;
mod alone;
mod begun_calls;
mod buffers;
mod calls;
mod choice;
mod dynamic;
mod evolution;
mod in_place;
mod instructions;
mod lists;
mod little_stack;
mod long_deadlines;
mod mistakes;
mod names;
mod older_servers;
mod open_addresses;
mod options;
mod out_arguments;
mod program;
mod stubs;
mod two_protocols;
mod versions;
mod wake_up;
mod watch;

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    harness::processes::play(&[choice::play, mistakes::play]);
}
