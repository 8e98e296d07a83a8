//! Calls over byte streams: real TCP connections on the loopback, and Unix sockets.

mod gate;
mod proxy;

use gate::Gate;
use proxy::Proxy;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{
    BindError, BindOptions, CallError, Caller, FailureCode, Ran, RefusalCode, RunningServer, Server, Waiting,
};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, HostFacts};
use stoop_wire::{
    BindingId, CallNumber, Challenge, FailureCode as WireFailure, HEADER_LEN, Header, Kind, LaneId,
    STREAM_FRAGMENT,
};

#[stoop::interface]
trait Lab {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Returns when the gate is opened.
    fn wait(&self) -> u32;
    /// Panics with that text.
    fn panic(&self, text: &str);
    /// Milliseconds that are left.
    fn left(&self) -> u64;
    /// As many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
    /// Sums what it is given.
    fn sum(&self, bytes: &[u8]) -> u64;
    /// Gives back what it is given.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Fills the buffer.
    fn fill(&self, value: u8, #[out] buffer: &mut [u8]);
    /// Adds one to each byte.
    fn increment(&self, buffer: &mut [u8]);
    /// Where the call came from.
    fn caller(&self) -> String;
    /// Returns when the gate is opened; may be run again.
    #[idempotent]
    fn read(&self) -> u32;
    /// Passes the gate, and returns when nobody waits for it any more.
    fn until_cancelled(&self) -> u32;
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
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_millis() as u64
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
    fn read(&self) -> u32 {
        self.0.pass();
        8
    }
    fn until_cancelled(&self) -> u32 {
        self.0.pass();
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        9
    }
}

/// Number of a procedure in `Lab`.
const BYTES: u16 = 4;
const NEXT: u16 = 0;
const WAIT: u16 = 1;
const UNTIL_CANCELLED: u16 = 11;

fn serve_at(uri: &str, server: Server) -> (RunningServer, Gate) {
    let bench = Bench::default();
    let gate = bench.0.clone();
    let server = server.export(LabServer::new(bench)).listen(uri).unwrap().start().unwrap();
    (server, gate)
}

fn lab() -> (RunningServer, Gate, LabClient) {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
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

/// Waits for what another thread is about to bring about.
fn eventually(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// A peer that writes its packets by hand.
struct Raw {
    stream: TcpStream,
    binding: BindingId,
}

impl Raw {
    fn connect(server: &RunningServer) -> Self {
        Self { stream: TcpStream::connect(address_of(server)).unwrap(), binding: BindingId::NONE }
    }

    fn bound(server: &RunningServer) -> Self {
        let mut raw = Self::connect(server);
        raw.send_bind();
        let (header, payload) = raw.receive().expect("a bind reply");
        assert_eq!(header.kind, Kind::BindReply);
        assert_eq!(BindReply::decode(&payload).unwrap().status, BindStatus::Bound);
        raw.binding = header.binding;
        raw
    }

    fn send_bind(&mut self) {
        let request = BindRequest {
            nonce: 1,
            cookie: Challenge(0),
            flags: 0,
            max_message: 1440,
            window: 1440,
            host: HostFacts::default(),
            first: 0,
            interface: "Lab".into(),
            fingerprints: vec![],
        };
        let payload = request.encode();
        let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(1));
        header.message_len = payload.len() as u32;
        self.send(&header, &payload);
    }

    fn call(&self, procedure: u16, number: u32, len: u32) -> Header {
        let mut header = Header::bare(Kind::Call, self.binding, LaneId(0), CallNumber(number));
        (header.procedure, header.message_len, header.time) = (procedure, len, 30_000_000);
        header
    }

    fn cancel(&mut self, call: Header) {
        let cancel = Header::bare(Kind::Cancel, call.binding, call.lane, call.number);
        self.send(&cancel, &[]);
    }

    fn send(&mut self, header: &Header, payload: &[u8]) {
        let packet = [&header.to_bytes()[..], payload].concat();
        self.stream.write_all(&packet).unwrap();
    }

    /// The next packet; `None` when the server has closed the connection.
    fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).ok()?;
        let header = Header::from_bytes(&header).unwrap();
        let mut payload = vec![0; header.payload_len(STREAM_FRAGMENT).unwrap()];
        self.stream.read_exact(&mut payload).ok()?;
        Some((header, payload))
    }

