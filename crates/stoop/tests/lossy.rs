//! Calls through a network that loses, repeats, delays and overtakes packets, changes addresses, and has servers that die.
//!
//! The runtime is the real one and its sockets are real; the network is a proxy of this file. Its chance has fixed seeds,
//! but which packet meets which decision is up to the threads: a failure may need several runs to come again.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use stoop::error::UnknownCause;
use stoop::{BindOptions, CallError, Caller, Pending, Ran, RunningServer, Server};
use stoop_wire::{Header, Kind, MAX_DATAGRAM};

#[stoop::interface]
trait Counter {
    /// Counts a run of this call and returns `result_of(id)`.
    fn add(&self, id: u64) -> u64;
    /// The same, but returns when the gate is opened.
    fn add_slowly(&self, id: u64) -> u64;
    /// Returns the same, and may be run again.
    #[idempotent]
    fn look(&self, id: u64) -> u64;
    /// The host that calls, as the server sees it.
    fn host(&self) -> String;
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
    fn add_slowly(&self, id: u64) -> u64 {
        let result = self.add(id);
        drop(self.0.1.wait_while(self.book(), |book| !book.open).unwrap());
        result
    }
    fn look(&self, id: u64) -> u64 {
        result_of(id)
    }
    fn host(&self) -> String {
        match stoop::current_call().unwrap().caller() {
            Caller::Network(address) => address.ip().to_string(),
            other => format!("{other:?}"),
        }
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

/// Checks the claim in several worlds at once: they mostly wait.
fn in_each<W: Copy + Sync>(worlds: &[W], claim: impl Fn(W) + Sync) {
    thread::scope(|scope| {
        for world in worlds {
            scope.spawn(|| claim(*world));
        }
    });
}

fn assert_all_succeeded(ends: &[End]) {
    let failed: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn serve(ledger: &Ledger) -> RunningServer {
    let export = CounterServer::new(ledger.clone());
    Server::new().export(export).listen("udp://127.0.0.1:0").unwrap().start().unwrap()
}

fn address_of(server: &RunningServer) -> SocketAddr {
    server.uris()[0].strip_prefix("udp://").unwrap().parse().unwrap()
}

/// A server, the network before it, and a client bound through that.
struct World {
    ledger: Ledger,
    server: RunningServer,
    network: Network,
    client: CounterClient,
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        let ledger = Ledger::default();
        let server = serve(&ledger);
        let network = Network::new(address_of(&server), seed, weather);
        let client = bind(&network);
        Self { ledger, server, network, client }
    }

    /// Ends the server that there is, as a crash does: nothing is heard of it any more. Another takes its place.
    /// What the old one has heard may still run there, unheard.
    fn restart_server(&mut self) {
        let server = serve(&self.ledger);
        self.network.control().server = address_of(&server);
        self.server = server;
    }

    /// Lets every packet that callers ever sent arrive once more, and then compares what ran with `ends`.
    fn end(self, ends: &[End]) {
        self.ledger.check(ends);
        let before = self.server.counters().duplicates;
        self.network.replay_all(|| {
            // A call behind all of them: the server has begun what it takes for new, and shutting down waits for that.
            self.client.look(0).unwrap();
        });
        assert!(self.server.counters().duplicates > before, "nothing was replayed");
        self.server.shut_down();
        self.ledger.check(ends);
    }
}

/// A client with the time that a bad network takes.
fn bind(network: &Network) -> CounterClient {
    let options = BindOptions::new().bind_timeout(Duration::from_secs(30)).timeout(Duration::from_secs(30));
    CounterClient::bind_with(&format!("udp://{}", network.address), &options).unwrap()
}

#[test]
fn every_call_is_run_once_and_gets_its_own_result_whatever_the_network_does() {
    in_each(&[(1, LOSSY), (2, DISORDERLY), (3, STORM)], |(seed, weather)| {
        let world = World::new(seed, weather);
        let ends = call_from_threads(6, 40, |id| world.client.add(id));
        assert_all_succeeded(&ends);
        assert_eq!(world.ledger.book().runs.len(), 240);
        world.end(&ends);
    });
}

#[test]
fn a_call_that_is_given_up_runs_at_most_once() {
    in_each(&[10, 11, 12], |seed| {
        let world = World::new(seed, STORM);
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
    let mut world = World::new(20, DISORDERLY);
    let mut ends = Vec::new();
    for host in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 1]] {
        world.network.control().host = host.into();
        let from = ends.len() as u64;
        ends.extend((from..from + 80).map(|id| (id, world.client.add(id))));
        // A machine that takes the processor from one worker for another lets the server count anew.
        while world.server.counters().dedicated == 0 {
            let id = ends.len() as u64;
            ends.push((id, world.client.add(id)));
        }
    }
    assert!(ends.iter().all(|(id, end)| matches!(end, Ok(result) if *result == result_of(*id))), "{ends:?}");
    world.restart_server();
    let lost = ends.len() as u64;
    let end = world.client.add(lost);
    assert!(matches!(end, Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. })), "{end:?}");
    ends.push((lost, end));
    ends.extend((lost + 1..lost + 100).map(|id| (id, world.client.add(id))));
    assert_all_succeeded(&ends[lost as usize + 1..]);
    world.end(&ends);
}

