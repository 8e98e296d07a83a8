//! Begun calls over connections that are lost, or on which nothing moves, beyond what all transports promise (see `conformance`).

use crate::harness::gate::Gate;
use crate::harness::loopback;
use crate::harness::proxy::Proxy;
use crate::harness::runtime::block_on;
use std::time::{Duration, Instant};
use stoop::error::UnknownCause;
use stoop::{BindOptions, CallError, Ran, RunningServer, Server};

#[stoop::interface]
trait Works {
    fn add(&self, a: u32, b: u32) -> u32;
    /// Waits at the gate.
    fn wait(&self, number: u32) -> u32;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// The sum of 1 to `to`, by begun calls to the same server.
    fn sum_below(&self, uri: &str, to: u32) -> u32;
    #[idempotent]
    fn wait_again(&self) -> u32;
}

#[derive(Clone, Default)]
struct Bench {
    gate: Gate,
}

impl Works for Bench {
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
    fn wait(&self, number: u32) -> u32 {
        self.gate.pass();
        number
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn sum_below(&self, uri: &str, to: u32) -> u32 {
        if to == 0 {
            return 0;
        }
        let client = WorksClient::bind(uri).unwrap();
        let below = client.begin().sum_below(uri, to - 1);
        to + below.wait().unwrap()
    }
    fn wait_again(&self) -> u32 {
        self.gate.pass();
        8
    }
}

/// A server with a client, and what its procedures do.
struct Place {
    server: RunningServer,
    bench: Bench,
    client: WorksClient,
}

fn place_at(address: &str, server: Server, options: &BindOptions) -> Place {
    let bench = Bench::default();
    let server = server.export(WorksServer::new(bench.clone())).listen(address).unwrap().start().unwrap();
    let client = WorksClient::bind_with(&server.uris()[0], options).unwrap();
    Place { server, bench, client }
}

#[test]
fn procedures_that_wait_for_calls_to_their_own_server_do_not_hold_each_other_up() {
    let local = "local:nested";
    let place = place_at(local, Server::new().workers(2), &BindOptions::new());
    let calls = place.client.begin();
    let pending: Vec<_> = (0..4).map(|_| calls.sum_below(local, 20)).collect();
    drop(calls);
    for sum in stoop::wait_all(pending) {
        assert_eq!(sum.unwrap(), 210);
    }
}

/// A server over TCP, with a client whose connections can be cut.
fn cuttable() -> (Place, Proxy, WorksClient) {
    let place = place_at("tcp://127.0.0.1:0", Server::new(), &BindOptions::new());
    let address = place.server.uris()[0].strip_prefix("tcp://").unwrap().parse().unwrap();
    let proxy = Proxy::to(address);
    let client = WorksClient::bind(&proxy.uri).unwrap();
    (place, proxy, client)
}

#[test]
fn calls_whose_connection_is_lost_end_at_once_and_those_after_them_get_another() {
    let (place, proxy, client) = cuttable();
    let calls = client.begin();
    let lost: Vec<_> = (0..3).map(|number| calls.wait(number)).collect();
    let (woken, detached) = (calls.wait(3), calls.wait(4));
    detached.detach();
    drop(calls);
    place.bench.gate.await_inside(5);
    proxy.cut();
    for error in stoop::wait_all(lost).into_iter().chain([block_on(woken)]).map(Result::unwrap_err) {
        let CallError::Unknown { cause, transmissions, .. } = error else { panic!("{error}") };
        assert_eq!((cause, transmissions), (UnknownCause::ConnectionLost, 1));
    }
    assert_eq!(client.begin().add(1, 1).wait().unwrap(), 2);
    assert_eq!(block_on(client.begin().add(1, 2)).unwrap(), 3);
    assert_eq!(client.add(1, 3).unwrap(), 4);
    place.bench.gate.open();
}

#[test]
fn a_long_call_that_the_server_does_not_take_keeps_no_other_from_its_deadline() {
    let (_place, proxy, client) = cuttable();
    assert_eq!(client.add(1, 1).unwrap(), 2);
    // The binding, and the beginning of a call; no socket's buffers have room for the rest of it.
    proxy.let_pass(Some(200_000));
    proxy.cut();
    let bytes = vec![5; 48 << 20];
    // The connection is lost: the background thread makes another, and sends the call there.
    let long = client.begin().echo(&bytes);
    let hurried = client.with_timeout(Duration::from_millis(50));
    // Short calls go before the long one, until its beginning fills the buffers.
    let error = loop {
        if let Err(error) = block_on(hurried.begin().add(1, 1)) {
            break error;
        }
    };
    assert!(matches!(error, CallError::Unknown { .. } | CallError::NotSent(..)), "{error}");
    proxy.let_pass(None);
    assert!(long.wait().unwrap() == bytes, "it was still leaving");
}

#[test]
fn calls_that_are_held_back_have_no_connection_made_again_and_again() {
    let (_place, proxy, client) = cuttable();
    assert_eq!(client.begin().add(1, 1).wait().unwrap(), 2);
    proxy.close();
    assert!(client.begin().add(1, 1).wait().is_err());
    let calls = client.begin();
    let (before, began) = (proxy.closed(), Instant::now());
    // The background thread, which is awake after the call before, finds no connection.
    let held = calls.add(1, 1);
    let attempts = || proxy.closed() - before;
    while attempts() < 5 && began.elapsed() < Duration::from_millis(300) {
        std::thread::yield_now();
    }
    assert!(attempts() < 5, "a connection in each turn of the background thread");
    drop(calls);
    assert_eq!(held.wait().unwrap_err().ran(), Ran::No);
}

#[test]
fn an_outstanding_idempotent_call_is_sent_again_over_another_connection() {
    let (place, proxy, client) = cuttable();
    let calls = client.begin();
    let (waited, woken) = (calls.wait_again(), calls.wait_again());
    drop(calls);
    place.bench.gate.await_inside(2);
    proxy.cut();
    place.bench.gate.await_inside(4);
    place.bench.gate.open();
    assert_eq!((waited.wait().unwrap(), block_on(woken).unwrap()), (8, 8));
}

#[test]
fn a_call_to_an_address_without_listener_says_that_it_was_not_sent() {
    let address = format!("tcp://{}:0", loopback::address());
    let mut place = place_at(&address, Server::new(), &BindOptions::new());
    assert_eq!(place.client.begin().add(1, 1).wait().unwrap(), 2);
    place.server.shut_down();
    place.server = place_at("local:elsewhere", Server::new(), &BindOptions::new()).server;
    // So soon after an answer it may be sent in vain.
    assert!(place.client.begin().add(1, 1).wait().is_err());
    let calls = place.client.begin();
    let pending: Vec<_> = (0..3).map(|number| calls.add(number, 1)).collect();
    drop(calls);
    for error in stoop::wait_all(pending).into_iter().map(Result::unwrap_err) {
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(error.to_string().contains("no server listens"), "{error}");
    }
}