    fn assert_closed(mut self) {
        let mut rest = Vec::new();
        // Reset or closed in order: either way it is over.
        let _ = self.stream.read_to_end(&mut rest);
    }
}

#[test]
fn a_call_returns_its_result() {
    let (server, _, client) = lab();
    assert_eq!(client.next(41).unwrap(), 42);
    let counters = client.binding().counters();
    assert_eq!((counters.calls, counters.fast), (1, 1));
    let counters = server.counters();
    assert_eq!((counters.calls, counters.bindings, counters.malformed), (1, 1, 0));
}

#[test]
fn every_way_of_waiting_works() {
    for waiting in [Waiting::Adaptive, Waiting::Spin, Waiting::Block] {
        let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().waiting(waiting));
        let options = BindOptions::new().waiting(waiting);
        let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        for number in 0..100 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        let other = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        assert_eq!((other.next(1).unwrap(), client.next(2).unwrap()), (2, 3));
    }
}

#[test]
fn many_threads_call_over_one_connection() {
    let (server, _, client) = lab();
    thread::scope(|scope| {
        for thread in 0..16 {
            let client = &client;
            scope.spawn(move || {
                for number in 0..200 {
                    assert_eq!(client.next(thread * 1000 + number).unwrap(), thread * 1000 + number + 1);
                }
            });
        }
    });
    assert_eq!(client.binding().counters().calls, 3200);
    assert_eq!((server.counters().calls, server.counters().bindings), (3200, 1));
}

#[test]
fn many_connections_are_served_at_once() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let clients: Vec<_> = (0..50).map(|_| LabClient::bind(&server.uris()[0]).unwrap()).collect();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| (0..20).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    assert_eq!(server.counters().bindings, 50);
    drop(clients);
    eventually(|| server.counters().bindings == 0);
}

#[test]
fn large_messages_travel_both_ways_between_small_calls() {
    let (_server, _, client) = lab();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.next(1).unwrap(), 2);
                }
            });
        }
        let large = [(1 << 20, 3), (1 << 20, 4), (20 << 20, 5)].map(|(len, value)| {
            let client = &client;
            scope.spawn(move || {
                let bytes = vec![value; len];
                for _ in 0..3 {
                    assert_eq!(client.sum(&bytes).unwrap(), len as u64 * u64::from(value));
                    assert_eq!(client.bytes(len as u32, value).unwrap(), bytes);
                    assert_eq!(client.echo(&bytes).unwrap(), bytes);
                }
            })
        });
        let ended = large.map(|thread| thread.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn messages_around_the_length_of_a_fragment_travel() {
    let (_server, _, client) = lab();
    for around in [16 * 1024, STREAM_FRAGMENT, 2 * STREAM_FRAGMENT] {
        for len in around - 40..around + 8 {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
        }
    }
}

#[test]
fn buffers_are_filled_and_changed_over_there() {
    let (_server, _, client) = lab();
    for len in [0, 10, 5000, 300_000] {
        let mut buffer = vec![0; len];
        client.fill(9, &mut buffer).unwrap();
        assert_eq!(buffer, vec![9; len]);
        client.increment(&mut buffer).unwrap();
        assert_eq!(buffer, vec![10; len]);
    }
}

#[test]
fn arguments_too_large_are_not_sent() {
    let (_server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let options = BindOptions::new().max_message(100_000);
    let client = LabClient::bind_with(&_server.uris()[0], &options).unwrap();
    let error = client.sum(&[0; 100_001]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_))), "{error}");
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
}

#[test]
fn a_call_larger_than_the_server_takes_is_refused_and_the_connection_lives_on() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().max_message(100_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let refused = client.sum(&vec![0; 5_000_000]).unwrap_err();
    let CallError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code, RefusalCode::MessageTooLarge);
    assert!(refusal.detail.contains("100000"), "{refusal}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
    let counters = server.counters();
    assert_eq!((counters.calls, counters.refused, counters.bindings), (1, 1, 1));
}