#[test]
fn long_procedures_are_probed_until_they_end_through_loss() {
    let world = World::new(30, STORM);
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
}

#[test]
fn a_long_call_is_acknowledged_and_then_probed_and_not_sent_again() {
    let world = World::new(31, CLEAR);
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
    assert!(world.client.binding().counters().probes >= 3);
}

#[test]
fn a_bind_succeeds_through_loss_and_makes_one_binding() {
    let ledger = Ledger::default();
    let server = serve(&ledger);
    let network = Network::new(address_of(&server), 40, Weather { lose: 300, ..STORM });
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
}

#[test]
fn a_server_that_restarts_never_runs_a_call_a_second_time() {
    in_each(&[50, 51, 52], |seed| {
        let mut world = World::new(seed, STORM);
        let client = world.client.clone();
        let (threads, restarts) = (5, [40, 80, 120]);
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
    in_each(&[(60, CLEAR), (61, LOSSY), (62, STORM)], |(seed, weather)| {
        let world = World::new(seed, weather);
        let ends = thread::scope(|scope| {
            let calling = scope.spawn(|| call_from_threads(5, 40, |id| world.client.add(id)));
            for (runs, host) in [(50, [127, 0, 0, 2]), (100, [127, 0, 0, 3]), (150, [127, 0, 0, 2])] {
                world.ledger.await_runs(runs);
                world.network.control().host = host.into();
            }
            calling.join().unwrap()
        });
        assert_all_succeeded(&ends);
        assert_eq!(world.client.host().unwrap(), "127.0.0.2");
        assert!(world.network.control().seen(Kind::Challenge) > 0);
        assert!(world.network.control().seen(Kind::Proof) > 0);
        world.end(&ends);
    });
}

#[test]
fn an_address_that_never_stays_the_same_only_costs_time() {
    let world = World::new(70, Weather { change_host: 200, ..LOSSY });
    let ends = call_from_threads(4, 40, |id| world.client.add(id));
    assert_all_succeeded(&ends);
    assert!(world.network.control().seen(Kind::Proof) > 0);
    world.end(&ends);
}

/// Begins calls, twenty at a time, and waits for them.
fn begin_in_rounds(
    ids: std::ops::Range<u64>,
    begin: impl Fn(&CounterBegin<'_>, u64) -> Begun,
    client: &CounterClient,
) -> Vec<End> {
    let mut ends = Vec::new();
    for first in ids.clone().step_by(20) {
        let calls = client.begin();
        let pending: Vec<_> = (first..ids.end.min(first + 20)).map(|id| (id, begin(&calls, id))).collect();
        drop(calls);
        ends.extend(pending.into_iter().map(|(id, call)| (id, call.wait())));
    }
    for (id, end) in &ends {
        assert!(
            end.as_ref().is_ok_and(|result| *result == result_of(*id)) || end.is_err(),
            "call {id}: {end:?}"
        );
    }
    ends
}

type Begun = Pending<Result<u64, CallError>>;

#[test]
fn every_begun_call_is_run_once_and_gets_its_own_result_whatever_the_network_does() {
    in_each(&[(80, LOSSY), (81, DISORDERLY), (82, STORM)], |(seed, weather)| {
        let world = World::new(seed, weather);
        let client = &world.client;
        let ends: Vec<End> = thread::scope(|scope| {
            let ids = [0..100, 100..200, 200..300];
            let threads =
                ids.map(|ids| scope.spawn(move || begin_in_rounds(ids, |calls, id| calls.add(id), client)));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_all_succeeded(&ends);
        assert_eq!(world.ledger.book().runs.len(), 300);
        world.end(&ends);
    });
}

#[test]
fn a_detached_call_is_run_and_a_dropped_one_at_most_once_through_loss() {
    in_each(&[(83, LOSSY), (84, STORM)], |(seed, weather)| {
        let world = World::new(seed, weather);
        let mut ends = Vec::new();
        for round in (0..300).step_by(30) {
            let calls = world.client.begin();
            let mut pending = Vec::new();
            for id in round..round + 30 {
                let call = calls.add(id);
                match id % 3 {
                    0 => drop(call),
                    1 => call.detach(),
                    _ => pending.push((id, call)),
                }
            }
            drop(calls);
            ends.extend(pending.into_iter().map(|(id, call)| (id, call.wait())));
        }
        assert_all_succeeded(&ends);
        let detached = |book: &mut Book| book.runs.keys().filter(|id| *id % 3 == 1).count();
        drop(world.ledger.0.1.wait_while(world.ledger.book(), |book| detached(book) < 100).unwrap());
        world.end(&ends);
    });
}

#[test]
fn a_server_that_restarts_never_runs_a_begun_call_a_second_time() {
    in_each(&[85, 86], |seed| {
        let mut world = World::new(seed, STORM);
        let client = world.client.clone();
        let begin = |calls: &CounterBegin<'_>, id| if id % 4 == 3 { calls.look(id) } else { calls.add(id) };
        let ends = thread::scope(|scope| {
            let calling = scope.spawn(|| begin_in_rounds(0..400, begin, &client));
            for runs in [60, 120, 180] {
                world.ledger.await_runs(runs);
                world.restart_server();
            }
            calling.join().unwrap()
        });
        let unknown: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).collect();
        let by_restart =
            |end| matches!(end, &Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }));
        assert!(unknown.iter().all(|(_, end)| by_restart(end)), "{unknown:?}");
        assert!(unknown.iter().all(|(id, _)| id % 4 != 3), "an idempotent call is sent again: {unknown:?}");
        world.end(&ends.into_iter().filter(|(id, _)| id % 4 != 3).collect::<Vec<_>>());
    });
}

#[test]
fn begun_calls_that_are_out_when_a_server_restarts_end_and_those_after_them_are_bound_again() {
    let mut world = World::new(87, CLEAR);
    let client = world.client.clone();
    let begin = |ids: std::ops::Range<u64>| -> Vec<(u64, Begun)> {
        let calls = client.begin();
        ids.map(|id| (id, calls.add(id))).collect()
    };
    let wait = |begun: Vec<(u64, Begun)>| -> Vec<End> {
        begun.into_iter().map(|(id, call)| (id, call.wait())).collect()
    };
    let mut ends = wait(begin(0..10));
    // Nothing comes through until all are out: one begun when another has been refused goes to the server that is bound to then.
    world.network.control().deaf = true;
    world.restart_server();
    let out = begin(10..110);
    world.network.control().deaf = false;
    for (id, end) in wait(out) {
        // It may have run before the restart, as far as anybody knows.
        let cause = UnknownCause::ServerRestarted;
        assert!(matches!(&end, Err(CallError::Unknown { cause: why, .. }) if *why == cause), "{end:?}");
        assert!(!world.ledger.book().runs.contains_key(&id));
    }
    ends.extend(wait(begin(110..210)));
    assert_all_succeeded(&ends);
    world.end(&ends);
}

/// How often what happens to a packet, in a thousand.
#[derive(Clone, Copy)]
struct Weather {
    lose: u64,
    /// It is held back until some others have passed, or nothing comes for a while.
    hold: u64,
    /// It comes once more, a little later.
    repeat: u64,
    /// With it comes some packet that was seen before, however long ago.
    replay: u64,
    /// From it on the server sees another host.
    change_host: u64,
}

const CLEAR: Weather = Weather { lose: 0, hold: 0, repeat: 0, replay: 0, change_host: 0 };
const LOSSY: Weather = Weather { lose: 100, ..CLEAR };
const DISORDERLY: Weather = Weather { lose: 20, hold: 200, repeat: 300, replay: 300, ..CLEAR };
const STORM: Weather = Weather { lose: 200, hold: 100, repeat: 200, replay: 200, ..CLEAR };

/// A proxy before a server. Each caller's port has a port of its own behind it, so that lanes are told apart.
struct Network {
    /// Where callers find it.
    address: SocketAddr,
    shared: Arc<Shared>,
    front: Option<thread::JoinHandle<()>>,
}

struct Shared {
    /// Where callers send to.
    front: UdpSocket,
    control: Mutex<Control>,
    changed: Condvar,
}

/// What a test can see and change.
struct Control {
    server: SocketAddr,
    /// As which callers appear to the server.
    host: IpAddr,
    /// Packets that came in, by kind.
    seen: HashMap<u8, u64>,
    /// From now on all goes well.
    calm: bool,
    /// What callers send is lost meanwhile.
    deaf: bool,
    /// Packets that callers have sent.
    sent: usize,
    /// From here on a portion of what callers have sent is to be sent again.
    replay: Option<usize>,
    ended: bool,
}

impl Control {
    fn seen(&self, kind: Kind) -> u64 {
        self.seen.get(&(kind as u8)).copied().unwrap_or(0)
    }
}

/// How long nothing comes before what is held back goes on.
const TICK: Duration = Duration::from_millis(2);

/// Packets replayed at once: fewer than a socket holds that nobody has given more room.
const PORTION: usize = 64;

impl Network {
    fn new(server: SocketAddr, seed: u64, weather: Weather) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_read_timeout(Some(TICK)).unwrap();
        let address = front.local_addr().unwrap();
        let host = [127, 0, 0, 1].into();
        let control = Control {
            server,
            host,
            seen: HashMap::new(),
            calm: false,
            deaf: false,
            sent: 0,
            replay: None,
            ended: false,
        };
        let shared = Arc::new(Shared { front, control: Mutex::new(control), changed: Condvar::new() });
        let mut there = There { shared: Arc::clone(&shared), seed, weather, ports: HashMap::new() };
        let front = thread::spawn(move || there.run());
        Self { address, shared, front: Some(front) }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.shared.control.lock().unwrap()
    }

    /// Waits until so many packets of that kind have come in.
    fn await_seen(&self, kind: Kind, count: u64) {
        let few = |control: &mut Control| control.seen(kind) < count;
        drop(self.shared.changed.wait_while(self.control(), few).unwrap());
    }

    /// Sends all that callers have ever sent to the server once more, `PORTION` packets at a time, lest its socket
    /// overflow, in good weather. After each portion `catch_up` waits until the server has taken it.
    fn replay_all(&self, catch_up: impl Fn()) {
        self.control().calm = true;
        let all = self.control().sent;
        for from in (0..all).step_by(PORTION) {
            self.control().replay = Some(from);
            drop(self.shared.changed.wait_while(self.control(), |control| control.replay.is_some()).unwrap());
            catch_up();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.control().ended = true;
        let ended = self.front.take().expect("taken only here").join();
        assert!(ended.is_ok() || thread::panicking(), "the network has broken down");
    }
}

impl Shared {
    /// Notes what has come in.
    fn note(&self, packet: &[u8]) -> MutexGuard<'_, Control> {
        let mut control = self.control.lock().unwrap();
        if let Ok((header, _)) = Header::parse(packet) {
            *control.seen.entry(header.kind as u8).or_default() += 1;
            self.changed.notify_all();
        }
        control
    }
}

/// The way to the server, of all callers.
struct There {
    shared: Arc<Shared>,
    seed: u64,
    weather: Weather,
    /// For each caller's address and each host as which it has appeared, the port behind, and who brings back what
    /// comes there.
    ports: HashMap<(SocketAddr, IpAddr), (Arc<UdpSocket>, thread::JoinHandle<()>)>,
}

impl There {
    fn run(&mut self) {
        let mut way = Way::new(self.seed, self.weather);
        let mut buffer = [0; MAX_DATAGRAM];
        loop {
            let arrived = self.shared.front.recv_from(&mut buffer).ok();
            let mut arrived = arrived.map(|(len, caller)| (caller, buffer[..len].to_vec()));
            let mut control = self.shared.note(arrived.as_ref().map_or(&[], |(_, packet)| packet));
            if control.calm {
                way.weather = CLEAR;
            }
            if way.random.chance(way.weather.change_host) {
                control.host = [127, 0, 0, 1 + way.random.below(2) as u8].into();
            }
            if control.deaf {
                arrived = None;
            }
            control.sent += usize::from(arrived.is_some());
            let (host, server, replay) = (control.host, control.server, control.replay);
            let ended = control.ended;
            drop(control);
            for (caller, packet) in way.pass(arrived) {
                self.port(caller, host).send_to(&packet, server).unwrap();
            }
            if let Some(from) = replay {
                for (caller, packet) in way.old.iter().skip(from).take(PORTION) {
                    self.port(*caller, host).send_to(packet, server).unwrap();
                }
                self.shared.control.lock().unwrap().replay = None;
                self.shared.changed.notify_all();
            }
            if ended {
                return self.ports.drain().for_each(|(_, (_, back))| back.join().unwrap());
            }
        }
    }

    fn port(&mut self, caller: SocketAddr, host: IpAddr) -> &UdpSocket {
        let seed = self.seed << 32 | self.ports.len() as u64;
        let (port, _) = self.ports.entry((caller, host)).or_insert_with(|| {
            let port = Arc::new(UdpSocket::bind((host, 0)).unwrap());
            port.set_read_timeout(Some(TICK)).unwrap();
            let (shared, way) = (Arc::clone(&self.shared), Way::new(seed, self.weather));
            let back = Arc::clone(&port);
            (port, thread::spawn(move || bring_back(&shared, &back, caller, way)))
        });
        port
    }
}

/// The way back to one caller, from one of the ports behind.
fn bring_back(shared: &Shared, port: &UdpSocket, caller: SocketAddr, mut way: Way<Vec<u8>>) {
    let mut buffer = [0; MAX_DATAGRAM];
    loop {
        let mut arrived = port.recv_from(&mut buffer).ok().map(|(len, sender)| (sender, &buffer[..len]));
        let control = shared.note(arrived.map_or(&[], |(_, packet)| packet));
        if control.ended {
            return;
        }
        if control.calm {
            way.weather = CLEAR;
        }
        // Of a server that is gone nothing is heard any more.
        arrived = arrived.filter(|(sender, _)| *sender == control.server);
        drop(control);
        for packet in way.pass(arrived.map(|(_, packet)| packet.to_vec())) {
            shared.front.send_to(&packet, caller).unwrap();
        }
    }
}

/// What becomes of packets that go the same way.
struct Way<P> {
    random: Random,
    weather: Weather,
    /// Packets that are held back, and how many are to pass before each.
    held: Vec<(u64, P)>,
    /// All that were seen.
    old: Vec<P>,
}

impl<P: Clone> Way<P> {
    fn new(seed: u64, weather: Weather) -> Self {
        Self { random: Random(seed), weather, held: Vec::new(), old: Vec::new() }
    }

    /// Takes a packet, or the news that none has come for a while. Returns what goes on now, in this order.
    fn pass(&mut self, arrived: Option<P>) -> Vec<P> {
        let Some(packet) = arrived else {
            return self.held.drain(..).rev().map(|(_, packet)| packet).collect();
        };
        let Self { random, weather, held, old } = self;
        let mut on = Vec::new();
        old.push(packet.clone());
        if !random.chance(weather.lose) {
            match random.chance(weather.hold) {
                true => held.push((1 + random.below(8), packet.clone())),
                false => on.push(packet.clone()),
            }
        }
        if random.chance(weather.repeat) {
            held.push((random.below(8), packet));
        }
        if random.chance(weather.replay) {
            on.push(old[random.below(old.len() as u64) as usize].clone());
        }
        on.extend(held.extract_if(.., |(to_pass, _)| *to_pass == 0).map(|(_, packet)| packet));
        held.iter_mut().for_each(|(to_pass, _)| *to_pass -= 1);
        on
    }
}

/// SplitMix64 (Steele, Lea & Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}
