//! Peers that write anything into the shared memory at any time: hostile clients of an honest server, and a hostile server of
//! an honest client.

use crate::harness::eventually;
use crate::harness::processes::{Process, TargetClient, client, interface, is_no_more, name};
use crate::harness::shm_peer::{ANSWERS, Between, COUNTS, Dice, END, Peer, REQUESTS, SLOTS, connect};
use crate::harness::{processes, shm_peer};
use rustix::fs::OFlags;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoop::BindOptions;
use stoop_shm::layout::{CHUNK, LANES, RING, SLOT};
use stoop_shm::{AnswerKind, Answers, Filling, Request, RequestKind, Way, descriptors};
use stoop_wire::bind::Describe;
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId, UnbindReason};

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "victim" => call_through_overwritten_memory(uri),
        _ => return false,
    }
    true
}

const NEXT: usize = 0;
const ECHO: usize = 1;
const BYTES: usize = 2;
const HANG: usize = 4;

/// The first number of a lane's calls.
const FIRST: u32 = 1;

/// Ends the threads that run until this flag is set, also when an assertion fails: a scope waits for its threads before it
/// reports the failure.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A server, an honest client process that calls all the time, and a client of the test that reads the server's counters.
struct Scene {
    // Dropped, and so killed, before its server: it would panic without one.
    honest: Process,
    own: TargetClient,
    server: Process,
    uri: String,
    /// Open descriptors and mapped segments of the server before a hostile client comes.
    held: (usize, usize),
}

impl Scene {
    fn set() -> Self {
        let uri = name();
        let server = Process::server(&uri);
        let mut honest = Process::start("call", &uri);
        honest.await_line("lap");
        let own = client(&uri);
        assert_eq!(own.bindings().unwrap(), 2);
        let held = server.holds();
        Self { server, honest, own, uri, held }
    }

    fn peer(&self) -> Peer {
        Peer::bind(&self.uri, interface()).expect("a well-formed bind succeeds")
    }

    /// The honest client still makes its calls, and the server has released the bindings and descriptors of hostile clients.
    fn is_unharmed(&mut self) {
        // A whole lap, from its beginning.
        self.honest.await_line("lap");
        self.honest.await_line("lap");
        eventually(|| self.own.bindings().unwrap() == 2);
        // Descriptors go when the last call of a binding has ended.
        eventually(|| is_no_more(self.server.holds(), self.held));
    }
}

#[test]
fn a_client_that_overwrites_shared_memory_harms_only_itself() {
    let mut scene = Scene::set();
    let rounds = std::env::var("STOOP_TEST_ROUNDS").map_or(150, |rounds| rounds.parse().unwrap());
    let seed = std::env::var("STOOP_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    for round in 0..rounds {
        println!("STOOP_TEST_SEED={} STOOP_TEST_ROUNDS=1", seed + round);
        let mut dice = Dice(seed + round);
        let peer = scene.peer();
        for number in FIRST..FIRST + dice.below(40) as u32 {
            if dice.below(2) == 0 {
                let lane = dice.below(4) as u16;
                peer.publish(&nearly(&peer, &mut dice, lane, number), &[1; 16]);
            }
            for _ in 0..dice.below(30) {
                scribble(&peer, &mut dice);
            }
            match dice.below(16) {
                0 => peer.ring(dice.next()),
                1 => drop((&peer.socket).write(b"bytes without a meaning")),
                _ => peer.ring(0),
            }
        }
    }
    scene.is_unharmed();
}

/// A valid request, of which one field at most is changed.
fn nearly(peer: &Peer, dice: &mut Dice, lane: u16, number: u32) -> Request {
    let len = [4, 40, 5000, 200_000, 1 << 25, u32::MAX][dice.below(6) as usize];
    let mut request = peer.request(lane, number, dice.below(3) as usize, len);
    match dice.below(12) {
        0 => request.kind = RequestKind::Cancel,
        1 => request.lane = dice.word() as u16,
        2 => request.number = dice.word() as u32,
        3 => request.procedure = dice.word() as u16,
        4 => request.len = dice.word() as u32,
        5 => request.deadline_ns = dice.word(),
        6 => request.channel = dice.word() as u8,
        7 => request.base = dice.word() as u32,
        8 => request.cpu = dice.word() as u16,
        _ => {}
    }
    request
}