#[test]
fn a_result_larger_than_the_server_sends_is_a_failure_that_names_the_limit() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().max_message(100_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let error = client.bytes(200_000, 1).unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::ResultTooLarge);
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.bytes(90_000, 1).unwrap().len(), 90_000);
}

#[test]
fn a_result_larger_than_the_caller_takes_is_a_failure_and_the_connection_lives_on() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let options = BindOptions::new().max_message(100_000);
    let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
    let error = client.bytes(3_000_000, 1).unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::ResultTooLarge);
    assert_eq!(client.bytes(90_000, 1).unwrap().len(), 90_000);
    assert_eq!(server.counters().bindings, 1);
}

#[test]
fn a_slow_procedure_does_not_hold_up_other_calls_of_its_connection() {
    let (_server, gate, client) = lab();
    thread::scope(|scope| {
        let slow: Vec<_> = (0..8).map(|_| scope.spawn(|| client.wait().unwrap())).collect();
        gate.await_inside(8);
        for number in 0..50 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        gate.open();
        slow.into_iter().for_each(|slow| assert_eq!(slow.join().unwrap(), 7));
    });
}

#[test]
fn calls_that_arrive_in_one_read_do_not_wait_for_each_other() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    let mut both = raw.call(1, 1, 0).to_bytes().to_vec();
    both.extend(Header { lane: LaneId(1), ..raw.call(NEXT, 1, 4) }.to_bytes());
    both.extend(41_u32.to_le_bytes());
    raw.stream.write_all(&both).unwrap();
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.lane, payload), (LaneId(1), 42_u32.to_le_bytes().to_vec()));
    gate.open();
    assert_eq!(raw.receive().unwrap().0.lane, LaneId(0));
}

#[test]
fn a_call_that_takes_too_long_ends_at_its_deadline_and_the_connection_lives_on() {
    let (server, gate, client) = lab();
    let hurried = client.with_timeout(Duration::from_millis(20));
    for _ in 0..3 {
        let error = hurried.wait().unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }), "{error}");
        assert_eq!(error.ran(), Ran::Perhaps);
        assert_eq!(client.next(1).unwrap(), 2);
    }
    gate.open();
    eventually(|| client.next(1).unwrap() == 2 && client.binding().counters().ignored >= 3);
    assert_eq!(server.counters().bindings, 1);
}

#[test]
fn among_many_callers_those_whose_deadline_passes_do_not_disturb_the_others() {
    let (_server, gate, client) = lab();
    let hurried = client.with_timeout(Duration::from_millis(5));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| drop(hurried.wait().unwrap_err())));
            scope.spawn(|| (0..200).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    gate.open();
}

#[test]
fn the_deadline_travels() {
    let (_server, _, client) = lab();
    let left = client.with_timeout(Duration::from_secs(20)).left().unwrap();
    assert!((15_000..=20_000).contains(&left), "{left}");
}

#[test]
fn a_panic_is_an_error_to_its_caller_and_nothing_to_others() {
    let (_server, _, client) = lab();
    let error = client.panic("out of luck").unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!((failure.code, &*failure.detail), (FailureCode::Panicked, "out of luck"));
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn a_connection_lost_during_a_call_leaves_its_outcome_unknown_and_the_next_call_binds_again() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let proxy = Proxy::to(address_of(&server));
    let client = LabClient::bind(&proxy.uri).unwrap();
    thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| client.wait().unwrap_err())).collect();
        gate.await_inside(4);
        proxy.cut();
        for call in calls {
            let error = call.join().unwrap();
            assert!(
                matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }),
                "{error}"
            );
        }
    });
    gate.open();
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn an_idempotent_call_is_sent_again_over_another_connection() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let proxy = Proxy::to(address_of(&server));
    let client = LabClient::bind(&proxy.uri).unwrap();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.read().unwrap());
        gate.await_inside(1);
        proxy.cut();
        gate.await_inside(2);
        gate.open();
        assert_eq!(call.join().unwrap(), 8);
    });
}

