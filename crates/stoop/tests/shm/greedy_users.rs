//! A user that takes all that it can of a server, and what another user still gets: real processes, started by root.

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::lab::{Bench, LabBegin, LabClient, LabServer};
use crate::harness::processes::{NOBODY, Process, name, patient};
use std::thread;
use std::time::Duration;
use stoop::{CallError, Limits, PacketOptions, Pending, RunningServer, Server, ShmOptions, UnixOptions};

const MIB: usize = 1 << 20;
/// Bindings of the greedy user, and its begun calls over each.
const BINDINGS: usize = 8;
const CALLS: usize = 4;

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "arguments" => {
            let bytes = vec![1; 2 * MIB];
            take_all(uri, CALLS, |begin| begin.wait_with(&bytes));
        }
        "workers" => take_all(uri, 100, |begin| begin.wait()),
        "flood" => flood(uri),
        _ => return false,
    }
    true
}

/// Begins so many calls over each of several bindings, and holds them until the test ends this process.
fn take_all(uri: &str, calls: usize, begin: impl Fn(&LabBegin<'_>) -> Pending<Result<(), CallError>>) {
    let clients: Vec<_> = (0..BINDINGS).map(|_| LabClient::bind_with(uri, &patient(uri)).unwrap()).collect();
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

/// Keeps calls under way that do not end, and makes another for each that is refused.
fn flood(uri: &str) {
    let clients: Vec<_> = (0..BINDINGS).map(|_| LabClient::bind_with(uri, &patient(uri)).unwrap()).collect();
    let mut held: Vec<Vec<Pending<Result<(), CallError>>>> = clients.iter().map(|_| Vec::new()).collect();
    println!("begun");
    loop {
        for (client, held) in clients.iter().zip(&mut held) {
            held.retain(|call| !call.is_ready());
            let together = client.begin();
            held.extend((held.len()..100).map(|_| together.wait()));
        }
        thread::yield_now();
    }
}

/// A server for all users, at which calls wait at the gate.
fn server(uri: &str, gate: &Gate) -> RunningServer {
    let limits = Limits::new().argument_bytes(16 * MIB).result_bytes(16 * MIB);
    let server = Server::new()
        .export(LabServer::new(Bench::with(gate)))
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
    let client = LabClient::bind_with(uri, &patient(uri)).unwrap();
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
        // The memory that it held is free again.
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

#[test]
fn a_flood_at_workers_that_are_all_stuck_keeps_no_timer_from_its_work() {
    let gate = Gate::default();
    let server = Server::new().export(LabServer::new(Bench::with(&gate))).workers(2).queue(16);
    let server = server.with(PacketOptions::new().silence_limit(Duration::from_secs(1)));
    let server = server.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    let _opens = gate.open_on_drop();
    let mut greedy = Process::spawn(&mut Process::command("flood", &uri));
    greedy.await_line("begun");
    gate.await_inside(2);
    eventually(|| server.counters().refused > 1000);
    // A binding is made, is silent, and is released for that.
    let silent = LabClient::bind_with(&uri, &patient(&uri)).unwrap();
    let bindings = BINDINGS as u64;
    eventually(|| server.counters().bindings == bindings);
    drop(silent);
    let refused = server.counters().refused;
    eventually(|| server.counters().refused > refused);
    greedy.kill();
}

#[test]
fn a_user_has_three_quarters_of_the_bindings_that_a_limit_allows_over_shared_memory() {
    let gate = Gate::default();
    let server = Server::new().export(LabServer::new(Bench::with(&gate))).limits(Limits::new().bindings(8));
    let server = server.with(ShmOptions::new().allow_everybody()).listen(&name()).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    let bind = || LabClient::bind_with(&uri, &patient(&uri));
    let mut held: Vec<_> = (0..6).map(|_| bind().unwrap()).collect();
    assert!(
        bind().is_err_and(|why| why.to_string().contains("host or user has as many")),
        "a user has six of eight"
    );
    assert_eq!((server.counters().bindings, server.counters().binds_refused), (6, 1));
    held.pop();
    // The server learns of the end of a binding a moment later.
    eventually(|| bind().is_ok());
}
