//! One-way calls over connections that are lost, beyond what all transports promise (see `conformance`).

use crate::harness::gate::Gate;
use crate::harness::proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoop::error::SendError;
use stoop::{CallError, Ran, RunningServer, Server};

#[stoop::interface]
trait Register {
    /// Writes it when the gate is opened.
    #[one_way]
    fn write(&self, value: u64);
    /// The same, and may be run again.
    #[idempotent]
    #[one_way]
    fn write_again(&self, value: u64);
    /// The values that were written.
    fn read(&self) -> u64;
    #[idempotent]
    fn look(&self) -> u64;
}

#[derive(Clone, Default)]
struct Cell {
    gate: Gate,
    value: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

impl Register for Cell {
    fn write(&self, value: u64) {
        self.gate.pass();
        self.value.store(value, Ordering::SeqCst);
    }
    fn write_again(&self, value: u64) {
        self.write(value);
    }
    fn look(&self) -> u64 {
        self.value.load(Ordering::SeqCst)
    }
    fn read(&self) -> u64 {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.value.load(Ordering::SeqCst)
    }
}

/// A server, what it exports, and a client that is bound to it through a proxy.
fn register() -> (RunningServer, Cell, Proxy, RegisterClient) {
    let cell = Cell::default();
    let server = Server::new().export(RegisterServer::new(cell.clone()));
    let server = server.listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let proxy = Proxy::to(server.uris()[0].strip_prefix("tcp://").unwrap().parse().unwrap());
    let client = RegisterClient::bind(&proxy.uri).unwrap();
    (server, cell, proxy, client)
}

#[test]
fn a_call_says_once_that_it_could_overtake_a_one_way_call_whose_connection_was_lost() {
    let (_server, cell, proxy, client) = register();
    let _opens = cell.gate.open_on_drop();
    client.write(1).unwrap();
    cell.gate.await_inside(1);
    proxy.cut();
    let error = client.read().unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::OneWayUnknown { .. }, ..)), "{error}");
    assert_eq!((error.ran(), cell.reads.load(Ordering::SeqCst)), (Ran::No, 0));
    assert_eq!(client.read().unwrap(), 0);
    let report = client.binding().flush(Duration::from_secs(60)).unwrap_err();
    assert_eq!((report.outstanding, report.failed), (0, 1), "{report}");
    assert!(report.cause.is_some_and(|cause| cause.ran() == Ran::Perhaps));
}

#[test]
fn an_idempotent_call_goes_on_though_an_earlier_one_way_call_is_unknown_and_the_next_other_call_is_told() {
    let (_server, cell, proxy, client) = register();
    let _opens = cell.gate.open_on_drop();
    client.write(1).unwrap();
    cell.gate.await_inside(1);
    proxy.cut();
    assert_eq!((client.look().unwrap(), client.look().unwrap()), (0, 0));
    let error = client.read().unwrap_err();
    assert!(
        matches!(
            error,
            CallError::NotSent(SendError::OneWayUnknown { interface: "Register", procedure: "write" }, ..)
        ),
        "{error}"
    );
    assert!(error.to_string().contains("Register.write"), "{error}");
    assert_eq!(client.read().unwrap(), 0);
}

#[test]
fn a_call_waits_for_a_one_way_call_that_is_sent_again_on_another_connection() {
    let (_server, cell, proxy, client) = register();
    let _opens = cell.gate.open_on_drop();
    client.write_again(1).unwrap();
    cell.gate.await_inside(1);
    proxy.cut();
    cell.gate.await_inside(2);
    let error = client.with_timeout(Duration::from_millis(20)).read().unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::OneWayPending, ..)), "{error}");
    cell.gate.open();
    assert_eq!(client.read().unwrap(), 1);
}
