//! An attacker between client and server, and callers that do not keep to the protocol.

use super::{LedgerClient, LedgerServer, PROGRAM, Sum, bind, caller, certified, options};
use crate::certificates::{Organisation, dns, with};
use crate::harness::LIMIT;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stoop::onc::ConnectionLimits;
use stoop::{BindError, RunningServer, Server};
use stoop_onc::auth::{Auth, AuthStatus};
use stoop_onc::message::{self, Call, Denied, ProcedureId, Reply, ReplyBody};
use stoop_onc::{Xid, record, tls};
use stoop_xdr::Encode;

fn address(server: &RunningServer) -> SocketAddr {
    server.uris()[0].rsplit_once('/').unwrap().1.parse().unwrap()
}

fn record_of(header: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    message::append(header, &(), &mut bytes).unwrap();
    [&record::mark(bytes.len()).unwrap()[..], &bytes].concat()
}

fn plain_call(xid: u32) -> Vec<u8> {
    let procedure = ProcedureId { program: PROGRAM, version: 1, procedure: 0 };
    record_of(&Call { xid: Xid(xid), procedure, credential: Auth::NONE, verifier: Auth::NONE })
}

fn probe() -> Vec<u8> {
    record_of(&tls::probe(Xid(9), PROGRAM, 1))
}

/// A connection made by hand.
struct Raw(TcpStream);

impl Raw {
    fn to(server: &RunningServer) -> Self {
        let stream = TcpStream::connect(address(server)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn record(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).unwrap();
        let mut bytes = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The connection after the answer to the question.
    fn asked(server: &RunningServer) -> Self {
        let mut raw = Self::to(server);
        raw.send(&probe());
        assert_eq!(Reply::parse(&raw.record()).map(|(reply, _)| reply), Ok(tls::offer(Xid(9))));
        raw
    }

    /// What comes until the server ends the connection.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(why) => assert_eq!(why.kind(), ErrorKind::ConnectionReset, "{why}"),
        }
        rest
    }
}

/// Alerts are records of type 21.
fn is_alert(bytes: &[u8]) -> bool {
    bytes.is_empty() || bytes[0] == 21
}

#[test]
fn bytes_that_are_no_handshake_end_the_connection() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let client = bind(&server, caller(&organisation)).unwrap();
    // A handshake without the question, a plain call behind it, the question twice.
    let mut without = Raw::to(&server);
    without.send(&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]);
    without.0.shutdown(Shutdown::Write).unwrap();
    assert!(without.rest().is_empty());
    for wrong in [plain_call(1), probe(), vec![0; 300], vec![0x16, 3, 3, 0xff, 0xff, 1], vec![0x17; 2000]] {
        let mut raw = Raw::asked(&server);
        raw.send(&wrong);
        assert!(is_alert(&raw.rest()));
    }
    // Bytes behind the question, which an attacker could have put there.
    for behind in [plain_call(1), vec![0x16], vec![0x16, 3, 1, 0, 200]] {
        let mut raw = Raw::to(&server);
        raw.send(&[probe(), behind].concat());
        let rest = raw.rest();
        assert!(rest.len() <= record_of(&tls::offer(Xid(9))).len(), "{rest:?}");
    }
    assert_eq!(server.counters().calls, 1, "that by which the client was bound");
    assert_eq!(client.add(1).unwrap(), 1);
    assert!(server.counters().malformed >= 6);
}

#[test]
fn calls_in_the_clear_are_refused_before_the_question_and_none_is_run() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let mut raw = Raw::to(&server);
    let other = Call {
        procedure: ProcedureId { program: PROGRAM, version: 1, procedure: 1 },
        ..tls::probe(Xid(3), 0, 0)
    };
    raw.send(&[plain_call(1), plain_call(2), record_of(&other)].concat());
    for (xid, status) in
        [(1, AuthStatus::TOO_WEAK), (2, AuthStatus::TOO_WEAK), (3, AuthStatus::BAD_CREDENTIAL)]
    {
        let reply = raw.record();
        let body = ReplyBody::Denied(Denied::Auth(status));
        assert_eq!(Reply::parse(&reply).map(|(reply, _)| reply), Ok(Reply { xid: Xid(xid), body }));
    }
    raw.send(&probe());
    assert_eq!(Reply::parse(&raw.record()).map(|(reply, _)| reply), Ok(tls::offer(Xid(9))));
    assert_eq!(server.counters().calls, 0);
    // Too long for a call that is refused anyway.
    let mut long = Raw::to(&server);
    long.send(&[&record::mark(1 << 20).unwrap()[..], &[0; 100]].concat());
    assert!(long.rest().is_empty());
}

