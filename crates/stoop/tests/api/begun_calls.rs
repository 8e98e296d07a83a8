//! Promises of begun calls over UDP beyond those of all transports (see `conformance`).

use crate::harness::LIMIT;
use crate::harness::eventually;
use crate::harness::lab::{Bench, LabClient};
use crate::harness::loopback;
use crate::harness::runtime::block_on;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use stoop::error::{RefusalCode, SendError, UnknownCause};
use stoop::{BindOptions, CallError, Pending, Ran, RunningServer, Server};
use stoop_wire::{Header, Kind};

/// A server and a client bound to it.
fn lab_with(options: &BindOptions) -> (RunningServer, LabClient) {
    // On a busy machine more calls wait for a worker than a server admits by itself.
    let server =
        Bench::default().serve(Server::new().queue(16_384), &format!("udp://{}:0", loopback::address()));
    let client = LabClient::bind_with(&server.uris()[0], options).unwrap();
    (server, client)
}

fn lab() -> (RunningServer, LabClient) {
    lab_with(&BindOptions::new())
}

fn begin_many(client: &LabClient, count: u32) -> Vec<Pending<Result<u32, CallError>>> {
    let calls = client.begin();
    (0..count).map(|number| calls.next(number)).collect()
}

fn check(results: Vec<Result<u32, CallError>>) {
    for (number, result) in (0..).zip(results) {
        assert_eq!(result.unwrap(), number + 1);
    }
}

#[test]
fn calls_beyond_what_a_server_takes_fail_and_the_others_succeed() {
    let (_server, client) = lab();
    let results = stoop::wait_all(begin_many(&client, 16_384));
    let (begun, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let is_too_many =
        |error: &CallError| matches!(error, CallError::NotSent(SendError::TooManyCalls { .. }, ..));
    let otherwise = refused.iter().flat_map(|result| result.as_ref().err()).find(|error| !is_too_many(error));
    assert!(otherwise.is_none(), "{otherwise:?}");
    assert!(begun.len() >= 15_000 && !refused.is_empty(), "{} begun", begun.len());
    check(stoop::wait_all(begin_many(&client, 100)));
}

#[test]
fn each_call_ends_by_its_own_deadline_while_there_is_no_server_to_bind_to() {
    let (server, client) = lab_with(&BindOptions::new().bind_timeout(LIMIT).timeout(LIMIT));
    check(stoop::wait_all(begin_many(&client, 10)));
    let uri = server.uris()[0].clone();
    drop(server);
    loopback::await_free(&uri);
    let forgetful = UdpSocket::bind(uri.strip_prefix("udp://").unwrap()).unwrap();
    thread::spawn(move || {
        let mut packet = [0; 1500];
        while let Ok((len, caller)) = forgetful.recv_from(&mut packet) {
            let (call, _) = Header::parse(&packet[..len]).unwrap();
            if call.kind == Kind::Call {
                let refusal = call.unknown_binding(7, 0);
                forgetful.send_to(&refusal.to_bytes(), caller).unwrap();
            }
        }
    });
    let short =
        |number| block_on(client.with_timeout(Duration::from_millis(200)).begin().next(number)).unwrap_err();
    // The notice of the server's end may have had the client bind again while the port was closed. This call learns how that went.
    short(0);
    let long = client.begin().next(1);
    for number in 0..3 {
        let error = short(number);
        match &error {
            // It waits for the server to bind to, on a busy machine even before it leaves.
            CallError::NotSent(cause, ..) => assert!(matches!(cause, SendError::DeadlinePassed), "{error}"),
            // By the notice of the server that was there before.
            CallError::Refused(refusal, ..) => assert_eq!(refusal.code, RefusalCode::ShuttingDown, "{error}"),
            CallError::Unknown { cause, .. } => {
                let is_known = matches!(cause, UnknownCause::ServerRestarted | UnknownCause::DeadlinePassed);
                assert!(is_known, "{error}");
            }
            _ => panic!("{error}"),
        }
        assert!(!long.is_ready(), "{:?}", long.wait());
    }
}

#[test]
fn a_closed_port_is_noticed() {
    let (server, client) = lab();
    check(stoop::wait_all(begin_many(&client, 10)));
    drop(server);
    for result in stoop::wait_all(begin_many(&client, 100)) {
        let error = result.unwrap_err();
        // Of calls that leave together, the system sends back the first alone.
        let text = error.to_string();
        // Lanes on which calls have ended have the server's notice that it shuts down.
        let is_known = ["listens at", "is shutting down"].iter().any(|part| text.contains(part));
        assert!(error.ran() != Ran::Yes && is_known, "{text}");
    }
}

#[test]
fn calls_that_are_begun_leave_whenever_another_thread_waits_for_one() {
    let (_server, client) = lab();
    let (sender, receiver) = mpsc::channel::<(u32, Pending<Result<u32, CallError>>)>();
    let waiter = thread::spawn(move || {
        receiver.iter().fold(0, |waited, (number, pending)| {
            assert_eq!(pending.wait().unwrap(), number + 1);
            waited + 1
        })
    });
    let calls = client.begin();
    for number in 0..5000 {
        match number % 7 {
            // No thread waits for it before its batch leaves.
            0 => calls.next(number).detach(),
            1 => drop(calls.next(number)),
            _ => sender.send((number, calls.next(number))).unwrap(),
        }
    }
    // Those that were handed over do not depend on this.
    drop(sender);
    assert_eq!(waiter.join().unwrap(), (0..5000).filter(|number| number % 7 > 1).count());
    drop(calls);
}

#[test]
fn the_last_handle_ends_the_binding_of_a_client_that_is_gone() {
    let (server, client) = lab();
    let another = LabClient::bind(&server.uris()[0]).unwrap();
    for waited in [0, 1, 50, 100] {
        let client = LabClient::bind(&server.uris()[0]).unwrap();
        let mut pending = begin_many(&client, 100);
        let mut rest = pending.split_off(waited);
        // Some have been taken before the client goes, some have ended, and some may be on their way.
        check(stoop::wait_all(pending.drain(..waited / 2)));
        drop(client);
        assert_eq!(server.counters().bindings, 3);
        for (number, handle) in (waited as u32 / 2..).zip(pending) {
            assert_eq!(handle.wait().unwrap(), number + 1);
        }
        if let Some(detached) = rest.pop() {
            detached.detach();
        }
        drop(rest);
        eventually(|| server.counters().bindings <= 2);
    }
    // Other tests of this process have outstanding calls, too.
    check(stoop::wait_all(begin_many(&client, 100)));
    check(stoop::wait_all(begin_many(&another, 100)));
}