/// Writes a random word, most often where the server reads counts and requests.
fn scribble(peer: &Peer, dice: &mut Dice) {
    let (from, to) = match dice.below(16) {
        0..=3 => (0, COUNTS),
        4..=7 => (COUNTS, REQUESTS),
        8..=10 => (REQUESTS, REQUESTS + 64 * 64),
        11 => (REQUESTS, ANSWERS),
        12..=13 => (ANSWERS, ANSWERS + 8 * 64),
        14 => (ANSWERS, SLOTS),
        _ => (SLOTS, END),
    };
    // Mostly at the beginning of a cache line, where most fields are; else at any multiple of four bytes.
    let at = from + (dice.below(to - from) & if dice.below(8) == 0 { !3 } else { !63 });
    peer.scribble(at.min(END - 8), &dice.word().to_ne_bytes());
}

/// A call that runs until its binding ends.
fn hang(peer: &Peer) -> Request {
    peer.request(0, FIRST, HANG, 0)
}

#[test]
fn an_impossible_request_ends_the_binding_and_is_counted() {
    let mut scene = Scene::set();
    let long = 10 * CHUNK as u32;
    type Deed<'a> = (&'a str, Box<dyn Fn(&Peer) + 'a>);
    let publish = |change: fn(&mut Request)| {
        Box::new(move |peer: &Peer| {
            let mut request = peer.request(0, FIRST, NEXT, 4);
            change(&mut request);
            peer.publish(&request, &[0; 4]);
        })
    };
    let deeds: Vec<Deed<'_>> = vec![
        ("a lane that does not exist", publish(|request| request.lane = LANES as u16)),
        ("a number that is not the next", publish(|request| request.number = FIRST + 1)),
        ("a number of too many bits", publish(|request| request.number = FIRST | 1 << 31)),
        ("a cancel with a number of too many bits", {
            Box::new(|peer| {
                peer.publish(&hang(peer), &[]);
                let cancel =
                    Request { kind: RequestKind::Cancel, ..peer.request(0, FIRST | 1 << 31, HANG, 0) };
                peer.publish(&cancel, &[]);
            })
        }),
        ("a lane that is busy", {
            Box::new(|peer| {
                peer.publish(&hang(peer), &[]);
                peer.publish(&peer.request(0, FIRST + 1, NEXT, 4), &[0; 4]);
            })
        }),
        ("the same call again", {
            Box::new(|peer| {
                peer.publish(&peer.request(0, FIRST, NEXT, 4), &[0; 4]);
                eventually(|| Answers::is_there(&peer.segment, 0, FIRST));
                peer.publish(&peer.request(0, FIRST, NEXT, 4), &[0; 4]);
            })
        }),
        ("a channel that does not exist", {
            Box::new(|peer| peer.publish(&Request { channel: 4, ..peer.request(0, FIRST, ECHO, 5000) }, &[]))
        }),
        ("a channel that is busy", {
            Box::new(move |peer| {
                peer.publish(&peer.request(0, FIRST, ECHO, long), &[]);
                peer.publish(&peer.request(1, FIRST, ECHO, long), &[]);
            })
        }),
        ("more chunks than there are", {
            Box::new(move |peer| {
                peer.publish(&peer.request(0, FIRST, ECHO, long), &[]);
                peer.scribble(COUNTS, &(17_u32 << 1).to_ne_bytes());
                peer.ring(0);
            })
        }),
        ("a chunk taken back", {
            Box::new(move |peer| {
                peer.publish(&peer.request(0, FIRST, ECHO, long), &[]);
                Filling::new(Way::Call, 0, 0, long as usize).fill(&peer.segment, [&[0; CHUNK][..]]);
                peer.ring(0);
                let emptied = || {
                    let filling = Filling::new(Way::Call, 0, 1, CHUNK);
                    filling.is_emptied(&peer.segment)
                };
                eventually(emptied);
                peer.scribble(COUNTS, &0_u32.to_ne_bytes());
                peer.ring(0);
            })
        }),
        ("a kind that does not exist", {
            Box::new(|peer| {
                peer.scribble(REQUESTS + 8, &u64::MAX.to_ne_bytes());
                peer.scribble(REQUESTS, &1_u64.to_ne_bytes());
                peer.ring(0);
            })
        }),
    ];
    let before = scene.own.malformed().unwrap();
    for (count, (what, deed)) in (1..).zip(&deeds) {
        println!("{what}");
        let mut peer = scene.peer();
        deed(&peer);
        assert_eq!(peer.is_dropped(), Some(UnbindReason::Disorder), "{what}");
        assert_eq!(scene.own.malformed().unwrap(), before + count, "{what}");
    }
    scene.is_unharmed();
}