#[test]
fn after_a_restart_of_the_server_the_next_call_works() {
    let (server, _, client) = lab();
    let uri = server.uris()[0].clone();
    assert_eq!(client.next(1).unwrap(), 2);
    drop(server);
    let error = client.next(1).unwrap_err();
    assert!(error.to_string().contains("nobody listens") || error.ran() == Ran::Perhaps, "{error}");
    let (_server, _) = serve_at(&uri, Server::new());
    assert_eq!(client.next(2).unwrap(), 3);
}

#[test]
fn shutting_down_finishes_what_runs_and_refuses_what_is_new() {
    let (server, gate, client) = lab();
    let late = LabClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| client.wait());
        gate.await_inside(1);
        let closing = server.clone();
        let stopped = scope.spawn(move || closing.shut_down());
        eventually(|| match late.next(1) {
            Ok(_) => false,
            Err(CallError::Refused(refusal)) => refusal.code == RefusalCode::ShuttingDown,
            Err(other) => panic!("{other}"),
        });
        assert!(LabClient::bind(&server.uris()[0]).is_err());
        gate.open();
        assert_eq!(running.join().unwrap().unwrap(), 7);
        stopped.join().unwrap();
    });
    assert!(late.next(1).is_err());
}

#[test]
fn shutting_down_waits_until_large_results_have_been_taken() {
    let (server, gate, client) = lab();
    let mut raw = Raw::bound(&server);
    let payload = [&(4_u32 << 20).to_le_bytes()[..], &[6]].concat();
    for number in 1..=8 {
        let header = raw.call(BYTES, number, payload.len() as u32);
        raw.send(&header, &payload);
    }
    eventually(|| server.counters().calls == 8);
    gate.open();
    drop(client);
    thread::scope(|scope| {
        scope.spawn(|| server.shut_down());
        let mut received = 0;
        while let Some((header, payload)) = raw.receive() {
            assert_eq!(header.kind, Kind::Result);
            received += payload.len();
        }
        assert_eq!(received, 8 * (4 + (4 << 20)));
    });
}

#[test]
fn a_slow_reader_holds_up_nobody_and_gets_all_its_results() {
    let (server, _, client) = lab();
    let mut raw = Raw::bound(&server);
    let payload = [&(4_u32 << 20).to_le_bytes()[..], &[6]].concat();
    for number in 1..=8 {
        let header = Header { lane: LaneId(number as u16), ..raw.call(BYTES, number, 5) };
        raw.send(&header, &payload);
    }
    eventually(|| server.counters().calls == 8);
    for number in 0..100 {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    let mut lens = [0; 9];
    while lens[1..].iter().any(|len| *len < 4 + (4 << 20)) {
        let (header, payload) = raw.receive().unwrap();
        assert_eq!(header.offset as usize, lens[usize::from(header.lane.0)]);
        lens[usize::from(header.lane.0)] += payload.len();
    }
}

#[test]
fn a_reader_that_never_reads_is_dropped() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().max_message(1 << 20));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let mut raw = Raw::bound(&server);
    let payload = [&1_000_000_u32.to_le_bytes()[..], &[6]].concat();
    for number in 1.. {
        let header = raw.call(BYTES, number, 5);
        if raw.stream.write_all(&[&header.to_bytes()[..], &payload].concat()).is_err() {
            break;
        }
        if server.counters().bindings == 1 {
            break;
        }
    }
    eventually(|| server.counters().bindings == 1);
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn callers_of_a_unix_socket_are_known_to_the_procedure() {
    let (server, _) = serve_at(&unix_name(), Server::new());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let caller = client.caller().unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    assert_eq!(caller, format!("process {} of {uid}", std::process::id()));
}

#[test]
fn callers_over_tcp_are_known_by_their_address() {
    let (_server, _, client) = lab();
    assert!(client.caller().unwrap().starts_with("network 127.0.0.1:"));
}

