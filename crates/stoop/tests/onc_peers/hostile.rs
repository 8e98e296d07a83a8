//! Typed clients and servers against hostile peers: lengths without bytes, endless nesting, changed bytes,
//! credentials of wrong lengths, replies from elsewhere. Needs no peer.

use crate::kinds::sample::sample;
use crate::kinds::start;
use crate::kinds::stubs::{KINDS, Kinds1Client, Label, Node, Nodes, Point};
use crate::largest;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use stoop::error::{SunError, SunFault};
use stoop::{CallError, Ran};
use stoop_onc::auth::{Auth, AuthStatus, Flavor};
use stoop_onc::message::{self, Accepted, Call, Denied, ProcedureId, Reply, ReplyBody};
use stoop_onc::{Xid, record};
use stoop_xdr::to_vec;

/// `NEXT(int, everything)`, `TURN(nodes)` and `REVERSE(blob)`.
const NEXT: u32 = 1;
const TURN: u32 = 4;
const REVERSE: u32 = 6;

fn address(uri: &str) -> SocketAddr {
    uri.rsplit_once('/').expect("it has a host").1.parse().expect("an address")
}

fn call(xid: u32, procedure: u32, credential: Auth<'_>, arguments: &[u8]) -> Vec<u8> {
    let procedure = ProcedureId { program: KINDS, version: 1, procedure };
    let call = Call { xid: Xid(xid), procedure, credential, verifier: Auth::NONE };
    let mut bytes = Vec::new();
    message::append(&call, &(), &mut bytes).expect("a header has a form");
    [&bytes[..], arguments].concat()
}

/// A stream to a server, and what it says to calls.
struct Caller(TcpStream);

impl Caller {
    fn connect(uri: &str) -> Self {
        let stream = TcpStream::connect(address(uri)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has this option");
        Self(stream)
    }

    fn reply(&mut self, call: &[u8]) -> Vec<u8> {
        let mark = record::mark(call.len()).expect("it is no longer than a record");
        self.0.write_all(&[&mark[..], call].concat()).expect("the server reads");
        self.receive()
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).expect("a reply");
        let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.0.read_exact(&mut reply).expect("the whole reply");
        reply
    }

    fn status(&mut self, procedure: u32, arguments: &[u8]) -> Accepted {
        let reply = self.reply(&call(1, procedure, Auth::NONE, arguments));
        match Reply::parse(&reply).expect("it is a reply").0.body {
            ReplyBody::Accepted { status, .. } => status,
            ReplyBody::Denied(denied) => panic!("denied: {denied}"),
        }
    }
}

/// The arguments of `NEXT`.
fn arguments_of_next(number: i32) -> Vec<u8> {
    [to_vec(&number).expect("a number"), to_vec(&sample(number)).expect("the sample has a form")].concat()
}

/// Each variant of the bytes that has one word changed to a number that makes lengths too long, or its end cut off.
fn changed(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len()).step_by(4).flat_map(move |at| {
        let with = move |word: u32| {
            let mut changed = bytes.to_vec();
            changed[at..at + 4].copy_from_slice(&word.to_be_bytes());
            changed
        };
        // Multiplied by a size of 4 or more, the second is small again in 32 bits.
        [with(u32::MAX), with(0x4000_0001), with(0x7fff_ffff), with(0x0001_0000), bytes[..at].to_vec()]
    })
}

#[test]
fn changed_arguments_are_garbage_or_arguments_and_cost_little() {
    let server = start("onc+tcp://127.0.0.1");
    let mut caller = Caller::connect(&server.uris()[0]);
    let arguments = arguments_of_next(9);
    assert_eq!(caller.status(NEXT, &arguments), Accepted::Success);
    let mut garbage = 0;
    for changed in changed(&arguments) {
        match caller.status(NEXT, &changed) {
            Accepted::GarbageArguments => garbage += 1,
            status => assert_eq!(status, Accepted::Success),
        }
    }
    assert!(garbage > arguments.len() / 4, "{garbage} of {} bytes", arguments.len());
    largest::check();
    for len in [1 << 20, 1 << 31, u32::MAX] {
        assert_eq!(caller.status(REVERSE, &len.to_be_bytes()), Accepted::GarbageArguments);
    }
    largest::check();
    assert_eq!(caller.status(NEXT, &arguments), Accepted::Success);
}

#[test]
fn an_empty_last_fragment_ends_the_call_and_a_record_without_bytes_is_passed_over() {
    let server = start("onc+tcp://127.0.0.1");
    let call = call(1, 0, Auth::NONE, &[]);
    let (first, rest) = call.split_at(8);
    let (empty, empty_last) = ([0; 4], [0x80, 0, 0, 0]);
    let marked = |part: &[u8]| [&(part.len() as u32).to_be_bytes(), part].concat();
    let stream = [&empty_last[..], &marked(first), &empty, &marked(rest), &empty_last].concat();
    for at_once in [1, stream.len()] {
        let mut caller = Caller::connect(&server.uris()[0]);
        caller.0.set_nodelay(true).expect("a socket has this option");
        stream.chunks(at_once).for_each(|part| caller.0.write_all(part).expect("the server reads"));
        assert_eq!(Reply::parse(&caller.receive()).expect("it is a reply").0, Reply::success(Xid(1)));
        assert_eq!(caller.status(NEXT, &arguments_of_next(9)), Accepted::Success, "the connection goes on");
    }
    let mut caller = Caller::connect(&server.uris()[0]);
    // The server may close before it has all.
    let _ = caller.0.write_all(&empty.repeat((1 << 16) + 1));
    let ended = caller.0.read(&mut [0; 1]);
    assert!(!matches!(&ended, Ok(1..)), "{ended:?}");
    let is_reset = |why: &std::io::Error| why.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(ended.as_ref().is_ok() || ended.as_ref().is_err_and(is_reset), "{ended:?}");
}