#[test]
fn a_connection_gets_no_memory_by_the_number_of_another_binding() {
    let scene = Scene::set();
    let mut other = connect(&scene.uri);
    let theirs = shm_peer::bind(&mut other, interface()).unwrap().binding;
    let mut socket = connect(&scene.uri);
    let own = shm_peer::bind(&mut socket, interface()).unwrap().binding;
    assert_ne!(own, theirs);
    for binding in [theirs, BindingId(own.0 ^ 1), BindingId::NONE] {
        let mut socket = connect(&scene.uri);
        shm_peer::bind(&mut socket, interface()).unwrap();
        socket.write_all(&Header::bare(Kind::Attach, binding, LaneId(0), CallNumber(0)).to_bytes()).unwrap();
        let answer = shm_peer::receive(&mut socket).expect("the server says why");
        let answer = Header::parse(&answer).unwrap().0;
        assert_eq!((answer.kind, answer.time), (Kind::Unbind, UnbindReason::Disorder.code()), "{binding:?}");
    }
    assert_eq!(scene.own.malformed().unwrap(), 3);
}

#[test]
fn odd_but_possible_requests_are_answered() {
    let mut scene = Scene::set();
    let peer = scene.peer();
    let answered = |lane, number| {
        eventually(|| Answers::is_there(&peer.segment, lane, number));
        Answers::read(&peer.segment, lane).unwrap().kind
    };
    let cancel = |lane, number| Request { kind: RequestKind::Cancel, ..peer.request(lane, number, NEXT, 0) };
    // Cancels of calls that were never made, on unused lanes.
    (0..LANES as u16).for_each(|lane| peer.publish(&cancel(lane, 77), &[]));
    // On all lanes, half of them at once: no more calls may wait in a server than there are lanes, and those of the honest client do, too.
    let all = |number: u32| {
        for half in [0..LANES as u16 / 2, LANES as u16 / 2..LANES as u16] {
            half.clone().for_each(|lane| peer.publish(&peer.request(lane, number, NEXT, 4), &[0; 4]));
            half.for_each(|lane| assert_eq!(answered(lane, number), AnswerKind::Result));
        }
    };
    all(FIRST);
    all(FIRST + 1);
    let number = FIRST + 2;
    for (lane, odd) in [
        (0, Request { procedure: u16::MAX, ..peer.request(0, number, NEXT, 4) }),
        (1, Request { len: u32::MAX, ..peer.request(1, number, ECHO, 0) }),
        // A channel that does not exist, with a length that is refused first.
        (2, Request { len: u32::MAX, channel: 99, ..peer.request(2, number, ECHO, 0) }),
        (3, Request { deadline_ns: 0, ..peer.request(3, number, NEXT, 4) }),
        (4, Request { cpu: u16::MAX, len: 3, ..peer.request(4, number, NEXT, 4) }),
    ] {
        peer.publish(&odd, &[0; 4]);
        assert_eq!(answered(lane, number), AnswerKind::Refusal, "{odd:?}");
    }
    // Messages of which the rest never comes: one is cancelled, three are left.
    for lane in 0..4 {
        let request = Request { channel: lane as u8, ..peer.request(8 + lane, number, ECHO, 1 << 20) };
        peer.publish(&request, &[]);
    }
    peer.publish(&cancel(8, number), &[]);
    assert_eq!(answered(8, number), AnswerKind::Refusal);
    drop(peer);
    scene.is_unharmed();
    assert_eq!(scene.own.malformed().unwrap(), 0);
}

