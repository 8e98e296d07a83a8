//! A host that takes all that it can of a server, and what another host still gets.
//!
//! The greedy callers write their packets by hand, from another address of the loopback network than the clients.

use crate::harness::eventually;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoop::{BindOptions, Deferred, Limits, Reply, ReplyError, RunningServer, Server};
use stoop_exchange::stream::OutgoingMessage;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus};
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, Template};

#[stoop::interface]
trait Lab {
    fn null(&self);
    fn sum(&self, bytes: &[u8]) -> u64;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    fn make(&self, len: u32) -> Vec<u8>;
    /// Answers when it is told to.
    fn later(&self) -> Deferred<u32>;
}

#[derive(Clone, Default)]
struct Bench(Arc<Mutex<Vec<Reply<u32>>>>);

impl Lab for Bench {
    fn null(&self) {}
    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn make(&self, len: u32) -> Vec<u8> {
        vec![1; len as usize]
    }
    fn later(&self) -> Deferred<u32> {
        let (reply, deferred) = stoop::deferred();
        self.0.lock().unwrap().push(reply);
        deferred
    }
}

const MIB: usize = 1 << 20;
/// Numbers of procedures.
const SUM: u16 = 1;
const MAKE: u16 = 3;
const LATER: u16 = 4;
/// Time of such a call: longer than a test, and a server whose test has failed does not wait for it without end.
const TIME_US: u32 = 100_000_000;
/// Another host than the clients'.
const GREEDY: [u8; 4] = [127, 0, 0, 66];

fn server(uri: &str, limits: Limits) -> (RunningServer, String, SocketAddr) {
    server_of(Bench::default(), uri, limits)
}

fn server_of(bench: Bench, uri: &str, limits: Limits) -> (RunningServer, String, SocketAddr) {
    let server = Server::new().export(LabServer::new(bench)).max_message(4 * MIB).limits(limits);
    let server = server.listen(uri).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    let address = uri.split_once("://").unwrap().1.parse().unwrap();
    (server, uri, address)
}

/// Options of a client that waits as long as a busy machine takes.
fn patient() -> BindOptions {
    BindOptions::new().bind_timeout(Duration::from_secs(60)).timeout(Duration::from_secs(60))
}

/// A client of this host binds, and makes calls of all lengths.
fn is_served(uri: &str) {
    let client = LabClient::bind_with(uri, &patient()).unwrap();
    assert!((0..100).all(|_| client.null().is_ok()));
    let bytes = vec![3; MIB];
    assert_eq!(client.sum(&bytes).unwrap(), 3 * MIB as u64);
    assert_eq!(client.echo(&bytes).unwrap(), bytes);
}

fn bind_packet(nonce: u64, cookie: stoop_wire::Challenge) -> Vec<u8> {
    let request = BindRequest { cookie, ..BindRequest::new(nonce, "Lab", vec![]) };
    let payload = request.encode();
    let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(nonce as u32));
    header.message_len = payload.len() as u32;
    [&header.to_bytes()[..], &payload].concat()
}

/// A caller over UDP, and the number of its last call on lane 0.
struct Greedy(UdpSocket, Cell<u32>);

impl Greedy {
    fn of(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(SocketAddr::from((GREEDY, 0))).unwrap();
        socket.connect(server).unwrap();
        Self(socket, Cell::new(0))
    }

    /// Sends a packet and returns the answer.
    fn ask(&self, packet: &[u8]) -> (Header, Vec<u8>) {
        self.0.send(packet).unwrap();
        self.hear()
    }

    /// The next packet from the server.
    fn hear(&self) -> (Header, Vec<u8>) {
        let mut answer = [0; 2048];
        let len = self.0.recv(&mut answer).unwrap();
        let (header, payload) = Header::parse(&answer[..len]).unwrap();
        (header, payload.to_vec())
    }

    /// A binding; `None` if the server has no more for this host.
    fn bind(&self, nonce: u64) -> Option<BindingId> {
        let (challenge, _) = self.ask(&bind_packet(nonce, stoop_wire::Challenge(0)));
        let (header, payload) = self.ask(&bind_packet(nonce, challenge.challenge().unwrap()));
        let reply = BindReply::decode(&payload).unwrap();
        (reply.status == BindStatus::Bound).then_some(header.binding)
    }

    /// Asks something of the server, which it has not asked before, and waits for the answer: it has seen all packets before. It takes
    /// some hundred at a time: what comes while its socket is full is lost.
    fn settle(&self, binding: BindingId) {
        let number = CallNumber(self.1.get() + 1);
        self.1.set(number.0);
        let probe = Header { procedure: u16::MAX, ..Header::bare(Kind::Call, binding, LaneId(0), number) };
        let (mut answered, _) = self.ask(&probe.to_bytes());
        while (answered.lane, answered.number) != (LaneId(0), number) {
            answered = self.hear().0;
        }
    }

