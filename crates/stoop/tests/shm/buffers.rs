//! Buffers in memory that is shared with another process: a server that is killed, and a client that lies about where they are.

use crate::harness::cameras::{Camera, CameraClient, CameraServer, Lens};
use crate::harness::child::Child;
use crate::harness::eventually;
use crate::harness::processes::{Process, name, patient};
use crate::harness::shm_peer::{Dice, Peer};
use crate::harness::{cameras, processes};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use stoop::error::UnknownCause;
use stoop::{CallError, InPlace, RefusalCode, Server, ShmOptions};
use stoop_shm::layout::ARENA;
use stoop_shm::{AnswerKind, Answers, RequestKind};

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "film" => {
            let server = cameras::started(Server::new().with(ShmOptions::new().in_place(FILM)), uri);
            println!("ready");
            server.wait();
        }
        "stay" => {
            let lens = Lens { stays_after_filling: true, ..Lens::default() };
            let server = Server::new().export(CameraServer::new(lens)).listen(uri).unwrap().start().unwrap();
            println!("ready");
            server.wait();
        }
        "fork" => fork_with_buffers(uri),
        _ => return false,
    }
    true
}

/// Bytes that the server shares with each caller.
const FILM: usize = 1 << 20;

fn server(uri: &str) -> Process {
    let mut server = Process::start("film", uri);
    server.await_line("ready");
    server
}

fn client(uri: &str) -> CameraClient {
    CameraClient::bind_with(uri, &patient(uri)).unwrap()
}

fn filled(client: &CameraClient, len: usize) -> InPlace<f32> {
    let mut frame = client.in_place(len).unwrap();
    frame.write(0, &vec![0.5; len]);
    frame
}

/// Has a child that drops some of the buffers and calls with the others.
fn fork_with_buffers(uri: &str) {
    let client = client(uri);
    // More than is kept for the next buffers, when it is dropped.
    let len = (5 << 20) / size_of::<f32>();
    let mut buffers = Some([filled(&client, len), filled(&client, 1000)]);
    Child::fork(|| {
        let [dropped, mut used] = buffers.take().unwrap();
        drop(dropped);
        assert_eq!(client.scale(&mut used, 2.0).unwrap(), 1000);
        assert_eq!(used.get(999), 1.0);
        let mut own = filled(&client, 500);
        assert!(own.is_shared());
        assert_eq!(client.scale(&mut own, 2.0).unwrap(), 500);
        assert_eq!(own.get(499), 1.0);
    })
    .ends_well();
    let [mut kept, used] = buffers.take().unwrap();
    assert_eq!((kept.get(0), kept.get(len - 1)), (0.5, 0.5));
    assert_eq!(client.scale(&mut kept, 4.0).unwrap(), len as u32);
    assert_eq!((kept.get(len - 1), used.get(999)), (2.0, 1.0));
    println!("forked");
}

#[test]
fn what_a_forked_child_drops_is_still_its_parents() {
    let uri = name();
    let server = Server::new().with(ShmOptions::new().in_place(16 << 20));
    let server = cameras::started(server, &uri);
    let mut forking = Process::start("fork", &uri);
    forking.await_line("forked");
    assert_eq!(server.counters().malformed, 0);
}

#[test]
fn a_buffer_outlives_its_server_and_is_copied_to_the_next() {
    let uri = name();
    let mut first = server(&uri);
    let client = client(&uri);
    let mut frame = filled(&client, 50_000);
    assert_eq!(client.scale(&mut frame, 4.0).unwrap(), 50_000);
    assert!(frame.is_shared());
    first.kill();
    assert_eq!(frame.get(49_999), 2.0);
    let _next = server(&uri);
    // No call of the lost binding was taken that had these.
    assert_eq!(client.sum(&frame).unwrap(), 100_000.0);
    assert_eq!(client.scale(&mut frame, 2.0).unwrap(), 50_000);
    assert_eq!(frame.to_vec(), vec![4.0; 50_000]);
    // All of the next server's memory is free.
    let fresh = client.in_place::<u8>(FILM).unwrap();
    assert!(fresh.is_shared() && client.is_shared(&fresh).unwrap());
}

#[test]
fn a_new_buffer_is_of_the_next_server_also_before_any_call_has_noticed() {
    let uri = name();
    let mut first = server(&uri);
    let client = client(&uri);
    let old = client.in_place::<u8>(FILM).unwrap();
    first.kill();
    let _next = server(&uri);
    // The loss is noticed by a thread of this process, at its time.
    eventually(|| client.in_place::<u8>(FILM).is_ok());
    assert!(!client.is_shared(&old).unwrap());
}