#[test]
fn a_handshake_that_stalls_holds_no_worker_and_is_given_up() {
    let organisation = Organisation::new();
    let security = organisation.security("vault", &with(&[dns("vault.example")]));
    let server = super::server_with(Server::new().workers(1).security(security));
    let client = bind(&server, caller(&organisation)).unwrap();
    let begun = Instant::now();
    let mut asked = Raw::asked(&server);
    let mut stalled = Raw::asked(&server);
    stalled.send(&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]);
    let mut silent = Raw::to(&server);
    while client.add(1).unwrap() < 100 {}
    assert!(bind(&server, caller(&organisation)).unwrap().add(1).is_ok());
    for raw in [&mut asked, &mut stalled, &mut silent] {
        assert!(is_alert(&raw.rest()));
    }
    assert!(begun.elapsed() < LIMIT);
    assert!(client.add(1).is_ok(), "the callers under TLS stay");
}

#[test]
fn a_flood_of_connections_that_only_ask_takes_nothing_from_callers() {
    let organisation = Organisation::new();
    let security = organisation.security("vault", &with(&[dns("vault.example")]));
    let limits = ConnectionLimits { connections_max: 20, ..ConnectionLimits::default() };
    let server = super::server_with(Server::new().security(security).with(limits));
    let client = bind(&server, caller(&organisation)).unwrap();
    assert_eq!(client.add(1).unwrap(), 1);
    let mut flood: Vec<_> = (0..100).map(|_| Raw::asked(&server)).collect();
    assert_eq!(client.add(1).unwrap(), 2);
    // The first ones have gone for the last, and a caller that comes now gets its place in the same way.
    assert!(flood[0].rest().is_empty());
    let another = bind(&server, caller(&organisation)).unwrap();
    assert_eq!((another.add(1).unwrap(), client.add(1).unwrap()), (3, 4));
    assert!(server.counters().bindings <= 20);
}

