//! The end of bindings over shared memory: the reason that each end reports, and calls whose caller has gone.

use crate::harness::eventually;
use crate::harness::processes::{MARKS, Process, TargetClient, client, interface, is_no_more, name, patient};
use crate::harness::shm_peer::{ANSWERS, Between, Peer, REQUESTS, address, connect};
use crate::harness::{processes, shm_peer};
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};
use stoop::error::UnknownCause;
use stoop::{BindError, BindOptions, CallError, Server, UnbindReason};
use stoop_shm::layout::CHUNK;
use stoop_shm::{Answers, Filling, Request, Way};
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId};

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "serve-one" => processes::serve(Server::new().workers(1), uri),
        _ => return false,
    }
    true
}

const ECHO: usize = 1;
const BYTES: usize = 2;
const MARK: usize = 3;
const HANG: usize = 4;
/// The first number of a lane's calls.
const FIRST: u32 = 1;

/// A client of this process that is bound to a server through a process between them.
fn bound_between(server: &str) -> (TargetClient, Between) {
    let front = name();
    let listener = UnixListener::bind_addr(&address(&front)).unwrap();
    thread::scope(|scope| {
        let between = scope.spawn(|| Between::hand_on(listener.accept().unwrap().0, server).unwrap());
        (client(&front), between.join().unwrap())
    })
}

fn cause(ended: Result<(), CallError>) -> UnknownCause {
    match ended.unwrap_err() {
        CallError::Unknown { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

#[test]
fn a_caller_whose_binding_is_dropped_is_told_why() {
    let uri = name();
    let mut server = Process::server(&uri);
    for is_begun in [false, true] {
        let (client, between) = bound_between(&uri);
        let error = thread::scope(|scope| {
            let calling = scope.spawn(|| match is_begun {
                false => client.hang(),
                true => client.begin().hang().wait(),
            });
            server.await_line("hanging");
            // A request of no kind, in the place of the next.
            between.server.scribble(REQUESTS + 64 + 8, &u64::MAX.to_ne_bytes());
            between.server.scribble(REQUESTS + 64, &2_u64.to_ne_bytes());
            between.server.ring(0);
            assert!(between.hand_on_farewell(true).is_some());
            calling.join().unwrap()
        });
        let text = error.as_ref().unwrap_err().to_string();
        assert!(text.contains("the server ended the binding: what it received made no sense"), "{text}");
        assert_eq!(cause(error), UnknownCause::EndedByServer(UnbindReason::Disorder));
    }
    let own = processes::client(&uri);
    eventually(|| own.bindings().unwrap() == 1);
    assert_eq!((own.malformed().unwrap(), own.given_up().unwrap()), (2, 0));
}

#[test]
fn a_server_whose_caller_gives_the_binding_up_is_told_why() {
    let uri = name();
    let mut server = Process::server(&uri);
    let (client, between) = bound_between(&uri);
    let error = thread::scope(|scope| {
        let calling = scope.spawn(|| client.hang());
        server.await_line("hanging");
        // An answer of no kind, on the only lane that is used.
        between.server.scribble(ANSWERS + 8, &u64::MAX.to_ne_bytes());
        between.server.scribble(ANSWERS, &(FIRST << 1).to_ne_bytes());
        Answers::give_up(&between.server.segment, 0);
        let farewell = between.hand_on_farewell(false).unwrap();
        let header = Header::parse(&farewell).unwrap().0;
        assert_eq!(UnbindReason::from_code(header.time), UnbindReason::Disorder);
        calling.join().unwrap()
    });
    let text = error.as_ref().unwrap_err().to_string();
    assert!(text.contains("this end gave the binding up: what it received made no sense"), "{text}");
    assert_eq!(cause(error), UnknownCause::GivenUp(UnbindReason::Disorder));
    let own = processes::client(&uri);
    eventually(|| own.given_up().unwrap() == 1 && own.bindings().unwrap() == 1);
    assert_eq!(own.malformed().unwrap(), 0);
}

/// Ends a connection that is not bound, with this packet before its last.
fn end_behind(mut packet: Vec<u8>, mut socket: UnixStream, why: UnbindReason) {
    let mut header = Header::bare(Kind::Unbind, BindingId::NONE, LaneId(0), CallNumber(0));
    header.time = why.code();
    packet.extend(header.to_bytes());
    // A caller whose time is over has gone.
    let _ = socket.write_all(&packet);
}

/// Ends a connection that is not bound.
fn end(socket: UnixStream, why: UnbindReason) {
    end_behind(Vec::new(), socket, why);
}

#[test]
fn a_caller_that_is_given_up_for_another_binds_again_within_its_time() {
    let uri = name();
    let _server = Process::server(&uri);
    let front = name();
    let listener = UnixListener::bind_addr(&address(&front)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let next = || {
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            match listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false).unwrap();
                    return socket;
                }
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let between = scope.spawn(|| {
            let mut asked = next();
            let _question = shm_peer::receive(&mut asked).unwrap();
            end(asked, UnbindReason::Crowded);
            end(next(), UnbindReason::Crowded);
            let (mut asked, mut server) = (next(), connect(&uri));
            server.write_all(&shm_peer::receive(&mut asked).unwrap()).unwrap();
            end_behind(shm_peer::receive(&mut server).unwrap(), asked, UnbindReason::Crowded);
            Between::hand_on(next(), &uri).unwrap()
        });
        client(&front);
        between.join().unwrap();
        let hurried = scope.spawn(|| {
            let options = BindOptions::new().bind_timeout(Duration::from_millis(20));
            TargetClient::bind_with(&front, &options).err().unwrap()
        });
        while !hurried.is_finished() {
            match listener.accept() {
                Ok((socket, _)) => end(socket, UnbindReason::Crowded),
                Err(_) => thread::yield_now(),
            }
        }
        let error = hurried.join().unwrap();
        assert!(matches!(error, BindError::Refused { .. } | BindError::NoAnswer { .. }), "{error}");
    });
}

#[test]
fn a_caller_that_is_refused_late_is_told_why() {
    for (why, expected) in [
        (UnbindReason::ShuttingDown, "is shutting down"),
        (UnbindReason::NoResources, "ulimit -n"),
        (UnbindReason::Disorder, "from one version"),
        (UnbindReason::from_code(77), "reason 77"),
    ] {
        let uri = name();
        let listener = UnixListener::bind_addr(&address(&uri)).unwrap();
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut socket, _) = listener.accept().unwrap();
                let _question = shm_peer::receive(&mut socket).unwrap();
                end(socket, why);
            });
            TargetClient::bind_with(&uri, &patient(&uri)).err().unwrap()
        });
        assert!(matches!(error, BindError::Refused { .. } | BindError::Protocol { .. }));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_connection_that_does_not_bind_is_closed_with_a_reason() {
    let uri = name();
    let _server = Process::server(&uri);
    let mut oldest = connect(&uri);
    let told = |packet: Vec<u8>| UnbindReason::from_code(Header::parse(&packet).unwrap().0.time);
    let _others: Vec<_> = (0..64).map(|_| connect(&uri)).collect();
    assert_eq!(told(shm_peer::receive(&mut oldest).unwrap()), UnbindReason::Crowded);
    let mut nonsense = connect(&uri);
    nonsense.write_all(&[7; HEADER_LEN]).unwrap();
    assert_eq!(told(shm_peer::receive(&mut nonsense).unwrap()), UnbindReason::Disorder);
}