#[test]
fn a_call_that_may_have_changed_its_buffer_is_not_made_again() {
    let uri = name();
    let mut first = server(&uri);
    let client = client(&uri);
    let mut bytes = client.in_place::<u8>(10).unwrap();
    thread::scope(|scope| {
        let calling = scope.spawn(|| client.linger(&mut bytes));
        first.await_line("lingering");
        first.kill();
        // It is idempotent, but for what it has changed.
        match calling.join().unwrap() {
            Err(CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }) => {}
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn an_idempotent_call_that_fills_its_buffer_is_made_again_at_the_next_server() {
    let uri = name();
    let mut first = Process::start("stay", &uri);
    first.await_line("ready");
    let waits = patient(&uri).wait_for_restart(Duration::from_secs(600));
    let client = CameraClient::bind_with(&uri, &waits).unwrap();
    let mut numbers = client.in_place::<u64>(1000).unwrap();
    thread::scope(|scope| {
        let calling = scope.spawn(|| client.count_up(5, &mut numbers));
        first.await_line("filled");
        let _next = {
            first.kill();
            server(&uri)
        };
        calling.join().unwrap().unwrap();
    });
    assert!(numbers.to_vec().into_iter().eq(5..1005));
}

#[test]
fn a_wrong_place_of_a_buffer_to_be_filled_is_refused() {
    let uri = name();
    let _server = server(&uri);
    let peer = Peer::bind(&uri, interface()).unwrap();
    let refused = (AnswerKind::Refusal, RefusalCode::BadArguments.code());
    let len = FILM as u64;
    let count_up = |at, count| [&1_u64.to_le_bytes()[..], &lies_at(at, count)].concat();
    let lies = [(len, 1), (0, FILM as u32 / 8 + 1), (0, u32::MAX), (4, 1), (u64::MAX - 7, 1)];
    for (number, (at, count)) in (1..).zip(lies) {
        assert_eq!(forge(&peer, number, COUNT_UP, &count_up(at, count)), refused, "{at} {count}");
    }
    assert_eq!(forge(&peer, 6, COUNT_UP, &count_up(0, FILM as u32 / 8)), (AnswerKind::Result, 0));
}

fn interface() -> &'static stoop::stub::Interface {
    use stoop::stub::Exported;
    static EXPORT: OnceLock<CameraServer<Lens>> = OnceLock::new();
    EXPORT.get_or_init(|| CameraServer::new(Lens::default())).interface()
}

/// Numbers of the procedures.
const SUM: usize = 0;
const COUNT_UP: usize = 2;
const PLACE: usize = 4;

/// Arguments that say that a buffer lies there.
fn lies_at(at: u64, len: u32) -> Vec<u8> {
    let mut message = vec![0; 20];
    message[0] = 1;
    message[8..16].copy_from_slice(&at.to_le_bytes());
    message[16..].copy_from_slice(&len.to_le_bytes());
    message
}

/// Calls with such arguments, and tells how it was answered.
fn forge(peer: &Peer, number: u32, procedure: usize, message: &[u8]) -> (AnswerKind, u32) {
    let request = peer.request(0, number, procedure, message.len() as u32);
    peer.publish(&stoop_shm::Request { kind: RequestKind::CallInPlace, ..request }, message);
    eventually(|| peer.is_answered(0, number));
    let answer = Answers::read(&peer.segment, 0).unwrap();
    (answer.kind, answer.word)
}

#[test]
fn a_wrong_place_of_a_buffer_is_refused_and_harms_no_other_client() {
    let uri = name();
    let _server = server(&uri);
    let honest = client(&uri);
    let frame = filled(&honest, 1000);
    let peer = Peer::bind(&uri, interface()).unwrap();
    let refused = (AnswerKind::Refusal, RefusalCode::BadArguments.code());
    let result = (AnswerKind::Result, 0);
    let len = FILM as u64;
    let lies = [
        (len, 1),
        (len - 4, 2),
        (0, FILM as u32 / 4 + 1),
        (0, u32::MAX),
        (2, 1),
        (len + 4, 0),
        (1 << 63, 1),
        (u64::MAX, 1),
        (u64::MAX - 3, 1),
        (u64::MAX - 3, u32::MAX),
        (u64::MAX - 3, 0),
    ];
    let mut number = 0;
    let mut forge = |procedure, message: &[u8]| {
        number += 1;
        forge(&peer, number, procedure, message)
    };
    for (at, count) in lies {
        assert_eq!(forge(SUM, &lies_at(at, count)), refused, "{at} {count}");
    }
    for (at, count) in [(0, 0), (0, FILM as u32 / 4), (len - 4, 1), (len, 0)] {
        assert_eq!(forge(SUM, &lies_at(at, count)), result, "{at} {count}");
    }
    for len in 0..20 {
        assert_eq!(forge(SUM, &lies_at(0, 1)[..len]), refused, "{len}");
    }
    let mut dice = Dice(1);
    for _ in 0..1000 {
        let mut message = lies_at(dice.next() >> dice.below(64), dice.next() as u32 >> dice.below(32));
        message[dice.below(20) as usize] = dice.next() as u8;
        forge(PLACE, &message);
    }
    assert_eq!(honest.sum(&frame).unwrap(), 500.0);
}

#[test]
fn memory_is_not_shared_with_processes_that_do_not_use_it() {
    let uri = name();
    let _server = Process::server(&uri);
    let peer = Peer::bind(&uri, processes::interface()).unwrap();
    // The first procedure adds one; that is what it is, however it is called.
    assert_eq!(forge(&peer, 1, 0, &7_u32.to_le_bytes()), (AnswerKind::Result, 0));
    assert!(!processes::client(&uri).binding().in_place::<u8>(1).unwrap().is_shared());
    let client = processes::client(&uri);
    assert!(!client.binding().describe().contains("buffers"));
}

#[test]
fn a_buffer_that_its_caller_writes_during_the_call_gives_some_result() {
    let uri = name();
    let _server = server(&uri);
    let peer = Peer::bind(&uri, interface()).unwrap();
    thread::scope(|scope| {
        let calling = scope.spawn(|| {
            for number in 1..200 {
                let (kind, _) = forge(&peer, number, SUM, &lies_at(0, 10_000));
                assert_eq!(kind, AnswerKind::Result);
            }
        });
        let mut dice = Dice(2);
        while !calling.is_finished() {
            peer.scribble(ARENA as u64 + dice.below(40_000), &dice.next().to_ne_bytes());
        }
    });
}

/// The trait is there to be implemented in this process, too.
#[test]
fn a_procedure_can_be_tried_without_a_server() {
    let lens = Lens::default();
    let mut frame = InPlace::from(vec![1.0, 2.0]);
    assert_eq!(lens.scale(&mut frame, 3.0), 2);
    assert_eq!(lens.sum(&frame), 9.0);
}
