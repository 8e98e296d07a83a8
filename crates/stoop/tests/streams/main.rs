//! Calls over byte streams: real TCP connections on the loopback, and Unix sockets.

#[path = "../harness/mod.rs"]
mod harness;

mod begun_over_connections;
mod binding;
mod calls;
mod cancels;
mod delays;
mod endings;
mod one_way_connections;
mod outcomes;
mod peers;
mod raw;

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::loopback;
use crate::harness::proxy::Proxy;
use raw::{Raw, false_server, raw_server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoop::error::{SendError, UnknownCause};
use stoop::{BindError, BindOptions, CallError, Caller, Ran, RefusalCode, RunningServer, Server};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus};
use stoop_wire::{
    BindingId, CallNumber, FailureCode as WireFailure, HEADER_LEN, Header, Kind, LaneId, STREAM_FRAGMENT,
};

#[stoop::interface]
trait Lab {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Returns when the gate is opened.
    fn wait(&self) -> u32;
    /// As many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
    /// Sums what it is given.
    fn sum(&self, bytes: &[u8]) -> u64;
    /// Gives back what it is given.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Where the call came from.
    fn caller(&self) -> String;
    /// Returns when the gate is opened; may be run again.
    #[idempotent]
    fn read(&self) -> u32;
    /// Passes the gate, and returns when its call has been cancelled.
    fn until_cancelled(&self) -> u32;
    /// How many bytes it is given; may be run again.
    #[idempotent]
    fn count(&self, bytes: &[u8]) -> u64;
}

#[derive(Clone, Default)]
struct Bench(Gate);

impl Lab for Bench {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn wait(&self) -> u32 {
        self.0.pass();
        7
    }
    fn bytes(&self, count: u32, value: u8) -> Vec<u8> {
        vec![value; count as usize]
    }
    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn caller(&self) -> String {
        match stoop::current_call().unwrap().caller() {
            Caller::Network(address) => format!("network {address}"),
            Caller::Process(process) => format!("process {} of {}", process.pid, process.uid),
            other => format!("{other:?}"),
        }
    }
    fn read(&self) -> u32 {
        self.0.pass();
        8
    }
    fn until_cancelled(&self) -> u32 {
        self.0.pass();
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        9
    }
    fn count(&self, bytes: &[u8]) -> u64 {
        bytes.len() as u64
    }
}

/// Number of a procedure in `Lab`.
const BYTES: u16 = 2;
const NEXT: u16 = 0;
const WAIT: u16 = 1;
const UNTIL_CANCELLED: u16 = 7;

fn serve_at(uri: &str, server: Server) -> (RunningServer, Gate) {
    loopback::await_free(uri);
    let bench = Bench::default();
    let gate = bench.0.clone();
    let server = server.export(LabServer::new(bench)).listen(uri).unwrap().start().unwrap();
    (server, gate)
}

fn lab() -> (RunningServer, Gate, LabClient) {
    let (server, gate) = serve_at(&format!("tcp://{}:0", loopback::address()), Server::new());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    (server, gate, client)
}

fn address_of(server: &RunningServer) -> SocketAddr {
    server.uris()[0].strip_prefix("tcp://").unwrap().parse().unwrap()
}

/// A name in the abstract namespace that no other test uses.
fn unix_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("unix:@stoop-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Lets a call's deadline pass. On a busy machine its time may be over before the call has begun: then it says so, has not run, and
/// gets more.
fn too_late<T: std::fmt::Debug>(
    client: &LabClient,
    call: impl Fn(&LabClient) -> Result<T, CallError>,
) -> CallError {
    let mut timeout = Duration::from_millis(20);
    loop {
        match call(&client.with_timeout(timeout)).unwrap_err() {
            CallError::NotSent(SendError::DeadlinePassed, ..) => {}
            CallError::Refused(refusal, ..) if refusal.code == RefusalCode::DeadlinePassed => {}
            error => return error,
        }
        timeout *= 2;
    }
}
