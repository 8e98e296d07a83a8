//! The outcomes that a caller gets when a server is killed: real processes.

use crate::harness::LIMIT;
use crate::harness::loopback;
use crate::harness::processes::Process;
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{BindOptions, CallError, Ran, Server};

#[stoop::interface]
trait Slow {
    /// Tells the number of the server's process.
    fn process(&self) -> u32;
    /// Never returns.
    fn hang(&self);
    /// Tells the number of the server's process, but never returns in the process of that number.
    #[idempotent]
    fn process_after(&self, process: u32) -> u32;
}

struct Hanging;

impl Slow for Hanging {
    fn process(&self) -> u32 {
        std::process::id()
    }
    fn hang(&self) {
        println!("hanging");
        loop {
            std::thread::park();
        }
    }
    fn process_after(&self, process: u32) -> u32 {
        if process == std::process::id() {
            self.hang();
        }
        std::process::id()
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-slow" {
        return false;
    }
    let server = Server::new().export(SlowServer::new(Hanging)).listen(uri).unwrap().start().unwrap();
    println!("{}", server.uris()[0]);
    server.wait();
    true
}

/// Starts a server in another process. Returns the process and its address.
fn start(uri: &str) -> (Process, String) {
    let mut process = Process::start("serve-slow", uri);
    let uri = process.find_line(|line| line.contains(':') && !line.contains(' '));
    (process, uri)
}

/// A port of an address that no other test uses.
fn address(transport: &str) -> String {
    format!("{transport}://{}:0", loopback::address())
}

fn killed_in_a_call(uri: &str) -> CallError {
    let (mut server, uri) = start(uri);
    let client = SlowClient::bind_with(&uri, &BindOptions::new().timeout(LIMIT)).unwrap();
    assert_ne!(client.process().unwrap(), std::process::id());
    std::thread::scope(|scope| {
        let call = scope.spawn(|| client.hang().unwrap_err());
        server.find_line(|line| line.ends_with("hanging"));
        server.kill();
        call.join().unwrap()
    })
}

#[test]
fn a_caller_notices_that_its_server_was_killed_in_a_long_call() {
    let error = killed_in_a_call(&address("udp"));
    assert!(
        matches!(
            error,
            CallError::Unknown { cause: UnknownCause::PortClosed | UnknownCause::ServerSilent, .. }
        ),
        "{error}"
    );
}

#[test]
fn a_caller_notices_at_once_that_its_connection_was_lost() {
    let unix = format!("unix:@stoop-test-death-{}", std::process::id());
    for uri in [&address("tcp"), &unix] {
        let error = killed_in_a_call(uri);
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }), "{error}");
    }
}

/// An address of each transport that leads to another process.
fn addresses(of: &str) -> [String; 4] {
    let name = format!("stoop-test-{of}-{}", std::process::id());
    [address("udp"), address("tcp"), format!("unix:@{name}"), format!("shm:{name}")]
}

#[test]
fn a_call_whose_server_is_killed_while_it_runs_may_have_run_over_every_transport() {
    for uri in addresses("death-in-call") {
        let error = killed_in_a_call(&uri);
        assert_eq!(error.ran(), Ran::Perhaps, "{uri}: {error}");

        let (mut server, uri) = start(&uri);
        let client = SlowClient::bind(&uri).unwrap().with_timeout(LIMIT);
        let call = client.begin().hang();
        server.find_line(|line| line.ends_with("hanging"));
        server.kill();
        let error = call.wait().unwrap_err();
        assert_eq!(error.ran(), Ran::Perhaps, "{uri}: {error}");
    }
}

/// Kills the server of a call by a client that waits for restarts, and then starts the next server.
fn restarted_in_a_call<T: Send>(uri: &str, call: impl FnOnce(&SlowClient) -> T + Send) -> (T, Process) {
    let (mut server, uri) = start(uri);
    let options = BindOptions::new().timeout(LIMIT).wait_for_restart(LIMIT);
    let client = SlowClient::bind_with(&uri, &options).unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| call(&client));
        server.find_line(|line| line.ends_with("hanging"));
        server.kill();
        // Binds that fail, each after some tries: over UDP the call usually meets the closed port meanwhile. It has to end in the same
        // way if it meets the next server first.
        for _ in 0..20 {
            assert!(SlowClient::bind(&uri).is_err());
        }
        let next = start(&uri).0;
        (call.join().unwrap(), next)
    })
}

#[test]
fn an_idempotent_call_whose_server_is_killed_while_it_runs_waits_for_the_next_server_over_every_transport() {
    for uri in addresses("restart-in-call") {
        let call = |client: &SlowClient| client.process_after(client.process().unwrap());
        let (process, next) = restarted_in_a_call(&uri, call);
        assert_eq!(process.unwrap_or_else(|error| panic!("{uri}: {error}")), next.pid(), "{uri}");
    }
}