#[test]
fn a_unix_socket_with_a_file_works_and_a_stale_file_is_replaced() {
    let path = std::env::temp_dir().join(format!("stoop-test-{}.sock", std::process::id()));
    let uri = format!("unix:{}", path.display());
    // What a server that was killed leaves behind: a socket's file, and nobody behind it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind(&uri).unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
    let taken = Server::new().export(LabServer::new(Bench::default())).listen(&uri).unwrap_err();
    assert!(taken.to_string().contains("another server"), "{taken}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn garbage_closes_its_connection_and_disturbs_nobody() {
    let (server, _, client) = lab();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..20 {
        let mut raw = Raw::connect(&server);
        let mut garbage: Vec<u8> = (0..3000)
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 56) as u8
            })
            .collect();
        garbage[0] = round;
        let _ = raw.stream.write_all(&garbage);
        raw.assert_closed();
        assert_eq!(client.next(1).unwrap(), 2);
    }
    assert_eq!((server.counters().malformed, server.counters().bindings), (20, 1));
}

#[test]
fn peers_that_lie_are_closed_and_counted() {
    let (server, _, client) = lab();
    type Lie = fn(&Raw) -> Vec<Header>;
    let lies: [(&str, Lie); 8] = [
        ("a call of no binding", |raw| vec![Header { binding: BindingId(1), ..raw.call(NEXT, 1, 0) }]),
        ("a lane beyond all", |raw| vec![Header { lane: LaneId(1024), ..raw.call(NEXT, 1, 0) }]),
        ("a fragment of nothing", |raw| vec![Header { offset: 65536, ..raw.call(NEXT, 1, 70_000) }]),
        ("a fragment behind the end", |raw| vec![Header { offset: 11, ..raw.call(NEXT, 1, 10) }]),
        ("a kind for callers", |raw| vec![Header { kind: Kind::Result, ..raw.call(NEXT, 1, 0) }]),
        ("a kind of datagrams", |raw| vec![Header { kind: Kind::Probe, ..raw.call(NEXT, 1, 0) }]),
        ("a second binding", |raw| vec![Header { kind: Kind::Bind, ..raw.call(0, 1, 0) }]),
        ("a number that is used", |raw| vec![raw.call(NEXT, 1, 100_000), raw.call(NEXT, 1, 100_000)]),
    ];
    for (count, (what, lie)) in lies.into_iter().enumerate() {
        let mut raw = Raw::bound(&server);
        for header in lie(&raw) {
            let payload = header.payload_len(STREAM_FRAGMENT).unwrap_or(0);
            let _ = raw.stream.write_all(&[&header.to_bytes()[..], &vec![0; payload]].concat());
        }
        raw.assert_closed();
        assert_eq!(server.counters().malformed, count as u64 + 1, "{what}");
        assert_eq!(client.next(1).unwrap(), 2);
    }
}

#[test]
fn peers_that_stop_in_the_middle_disturb_nobody() {
    let (server, _, client) = lab();
    let mut half_header = Raw::connect(&server);
    half_header.stream.write_all(&[0xd7; 1]).unwrap();
    let mut half_message = Raw::bound(&server);
    let header = half_message.call(NEXT, 1, 60 << 20);
    half_message.send(&header, &[0; 5000]);
    for number in 0..100 {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    drop((half_header, half_message));
    eventually(|| server.counters().bindings == 1);
    assert_eq!(server.counters().malformed, 0);
}

#[test]
fn unknown_procedures_and_bad_arguments_are_refused() {
    let (server, _, _client) = lab();
    let mut raw = Raw::bound(&server);
    for (number, (procedure, code)) in
        [(999, RefusalCode::UnknownProcedure), (NEXT, RefusalCode::BadArguments)].into_iter().enumerate()
    {
        let header = raw.call(procedure, number as u32 + 1, 0);
        raw.send(&header, &[]);
        let (answer, _) = raw.receive().unwrap();
        assert_eq!((answer.kind, RefusalCode::from_code(answer.time)), (Kind::Refusal, code));
    }
}

#[test]
fn a_call_whose_deadline_has_passed_is_not_run() {
    let (server, _, _client) = lab();
    let mut raw = Raw::bound(&server);
    let header = Header { time: 0, ..raw.call(NEXT, 1, 4) };
    raw.send(&header, &[0; 4]);
    let (answer, _) = raw.receive().unwrap();
    assert_eq!((answer.kind, answer.time), (Kind::Refusal, RefusalCode::DeadlinePassed.code()));
    assert_eq!(server.counters().calls, 0);
}

/// A server that binds as it should and then answers as `answer` says.
fn false_server(answer: impl Fn(&mut TcpStream, Header) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut raw = Raw { stream: stream.unwrap(), binding: BindingId(5) };
            let Some((asked, payload)) = raw.receive() else { continue };
            let request = BindRequest::decode(&payload).unwrap();
            let reply = BindReply {
                status: BindStatus::Bound,
                nonce: request.nonce,
                incarnation: 1,
                silence_ms: u32::MAX,
                max_message: 1,
                window: 1440,
                host: HostFacts::default(),
                first: 0,
                procedures: (0..request.fingerprints.len() as u16).collect(),
                text: String::new(),
            };
            let payload = reply.encode();
            let mut header = Header { kind: Kind::BindReply, binding: BindingId(5), ..asked };
            header.message_len = payload.len() as u32;
            raw.send(&header, &payload);
            while let Some((call, _)) = raw.receive() {
                answer(&mut raw.stream, call);
            }
        }
    });
    uri
}