#[test]
fn what_a_caller_that_has_died_wanted_ends_at_once_or_does_not_begin() {
    let marks = std::env::temp_dir().join(format!("stoop-test-{}-parting", std::process::id()));
    std::fs::write(&marks, "").unwrap();
    let uri = name();
    let mut server = Process::spawn(Process::command("serve-one", &uri).env(MARKS, &marks));
    server.await_line("ready");
    let own = client(&uri);
    own.next(1).unwrap();
    let held = server.holds();
    for round in 0..20 {
        let peer = Peer::bind(&uri, interface()).unwrap();
        // Its deadline never comes: it ends only if it is cancelled.
        peer.publish(&peer.request(0, FIRST, HANG, 0), &[]);
        server.await_line("hanging");
        // They are taken, and wait for the only worker.
        let marked = |lane| Request { len: 12, ..peer.request(lane, FIRST, MARK, 0) };
        (1..20).for_each(|lane| peer.publish(&marked(lane), &[0; 12]));
        // One that is arriving.
        let long = peer.request(20, FIRST, ECHO, 10 * CHUNK as u32);
        peer.publish(&long, &[]);
        eventually(|| peer.taken() == 21);
        drop(peer);
        // The worker comes to this when it has done with all others.
        assert_eq!(own.next(round).unwrap(), round + 1);
    }
    assert_eq!(std::fs::read(&marks).unwrap(), b"", "calls ran whose callers had gone");
    std::fs::remove_file(&marks).unwrap();
    eventually(|| own.bindings().unwrap() == 1);
    eventually(|| is_no_more(server.holds(), held));
    assert_eq!(own.malformed().unwrap(), 0);
}

#[test]
fn a_server_shuts_down_though_long_messages_are_stuck_both_ways() {
    let uri = name();
    let server = processes::started(Server::new(), &uri);
    let own = client(&uri);
    let mut peer = Peer::bind(&uri, interface()).unwrap();
    // A call that stops after its first chunk, and more unread results than there are channels.
    let len = 10 * CHUNK;
    peer.publish(&peer.request(0, FIRST, ECHO, len as u32), &[]);
    Filling::new(Way::Call, 0, 0, len).fill(&peer.segment, [&[0; CHUNK][..]]);
    let count = (4_u32 << 20).to_le_bytes();
    for lane in 1..=6 {
        let wanted = [&count[..], &[1]].concat();
        peer.publish(&peer.request(lane, FIRST, BYTES, 5), &wanted);
    }
    eventually(|| (1..=6).filter(|lane| peer.is_answered(*lane, FIRST)).count() == 4);
    // The running calls end meanwhile.
    thread::scope(|scope| {
        let running = scope.spawn(|| own.echo(&[7; 3000]));
        assert!(running.join().unwrap().is_ok());
        server.shut_down();
    });
    assert_eq!(peer.is_dropped(), Some(UnbindReason::ShuttingDown));
    assert!(TargetClient::bind(&uri).is_err());
    let error = own.next(1).unwrap_err().to_string();
    assert!(error.contains("did not run"), "{error}");
}