#[test]
fn lists_of_any_length_pass_and_endless_nesting_is_garbage() {
    let server = start("onc+tcp://127.0.0.1");
    let client = Kinds1Client::bind(&server.uris()[0]).unwrap();
    let long: Nodes = (0..300_000).map(|at| Node { name: Label("n".into()), weight: at as f32 }).collect();
    let turned = client.turn(&long).unwrap();
    assert!(turned.iter().eq(long.iter().rev()), "the list comes back turned");
    // The tree is the last field: a value, and whether a left and a right branch follow.
    let arguments = arguments_of_next(1);
    let tree = to_vec(&sample(1).root).expect("a tree has a form");
    let endless = [&1_u32.to_be_bytes()[..], &1_u32.to_be_bytes()].concat().repeat(200_000);
    let nested = [&arguments[..arguments.len() - tree.len()], &endless].concat();
    let mut caller = Caller::connect(&server.uris()[0]);
    assert_eq!(caller.status(NEXT, &nested), Accepted::GarbageArguments);
    // A list without its end is garbage, too.
    let node = to_vec(&long[0]).expect("a node has a form");
    let unended = [&1_u32.to_be_bytes()[..], &node].concat().repeat(200_000);
    assert_eq!(caller.status(TURN, &unended), Accepted::GarbageArguments);
    assert_eq!(client.turn(&Nodes::default()).unwrap(), Nodes::default());
}

#[test]
fn credentials_of_wrong_lengths_are_refused_and_the_server_goes_on() {
    let server = start("onc+tcp://127.0.0.1");
    let mut caller = Caller::connect(&server.uris()[0]);
    let mut outcome = |body: &[u8]| {
        let credential = Auth { flavor: Flavor::SYS, body };
        let reply = caller.reply(&call(1, 0, credential, &[]));
        match Reply::parse(&reply).expect("it is a reply").0.body {
            ReplyBody::Accepted { status: Accepted::Success, .. } => None,
            ReplyBody::Denied(denied) => Some(denied),
            other => panic!("{other:?}"),
        }
    };
    let body = |name_len: u32, gids: u32| {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        let name = vec![b'n'; (name_len as usize).next_multiple_of(4)];
        [words(&[7, name_len]), name, words(&[1001, 100, gids]), words(&vec![5; gids as usize])].concat()
    };
    let bad = Some(Denied::Auth(AuthStatus::BAD_CREDENTIAL));
    let right = body(8, 3);
    assert_eq!(outcome(&right), None);
    assert_eq!(outcome(&body(255, 16)), None, "the longest name and the most groups");
    (0..right.len()).step_by(4).for_each(|len| assert_eq!(outcome(&right[..len]), bad, "{len} bytes"));
    assert_eq!(outcome(&[&right[..], &[0; 4]].concat()), bad, "bytes behind it");
    assert_eq!(outcome(&body(8, 17)), bad, "17 groups");
    assert_eq!(outcome(&body(256, 3)), bad, "a name of 256 bytes");
    for (at, word) in [(4, u32::MAX), (4, 300), (24, u32::MAX), (24, 0x4000_0001)] {
        let mut lying = right.clone();
        lying[at..at + 4].copy_from_slice(&word.to_be_bytes());
        assert_eq!(outcome(&lying), bad, "{word:#x} at {at}");
    }
    assert_eq!(outcome(&right), None);
}

/// A server of one socket that sends what `answers` gives for each call.
fn serve(answers: impl Fn(&UdpSocket, SocketAddr, Xid) + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let uri = format!("onc+udp://{}", socket.local_addr().expect("it is bound"));
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        loop {
            let (len, caller) = socket.recv_from(&mut buffer).expect("a call");
            let (call, _) = Call::parse(&buffer[..len]).expect("a call");
            answers(&socket, caller, call.xid);
        }
    });
    uri
}

fn success(xid: Xid, result: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    message::append(&Reply::success(xid), &(), &mut reply).expect("it has a form");
    [&reply[..], result].concat()
}

#[test]
fn changed_results_are_errors_or_results_and_cost_little() {
    let result = to_vec(&sample(9)).expect("the sample has a form");
    let results: Vec<_> = changed(&result).collect();
    let count = results.len();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let server = serve(move |socket, caller, xid| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        socket.send_to(&success(xid, &results[at]), caller).expect("it is sent");
    });
    let client = Kinds1Client::bind(&server).unwrap();
    let mut errors = 0;
    for _ in 0..count {
        if let Err(error) = client.next(9, &sample(9)) {
            let is_told = matches!(error, CallError::Sun(SunError { fault: SunFault::BadResult(_), .. }, ..));
            assert!(is_told && error.ran() == Ran::Perhaps, "{error}");
            errors += 1;
        }
    }
    assert!(errors > count / 4, "{errors} of {count}");
    largest::check();
}

#[test]
fn a_reply_from_another_address_is_no_reply() {
    let elsewhere = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let forged = to_vec(&666_i32).expect("a number has a form");
    let server = serve(move |socket, caller, xid| {
        elsewhere.send_to(&success(xid, &forged), caller).expect("it is sent");
        socket.send_to(&success(xid, &7_i32.to_be_bytes()), caller).expect("it is sent");
    });
    let client = Kinds1Client::bind(&server).unwrap();
    for _ in 0..10 {
        assert_eq!(client.sum(1, &Point { x: 0, y: 0 }, &vec![].into()).unwrap(), 7);
    }
}