#[test]
fn a_server_that_answers_nonsense_loses_the_connection_and_harms_nothing() {
    type Nonsense = fn(Header) -> Vec<u8>;
    let nonsense: [Nonsense; 4] = [
        |_| vec![0x55; 64],
        |call| Header { kind: Kind::Challenge, ..call }.to_bytes().to_vec(),
        |call| {
            Header { kind: Kind::Result, binding: BindingId(6), message_len: 0, ..call }.to_bytes().to_vec()
        },
        |call| {
            Header { kind: Kind::Result, offset: 1 << 20, message_len: 1 << 21, ..call }.to_bytes().to_vec()
        },
    ];
    for nonsense in nonsense {
        let uri = false_server(move |stream, call| drop(stream.write_all(&nonsense(call))));
        let client = LabClient::bind(&uri).unwrap();
        let error = client.next(1).unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }), "{error}");
    }
}

#[test]
fn answers_to_other_calls_are_ignored() {
    let uri = false_server(|stream, call| {
        let answer = |number, kind| {
            let number = CallNumber(number);
            Header { kind, number, message_len: 0, time: WireFailure::Panicked.code(), ..call }
        };
        for header in [
            answer(call.number.0 + 1, Kind::Failure),
            answer(call.number.0 - 1, Kind::Failure),
            Header { lane: LaneId(700), ..answer(call.number.0, Kind::Failure) },
            answer(call.number.0, Kind::Failure),
        ] {
            stream.write_all(&header.to_bytes()).unwrap();
        }
    });
    let client = LabClient::bind(&uri).unwrap();
    for _ in 0..3 {
        assert!(matches!(client.next(1).unwrap_err(), CallError::Failed(_)));
    }
    assert!(client.binding().counters().ignored >= 7);
}

#[test]
fn a_result_of_another_type_is_the_peers_violation() {
    let uri = false_server(|stream, call| {
        let header = Header { kind: Kind::Result, message_len: 3, ..call };
        stream.write_all(&[&header.to_bytes()[..], &[1, 2, 3]].concat()).unwrap();
    });
    let client = LabClient::bind(&uri).unwrap();
    assert!(matches!(client.next(1).unwrap_err(), CallError::Peer(_)));
}

#[test]
fn a_server_that_takes_nothing_more_lets_calls_end_at_their_deadlines() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut raw = Raw { stream: listener.accept().unwrap().0, binding: BindingId(5) };
        let (asked, payload) = raw.receive().unwrap();
        let request = BindRequest::decode(&payload).unwrap();
        let reply = BindReply {
            status: BindStatus::Bound,
            nonce: request.nonce,
            incarnation: 1,
            silence_ms: u32::MAX,
            max_message: 1 << 30,
            window: 1440,
            host: HostFacts::default(),
            first: 0,
            procedures: (0..request.fingerprints.len() as u16).collect(),
            text: String::new(),
        };
        let payload = reply.encode();
        let mut header = Header { kind: Kind::BindReply, binding: BindingId(5), ..asked };
        header.message_len = payload.len() as u32;
        raw.send(&header, &payload);
        // Reads nothing until the end of the test.
        let _ = ended.recv();
    });
    let client = LabClient::bind(&uri).unwrap();
    let hurried = client.with_timeout(Duration::from_millis(50));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let error = hurried.sum(&vec![0; 32 << 20]).unwrap_err();
                assert!(matches!(error, CallError::NotSent(SendError::Io(_))), "{error}");
                assert_eq!(error.ran(), Ran::No);
            });
        }
    });
    drop(done);
    server.join().unwrap();
}

