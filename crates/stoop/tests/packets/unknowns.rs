//! Peers of later versions: what they add and we do not know is passed over, or refused, as the protocol says. Somebody
//! between client and server changes their packets.

use crate::harness::relay::{Relay, Way};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;
use stoop::error::SendError;
use stoop::{BindError, BindOptions, CallError, FailureCode, RefusalCode, RunningServer, Server};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, CHECKSUM};
use stoop_wire::{BindingId, CallNumber, Challenge, HEADER_LEN, Header, Kind, LaneId};

#[stoop::interface]
trait Mirror {
    fn reverse(&self, bytes: Vec<u8>) -> Vec<u8>;
}

struct Own;

impl Mirror for Own {
    fn reverse(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.reverse();
        bytes
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

fn start(uri: &str) -> RunningServer {
    Server::new().export(MirrorServer::new(Own)).listen(uri).unwrap().start().unwrap()
}

fn bind(uri: &str) -> Result<MirrorClient, BindError> {
    MirrorClient::bind_with(uri, &BindOptions::new().bind_timeout(PATIENCE).timeout(PATIENCE))
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Calls of one packet and of many, one by one and together.
fn check(client: &MirrorClient) {
    for len in [0, 1, 46, 1400, 1440, 5_000, 200_000] {
        let mut expected = bytes(len);
        expected.reverse();
        assert!(client.reverse(bytes(len)).unwrap() == expected, "{len} bytes");
        let calls: Vec<_> = (0..10).map(|_| client.begin().reverse(bytes(len))).collect();
        for result in stoop::wait_all(calls) {
            assert!(result.unwrap() == expected, "{len} bytes, begun");
        }
    }
}

/// Lets client and server speak through such a relay.
fn check_through(change: fn(Way, &[u8]) -> Vec<Vec<u8>>) -> RunningServer {
    let server = start("udp://127.0.0.1:0");
    let relay = Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), change);
    check(&bind(&relay.uri).unwrap());
    server
}

#[test]
fn padding_behind_a_packet_is_not_read_as_data() {
    drop(check_through(|_, packet| vec![[packet, &[0; 46]].concat()]));
    drop(check_through(|_, packet| vec![[packet, &[0xd7, 1, 3, 0, 0xd7]].concat()]));
    // It begins like the packet itself, but for the lane.
    drop(check_through(|_, packet| {
        let mut other = packet[..HEADER_LEN].to_vec();
        other[4] ^= 0x40;
        vec![[packet, &other, &[7; 99]].concat()]
    }));
}

#[test]
fn high_flags_and_a_grant_of_credit_are_ignored() {
    drop(check_through(|_, packet| {
        let mut flagged = packet.to_vec();
        flagged[3] |= 0xf0;
        let is_whole_result = packet[2] == Kind::Result as u8 && packet[24..28] == [0; 4];
        if is_whole_result {
            flagged[6..8].copy_from_slice(&[0xab, 0xcd]);
        }
        vec![flagged]
    }));
}

#[test]
fn packets_with_unknown_low_flags_or_kinds_are_dropped() {
    let server = check_through(|_, packet| {
        let changed = |at: usize, byte: u8| {
            let mut changed = packet.to_vec();
            changed[at] = byte;
            changed
        };
        let flags = [0x02, 0x04, 0x08].map(|flag| changed(3, packet[3] | flag));
        let kinds = [0, 17, 19, 255].map(|kind| changed(2, kind));
        flags.into_iter().chain(kinds).chain([packet.to_vec()]).collect()
    });
    let counters = server.counters();
    assert!(counters.malformed > 0, "they are counted: {counters:?}");
}

/// The packet with another payload.
fn with_payload(header: Header, payload: &[u8]) -> Vec<u8> {
    let header = Header { message_len: payload.len() as u32, ..header };
    [&header.to_bytes()[..], payload].concat()
}

/// An extension of an unknown type, with nine bytes.
const EXTENSION: [u8; 13] = [0xfe, 0xff, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

#[test]
fn unknown_extensions_and_wanted_flags_are_ignored() {
    drop(check_through(|way, packet| {
        let (header, payload) = Header::parse(packet).unwrap();
        match header.kind {
            Kind::Bind => {
                let request = BindRequest { wanted: !CHECKSUM, ..BindRequest::decode(payload).unwrap() };
                vec![with_payload(header, &[&request.encode()[..], &EXTENSION].concat())]
            }
            Kind::BindReply => {
                assert_eq!(BindReply::decode(payload).unwrap().chosen, 0, "{way:?}: it knows none");
                vec![with_payload(header, &[payload, &EXTENSION].concat())]
            }
            _ => vec![packet.to_vec()],
        }
    }));
}

/// Why a client does not get its binding where each bind reply is changed so.
fn refusal_by(change: fn(Way, &[u8]) -> Vec<Vec<u8>>) -> String {
    let server = start("udp://127.0.0.1:0");
    let relay = Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), change);
    bind(&relay.uri).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_error_names_unknown_required_flags() {
    let why = refusal_by(|_, packet| {
        let (header, payload) = Header::parse(packet).unwrap();
        if header.kind != Kind::Bind {
            return vec![packet.to_vec()];
        }
        let request = BindRequest { required: 0xa000_0002, ..BindRequest::decode(payload).unwrap() };
        vec![with_payload(header, &request.encode())]
    });
    assert!(why.contains("0xa0000002"), "{why}");
}

#[test]
fn the_error_for_an_unknown_bind_status_contains_its_number() {
    let why = refusal_by(|_, packet| {
        let (header, payload) = Header::parse(packet).unwrap();
        if header.kind != Kind::BindReply {
            return vec![packet.to_vec()];
        }
        let reply = BindReply { status: BindStatus::Other(200), ..BindReply::decode(payload).unwrap() };
        vec![with_payload(header, &reply.encode())]
    });
    assert!(why.contains("200"), "{why}");
}

#[test]
fn unknown_codes_say_whether_the_call_ran() {
    fn by(kind: Kind, packet: &[u8]) -> Vec<Vec<u8>> {
        let (header, _) = Header::parse(packet).unwrap();
        if header.kind != Kind::Result {
            return vec![packet.to_vec()];
        }
        vec![with_payload(Header { kind, time: 200, procedure: 0, ..header }, b"of a later version")]
    }
    let error_by = |change| {
        let server = start("udp://127.0.0.1:0");
        let relay = Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), change);
        bind(&relay.uri).unwrap().reverse(bytes(9)).unwrap_err()
    };
    let refused = error_by(|_, packet| by(Kind::Refusal, packet));
    assert!(
        matches!(&refused, CallError::Refused(why, ..) if why.code == RefusalCode::Other(200)),
        "{refused}"
    );
    let failed = error_by(|_, packet| by(Kind::Failure, packet));
    assert!(matches!(&failed, CallError::Failed(why, ..) if why.code == FailureCode::Other(200)), "{failed}");
}

