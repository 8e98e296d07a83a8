//! Pipes of peers that write anything into the shared memory.

use crate::harness::eventually;
use crate::harness::processes::{Process, name};
use crate::harness::shm_peer::{Dice, PIPES, Peer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop::stub::Exported;
use stoop::{PipeError, Receiver, RunningServer, Sender, Server};
use stoop_wire::UnbindReason;

#[stoop::interface]
trait Piped {
    /// Receives until that ends or fails.
    fn swallow(&self, numbers: Receiver<u64>) -> u64;
    /// Sends until that fails.
    fn emit(&self, numbers: Sender<u64>) -> u64;
    /// Gives back what it is given.
    fn echo(&self, numbers: Receiver<u64>, out: Sender<u64>) -> u64;
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "serve-pipes" => {
            let server = Server::new().export(PipedServer::new(Counted::default())).listen(uri).unwrap();
            let server = server.start().unwrap();
            println!("ready");
            server.wait();
        }
        "use-pipes" => use_pipes(uri),
        _ => return false,
    }
    true
}

/// Waits in both directions, until it is killed.
fn use_pipes(uri: &str) {
    let client = PipedClient::bind(uri).unwrap();
    let (_sums, numbers) = client.swallow();
    let (_emitted, _unread) = client.emit();
    let (_echoed, _sent, mut nothing) = client.echo();
    numbers.send(&1).unwrap();
    println!("ready");
    let _ = nothing.recv();
}

const SWALLOW: usize = 0;
const EMIT: usize = 1;

/// Counts the procedures that run.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicU64>);

struct Running<'a>(&'a AtomicU64);

impl Counted {
    fn run(&self) -> Running<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Running(&self.0)
    }

    fn running(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Piped for Counted {
    fn swallow(&self, numbers: Receiver<u64>) -> u64 {
        let _running = self.run();
        numbers.take_while(Result::is_ok).count() as u64
    }

    fn emit(&self, numbers: Sender<u64>) -> u64 {
        let _running = self.run();
        (0..).take_while(|number| numbers.send(number).is_ok()).count() as u64
    }

    fn echo(&self, numbers: Receiver<u64>, out: Sender<u64>) -> u64 {
        let _running = self.run();
        let numbers = numbers.map_while(Result::ok);
        numbers.take_while(|number| out.send(number).is_ok()).count() as u64
    }
}

/// The line of the end that writes into the pipe of a lane, to the procedure or from it, and that of the end that reads.
fn writer(lane: u16, from_procedure: bool) -> u64 {
    PIPES + (2 * u64::from(lane) + u64::from(from_procedure)) * 256
}

fn reader(lane: u16, from_procedure: bool) -> u64 {
    writer(lane, from_procedure) + 128
}

fn serve() -> (RunningServer, Counted, PipedClient) {
    let counted = Counted::default();
    let server = Server::new().export(PipedServer::new(counted.clone())).listen(&name()).unwrap();
    let server = server.start().unwrap();
    let client = PipedClient::bind(&server.uris()[0]).unwrap();
    (server, counted, client)
}

fn peer(server: &RunningServer) -> Peer {
    let interface = PipedServer::new(Counted::default());
    Peer::bind(&server.uris()[0], interface.interface()).expect("a well-formed bind succeeds")
}

/// Begins a call on that lane whose procedure receives.
fn swallowing(peer: &Peer, lane: u16) {
    peer.publish(&peer.request(lane, 1, SWALLOW, 0), &[]);
}

/// Begins a call on that lane whose procedure may send so many bytes.
fn emitting(peer: &Peer, lane: u16, window: u64) {
    peer.publish(&peer.request(lane, 1, EMIT, 8), &window.to_le_bytes());
}

/// Begins a call by hand.
type Begin = fn(&Peer);

#[test]
fn counts_that_cannot_be_end_the_binding_and_no_other() {
    let (server, counted, client) = serve();
    let (call, numbers, mut back) = client.echo();
    let cases: [(Begin, u64, u32); 4] = [
        (|peer| swallowing(peer, 0), writer(0, false), 0x7fff_fff0),
        (|peer| swallowing(peer, 0), writer(0, false), 4 << 1),
        (|peer| swallowing(peer, 0), writer(0, false) + 12, 3),
        (|peer| emitting(peer, 0, 1 << 40), reader(0, true), 0x7fff_fff0),
    ];
    for (begin, at, count) in cases {
        let mut peer = peer(&server);
        begin(&peer);
        eventually(|| counted.running() == 2);
        peer.scribble(at, &count.to_ne_bytes());
        assert_eq!(peer.is_dropped(), Some(UnbindReason::Disorder));
        eventually(|| counted.running() == 1);
        numbers.send(&7).unwrap();
        assert_eq!(back.recv().unwrap(), Some(7));
    }
    numbers.finish();
    assert_eq!(call.wait().unwrap(), 4);
}

#[test]
fn a_client_that_overwrites_its_pipes_harms_only_itself() {
    let (server, counted, client) = serve();
    let rounds = std::env::var("STOOP_TEST_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    let seed = std::env::var("STOOP_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    for round in 0..rounds {
        println!("STOOP_TEST_SEED={} STOOP_TEST_ROUNDS=1", seed + round);
        let mut dice = Dice(seed + round);
        let peer = peer(&server);
        for lane in 0..3 {
            match dice.below(2) {
                0 => swallowing(&peer, lane),
                _ => emitting(&peer, lane, dice.word()),
            }
        }
        for _ in 0..dice.below(300) {
            let lane = dice.below(3) as u16;
            let line = if dice.below(2) == 0 { writer } else { reader };
            let at = line(lane, dice.below(2) == 0) + 4 * dice.below(5);
            peer.scribble(at, &(dice.word() as u32 & !0xf).to_ne_bytes());
            peer.ring(0);
        }
        if round % 10 == 0 {
            let (call, numbers, back) = client.echo();
            assert!(back.fed_by(numbers, 0..100).map(Result::unwrap).eq(0..100));
            assert_eq!(call.wait().unwrap(), 100);
        }
    }
    eventually(|| counted.running() == 0);
}

#[test]
fn procedures_of_a_client_that_is_killed_end() {
    let (server, counted, _client) = serve();
    let mut user = Process::start("use-pipes", &server.uris()[0]);
    user.await_line("ready");
    eventually(|| counted.running() == 3);
    drop(user);
    eventually(|| counted.running() == 0);
}

#[test]
fn pipes_to_a_server_that_is_killed_are_lost_and_have_not_ended() {
    let uri = name();
    let mut server = Process::start("serve-pipes", &uri);
    server.await_line("ready");
    let client = PipedClient::bind(&uri).unwrap();
    let (call, numbers, mut back) = client.echo();
    numbers.send(&7).unwrap();
    assert_eq!(back.recv().unwrap(), Some(7));
    let (stopped, unread) = client.emit();
    drop(server);
    assert!(matches!(back.recv(), Err(PipeError::Lost(_))));
    assert!(matches!(numbers.send(&8), Err(PipeError::Lost(_))));
    assert!(matches!(unread.last(), Some(Err(PipeError::Lost(_)))));
    assert!(call.wait().is_err() && stopped.wait().is_err());
}