    /// Makes calls whose answers come later, on lanes of their own.
    fn open(&self, binding: BindingId, lanes: std::ops::Range<u16>) {
        for lane in lanes {
            let call = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
            self.0.send(&Header { procedure: LATER, time: TIME_US, ..call }.to_bytes()).unwrap();
            if lane % 32 == 0 {
                self.settle(binding);
            }
        }
        self.settle(binding);
    }
}

#[test]
fn a_host_with_all_udp_bindings_that_it_gets_keeps_no_client_out() {
    let (server, uri, address) = server("udp://127.0.0.1:0", Limits::new().bindings(400));
    let greedy = Greedy::of(address);
    let bound = (0..400).filter(|nonce| greedy.bind(*nonce).is_some()).count();
    assert_eq!((bound, server.counters().binds_refused), (300, 100));
    (0..20).for_each(|_| is_served(&uri));
}

#[test]
fn announced_calls_of_one_host_leave_memory_for_the_calls_of_another() {
    let limits = Limits::new().argument_bytes(16 * MIB);
    let (server, uri, address) = server("udp://127.0.0.1:0", limits);
    for nonce in 0..4 {
        // The answers to the parts of one binding do not come to the socket of the next.
        let greedy = Greedy::of(address);
        let binding = greedy.bind(nonce).unwrap();
        for lane in 1..300 {
            let mut part = vec![0; HEADER_LEN + 1];
            let template = Template::new(Kind::Call, binding, LaneId(lane));
            let long = 4 * MIB as u32;
            template.stamp_part(part.first_chunk_mut().unwrap(), 0, CallNumber(1), long, (0, 1), u32::MAX);
            greedy.0.send(&part).unwrap();
            if lane % 32 == 0 {
                greedy.settle(binding);
            }
        }
        greedy.settle(binding);
    }
    assert!(server.counters().packet.waited > 0, "{:?}", server.counters());
    is_served(&uri);
}

#[test]
fn cancels_of_one_host_on_many_lanes_leave_lanes_for_another() {
    let (server, uri, address) = server("udp://127.0.0.1:0", Limits::new().lanes(2000));
    let greedy = Greedy::of(address);
    let binding = greedy.bind(1).unwrap();
    for lane in (4..16_000).step_by(4) {
        let cancel = Header::bare(Kind::Cancel, binding, LaneId(lane), CallNumber(1));
        greedy.0.send(&cancel.to_bytes()).unwrap();
        if lane % 256 == 0 {
            greedy.settle(binding);
        }
    }
    assert!(server.counters().packet.dropped > 0, "{:?}", server.counters());
    let client = LabClient::bind_with(&uri, &patient()).unwrap();
    // More threads than the lanes that each binding has anyway.
    std::thread::scope(|scope| {
        (0..16).for_each(|_| _ = scope.spawn(|| (0..20).for_each(|_| client.null().unwrap())));
    });
}

/// Connects from the other host, and asks for a binding. Returns it, if it was granted, and the connection.
fn bind_over_tcp(address: SocketAddr) -> (Option<BindingId>, TcpStream) {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((GREEDY, 0))).unwrap();
    connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(&bind_packet(1, stoop_wire::Challenge(0))).unwrap();
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).unwrap();
    let header = Header::from_bytes(&header).unwrap();
    let mut payload = vec![0; header.message_len as usize];
    stream.read_exact(&mut payload).unwrap();
    let is_bound = BindReply::decode(&payload).unwrap().status == BindStatus::Bound;
    (is_bound.then_some(header.binding), stream)
}

/// A call over TCP, as bytes of the stream.
fn call_over_tcp(binding: BindingId, lane: u16, procedure: u16, arguments: &[u8]) -> Vec<u8> {
    let mut header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
    (header.procedure, header.message_len, header.time) = (procedure, arguments.len() as u32, u32::MAX);
    let mut packet = [&[0; HEADER_LEN], arguments].concat();
    let mut message = OutgoingMessage::new(header, &mut packet);
    let mut stream = Vec::new();
    while !message.is_done() {
        let mut room = [0; HEADER_LEN];
        let fragment = message.next_slices(&packet, &mut room).concat();
        message.advance(fragment.len());
        stream.extend(fragment);
    }
    stream
}