/// Passes bytes between a client and a server, as `change` makes them; it is told whether they go to the server. Keeps what it has seen.
struct Middle {
    uri: String,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Middle {
    fn new(
        server: &RunningServer,
        change: impl Fn(Vec<u8>, bool) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("onc+tcp://{}", listener.local_addr().unwrap());
        let (server, seen, change) = (address(server), Arc::<Mutex<Vec<u8>>>::default(), Arc::new(change));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let ways = [
                    (client.try_clone().unwrap(), server.try_clone().unwrap(), true),
                    (server, client, false),
                ];
                for (mut from, mut to, is_to_server) in ways {
                    let (log, change) = (Arc::clone(&log), Arc::clone(&change));
                    thread::spawn(move || {
                        let mut buffer = vec![0; 1 << 16];
                        while let Ok(len @ 1..) = from.read(&mut buffer) {
                            log.lock().unwrap().extend_from_slice(&buffer[..len]);
                            if to.write_all(&change(buffer[..len].to_vec(), is_to_server)).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { uri, seen }
    }

    fn refuses(&self, organisation: &Organisation) -> String {
        match LedgerClient::bind_with(&self.uri, &options(caller(organisation))) {
            Err(why @ BindError::Security { .. }) => why.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it is bound"),
        }
    }
}

#[test]
fn an_answer_that_was_changed_on_the_way_is_no_way_around_tls() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let offer = record_of(&tls::offer(Xid(0))).len();
    // "I have no TLS", in all forms that a server without it uses.
    let denied = |reply: Vec<u8>, is_to_server| {
        let xid = Xid::of(&reply[4..]).unwrap();
        match is_to_server {
            true => reply,
            false => record_of(&Reply::denied(xid, Denied::Auth(AuthStatus::REJECTED_CREDENTIAL))),
        }
    };
    let why = Middle::new(&server, denied).refuses(&organisation);
    assert!(why.contains("does not go on under TLS") && why.contains("has changed its answer"), "{why}");
    let accepted = |reply: Vec<u8>, is_to_server| {
        let xid = Xid::of(&reply[4..]).unwrap();
        if is_to_server { reply } else { record_of(&Reply::success(xid)) }
    };
    let why = Middle::new(&server, accepted).refuses(&organisation);
    assert!(why.contains("it does not offer TLS"), "{why}");
    // Bytes in the clear behind the answer.
    let more = move |mut reply: Vec<u8>, is_to_server: bool| {
        if !is_to_server && reply.len() == offer {
            reply.extend(plain_call(1));
        }
        reply
    };
    let why = Middle::new(&server, more).refuses(&organisation);
    assert!(why.contains("its answer is none to the question"), "{why}");
    let without = super::server_with(Server::new());
    let pretends = |reply: Vec<u8>, is_to_server| {
        let xid = Xid::of(&reply[4..]).unwrap();
        if is_to_server { reply } else { record_of(&tls::offer(xid)) }
    };
    // The plain server ends a connection on which TLS comes.
    let why = Middle::new(&without, pretends).refuses(&organisation);
    assert!(why.contains("in the handshake of TLS"), "{why}");
    assert_eq!(server.counters().calls, 0);
}

#[test]
fn a_server_that_stalls_or_ends_the_connection_is_no_server() {
    let organisation = Organisation::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("onc+tcp://{}", listener.local_addr().unwrap());
    let options = || options(caller(&organisation)).bind_timeout(Duration::from_millis(300));
    let bound = |answer: &[&[u8]], ends: bool| {
        thread::scope(|scope| {
            let served = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = [0; 44];
                stream.read_exact(&mut question).unwrap();
                for bytes in answer {
                    stream.write_all(bytes).unwrap();
                }
                if !ends {
                    // Up to the client's end.
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
            let why = LedgerClient::bind_with(&uri, &options()).map(drop).unwrap_err();
            served.join().unwrap();
            why
        })
    };
    let silent = bound(&[], false);
    assert!(matches!(&silent, BindError::Unreachable { .. }), "{silent}");
    assert!(silent.to_string().contains("it does not answer when it is asked for TLS"), "{silent}");
    let half = bound(&[&record::mark(36).unwrap(), &[0; 20]], false);
    assert!(half.to_string().contains("it does not answer"), "{half}");
    let ended = bound(&[], true);
    assert!(ended.to_string().contains("ends the connection when it is asked for TLS"), "{ended}");
    for garbage in [vec![0; 4], vec![0x80, 0, 0, 4, 1, 2, 3, 4], vec![0xff; 5000], vec![0x80, 0, 0, 0]] {
        let why = bound(&[&garbage], true).to_string();
        assert!(why.contains("TLS"), "{why}");
    }
}

#[test]
fn no_argument_and_no_result_is_seen_on_a_connection_of_sun_rpc() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let middle = Middle::new(&server, |bytes, _| bytes);
    let client = LedgerClient::bind_with(&middle.uri, &options(caller(&organisation))).unwrap();
    let secret: Vec<u8> = b"a phrase that is looked for".repeat(400);
    assert_eq!(client.echo(&secret).unwrap(), secret);
    let seen = middle.seen.lock().unwrap();
    assert!(seen.len() > 2 * secret.len());
    assert!(seen.windows(8).any(|bytes| bytes == b"STARTTLS"), "the question is in the clear");
    for hidden in [&b"looked for"[..], b"spiffe", b"vault.example"] {
        assert!(!seen.windows(hidden.len()).any(|bytes| bytes == hidden));
    }
}

#[test]
fn a_byte_that_is_changed_on_the_way_ends_the_connection_and_no_call_runs_twice() {
    let organisation = Organisation::new();
    let security = organisation.security("vault", &with(&[dns("vault.example")]));
    let server = Server::new().security(security).export(LedgerServer::new(Sum::default()));
    let server = server.listen("onc+tcp://127.0.0.1").unwrap().start().unwrap();
    let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let strikes = Arc::clone(&armed);
    let middle = Middle::new(&server, move |mut bytes, is_to_server| {
        if is_to_server && strikes.swap(false, std::sync::atomic::Ordering::Relaxed) {
            *bytes.last_mut().unwrap() ^= 1;
        }
        bytes
    });
    let client = LedgerClient::bind_with(&middle.uri, &options(caller(&organisation))).unwrap();
    assert_eq!(client.add(1).unwrap(), 1);
    armed.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(client.add(1).unwrap_err().to_string().contains("lost"));
    assert_eq!(client.add(1).unwrap(), 2, "on another connection");
}