#[test]
fn a_flood_of_requests_does_not_keep_other_clients_out() {
    let mut scene = Scene::set();
    let floods: [fn(&Peer, u64) -> Request; 3] = [
        |peer, _| Request { kind: RequestKind::Cancel, ..peer.request(0, 77, NEXT, 0) },
        // On lanes in turn.
        |peer, n| Request {
            deadline_ns: 0,
            ..peer.request((n % 1024) as u16, (n / 1024) as u32 + FIRST, NEXT, 4)
        },
        |peer, n| peer.request((n % 1024) as u16, (n / 1024) as u32 + FIRST, NEXT, 4),
    ];
    for flood in floods {
        let is_free = |peer: &Peer, n: u64| {
            let (lane, last) = ((n % 1024) as u16, (n / 1024) as u32);
            flood(peer, n).kind == RequestKind::Cancel || peer.is_answered(lane, last)
        };
        let peers = [scene.peer(), scene.peer()];
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for peer in &peers {
                // Its eventfd is full and blocking: a server that wrote to it in the blocking way would hang.
                rustix::fs::fcntl_setfl(peer.bell(), OFlags::empty()).unwrap();
                peer.ring(u64::MAX - 1 - (1 << 62));
                scope.spawn(|| {
                    let mut published = 0;
                    while !done.load(Ordering::Relaxed) {
                        // The ring is never empty.
                        let room = peer.taken() + 3000;
                        while published < room && is_free(peer, published) {
                            peer.requests.publish(&peer.segment, &flood(peer, published), &[0; 4]);
                            published += 1;
                        }
                        peer.ring(0);
                    }
                });
            }
            let finish = Finish(&done);
            eventually(|| peers.iter().all(|peer| peer.taken() > 2 * RING as u64));
            // Calls of a bound client and of new clients, in turn.
            for number in 0..20 {
                let late = client(&scene.uri);
                assert_eq!(late.next(number).unwrap(), number + 1);
                assert_eq!(scene.own.next(number).unwrap(), number + 1);
            }
            drop(finish);
        });
        assert_eq!(scene.own.malformed().unwrap(), 0);
    }
    scene.is_unharmed();
}

#[test]
fn an_endless_flood_of_describe_questions_does_not_keep_other_clients_out() {
    let mut scene = Scene::set();
    let question = {
        let describe = Describe { nonce: 7, interface: interface().name.into(), procedure: "next".into() };
        let payload = describe.encode();
        let mut header = Header::bare(Kind::Describe, BindingId(0), LaneId(0), CallNumber(0));
        header.message_len = payload.len() as u32;
        [&header.to_bytes()[..], &payload].concat()
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            let asking = connect(&scene.uri);
            let mut answers = asking.try_clone().unwrap();
            scope.spawn(|| {
                let (asking, many) = (asking, question.repeat(50));
                while !done.load(Ordering::Relaxed) {
                    if (&asking).write_all(&many).is_err() {
                        break;
                    }
                }
                let _ = asking.shutdown(std::net::Shutdown::Both);
            });
            scope.spawn(move || while answers.read(&mut [0; 1 << 16]).is_ok_and(|len| len > 0) {});
        }
        let finish = Finish(&done);
        // Other connections send a part of a question, garbage, and descriptors that the server did not ask for.
        let mut dice = Dice(1);
        let silent: Vec<_> = (0..100).map(|_| connect(&scene.uri)).collect();
        for socket in &silent {
            let garbage: Vec<u8> = (0..dice.below(200)).map(|_| dice.next() as u8).collect();
            let mut packet = question[..dice.below(question.len() as u64) as usize].to_vec();
            packet.extend(garbage);
            let _ = descriptors::send(socket, &packet, socket, socket);
        }
        for number in 0..20 {
            assert_eq!(client(&scene.uri).next(number).unwrap(), number + 1);
        }
        drop(finish);
    });
    scene.is_unharmed();
}

