//! The promises of every transport: one suite, run over each of them.
//!
//! A claim is a function of the transport; `claims!` makes a test of it for each. What is true of one transport alone is tested
//! in the families beside this one (`api`, `packets`, `streams`, `shm`, `ether`).

#[path = "../harness/mod.rs"]
mod harness;

mod again;
mod begun;
mod binding;
mod callers;
mod calls;
mod clients;
mod connections;
mod deferred;
mod delays;
mod endings;
mod fast;
mod fates;
mod health;
mod interceptors;
mod late;
mod later;
mod lengths;
mod metadata;
mod one_way;
mod outcomes;
mod overload;
mod processes;
mod revisions;
mod tasks;

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::loopback;
use crate::harness::transports;
use crate::harness::transports::{ListenThere, address};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{
    BindError, BindOptions, CallError, Caller, FailureCode, PacketOptions, Ran, RefusalCode, RunningServer,
    Server, Waiting,
};

/// Makes a test of each claim for each transport: `claims! { udp tcp: [one another] }` makes `udp::one` to `tcp::another`. `all`
/// stands for every transport, `remote` for those that use sockets or memory; a new transport is a word in each.
/// `answering`: for those on which a machine answers that a port has no listener, which an Ethernet does not. `lossy`: over a link in
/// memory that loses, repeats and reorders packets. `udp_shared`: `udp` with endpoints that bindings share. With the feature `seal`, what is
/// said of transports that can be sealed runs on sealed bindings, too.
macro_rules! claims {
    (all: $claims:tt) => {
        claims! { local udp udp_shared tcp unix shm ether ether_xdp ether_xdp_generic memory: $claims }
        #[cfg(feature = "seal")]
        claims! { udp_sealed tcp_sealed ether_sealed: $claims }
    };
    (all and lossy: $claims:tt) => {
        claims! { local udp udp_shared tcp unix shm ether ether_xdp ether_xdp_generic memory lossy: $claims }
        #[cfg(feature = "seal")]
        claims! { udp_sealed tcp_sealed ether_sealed: $claims }
    };
    (remote and lossy: $claims:tt) => {
        claims! { udp udp_shared tcp unix shm ether ether_xdp ether_xdp_generic memory lossy: $claims }
        #[cfg(feature = "seal")]
        claims! { udp_sealed tcp_sealed ether_sealed: $claims }
    };
    (answering: $claims:tt) => {
        claims! { udp udp_shared tcp unix shm memory: $claims }
        #[cfg(feature = "seal")]
        claims! { udp_sealed tcp_sealed: $claims }
    };
    (remote: $claims:tt) => {
        claims! { udp udp_shared tcp unix shm ether ether_xdp ether_xdp_generic memory: $claims }
        #[cfg(feature = "seal")]
        claims! { udp_sealed tcp_sealed ether_sealed: $claims }
    };
    (@ $transport:ident [$($claim:ident)*]) => {
        mod $transport {
            $(
                #[test]
                fn $claim() {
                    if crate::harness::transports::is_there(stringify!($transport)) {
                        super::$claim(stringify!($transport));
                    }
                }
            )*
        }
    };
    ($($transport:ident)*: $claims:tt) => {
        $(claims! { @ $transport $claims })*
    };
}
use claims;

mod covered {
    pub(crate) fn has_a_test(_: &str) {}
    claims! { all: [has_a_test] }
}

#[test]
fn every_transport_of_the_library_is_in_the_suite() {
    let tests = std::process::Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let tests = String::from_utf8(tests.stdout).unwrap();
    for scheme in transports::all() {
        assert!(tests.contains(&format!("covered::{scheme}::has_a_test: test")), "{scheme}:");
    }
}

