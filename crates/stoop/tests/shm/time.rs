//! Callers and servers in time namespaces whose monotonic clocks differ.

use crate::harness::processes::{Process, TargetClient, name, patient};
use std::process::Command;
use std::time::Duration;
use stoop::BindOptions;

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "ask-for-time" => ask(uri),
        _ => return false,
    }
    true
}

const TIMEOUT: Duration = Duration::from_secs(3600);

/// Calls in all ways, and checks how much time its server sees.
fn ask(uri: &str) {
    let client = TargetClient::bind_with(uri, &BindOptions::new().timeout(TIMEOUT)).unwrap();
    let long = vec![1; 100_000];
    for _ in 0..20 {
        assert_eq!(client.next(1).unwrap(), 2);
        assert_eq!(client.begin().next(1).wait().unwrap(), 2);
        assert_eq!(client.echo(&long).unwrap(), long);
        assert_eq!(client.begin().echo(&long).wait().unwrap(), long);
        for seconds in [client.seconds_left().unwrap(), client.begin().seconds_left().wait().unwrap()] {
            // The clocks differ by far more.
            assert!(seconds <= TIMEOUT.as_secs() && seconds > TIMEOUT.as_secs() / 2, "{seconds}");
        }
    }
    println!("done");
}

/// The arguments of unshare(1) by which the monotonic clock of a process is ahead by more than a day.
const AHEAD: [&str; 5] = ["--time", "--monotonic", "100000", "--fork", "--kill-child"];

/// Whether this process may make such a namespace; says so if not.
fn may(test: &str) -> bool {
    let done = Command::new("unshare").args(AHEAD).arg("true").output();
    let may = done.is_ok_and(|done| done.status.success());
    if !may {
        println!("SKIPPED: {test}: `unshare {}` does not work here", AHEAD.join(" "));
    }
    may
}

#[test]
fn server_whose_clock_is_ahead_of_its_callers_sees_their_deadlines() {
    if !may("server_whose_clock_is_ahead_of_its_callers_sees_their_deadlines") {
        return;
    }
    let uri = name();
    let mut server = Process::spawn(&mut Process::command_by("unshare", &AHEAD, "serve", &uri));
    server.await_line("ready");
    assert_eq!(TargetClient::bind_with(&uri, &patient(&uri)).unwrap().next(1).unwrap(), 2);
    Process::start("ask-for-time", &uri).ends_well();
}

#[test]
fn server_whose_clock_is_behind_its_callers_sees_their_deadlines() {
    if !may("server_whose_clock_is_behind_its_callers_sees_their_deadlines") {
        return;
    }
    let uri = name();
    let _server = Process::server(&uri);
    Process::spawn(&mut Process::command_by("unshare", &AHEAD, "ask-for-time", &uri)).ends_well();
}
