//! The memory that the callers of one host take from a server for Sun RPC is bounded, and other hosts are served.

use crate::harness::processes::alone;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};
use stoop::RunningServer;
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop::onc::{Server, VersionId};
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Call, ProcedureId};
use stoop_onc::{Xid, record};
use stoop_xdr::Opaque;

const PROGRAM: u32 = 0x2000_0077;
/// Bytes of a call that does not arrive whole, and of a reply that is not read.
const LONG: usize = 15 << 20;
/// They would take 900 MiB in all.
const CALLERS: usize = 60;
/// Bytes that a host may take.
const MOST: u64 = 256 << 20;
/// Less than the minute after which the server closes connections that do not go on.
const PATIENCE: Duration = Duration::from_secs(40);

struct Blobs;

impl Program for Blobs {
    fn version(&self) -> VersionId {
        VersionId { program: PROGRAM, version: 1 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        match call.procedure() {
            0 => call.reply(&()),
            _ => call.reply(&Opaque(vec![1; LONG])),
        }
    }
}

/// A connection from that address of this machine.
fn connected(from: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::from(from), 0)).unwrap();
    connect(&socket, &server).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn call(procedure: u32) -> Vec<u8> {
    let procedure = ProcedureId { program: PROGRAM, version: 1, procedure };
    let call = Call { xid: Xid(1), procedure, credential: Auth::NONE, verifier: Auth::NONE };
    let mut bytes = Vec::new();
    message::append(&call, &(), &mut bytes).unwrap();
    [&record::mark(bytes.len()).unwrap()[..], &bytes].concat()
}

/// A call of another host has its reply.
fn another_host_is_served(server: SocketAddr) {
    let mut stream = connected([127, 0, 0, 2], server);
    stream.write_all(&call(0)).unwrap();
    stream.read_exact(&mut [0; 28]).expect("a reply");
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// Many callers send calls that lack their last byte.
fn half_calls(server: &RunningServer, address: SocketAddr) {
    let (before, bytes) = (resident(), vec![0; LONG - 1]);
    let callers: Vec<_> = (0..CALLERS).map(|_| connected([127, 0, 0, 1], address)).collect();
    for mut caller in &callers {
        // The server closes connections for whose calls it has no memory.
        let _ = caller.write_all(&record::mark(LONG).unwrap()).and_then(|()| caller.write_all(&bytes));
    }
    let refused = |least| server.counters().refused >= least;
    eventually("some are refused", || refused(CALLERS as u64 / 2));
    let memory = server.counters().memory;
    assert!(memory.argument_bytes > MOST / 4 && memory.argument_bytes <= MOST, "{memory:?}");
    let held = resident().saturating_sub(before);
    assert!(held <= MOST, "{held} bytes");
    another_host_is_served(address);
    drop(callers);
    eventually("all is given back", || server.counters().memory.argument_bytes == 0);
}

/// Many callers do not read long replies.
fn unread_replies(server: &RunningServer, address: SocketAddr) {
    let before = resident();
    let callers: Vec<_> = (0..CALLERS).map(|_| connected([127, 0, 0, 1], address)).collect();
    let calls = server.counters().calls;
    callers.iter().for_each(|mut caller| caller.write_all(&call(1)).unwrap());
    let has_run = || server.counters().calls == calls + CALLERS as u64;
    eventually("all calls have run", || has_run() && server.counters().memory.results_dropped > 0);
    let memory = server.counters().memory;
    assert!(memory.result_bytes > MOST / 4 && memory.result_bytes <= MOST, "{memory:?}");
    another_host_is_served(address);
    // The server gives back what the calls have taken while they ran.
    eventually("the process holds no more", || resident().saturating_sub(before) <= MOST);
    drop(callers);
    eventually("all is given back", || server.counters().memory.result_bytes == 0);
}

#[test]
fn callers_of_one_host_take_bounded_memory_and_another_host_is_served() {
    alone(|| {
        let server = Server::new().program(Blobs).listen("onc+tcp://127.0.0.1").unwrap().start().unwrap();
        let address = server.uris()[0].rsplit_once('/').unwrap().1.parse().unwrap();
        half_calls(&server, address);
        unread_replies(&server, address);
    });
}