#[test]
fn a_lane_opened_by_the_server_has_no_calls_of_a_caller() {
    let server = start("udp://127.0.0.1:0");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.uris()[0].strip_prefix("udp://").unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |header: Header, payload: &[u8]| {
        socket.send(&with_payload(header, payload)).unwrap();
        let mut answer = [0; 1500];
        let len = socket.recv(&mut answer).unwrap();
        Header::parse(&answer[..len]).unwrap().0
    };
    let bind = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(1));
    let mut request = BindRequest::new(1, "Mirror", vec![]);
    request.cookie = ask(bind, &request.encode()).challenge().unwrap_or(Challenge(0));
    let binding = ask(bind, &request.encode()).binding;
    for lane in [0x8000, 0xffff] {
        let refused = ask(Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1)), &[]);
        assert_eq!(refused.kind, Kind::Refusal);
        assert_eq!(RefusalCode::from_code(refused.time), RefusalCode::TooManyLanes);
    }
}

/// The answer of a server to a caller over a byte stream that has sent such a bind and then such a packet; nothing, if it has
/// closed the connection instead.
fn over_stream(
    change_bind: impl Fn(&mut BindRequest) -> Vec<u8>,
    packet: impl Fn(BindingId) -> Vec<u8>,
) -> (BindReply, Option<Header>) {
    let server = start("tcp://127.0.0.1:0");
    let mut stream = TcpStream::connect(server.uris()[0].strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = BindRequest::new(1, "Mirror", vec![]);
    let bind = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(1));
    stream.write_all(&with_payload(bind, &change_bind(&mut request))).unwrap();
    let (header, payload) = receive(&mut stream).expect("the bind is answered");
    let reply = BindReply::decode(&payload).unwrap();
    stream.write_all(&packet(header.binding)).unwrap();
    let answered = receive(&mut stream).map(|(header, _)| header);
    (reply, answered)
}

