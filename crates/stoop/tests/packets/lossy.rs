//! Calls through a network that loses, repeats, delays and overtakes packets, changes addresses, and has servers that die.
//!
//! The runtime is the real one and its sockets are real; the network is a proxy of datagrams, or a bridge of Ethernet frames
//! (`network.rs`). Its chance has fixed seeds, but which packet meets which decision is up to the threads: a failure may need
//! several runs to come again.

mod begun;
mod datagrams;
mod frames;
mod long;
mod network;
mod one_way;
mod open;

use frames::Ethernets;
use network::{CLEAR, DISORDERLY, LOSSY, Network, STORM, Weather};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{BindOptions, CallError, Caller, Deferred, PacketOptions, Ran, Reply, RunningServer, Server};
use stoop_wire::Kind;

#[stoop::interface]
trait Counter {
    /// Counts a run of this call and returns `result_of(id)`.
    fn add(&self, id: u64) -> u64;
    /// The same, but its answer comes when the ledger's clerk gives it.
    fn add_later(&self, id: u64) -> Deferred<u64>;
    /// The same, but returns when the gate is opened.
    fn add_slowly(&self, id: u64) -> u64;
    /// Returns the same, and may be run again.
    #[idempotent]
    fn look(&self, id: u64) -> u64;
    /// Whether that call has run.
    #[idempotent]
    fn has_run(&self, id: u64) -> bool;
    /// The same, but may not be run again, and so overtakes no one-way call silently.
    fn had_run(&self, id: u64) -> bool;
    /// Counts a run of this call.
    #[one_way]
    fn note(&self, id: u64);
    /// The number of the host that calls, as the server sees it.
    fn host(&self) -> u8;
    /// Counts a run of this call, and returns the argument with the result of the call in each word.
    fn add_long(&self, id: u64, words: Vec<u64>) -> Vec<u64>;
}

