//! Our server against callers that misbehave, and under load. Needs no peer.

use crate::peer::PEER;
use crate::programs::{One, Two};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use stoop::RunningServer;
use stoop::onc::stub::{Arguments, IncomingCall, NoResult, Program};
use stoop::onc::xdr::Writer;
use stoop::onc::{Client, ConnectionLimits, Server, VersionId};
use stoop_onc::auth::{Auth, AuthStatus, Flavor};
use stoop_onc::message::{self, Accepted, Call, Denied, ProcedureId, Reply, ReplyBody, VersionRange};
use stoop_onc::record::{RecordLimits, Records};
use stoop_onc::{Xid, record};
use stoop_xdr::Encode;

const SECOND: Duration = Duration::from_secs(1);

fn start(server: Server) -> (RunningServer, SocketAddr, SocketAddr) {
    let server = server.program(One::default()).program(Two);
    let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
    let server = server.start().unwrap();
    let address = |at: usize| server.uris()[at].rsplit_once('/').unwrap().1.parse().unwrap();
    let (udp, tcp) = (address(0), address(1));
    (server, udp, tcp)
}

pub(crate) fn call_with<A: Encode>(
    xid: u32,
    procedure: ProcedureId,
    credential: Auth<'_>,
    arguments: &A,
) -> Vec<u8> {
    let call = Call { xid: Xid(xid), procedure, credential, verifier: Auth::NONE };
    let mut bytes = Vec::new();
    message::append(&call, arguments, &mut bytes).unwrap();
    bytes
}

const fn one(procedure: u32) -> ProcedureId {
    ProcedureId { program: PEER, version: 1, procedure }
}

fn call<A: Encode>(xid: u32, procedure: u32, arguments: &A) -> Vec<u8> {
    call_with(xid, one(procedure), Auth::NONE, arguments)
}

pub(crate) fn udp(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(10 * SECOND)).unwrap();
    socket
}

pub(crate) fn exchange(socket: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    socket.send(datagram).unwrap();
    receive(socket)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let len = socket.recv(&mut buffer).expect("a reply");
    buffer.truncate(len);
    buffer
}

pub(crate) fn record(message: &[u8]) -> Vec<u8> {
    [&record::mark(message.len()).unwrap()[..], message].concat()
}

/// Records that arrive, one after the other.
pub(crate) struct Stream(TcpStream, Records, Vec<u8>);

impl Stream {
    pub(crate) fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(20 * SECOND)).unwrap();
        Self(
            stream,
            Records::new(RecordLimits { record_max: 64 << 20, ..RecordLimits::default() }),
            Vec::new(),
        )
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub(crate) fn next(&mut self) -> Vec<u8> {
        loop {
            let mut input = &self.2[..];
            if let Some(found) = self.1.next(&mut input).unwrap().map(<[u8]>::to_vec) {
                self.2 = input.to_vec();
                return found;
            }
            let mut buffer = [0; 65_536];
            let len = self.0.read(&mut buffer).expect("a reply");
            assert!(len > 0, "the connection was closed");
            self.2 = buffer[..len].to_vec();
        }
    }

    /// Whether the server ends the connection, and sends nothing before.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(len) => len == 0,
            Err(why) => why.kind() == ErrorKind::ConnectionReset,
        }
    }
}

pub(crate) fn accepted(reply: &[u8]) -> Accepted {
    match Reply::parse(reply).unwrap().0.body {
        ReplyBody::Accepted { status, .. } => status,
        ReplyBody::Denied(denied) => panic!("denied: {denied}"),
    }
}

pub(crate) fn denied(reply: &[u8]) -> Denied {
    match Reply::parse(reply).unwrap().0.body {
        ReplyBody::Accepted { status, .. } => panic!("accepted: {status}"),
        ReplyBody::Denied(denied) => denied,
    }
}

fn number(reply: &[u8]) -> u32 {
    Reply::parse(reply).unwrap().1.value().expect("a number")
}

