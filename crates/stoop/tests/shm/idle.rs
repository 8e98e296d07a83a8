//! A thousand clients that are bound to one server and do not call cost neither side anything; and what whoever finds no
//! descriptor left is told.

use crate::harness::eventually;
use crate::harness::processes;
use crate::harness::processes::{Process, TargetClient, client, is_idle_for_a_second, name, patient};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::BufRead;
use stoop::Server;

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "serve-few" => {
            let limit = Rlimit { current: Some(64), maximum: Some(64) };
            setrlimit(Resource::Nofile, limit).unwrap();
            processes::serve(Server::new(), uri);
        }
        "serve-many" => {
            let _ = descriptors();
            processes::serve(Server::new(), uri);
        }
        "idle" => be_idle(uri),
        "poor" => be_poor(uri),
        _ => return false,
    }
    true
}

/// Takes as many descriptors as the system gives. Returns how many that is.
fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

/// Binds as many clients as it is told by a line, and calls once on each for every other line.
fn be_idle(uri: &str) {
    let _ = descriptors();
    let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let count: u32 = lines.next().unwrap().parse().unwrap();
    let clients: Vec<TargetClient> = (0..count).map(|_| client(uri)).collect();
    loop {
        for (number, client) in (0..).zip(&clients) {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        println!("called");
        if lines.next().is_none() {
            return;
        }
    }
}

/// Binds though it has no descriptor left, or a few, and says what it is told.
fn be_poor(uri: &str) {
    // The descriptors that a process keeps once it has been bound.
    drop(client(uri));
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    // A socket, the memory and a bell.
    for _ in 0..3 {
        let told = TargetClient::bind_with(uri, &patient(uri)).err().map(|error| error.to_string());
        println!("told: {}", told.unwrap_or_default());
        taken.pop();
    }
    assert!(TargetClient::bind_with(uri, &patient(uri)).is_ok());
}

#[test]
fn a_thousand_idle_clients_cost_nothing_and_are_all_answered() {
    let uri = name();
    let most = descriptors();
    // At each end of a binding a socket and a bell.
    let each = if most < 1200 { (most.saturating_sub(100) / 8) as u32 } else { 250 };
    if each < 250 {
        eprintln!("only {} clients, for there are {most} descriptors (ulimit -Hn)", 4 * each);
    }
    let mut server = Process::start("serve-many", &uri);
    server.await_line("ready");
    let mut clients: Vec<_> = (0..4).map(|_| Process::start("idle", &uri)).collect();
    clients.iter_mut().for_each(|client| client.tell(&each.to_string()));
    clients.iter_mut().for_each(|client| client.await_line("called"));
    {
        let own = client(&uri);
        assert_eq!(own.bindings().unwrap(), u64::from(4 * each) + 1);
    }
    let used = || server.ticks() + clients.iter().map(Process::ticks).sum::<u64>();
    // Work that has just begun may take some seconds to end; one idle second is enough.
    eventually(|| is_idle_for_a_second(used));
    clients.iter_mut().for_each(|client| client.tell("again"));
    clients.iter_mut().for_each(|client| client.await_line("called"));
    drop(clients);
    eventually(|| server.holds().1 == 0);
}

#[test]
fn a_bind_without_descriptors_left_says_so_and_bound_clients_go_on() {
    let uri = name();
    let mut server = Process::start("serve-few", &uri);
    server.await_line("ready");
    let mut clients = Vec::new();
    let refused = loop {
        match TargetClient::bind_with(&uri, &patient(&uri)) {
            Ok(client) => clients.push(client),
            Err(error) => break error.to_string(),
        }
        assert!(clients.len() < 64);
    };
    assert!(refused.contains("as many bindings as it takes"), "{refused}");
    assert!(refused.contains("ulimit -n"), "{refused}");
    for (number, client) in (0..).zip(&clients) {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    // There is room again when a client has left.
    clients.pop();
    eventually(|| TargetClient::bind_with(&uri, &patient(&uri)).is_ok());
}

#[test]
fn a_client_that_finds_no_descriptor_left_is_told_so() {
    let uri = name();
    let _server = Process::server(&uri);
    let mut poor = Process::start("poor", &uri);
    for _ in 0..3 {
        let told =
            std::iter::repeat_with(|| poor.next_line()).find(|line| line.starts_with("told: ")).unwrap();
        assert!(told.contains("ulimit -n"), "{told}");
    }
    poor.ends_well();
}