#[test]
fn incomplete_calls_of_one_host_leave_memory_for_the_calls_of_another() {
    let limits = Limits::new().argument_bytes(16 * MIB);
    let (server, uri, address) = server("tcp://127.0.0.1:0", limits);
    let mut held = Vec::new();
    for _ in 0..12 {
        let (binding, mut stream) = bind_over_tcp(address);
        let call = call_over_tcp(binding.unwrap(), 0, SUM, &vec![1; 2 * MIB]);
        // The last byte never comes.
        stream.write_all(&call[..call.len() - 1]).unwrap();
        held.push(stream);
    }
    eventually(|| server.counters().memory.arguments_refused > 0);
    let memory = server.counters().memory;
    assert!(memory.argument_bytes <= 12 * MIB as u64, "{memory:?}");
    is_served(&uri);
    drop(held);
    eventually(|| server.counters().memory.argument_bytes == 0);
}

#[test]
fn results_that_one_host_does_not_read_leave_memory_for_those_of_another() {
    let (server, uri, address) = server("tcp://127.0.0.1:0", Limits::new().result_bytes(16 * MIB));
    let mut held = Vec::new();
    for _ in 0..12 {
        let (binding, mut stream) = bind_over_tcp(address);
        for lane in 0..4 {
            let arguments = (4 * MIB as u32 - 64).to_le_bytes();
            stream.write_all(&call_over_tcp(binding.unwrap(), lane, MAKE, &arguments)).unwrap();
        }
        held.push(stream);
    }
    eventually(|| server.counters().memory.results_dropped > 0);
    let memory = server.counters().memory;
    assert!(memory.result_bytes <= 12 * MIB as u64, "{memory:?}");
    is_served(&uri);
    drop(held);
    eventually(|| server.counters().memory.result_bytes == 0);
}

#[test]
fn a_host_with_all_tcp_connections_that_it_gets_keeps_no_client_out() {
    let (server, uri, address) = server("tcp://127.0.0.1:0", Limits::new().bindings(64));
    // Some never bind; the server closes those that are too many.
    let _silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address)).collect();
    let all: Vec<_> = (0..60).map(|_| bind_over_tcp(address)).collect();
    assert_eq!(all.iter().filter(|(bound, _)| bound.is_some()).count(), 48);
    assert_eq!((server.counters().bindings, server.counters().binds_refused), (48, 12));
    (0..20).for_each(|_| is_served(&uri));
}

#[test]
fn ten_thousand_calls_of_one_host_whose_replies_are_kept_leave_room_for_those_of_another() {
    let bench = Bench::default();
    let (server, uri, address) =
        server_of(bench.clone(), "udp://127.0.0.1:0", Limits::new().open_calls(8_000));
    let greedy: Vec<_> = (0..10).map(|_| Greedy::of(address)).collect();
    for (nonce, greedy) in (0..).zip(&greedy) {
        greedy.open(greedy.bind(nonce).unwrap(), 1..1001);
    }
    let open = server.counters().open;
    // Three quarters, and as many more as workers run at once.
    assert!((6_000..6_100).contains(&open), "{open} calls are open");
    let refused = server.counters().refusals.of(stoop::RefusalCode::Overloaded);
    assert!(refused >= 3_900, "{refused} were refused, and {open} are open");
    let kept = std::mem::take(&mut *bench.0.lock().unwrap());
    is_served(&uri);
    let client = LabClient::bind_with(&uri, &patient()).unwrap();
    let calls: Vec<_> = (0..100).map(|_| client.begin().later()).collect();
    eventually(|| bench.0.lock().unwrap().len() == 100);
    bench.0.lock().unwrap().drain(..).for_each(|reply| reply.send(7).unwrap());
    assert!(calls.into_iter().all(|call| call.wait().unwrap() == 7));
    assert_eq!(server.counters().open, open);
    drop(kept);
    assert_eq!(server.counters().open, 0);
}

#[test]
fn a_binding_that_its_caller_gives_up_takes_its_open_calls_along() {
    let bench = Bench::default();
    let (server, uri, address) = server_of(bench.clone(), "udp://127.0.0.1:0", Limits::new());
    let greedy = Greedy::of(address);
    let (binding, other) = (greedy.bind(1).unwrap(), greedy.bind(2).unwrap());
    greedy.open(binding, 1..9);
    let replies = std::mem::take(&mut *bench.0.lock().unwrap());
    greedy.open(other, 1..2);
    assert_eq!((replies.len(), server.counters().open), (8, 9));
    greedy.0.send(&Header::bare(Kind::Unbind, binding, LaneId(0), CallNumber::ZERO).to_bytes()).unwrap();
    eventually(|| replies.iter().all(Reply::is_cancelled));
    assert!(replies.into_iter().all(|reply| reply.send(1) == Err(ReplyError::CallerGone)));
    assert_eq!(server.counters().open, 1);
    bench.0.lock().unwrap().pop().unwrap().send(1).unwrap();
    is_served(&uri);
}