fn receive(stream: &mut TcpStream) -> Option<(Header, Vec<u8>)> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).ok()?;
    let header = Header::from_bytes(&header).unwrap();
    let mut payload = vec![0; header.message_len as usize];
    stream.read_exact(&mut payload).unwrap();
    Some((header, payload))
}

/// A call without arguments, which cannot be decoded and so is refused.
fn call(binding: BindingId) -> [u8; HEADER_LEN] {
    Header::bare(Kind::Call, binding, LaneId(0), CallNumber(1)).to_bytes()
}

#[test]
fn a_stream_ignores_unknown_extensions_wanted_and_high_flags() {
    let (reply, answered) = over_stream(
        |request| {
            request.wanted = u32::MAX;
            [&request.encode()[..], &EXTENSION].concat()
        },
        |binding| {
            let mut call = call(binding);
            call[3] = 0xf0;
            call.to_vec()
        },
    );
    assert_eq!((reply.status, reply.chosen), (BindStatus::Bound, 0));
    assert_eq!(answered.expect("it is answered").kind, Kind::Refusal);
}

#[test]
fn a_stream_with_unknown_low_flags_or_kinds_is_closed() {
    for (at, byte) in [(3, 0x01), (3, 0x02), (3, 0x04), (3, 0x08), (2, 17), (2, 19), (2, 255)] {
        let (_, answered) = over_stream(
            |request| request.encode(),
            |binding| {
                let mut call = call(binding);
                call[at] = byte;
                call.to_vec()
            },
        );
        assert_eq!(answered, None, "byte {at} is {byte:#04x}");
    }
}

#[test]
fn the_error_of_a_stream_names_unknown_required_flags() {
    let (reply, _) = over_stream(
        |request| {
            request.required = 0x10;
            request.encode()
        },
        |_| Header::bare(Kind::Unbind, BindingId::NONE, LaneId(0), CallNumber(1)).to_bytes().to_vec(),
    );
    assert_eq!(reply.status, BindStatus::UnknownFlags(0x10));
}

#[test]
fn parts_that_the_kernel_delivers_as_one_datagram_arrive_complete() {
    // What it does with two that came together where that was asked for, and is asked for no more.
    let server = start("udp://127.0.0.1:0");
    let relay =
        Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), |_, packet| vec![packet.to_vec()]);
    relay.joins_parts();
    let client = bind(&relay.uri).unwrap();
    thread::scope(|scope| {
        for len in [1441, 1500, 2_000, 20_000] {
            let client = &client;
            scope.spawn(move || {
                let mut expected = bytes(len);
                expected.reverse();
                assert!(client.reverse(bytes(len)).unwrap() == expected, "{len} bytes");
            });
        }
    });
}

#[test]
fn outstanding_calls_use_no_more_lanes_than_the_server_grants() {
    static HIGHEST: AtomicU16 = AtomicU16::new(0);
    let server = start("udp://127.0.0.1:0");
    let relay = Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), |_, packet| {
        let (header, payload) = Header::parse(packet).unwrap();
        if header.kind != Kind::BindReply {
            HIGHEST.fetch_max(header.lane.0, Ordering::SeqCst);
            return vec![packet.to_vec()];
        }
        vec![with_payload(header, &BindReply { lanes: 10, ..BindReply::decode(payload).unwrap() }.encode())]
    });
    let client = bind(&relay.uri).unwrap();
    let calls = client.begin();
    let pending: Vec<_> = (0..50).map(|_| calls.reverse(bytes(9))).collect();
    drop(calls);
    let results = stoop::wait_all(pending);
    let too_many =
        |error: &CallError| matches!(error, CallError::NotSent(SendError::TooManyCalls { .. }, ..));
    assert!(results.iter().all(|result| result.as_ref().err().is_none_or(too_many)), "{results:?}");
    assert!(results.iter().any(|result| result.is_ok()) && HIGHEST.load(Ordering::SeqCst) < 10);
    client.reverse(bytes(9)).unwrap();
}