#[test]
fn where_nobody_listens_a_bind_says_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for uri in [format!("tcp://{free}"), unix_name(), "unix:/nonexistent/socket".into()] {
        let error = LabClient::bind(&uri).unwrap_err();
        assert!(matches!(error, BindError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("nobody listens"), "{error}");
    }
}

#[test]
fn where_something_else_listens_a_bind_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    let other = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"220 mail.example.org ESMTP, at your service, whatever you may want\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        // Then one that says nothing.
        let mut silent = listener.accept().unwrap().0;
        let _ = silent.read_to_end(&mut Vec::new());
    });
    let error = LabClient::bind(&uri).unwrap_err();
    assert!(matches!(error, BindError::Protocol { .. }), "{error}");
    let options = BindOptions::new().bind_timeout(Duration::from_millis(50));
    let error = LabClient::bind_with(&uri, &options).unwrap_err();
    assert!(matches!(error, BindError::NoAnswer { .. }), "{error}");
    other.join().unwrap();
}

mod other_versions {
    #[stoop::interface]
    pub trait Lab {
        fn next(&self, number: u64) -> u32;
    }

    #[stoop::interface]
    pub trait Kitchen {
        fn cook(&self);
    }
}

#[test]
fn a_procedure_declared_differently_is_named_with_both_signatures() {
    let (server, _, _client) = lab();
    let error = other_versions::LabClient::bind(&server.uris()[0]).unwrap_err();
    let BindError::Mismatch { procedure, ours, theirs, .. } = &error else { panic!("{error}") };
    assert_eq!(*procedure, "next");
    assert!(ours.contains("u64") && theirs.contains("u32"), "{error}");
}

#[test]
fn an_interface_that_is_not_exported_is_answered_by_those_that_are() {
    let (server, _, _client) = lab();
    let error = other_versions::KitchenClient::bind(&server.uris()[0]).unwrap_err();
    assert!(matches!(error, BindError::NoSuchInterface { .. }), "{error}");
    assert!(error.to_string().contains("Lab"), "{error}");
}

#[test]
fn an_address_in_use_is_explained() {
    let (server, _, _client) = lab();
    let error = Server::new().export(LabServer::new(Bench::default())).listen(&server.uris()[0]).unwrap_err();
    assert!(error.to_string().contains("another server"), "{error}");
}

#[test]
fn a_binding_says_what_it_is() {
    let (_server, _, client) = lab();
    let description = client.binding().describe();
    assert!(description.contains("TCP") && description.contains("127.0.0.1"), "{description}");
}

#[test]
fn a_cancelled_call_that_runs_learns_it_and_is_answered() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    gate.open();
    let mut raw = Raw::bound(&server);
    let (first, second) =
        (raw.call(UNTIL_CANCELLED, 1, 0), Header { lane: LaneId(1), ..raw.call(UNTIL_CANCELLED, 1, 0) });
    raw.send(&first, &[]);
    raw.send(&second, &[]);
    gate.await_inside(2);
    raw.cancel(second);
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.kind, header.lane, payload), (Kind::Result, LaneId(1), vec![9, 0, 0, 0]));
    raw.cancel(first);
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.kind, header.lane, payload), (Kind::Result, LaneId(0), vec![9, 0, 0, 0]));
}

