//! Clients of a server that shuts down are told so before they call again.

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::lab::{Bench, LabClient};
use crate::harness::{loopback, transports};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, Ran, RunningServer, Server};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
/// A call without an answer ends after it.
const SHORT: Duration = Duration::from_millis(300);

fn serve(scheme: &str, bench: &Bench) -> RunningServer {
    bench.serve(Server::new(), &transports::address(scheme))
}

fn bind(server: &RunningServer) -> LabClient {
    LabClient::bind_with(&server.uris()[0], &BindOptions::new().timeout(LONG)).unwrap()
}

fn assert_not_run(result: Result<u64, CallError>) {
    let error = result.unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
}

/// Something receives at the address of a server that has ended, and is silent: no report says that the port is closed.
fn silent_at(server: &RunningServer) -> UdpSocket {
    let uri = &server.uris()[0];
    loopback::await_free(uri);
    UdpSocket::bind(uri.strip_prefix("udp://").unwrap()).unwrap()
}

/// While a call keeps the server from its end, other clients hear that it shuts down, and send no more calls there.
fn calls_stay_at_the_caller(scheme: &str) {
    let bench = Bench::default();
    let server = serve(scheme, &bench);
    let (busy, client, beginner) = (bind(&server), bind(&server), bind(&server));
    assert_eq!((client.count().unwrap(), beginner.begin().count().wait().unwrap()), (0, 1));
    thread::scope(|scope| {
        let _opens = bench.gate.open_on_drop();
        let running = scope.spawn(|| busy.wait());
        bench.gate.await_inside(1);
        let ending = scope.spawn(|| server.shut_down());
        let hears = |kind: &str, call: &dyn Fn() -> Result<u64, CallError>| {
            println!("{kind} calls over {scheme}");
            // They are told some time after the server has begun to end.
            eventually(|| {
                let before = server.counters().refused;
                // A call that crosses the notice may still run, before the server refuses others.
                call().is_err() && server.counters().refused == before
            });
            let before = server.counters().refused;
            assert_not_run(call());
            assert_eq!(server.counters().refused, before, "the call has not left");
        };
        hears("blocking", &|| client.count());
        hears("begun", &|| beginner.begin().count().wait());
        bench.gate.open();
        running.join().unwrap().unwrap();
        ending.join().unwrap();
    });
}

#[test]
fn calls_over_connections_do_not_leave_for_a_server_that_shuts_down() {
    ["tcp", "unix", "shm"].into_iter().for_each(calls_stay_at_the_caller);
}

/// Over UDP the notice waits in the caller's socket for its next call. Without it, the outcome of that call would be unknown.
#[test]
fn a_call_over_udp_is_refused_by_a_server_that_has_ended() {
    let server = serve("udp", &Bench::default());
    let (client, beginner) = (bind(&server), bind(&server));
    assert_eq!((client.count().unwrap(), beginner.begin().count().wait().unwrap()), (0, 1));
    server.shut_down();
    let _silent = silent_at(&server);
    for result in [client.with_timeout(SHORT).count(), beginner.with_timeout(SHORT).begin().count().wait()] {
        assert_not_run(result);
    }
}

/// A call that runs when the server begins to shut down has its result, and the one after it its refusal.
#[test]
fn a_lane_that_was_busy_is_told_when_its_call_has_ended() {
    let (bench, has_ended) = (Bench::default(), Gate::default());
    let server = serve("udp", &bench);
    let client = bind(&server);
    thread::scope(|scope| {
        let _opens = (bench.gate.open_on_drop(), has_ended.open_on_drop());
        let calls = scope.spawn(|| {
            client.wait().unwrap();
            has_ended.pass();
            let _silent = silent_at(&server);
            client.with_timeout(SHORT).count()
        });
        bench.gate.await_inside(1);
        let ending = scope.spawn(|| server.shut_down());
        // A bind that fails shows that the end has begun.
        while LabClient::bind(&server.uris()[0]).is_ok() {}
        bench.gate.open();
        ending.join().unwrap();
        has_ended.open();
        assert_not_run(calls.join().unwrap());
    });
}