#[test]
fn each_refusal_is_the_protocols_own() {
    let (_server, address, tcp) = start(Server::new());
    let socket = udp(address);
    let mut stream = Stream::connect(tcp);
    let mut both = |datagram: &[u8]| {
        stream.send(&record(datagram));
        let over_tcp = stream.next();
        let over_udp = exchange(&socket, datagram);
        assert_eq!(over_udp, over_tcp);
        over_udp
    };
    let null = |procedure| call_with(1, procedure, Auth::NONE, &());
    let mismatch = Accepted::ProgramMismatch(VersionRange { low: 1, high: 2 });
    assert_eq!(accepted(&both(&null(one(0)))), Accepted::Success);
    assert_eq!(accepted(&both(&null(ProcedureId { program: 7, ..one(0) }))), Accepted::ProgramUnavailable);
    assert_eq!(accepted(&both(&null(ProcedureId { version: 3, ..one(0) }))), mismatch);
    assert_eq!(accepted(&both(&null(one(77)))), Accepted::ProcedureUnavailable);
    assert_eq!(accepted(&both(&call(2, 1, &5_i32))), Accepted::GarbageArguments);
    assert_eq!(accepted(&both(&call(3, 6, &()))), Accepted::SystemError, "a panic");
    let flavored = |flavor, body| call_with(4, one(0), Auth { flavor, body }, &());
    let rejected = Denied::Auth(AuthStatus::REJECTED_CREDENTIAL);
    assert_eq!(denied(&both(&flavored(Flavor::TLS, &[]))), rejected, "a probe for TLS");
    assert_eq!(denied(&both(&flavored(Flavor(77), &[1; 8]))), rejected);
    assert_eq!(denied(&both(&flavored(Flavor::SYS, &[0; 12]))), Denied::Auth(AuthStatus::BAD_CREDENTIAL));
    let mut version_three = null(one(0));
    version_three[11] = 3;
    assert_eq!(denied(&both(&version_three)), Denied::RpcMismatch(VersionRange { low: 2, high: 2 }));
}

#[test]
fn a_repeated_call_has_the_first_reply_and_runs_once() {
    let (server, address, _) = start(Server::new());
    let socket = udp(address);
    let counts: Vec<u32> = [5, 5, 6, 5, 6].map(|xid| number(&exchange(&socket, &call(xid, 4, &())))).to_vec();
    assert_eq!(counts, [1, 1, 2, 1, 2]);
    // Another caller's xids are its own.
    assert_eq!(number(&exchange(&udp(address), &call(5, 4, &()))), 3);
    assert_eq!(server.counters().packet.duplicates, 3);
}

#[test]
fn arguments_are_never_read_beyond_their_datagram() {
    let (_server, address, _) = start(Server::new());
    let socket = udp(address);
    let add = Arguments(|writer: &mut Writer<'_>| {
        writer.value(&5_i32);
        writer.value(&7_i32);
    });
    let whole = call(1, 1, &add);
    assert_eq!(number(&exchange(&socket, &whole)), 12);
    for len in 40..whole.len() {
        let mut cut = whole[..len].to_vec();
        cut[3] = len as u8;
        assert_eq!(accepted(&exchange(&socket, &cut)), Accepted::GarbageArguments);
    }
    // Headers that are cut have no reply; the server goes on.
    for len in 0..40 {
        socket.send(&whole[..len]).unwrap();
    }
    assert_eq!(number(&exchange(&socket, &call(99, 1, &add))), 12);
}

#[test]
fn announced_lengths_take_no_memory_and_are_garbage() {
    let (_server, address, _) = start(Server::new());
    let socket = udp(address);
    for len in [5_u32, 1 << 16, u32::MAX] {
        assert_eq!(accepted(&exchange(&socket, &call(len, 3, &len))), Accepted::GarbageArguments);
    }
}

#[test]
fn fragments_of_any_length_are_one_call_and_broken_ones_end_the_connection() {
    let (_server, _, tcp) = start(Server::new());
    let mut stream = Stream::connect(tcp);
    let message = call(1, 4, &());
    for (place, word) in message.chunks(4).enumerate() {
        let last = if place == message.len() / 4 - 1 { 0x8000_0000 } else { 0_u32 };
        for byte in [&(4 | last).to_be_bytes(), word].concat() {
            stream.send(&[byte]);
        }
    }
    assert_eq!(number(&stream.next()), 1);
    // Empty ones before and behind it.
    let len = message.len() as u32;
    stream.send(&[&[0; 4][..], &len.to_be_bytes(), &message, &0x8000_0000_u32.to_be_bytes()].concat());
    assert_eq!(number(&stream.next()), 2);
    for broken in [&0xffff_ffff_u32.to_be_bytes()[..], &record(&[1; 44])] {
        let mut stream = Stream::connect(tcp);
        stream.send(broken);
        assert!(stream.is_closed(), "{broken:x?}");
    }
}