#[test]
fn a_message_that_stops_costs_no_processor_time() {
    let mut scene = Scene::set();
    scene.honest.kill();
    let peer = scene.peer();
    // The server is used to calls that follow one another, and spins for the next.
    for number in FIRST..FIRST + 3000 {
        peer.publish(&peer.request(2, number, NEXT, 4), &[0; 4]);
        while !peer.is_answered(2, number) {
            std::hint::spin_loop();
        }
    }
    let len = 1 << 20;
    peer.publish(&peer.request(0, FIRST, ECHO, len), &[]);
    Filling::new(Way::Call, 0, 0, len as usize).fill(&peer.segment, [&[0; CHUNK][..]]);
    // A result that the caller does not read.
    peer.publish(&peer.request(1, FIRST, BYTES, 5), &[0, 0, 64, 0, 1]);
    eventually(|| Answers::is_there(&peer.segment, 1, FIRST));
    // The server may still have work that it has begun before.
    eventually(|| processes::is_idle_for_a_second(|| scene.server.ticks()));
}

/// A process that calls through memory that a hostile third process overwrites. Each of its calls ends in time, with any outcome.
fn call_through_overwritten_memory(uri: &str) {
    let timeout = Duration::from_millis(100);
    let options = BindOptions::new().timeout(timeout).bind_timeout(Duration::from_secs(60));
    let mut good = 0;
    for round in 0..60 {
        let Ok(client) = TargetClient::bind_with(uri, &options) else { continue };
        for call in 0..4 {
            let begun = Instant::now();
            let result = match (round + call) % 4 {
                0 => client.next(1).map(drop),
                1 => client.echo(&[1; 200_000]).map(drop),
                2 => client.bytes(300_000, 1).map(drop),
                _ => client.echo(&[1; SLOT - 100]).map(drop),
            };
            // Generous, because the machine may be busy: the test looks for calls that never end.
            assert!(begun.elapsed() < Duration::from_secs(30), "{result:?}");
            good += u32::from(result.is_ok());
        }
    }
    println!("{good} good");
}

#[test]
fn a_server_that_overwrites_shared_memory_does_not_hold_its_client() {
    // A process between the client and an honest server passes the handshake on, and keeps the memory for itself.
    let (behind, front) = (name(), name());
    let _server = Process::server(&behind);
    let listener = UnixListener::bind_addr(&shm_peer::address(&front)).unwrap();
    let mut victim = Process::start("victim", &front);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for seed in 0.. {
                let (socket, _) = listener.accept().unwrap();
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let between = Between::hand_on(socket, &behind);
                if let Some(between) = between {
                    scope.spawn(move || scribble_between(between, &mut Dice(seed)));
                }
            }
        });
        let ended = scope.spawn(|| victim.ends_well()).join();
        done.store(true, Ordering::Relaxed);
        drop(connect(&front));
        ended.unwrap();
    });
}

/// Writes anywhere between a client and a server, until the client has gone.
fn scribble_between(between: Between, dice: &mut Dice) {
    if dice.below(2) == 0 {
        rustix::fs::fcntl_setfl(between.server.bell(), OFlags::empty()).unwrap();
        between.server.ring(u64::MAX - 1 - (1 << 62));
    }
    between.client.set_nonblocking(true).unwrap();
    let patience = dice.below(200);
    for n in 0.. {
        // Its client has gone.
        if matches!((&between.client).read(&mut [0; 64]), Ok(0)) {
            return;
        }
        if dice.below(4000) == 0 && n > patience {
            let _ = between.client.shutdown(std::net::Shutdown::Both);
        }
        if n > patience {
            scribble(&between.server, dice);
        } else {
            thread::yield_now();
        }
    }
}