#[test]
fn a_call_that_is_cancelled_before_it_begins_never_runs() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new().workers(1));
    let mut raw = Raw::bound(&server);
    let (running, waiting) = (raw.call(WAIT, 1, 0), Header { lane: LaneId(1), ..raw.call(WAIT, 1, 0) });
    raw.send(&running, &[]);
    gate.await_inside(1);
    raw.send(&waiting, &[]);
    raw.cancel(waiting);
    // Answered only after all of that has been received.
    let refused = Header { lane: LaneId(2), ..raw.call(u16::MAX, 1, 0) };
    raw.send(&refused, &[]);
    assert_eq!(raw.receive().unwrap().0.time, RefusalCode::UnknownProcedure.code());
    gate.open();
    let answers = [raw.receive().unwrap().0, raw.receive().unwrap().0];
    assert_eq!(answers.map(|answer| (answer.lane.0, answer.kind)), [(0, Kind::Result), (1, Kind::Refusal)]);
    assert_eq!(answers[1].time, RefusalCode::Cancelled.code());
    assert_eq!((server.counters().calls, server.counters().refused), (1, 2));
}

#[test]
fn a_call_that_is_cancelled_before_it_is_all_there_is_refused() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    let long = raw.call(NEXT, 1, 1 << 20);
    raw.send(&long, &[0; STREAM_FRAGMENT]);
    raw.cancel(long);
    // Once more: it has been answered.
    raw.cancel(long);
    let (header, _) = raw.receive().unwrap();
    assert_eq!((header.kind, header.number.0), (Kind::Refusal, 1));
    assert_eq!(header.time, RefusalCode::Cancelled.code());
    let next = raw.call(NEXT, 2, 4);
    raw.send(&next, &[1, 0, 0, 0]);
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.kind, header.number.0, payload), (Kind::Result, 2, vec![2, 0, 0, 0]));
    raw.cancel(next);
    let last = raw.call(NEXT, 3, 4);
    raw.send(&last, &[2, 0, 0, 0]);
    assert_eq!(raw.receive().unwrap().1, [3, 0, 0, 0]);
    assert_eq!(server.counters().malformed, 0);
}

#[test]
fn a_number_that_is_not_after_the_last_one_is_a_violation() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    let call = raw.call(NEXT, 2, 4);
    raw.send(&call, &[1, 0, 0, 0]);
    assert_eq!(raw.receive().unwrap().1, [2, 0, 0, 0]);
    raw.send(&call, &[1, 0, 0, 0]);
    raw.assert_closed();
    eventually(|| server.counters().malformed == 1);
}

#[test]
fn many_calls_in_one_write_are_all_answered() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    for round in 1..20_u32 {
        let calls = (0..1000_u16).flat_map(|lane| {
            let call = Header { lane: LaneId(lane), ..raw.call(NEXT, round, 4) };
            [&call.to_bytes()[..], &u32::from(lane).to_le_bytes()].concat()
        });
        let calls: Vec<u8> = calls.collect();
        raw.stream.write_all(&calls).unwrap();
        let mut answers: Vec<_> = (0..1000).map(|_| raw.receive().unwrap()).collect();
        answers.sort_by_key(|(header, _)| header.lane);
        for (lane, (header, payload)) in (0..).zip(answers) {
            assert_eq!((header.kind, header.lane.0, header.number.0), (Kind::Result, lane, round));
            assert_eq!(payload, (u32::from(lane) + 1).to_le_bytes());
        }
    }
}

#[test]
fn an_answer_does_not_wait_for_one_that_takes_longer_than_before() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    gate.open();
    for number in 1..50 {
        let call = raw.call(WAIT, number, 0);
        raw.send(&call, &[]);
        assert_eq!(raw.receive().unwrap().0.kind, Kind::Result);
    }
    gate.shut();
    let brief = Header { lane: LaneId(1), ..raw.call(NEXT, 1, 4) };
    let (slow, other) = (raw.call(WAIT, 50, 0), Header { lane: LaneId(2), ..brief });
    let calls =
        [&brief.to_bytes()[..], &[1, 0, 0, 0], &slow.to_bytes(), &other.to_bytes(), &[2, 0, 0, 0]].concat();
    raw.stream.write_all(&calls).unwrap();
    let mut answered = [raw.receive().unwrap().0.lane.0, raw.receive().unwrap().0.lane.0];
    answered.sort_unstable();
    assert_eq!(answered, [1, 2]);
    gate.open();
    assert_eq!(raw.receive().unwrap().0.lane.0, 0);
}