#[test]
fn pipelined_and_batched_calls_of_one_segment_are_all_answered() {
    let (_server, _, tcp) = start(Server::new());
    let mut stream = Stream::connect(tcp);
    let mut batch: Vec<u8> = (0..5).flat_map(|xid| record(&call(xid, 7, &()))).collect();
    batch.extend((100..200).flat_map(|xid| record(&call(xid, 4, &()))));
    stream.send(&batch);
    let mut counts: Vec<u32> = (0..100).map(|_| number(&stream.next())).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_caller_that_reads_nothing_takes_bounded_memory_and_gets_all_when_it_reads() {
    let (_server, udp_address, tcp) = start(Server::new());
    let mut stream = Stream::connect(tcp);
    let blob = stoop_xdr::Opaque(vec![1_u8; 100_000]);
    let mut writer = stream.0.try_clone().unwrap();
    let writing = thread::spawn(move || {
        for xid in 0..200 {
            writer.write_all(&record(&call(xid, 3, &blob))).unwrap();
        }
    });
    // Others are served meanwhile.
    assert_eq!(accepted(&exchange(&udp(udp_address), &call(1, 0, &()))), Accepted::Success);
    let client = Client::bind(&format!("onc+tcp://{tcp}/{PEER}:2")).unwrap();
    assert_eq!(client.call::<_, u64>(1, &3_u32).unwrap(), 9);
    for _ in 0..200 {
        assert_eq!(stream.next().len(), 24 + 4 + 100_000);
    }
    writing.join().unwrap();
}

#[test]
fn slow_and_idle_connections_are_closed_and_others_stay() {
    let limits = ConnectionLimits {
        record_time: Duration::from_millis(300),
        idle_time: 3 * SECOND,
        ..ConnectionLimits::default()
    };
    let (_server, _, tcp) = start(Server::new().with(limits));
    let mut slow = Stream::connect(tcp);
    slow.send(&[0x80, 0, 0]);
    let mut idle = Stream::connect(tcp);
    assert!(slow.is_closed());
    idle.send(&record(&call(1, 4, &())));
    assert_eq!(number(&idle.next()), 1);
    assert!(idle.is_closed());
}

#[test]
fn more_connections_than_allowed_close_the_most_idle_one() {
    let limits = ConnectionLimits { connections_max: 3, ..ConnectionLimits::default() };
    let (_server, _, tcp) = start(Server::new().with(limits));
    let mut streams: Vec<_> = (0..3)
        .map(|xid| {
            let mut stream = Stream::connect(tcp);
            stream.send(&record(&call(xid, 4, &())));
            stream.next();
            stream
        })
        .collect();
    let mut fourth = Stream::connect(tcp);
    fourth.send(&record(&call(9, 4, &())));
    assert_eq!(number(&fourth.next()), 4);
    assert!(streams[0].is_closed());
    streams[1].send(&record(&call(9, 4, &())));
    assert_eq!(number(&streams[1].next()), 5);
}

/// Its procedure takes until the test lets it go.
struct Gate(std::sync::mpsc::SyncSender<()>, std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Program for Gate {
    fn version(&self) -> VersionId {
        VersionId { program: 7, version: 1 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        if call.procedure() == 1 {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
        }
        call.reply(&call.procedure())
    }
}

#[test]
fn a_slow_procedure_keeps_no_other_call_waiting_and_shutdown_waits_for_it() {
    for scheme in ["onc+udp", "onc+tcp"] {
        let (begun, has_begun) = std::sync::mpsc::sync_channel(1);
        let (let_go, gate) = std::sync::mpsc::sync_channel(1);
        let server = Server::new().program(Gate(begun, gate.into()));
        let server = server.listen(&format!("{scheme}://127.0.0.1")).unwrap().start().unwrap();
        let client = Client::bind(&format!("{}/7:1", server.uris()[0])).unwrap();
        let slow = client.begin::<_, u32>(1, &());
        has_begun.recv().unwrap();
        let others: Vec<_> = (0..20).map(|_| client.begin::<_, u32>(2, &())).collect();
        stoop::wait_all(others).into_iter().for_each(|result| assert_eq!(result.unwrap(), 2));
        assert!(!slow.is_ready());
        let stopping = thread::spawn(move || server.shut_down());
        let_go.send(()).unwrap();
        assert_eq!(slow.wait().unwrap(), 1, "{scheme}");
        stopping.join().unwrap();
    }
}

#[test]
fn ten_thousand_procedures_are_found() {
    struct Many(u32);
    impl Program for Many {
        fn version(&self) -> VersionId {
            VersionId { program: 1000 + self.0 / 10, version: self.0 % 10 }
        }
        fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
            call.reply(&(self.0 * 100 + call.procedure()))
        }
    }
    let server = (0..100).fold(Server::new(), |server, number| server.program(Many(number)));
    let server = server.listen("onc+udp://127.0.0.1").unwrap().start().unwrap();
    for number in [0, 7, 42, 99] {
        let version = format!("{}/{}:{}", server.uris()[0], 1000 + number / 10, number % 10);
        let client = Client::bind(&version).unwrap();
        for procedure in [0, 50, 99] {
            assert_eq!(client.call::<_, u32>(procedure, &()).unwrap(), number * 100 + procedure);
        }
    }
}