#[test]
fn a_call_whose_server_is_killed_while_it_runs_is_not_made_again_over_udp() {
    let (ended, _next) = restarted_in_a_call(&address("udp"), SlowClient::hang);
    let error = ended.unwrap_err();
    assert!(matches!(error, CallError::Unknown { transmissions: 1.., .. }), "{error}");
}

#[test]
fn a_call_whose_server_was_killed_before_has_not_run_over_every_transport() {
    for uri in addresses("death-before-call") {
        let (mut server, uri) = start(&uri);
        let client = SlowClient::bind(&uri).unwrap().with_timeout(LIMIT);
        client.process().unwrap();
        client.begin().process().wait().unwrap();
        server.kill();
        // After a silence a caller over a byte stream looks whether the connection is there.
        let killed = std::time::Instant::now();
        while killed.elapsed() < Duration::from_millis(5) {
            std::thread::yield_now();
        }
        for error in [client.process().unwrap_err(), client.begin().process().wait().unwrap_err()] {
            assert_eq!(error.ran(), Ran::No, "{uri}: {error}");
            assert!(error.to_string().contains("listens at"), "{error}");
        }
    }
}

#[test]
fn outstanding_calls_end_when_their_server_is_killed() {
    let unix = format!("unix:@stoop-test-death-in-flight-{}", std::process::id());
    let shm = format!("shm:stoop-test-death-in-flight-{}", std::process::id());
    for uri in [&address("tcp"), &unix, &shm] {
        let (mut server, uri) = start(uri);
        let options = BindOptions::new().timeout(LIMIT);
        let client = SlowClient::bind_with(&uri, &options).unwrap();
        let calls = client.begin();
        let pending: Vec<_> = (0..20).map(|_| calls.hang()).collect();
        drop(calls);
        server.find_line(|line| line.ends_with("hanging"));
        server.kill();
        for error in stoop::wait_all(pending).into_iter().map(Result::unwrap_err) {
            match error {
                CallError::Unknown { cause: UnknownCause::ConnectionLost, .. } => {}
                // What it had not taken is known, in shared memory, and was to be sent to another server.
                CallError::NotSent(SendError::Bind(_), ..) if uri.starts_with("shm:") => {}
                other => panic!("{other}"),
            }
        }
    }
}

#[test]
fn outstanding_calls_over_udp_end_when_their_server_is_killed() {
    let (mut server, uri) = start(&address("udp"));
    let client = SlowClient::bind_with(&uri, &BindOptions::new().timeout(LIMIT)).unwrap();
    let calls = client.begin();
    let (hanging, process) = (calls.hang(), calls.process());
    drop(calls);
    assert_ne!(process.wait().unwrap(), std::process::id());
    server.find_line(|line| line.ends_with("hanging"));
    server.kill();
    let calls = client.begin();
    let more: Vec<_> = (0..100).map(|_| calls.process()).collect();
    drop(calls);
    let more = stoop::wait_all(more).into_iter().filter_map(Result::err);
    for error in more.chain([hanging.wait().unwrap_err()]) {
        match error {
            CallError::Unknown { cause: UnknownCause::PortClosed | UnknownCause::ServerSilent, .. } => {}
            // One that was sent after the server had died, and came back.
            CallError::NotSent(SendError::Bind(_), ..) => {}
            other => panic!("{other}"),
        }
    }
    let (_server, _uri) = start(&uri);
    // The first call may find out that the server is another one, and cannot know what the old one did.
    let again = || client.begin().process().wait();
    again().or_else(|_| again()).unwrap();
}

#[test]
fn the_next_server_at_the_address_is_found_by_the_same_client() {
    let (mut server, uri) = start(&address("udp"));
    let client = SlowClient::bind(&uri).unwrap();
    let first = client.process().unwrap();
    server.kill();
    assert!(client.process().is_err());
    let (_server, _uri) = start(&uri);
    // The first call may find out that the server is another one, and cannot know what the old one did.
    let second = client.process().or_else(|_| client.process()).unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_restart_while_a_client_was_idle_is_not_noticed_by_its_next_call() {
    let begun = |client: &SlowClient| client.begin().process().wait();
    for call in [SlowClient::process, begun] {
        let (mut server, uri) = start(&address("udp"));
        let client = SlowClient::bind(&uri).unwrap();
        let first = call(&client).unwrap();
        server.kill();
        let (_server, _uri) = start(&uri);
        let second = call(&client).unwrap();
        assert_ne!(first, second);
    }
}