#[stoop::interface]
trait Lab {
    /// Does nothing.
    fn null(&self);
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Returns when the gate is opened.
    fn wait(&self) -> u32;
    /// Panics with that text.
    fn panic(&self, text: &str);
    /// Milliseconds that are left.
    fn left(&self) -> u64;
    /// As `left`, asked from a server on the way, which allows it `millis`.
    fn left_through(&self, uri: &str, millis: u64) -> u64;
    /// As many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
    /// Sums what it is given.
    fn sum(&self, bytes: &[u8]) -> u64;
    /// Gives back what it is given.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Fills the buffer.
    fn fill(&self, value: u8, #[out] buffer: &mut [u8]);
    /// Sums what is in the buffer before it is filled.
    fn found(&self, #[out] buffer: &mut [u8]) -> u64;
    /// Fills both with their places, and tells how many there are.
    fn both(&self, #[out] first: &mut [u8], #[out] second: &mut [u64]) -> String;
    /// Adds one to each byte.
    fn increment(&self, buffer: &mut [u8]);
    /// Where the call came from.
    fn caller(&self) -> String;
    /// Arguments that fill a packet.
    fn full_call(&self, bytes: &[u8; 1440]);
    /// A result that fills a packet.
    fn full_result(&self, #[out] bytes: &mut [u8; 1440]);
}

#[derive(Clone, Default)]
struct Bench(Gate);

impl Lab for Bench {
    fn null(&self) {}
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn wait(&self) -> u32 {
        self.0.pass();
        7
    }
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_millis() as u64
    }
    fn left_through(&self, uri: &str, millis: u64) -> u64 {
        let client = LabClient::bind(uri).unwrap();
        client.with_timeout(Duration::from_millis(millis)).left().unwrap()
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
    fn fill(&self, value: u8, buffer: &mut [u8]) {
        buffer.fill(value);
    }
    fn found(&self, buffer: &mut [u8]) -> u64 {
        self.sum(buffer)
    }
    fn both(&self, first: &mut [u8], second: &mut [u64]) -> String {
        first.iter_mut().enumerate().for_each(|(place, byte)| *byte = place as u8);
        second.iter_mut().enumerate().for_each(|(place, word)| *word = place as u64);
        format!("{} and {}", first.len(), second.len())
    }
    fn increment(&self, buffer: &mut [u8]) {
        buffer.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    }
    fn caller(&self) -> String {
        match stoop::current_call().unwrap().caller() {
            Caller::Network(address) => format!("network {address}"),
            Caller::Process(process) => format!("process {} of {}", process.pid, process.uid),
            other => format!("{other:?}"),
        }
    }
    fn full_call(&self, bytes: &[u8; 1440]) {
        assert_eq!(bytes[1439], 1);
    }
    fn full_result(&self, bytes: &mut [u8; 1440]) {
        bytes.fill(1);
    }
}

fn serve_at(uri: &str, server: Server) -> (RunningServer, Gate) {
    loopback::await_free(uri);
    let gate = Gate::default();
    let server =
        server.export(LabServer::new(Bench(gate.clone()))).listen_there(uri).unwrap().start().unwrap();
    (server, gate)
}

/// A server on that transport, its gate, and a client bound to it.
fn lab(transport: &str) -> (RunningServer, Gate, LabClient) {
    lab_with(transport, Server::new(), &patient(transport))
}

fn lab_with(transport: &str, server: Server, options: &BindOptions) -> (RunningServer, Gate, LabClient) {
    let (server, gate) = serve_at(&address(transport), server);
    let client = LabClient::bind_with(&server.uris()[0], options).unwrap();
    (server, gate, client)
}

/// A busy machine may keep a server from answering for long, which is not what a claim is about. The kernel tells those who call by
/// connections or shared memory whether the server is there.
fn patient(transport: &str) -> BindOptions {
    let exchanges_packets =
        ["udp", "ether", "memory", "lossy"].iter().any(|name| transport.starts_with(name));
    match transport {
        "udp_shared" => BindOptions::new().with(patience().share_endpoints()),
        _ if exchanges_packets => BindOptions::new().with(patience()),
        _ => BindOptions::new(),
    }
}

fn patience() -> PacketOptions {
    PacketOptions::new().silence_limit(Duration::from_secs(25))
}

/// Lets a call's deadline pass. On a busy machine its time may be over before the call has begun: then it says so, has not run, and
/// gets more. Returns the error, and how many calls the server has refused before for having come too late.
fn too_late<T: std::fmt::Debug>(
    client: &LabClient,
    call: impl Fn(&LabClient) -> Result<T, CallError>,
) -> (CallError, u64) {
    let (mut timeout, mut refused) = (Duration::from_millis(20), 0);
    loop {
        match call(&client.with_timeout(timeout)).unwrap_err() {
            CallError::NotSent(SendError::DeadlinePassed, ..) => {}
            CallError::Refused(refusal, ..) if refusal.code == RefusalCode::DeadlinePassed => refused += 1,
            error => return (error, refused),
        }
        timeout *= 2;
    }
}