/// So that no result can be taken for that of another call.
fn result_of(id: u64) -> u64 {
    (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What ran, at all servers together.
#[derive(Clone, Default)]
struct Ledger(Arc<(Mutex<Book>, Condvar)>);

#[derive(Default)]
struct Book {
    runs: HashMap<u64, u32>,
    open: bool,
    /// Calls whose answers have not been given.
    waiting: Vec<(u64, Reply<u64>)>,
    /// The clerk goes home.
    closed: bool,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.0.lock().unwrap()
    }

    /// Waits until so many calls have been run.
    fn await_runs(&self, count: usize) {
        drop(self.0.1.wait_while(self.book(), |book| book.runs.len() < count).unwrap());
    }

    fn open(&self) {
        self.book().open = true;
        self.0.1.notify_all();
    }

    /// Compares what ran with what the callers were told.
    fn check(&self, ends: &[End]) {
        let runs = &self.book().runs;
        for (id, runs) in runs {
            assert_eq!(*runs, 1, "call {id} was run {runs} times");
        }
        for (id, end) in ends {
            let has_run = runs.contains_key(id);
            match end.as_ref().map_or_else(CallError::ran, |_| Ran::Yes) {
                Ran::Yes => assert!(has_run, "call {id} ended with {end:?} and never ran"),
                Ran::No => assert!(!has_run, "call {id} ended with {end:?} and ran"),
                Ran::Perhaps => {}
            }
        }
    }
}

impl Counter for Ledger {
    fn add(&self, id: u64) -> u64 {
        *self.book().runs.entry(id).or_default() += 1;
        self.0.1.notify_all();
        result_of(id)
    }
    fn add_later(&self, id: u64) -> Deferred<u64> {
        let (reply, deferred) = stoop::deferred();
        self.book().waiting.push((id, reply));
        self.add(id);
        deferred
    }
    fn add_slowly(&self, id: u64) -> u64 {
        let result = self.add(id);
        drop(self.0.1.wait_while(self.book(), |book| !book.open).unwrap());
        result
    }
    fn look(&self, id: u64) -> u64 {
        result_of(id)
    }
    fn has_run(&self, id: u64) -> bool {
        self.book().runs.contains_key(&id)
    }
    fn had_run(&self, id: u64) -> bool {
        self.has_run(id)
    }
    fn note(&self, id: u64) {
        self.add(id);
    }
    fn host(&self) -> u8 {
        match stoop::current_call().unwrap().caller() {
            Caller::Network(SocketAddr::V4(address)) => address.ip().octets()[3],
            Caller::Station(station) => station.host()[4],
            other => panic!("{other:?}"),
        }
    }
    fn add_long(&self, id: u64, words: Vec<u64>) -> Vec<u64> {
        let result = self.add(id);
        words.into_iter().map(|word| word ^ result).collect()
    }
}

/// How a call ended, by its id.
type End = (u64, Result<u64, CallError>);

/// Has `threads` threads make `calls` calls each, all with ids of their own; every result must be the call's own.
fn call_from_threads(
    threads: u64,
    calls: u64,
    call: impl Fn(u64) -> Result<u64, CallError> + Sync,
) -> Vec<End> {
    let one = |id| {
        let end = call(id);
        if let Ok(result) = end {
            assert_eq!(result, result_of(id), "call {id} got the result of another");
        }
        (id, end)
    };
    let ends: Vec<Vec<End>> = thread::scope(|scope| {
        let ids = (0..threads).map(|thread| thread * calls..(thread + 1) * calls);
        let threads: Vec<_> = ids.map(|ids| scope.spawn(|| ids.map(one).collect())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    ends.into_iter().flatten().collect()
}

/// The link between callers and server.
enum Link {
    Datagrams,
    /// Ethernet frames, by the mechanism that the addresses name.
    Frames(Ethernets),
}

/// Checks the claim over each link and in several worlds at once: they mostly wait.
fn in_each<W: Copy + Sync>(worlds: &[W], claim: impl Fn(Link, W) + Sync) {
    thread::scope(|scope| {
        for world in worlds {
            scope.spawn(|| claim(Link::Datagrams, *world));
        }
        over_frames(worlds, &claim);
    });
}

/// The same, over frames alone.
fn over_frames<W: Copy + Sync>(worlds: &[W], claim: impl Fn(Link, W) + Sync) {
    thread::scope(|scope| {
        let claim = &claim;
        for world in worlds {
            for parameters in ["", "?backend=xdp", "?backend=xdp-generic"] {
                // The thread moves to the callers' end.
                scope.spawn(move || Ethernets::make(parameters).map(|it| claim(Link::Frames(it), *world)));
            }
        }
    });
}

fn assert_all_succeeded(ends: &[End]) {
    let failed: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn serve(link: &Link, ledger: &Ledger) -> RunningServer {
    let server = Server::new().export(CounterServer::new(ledger.clone()));
    let listening = match link {
        Link::Datagrams => server.listen("udp://127.0.0.1:0"),
        Link::Frames(ethernets) => {
            let server = server.security(stoop::Security::none());
            ethernets.at_servers(|| server.listen(&ethernets.address()))
        }
    };
    listening.unwrap().start().unwrap()
}

fn uri_of(server: &RunningServer) -> String {
    server.uris()[0].clone()
}

/// A server, the network before it, and a client bound through that.
struct World {
    link: Link,
    ledger: Ledger,
    server: RunningServer,
    network: Network,
    client: CounterClient,
}

impl World {
    fn new(link: Link, seed: u64, weather: Weather) -> Self {
        let ledger = Ledger::default();
        let server = serve(&link, &ledger);
        let network = Network::new(&link, uri_of(&server), seed, weather);
        let client = bind(&network);
        Self { link, ledger, server, network, client }
    }

    /// Ends the server that there is, as a crash does: nothing is heard of it any more. Another takes its place.
    /// What the old one has heard may still run there, unheard.
    fn restart_server(&mut self) {
        // Nothing reaches the old one any more when the new one starts.
        self.network.control().deaf = true;
        let server = serve(&self.link, &self.ledger);
        self.network.control().server = uri_of(&server);
        self.network.control().deaf = false;
        self.server = server;
    }

    /// Lets every packet that callers ever sent arrive once more, and then compares what ran with `ends`.
    fn end(self, ends: &[End]) {
        self.ledger.check(ends);
        let before = self.server.counters().packet.duplicates;
        self.network.replay_all(|| {
            // A call behind all of them: the server has begun what it takes for new, and shutting down waits for that.
            self.client.look(0).unwrap();
        });
        assert!(self.server.counters().packet.duplicates > before, "nothing was replayed");
        self.server.shut_down();
        self.ledger.check(ends);
    }
}

/// A client with the time that a bad network takes, and a busy machine: a server whose answers are lost, or late, is not silent.
fn bind(network: &Network) -> CounterClient {
    const LONG: Duration = Duration::from_secs(30);
    let options = BindOptions::new().bind_timeout(LONG).timeout(LONG);
    let options = options.with(PacketOptions::new().silence_limit(LONG));
    CounterClient::bind_with(&network.uri, &options).unwrap()
}

#[test]
fn every_call_runs_once_and_gets_its_own_result_over_a_bad_network() {
    in_each(&[(1, LOSSY), (2, DISORDERLY), (3, STORM)], |link, (seed, weather)| {
        let world = World::new(link, seed, weather);
        let ends = call_from_threads(6, 40, |id| world.client.add(id));
        assert_all_succeeded(&ends);
        assert_eq!(world.ledger.book().runs.len(), 240);
        world.end(&ends);
    });
}

#[test]
fn a_call_that_is_given_up_runs_at_most_once() {
    in_each(&[10, 11, 12], |link, seed| {
        let world = World::new(link, seed, STORM);
        let hasty = world.client.with_timeout(Duration::from_millis(2));
        let ends = call_from_threads(5, 40, |id| if id % 2 == 0 { &hasty } else { &world.client }.add(id));
        let unknown = |end: &&End| matches!(end.1, Err(CallError::Unknown { .. }));
        assert!(ends.iter().any(|end| unknown(&end)), "the network was too good for this test");
        assert!(ends.iter().filter(|(id, _)| id % 2 == 1).all(|(_, end)| end.is_ok()), "{ends:?}");
        world.end(&ends);
    });
}

#[test]
fn a_caller_with_a_socket_of_its_own_at_the_server_is_as_safe() {
    let mut world = World::new(Link::Datagrams, 20, DISORDERLY);
    let mut ends = Vec::new();
    for host in [1, 2, 1] {
        world.network.control().host = host;
        let from = ends.len() as u64;
        ends.extend((from..from + 80).map(|id| (id, world.client.add(id))));
        // A machine that takes the processor from one worker for another lets the server count anew.
        while world.server.counters().packet.dedicated == 0 {
            let id = ends.len() as u64;
            ends.push((id, world.client.add(id)));
        }
    }
    assert!(ends.iter().all(|(id, end)| matches!(end, Ok(result) if *result == result_of(*id))), "{ends:?}");
    world.restart_server();
    let lost = ends.len() as u64;
    let end = world.client.add(lost);
    // Sent once, it is known not to have run at the server before; sent more often, it is not.
    let is_unknown = matches!(end, Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }));
    assert!(is_unknown || matches!(end, Ok(result) if result == result_of(lost)), "{end:?}");
    ends.push((lost, end));
    ends.extend((lost + 1..lost + 100).map(|id| (id, world.client.add(id))));
    assert_all_succeeded(&ends[lost as usize + 1..]);
    world.end(&ends);
}

#[test]
fn long_procedures_are_probed_until_they_end_through_loss() {
    in_each(&[30], |link, seed| {
        let world = World::new(link, seed, STORM);
        let ends = thread::scope(|scope| {
            let slow = scope.spawn(|| call_from_threads(4, 1, |id| world.client.add_slowly(id)));
            world.network.await_seen(Kind::Probe, 5);
            // Short calls go on beside them.
            let short = call_from_threads(2, 20, |id| world.client.look(id));
            assert_all_succeeded(&short);
            world.ledger.open();
            slow.join().unwrap()
        });
        assert_all_succeeded(&ends);
        world.end(&ends);
    });
}

#[test]
fn a_long_call_is_acknowledged_and_then_probed_and_not_sent_again() {
    in_each(&[31], |link, seed| {
        let world = World::new(link, seed, CLEAR);
        thread::scope(|scope| {
            let slow = scope.spawn(|| world.client.add_slowly(0).unwrap());
            // A caller that probes knows that the server has the call; what it has sent before has come in before.
            world.network.await_seen(Kind::Probe, 1);
            let sent = world.network.control().seen(Kind::Call);
            world.network.await_seen(Kind::Probe, 3);
            assert_eq!(world.network.control().seen(Kind::Call), sent);
            world.ledger.open();
            assert_eq!(slow.join().unwrap(), result_of(0));
        });
        assert!(world.client.binding().counters().packet.probes >= 3);
    });
}

#[test]
fn a_bind_succeeds_through_loss_and_makes_one_binding() {
    in_each(&[40], |link, seed| {
        let ledger = Ledger::default();
        let server = serve(&link, &ledger);
        let network = Network::new(&link, uri_of(&server), seed, Weather { lose: 300, ..STORM });
        let clients = Mutex::new(Vec::new());
        let ends = call_from_threads(9, 2, |id| {
            let client = bind(&network);
            let end = client.add(id);
            clients.lock().unwrap().push(client);
            end
        });
        assert_all_succeeded(&ends);
        ledger.check(&ends);
        network.replay_all(|| {
            clients.lock().unwrap()[0].look(0).unwrap();
        });
        assert_eq!(server.counters().bindings, 18);
    });
}

#[test]
fn a_server_that_restarts_never_runs_a_call_a_second_time() {
    in_each(&[50, 51, 52], |link, seed| {
        let mut world = World::new(link, seed, STORM);
        let client = world.client.clone();
        // Fewer than the sessions that an idempotent call may lose: on a busy machine one can see all of them.
        let (threads, restarts) = (5, [50, 100]);
        let ends = thread::scope(|scope| {
            let calling = scope.spawn(|| {
                call_from_threads(threads, 40, |id| match id % 4 {
                    3 => client.look(id),
                    _ => client.add(id),
                })
            });
            for runs in restarts {
                world.ledger.await_runs(runs);
                world.restart_server();
            }
            calling.join().unwrap()
        });
        let unknown: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).collect();
        let by_restart =
            |end| matches!(end, &Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }));
        assert!(unknown.iter().all(|(_, end)| by_restart(end)), "{unknown:?}");
        assert!(unknown.len() <= threads as usize * restarts.len(), "{unknown:?}");
        assert!(unknown.iter().all(|(id, _)| id % 4 != 3), "an idempotent call is sent again: {unknown:?}");
        world.end(&ends.into_iter().filter(|(id, _)| id % 4 != 3).collect::<Vec<_>>());
    });
}

#[test]
fn a_change_of_the_callers_address_goes_unnoticed() {
    in_each(&[(60, CLEAR), (61, LOSSY), (62, STORM)], |link, (seed, weather)| {
        let world = World::new(link, seed, weather);
        let ends = thread::scope(|scope| {
            let calling = scope.spawn(|| call_from_threads(5, 40, |id| world.client.add(id)));
            for (runs, host) in [(50, 2), (100, 3), (150, 2)] {
                world.ledger.await_runs(runs);
                world.network.control().host = host;
            }
            calling.join().unwrap()
        });
        assert_all_succeeded(&ends);
        assert_eq!(world.client.host().unwrap(), 2);
        assert!(world.network.control().seen(Kind::Challenge) > 0);
        assert!(world.network.control().seen(Kind::Proof) > 0);
        world.end(&ends);
    });
}

#[test]
fn an_address_that_never_stays_the_same_only_costs_time() {
    in_each(&[70], |link, seed| {
        let world = World::new(link, seed, Weather { change_host: 200, ..LOSSY });
        let ends = call_from_threads(4, 40, |id| world.client.add(id));
        assert_all_succeeded(&ends);
        assert!(world.network.control().seen(Kind::Proof) > 0);
        world.end(&ends);
    });
}
