//! A user that takes all that it can of a server, and what another user still gets: real processes, started by root.

mod gate;
mod processes;

use gate::Gate;
use processes::{NOBODY, Process, eventually, name, patient};
use std::thread;
use stoop::{CallError, Limits, Pending, RunningServer, Server, ShmOptions, UnixOptions};

#[stoop::interface]
trait Lab {
    fn null(&self);
    fn sum(&self, bytes: &[u8]) -> u64;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Returns when the test says so.
    fn wait(&self);
    /// As `wait`, with an argument.
    fn wait_with(&self, bytes: &[u8]);
}

struct Bench(Gate);

impl Lab for Bench {
    fn null(&self) {}
    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn wait(&self) {
        self.0.pass();
    }
    fn wait_with(&self, _: &[u8]) {
        self.0.pass();
    }
}

const MIB: usize = 1 << 20;
/// Bindings of the greedy user, and its begun calls over each.
const BINDINGS: usize = 8;
const CALLS: usize = 4;

/// No test of its own: the process of the greedy user, when it is started as such.
#[test]
fn process() {
    processes::play(|role, uri| match role {
        "arguments" => {
            let bytes = vec![1; 2 * MIB];
            take_all(uri, CALLS, |begin| begin.wait_with(&bytes));
        }
        "workers" => take_all(uri, 100, |begin| begin.wait()),
        other => panic!("{other}"),
    });
}

/// Begins so many calls over each of several bindings, and holds them until the test ends this process.
fn take_all(uri: &str, calls: usize, begin: impl Fn(&LabBegin<'_>) -> Pending<Result<(), CallError>>) {
    let clients: Vec<_> = (0..BINDINGS).map(|_| LabClient::bind_with(uri, &patient()).unwrap()).collect();
    let held: Vec<_> = clients
        .iter()
        .map(|client| {
            let together = client.begin();
            (0..calls).map(|_| begin(&together)).collect::<Vec<_>>()
        })
        .collect();
    println!("begun");
    thread::park();
    drop(held);
}

/// A server for all users, at which calls wait at the gate.
fn server(uri: &str, gate: &Gate) -> RunningServer {
    let limits = Limits::new().argument_bytes(16 * MIB).result_bytes(16 * MIB);
    let server = Server::new()
        .export(LabServer::new(Bench(gate.clone())))
        .max_message(4 * MIB)
        .workers(8)
        .limits(limits);
    let server = match uri.starts_with("unix:") {
        true => server.with(UnixOptions::new().allow_everybody()),
        false => server.with(ShmOptions::new().allow_everybody()),
    };
    server.listen(uri).unwrap().start().unwrap()
}

/// The present user binds, and makes calls of all lengths.
fn is_served(uri: &str) {
    let client = LabClient::bind_with(uri, &patient()).unwrap();
    assert!((0..100).all(|_| client.null().is_ok()));
    let bytes = vec![3; MIB];
    for _ in 0..4 {
        assert_eq!(client.sum(&bytes).unwrap(), 3 * MIB as u64);
        assert_eq!(client.echo(&bytes).unwrap(), bytes);
    }
}

/// Lets the greedy user play a role at servers of both transports, until `has_taken` is true of the server. Another user is served
/// then.
fn leaves_enough(test: &str, role: &str, has_taken: impl Fn(&RunningServer, &Gate) -> bool) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: {test}: only root can start processes of other users");
        return;
    }
    let name = name();
    for uri in [name.replace("shm:", "unix:@"), name] {
        let gate = Gate::default();
        let server = server(&uri, &gate);
        let _opens = gate.open_on_drop();
        let mut greedy = Process::spawn(Process::as_user(&mut Process::command(role, &uri), NOBODY, NOBODY));
        greedy.await_line("begun");
        eventually(|| has_taken(&server, &gate));
        is_served(&uri);
        greedy.kill();
        gate.open();
        // What it held is free again.
        eventually(|| server.counters().memory.argument_bytes == 0);
        eventually(|| server.counters().bindings == 0);
    }
}

#[test]
fn long_arguments_of_one_user_leave_memory_for_those_of_another() {
    let test = "long_arguments_of_one_user_leave_memory_for_those_of_another";
    leaves_enough(test, "arguments", |server, _| {
        let memory = server.counters().memory;
        assert!(memory.argument_bytes <= 16 * MIB as u64 * 3 / 4, "{memory:?}");
        memory.arguments_refused > 0
    });
}

#[test]
fn calls_of_one_user_leave_workers_for_those_of_another() {
    // Of eight workers it has six.
    leaves_enough("calls_of_one_user_leave_workers_for_those_of_another", "workers", |_, gate| {
        assert!(gate.inside() <= 6);
        gate.inside() == 6
    });
}
