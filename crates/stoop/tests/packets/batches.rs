//! A server over UDP and a caller made by hand that packs its calls: many leave by one system call, each on a lane of
//! its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use stoop::stub::Exported;
use stoop::{RunningServer, Server};
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::{Interface, Procedure};
use stoop_net::udp::{CallerArrival, CallerSocket, SegmentsSending};
use stoop_wire::bind::HostFacts;
use stoop_wire::{CallNumber, Header, Kind, LaneId};

#[stoop::interface]
trait Door {
    /// Returns when the door is opened.
    fn pass(&self) -> u32;
    /// One more than `number`, and counts the calls.
    fn next(&self, number: u32) -> u32;
    /// As many bytes.
    fn bytes(&self, count: u32) -> Vec<u8>;
    /// Takes some milliseconds.
    fn dawdle(&self, number: u32) -> u32;
}

const PASS: usize = 0;
const NEXT: usize = 1;
const BYTES: usize = 2;
const DAWDLE: usize = 3;

#[derive(Default)]
struct Hall {
    open: Mutex<bool>,
    changed: Condvar,
    runs: Mutex<BTreeMap<u32, u32>>,
}

#[derive(Clone, Default)]
struct Porter(Arc<Hall>);

impl Porter {
    fn open(&self) {
        *self.0.open.lock().unwrap() = true;
        self.0.changed.notify_all();
    }
}

impl Door for Porter {
    fn pass(&self) -> u32 {
        drop(self.0.changed.wait_while(self.0.open.lock().unwrap(), |open| !*open).unwrap());
        1
    }
    fn next(&self, number: u32) -> u32 {
        *self.0.runs.lock().unwrap().entry(number).or_default() += 1;
        number.wrapping_add(1)
    }
    fn bytes(&self, count: u32) -> Vec<u8> {
        vec![7; count as usize]
    }
    fn dawdle(&self, number: u32) -> u32 {
        let until = Instant::now() + Duration::from_millis(3);
        while Instant::now() < until {
            std::thread::yield_now();
        }
        self.next(number)
    }
}

fn serve(porter: &Porter, workers: usize, address: &str) -> (RunningServer, RawCaller) {
    let export = DoorServer::new(porter.clone());
    let interface = export.interface();
    let server = Server::new()
        .security(stoop::Security::none())
        .workers(workers)
        .export(export)
        .listen(address)
        .unwrap()
        .start()
        .unwrap();
    let caller = RawCaller::bind(&server, interface, 1);
    (server, caller)
}

const ONE: &str = "udp://127.0.0.1:0";
const WILDCARD: &str = "udp://0.0.0.0:0";

struct RawCaller {
    socket: CallerSocket,
    bound: Bound,
    buffer: Vec<u8>,
    numbers: BTreeMap<u16, u32>,
}

/// A call that was sent.
type Sent = (u16, u32);

impl RawCaller {
    /// Each caller has a nonce of its own.
    fn bind(server: &RunningServer, interface: &stoop::stub::Interface, nonce: u64) -> Self {
        let address = server.uris()[0].strip_prefix("udp://").unwrap().replace("0.0.0.0", "127.0.0.1");
        let socket = CallerSocket::connect(address.parse().unwrap()).unwrap();
        let procedure =
            |p: &stoop::stub::Procedure| Procedure { name: p.name.into(), signature: p.signature() };
        let interface = Interface {
            name: interface.name.into(),
            procedures: interface.procedures.iter().map(procedure).collect(),
            ..Interface::default()
        };
        let begun = Instant::now();
        let now = || stoop_exchange::Instant::from_nanos(begun.elapsed().as_nanos() as u64);
        let limit = now() + Duration::from_secs(10);
        let mut binder = Binder::new(now(), limit, interface, HostFacts::default(), nonce);
        let mut buffer = vec![0; 1 << 16];
        loop {
            if let Some(question) = binder.transmit(now()) {
                socket.send(&question).unwrap();
            }
            let wait = binder.next_timeout().since(now()).max(Duration::from_micros(1));
            let heard = socket.recv_within(&mut buffer, wait.as_nanos() as u64).unwrap();
            let CallerArrival::Datagram(len) = heard else { continue };
            if let BindStep::Bound(bound) = binder.handle_packet(now(), &buffer[..len]) {
                socket.set_gro(true).unwrap();
                socket.set_receive_buffer(4 << 20).unwrap();
                return Self { socket, bound, buffer, numbers: BTreeMap::new() };
            }
        }
    }

    /// A call's packet, filled up to a multiple of 8.
    fn packet(&self, (lane, number): Sent, procedure: usize, argument: u32) -> Vec<u8> {
        let arguments = argument.to_le_bytes();
        let arguments = if procedure == PASS { &[][..] } else { &arguments[..] };
        let mut header = Header::bare(Kind::Call, self.bound.binding, LaneId(lane), CallNumber(number));
        header.procedure = self.bound.procedures[procedure];
        header.message_len = arguments.len() as u32;
        header.time = 60_000_000;
        let mut packet = [&header.to_bytes()[..], arguments].concat();
        packet.resize(40, 0);
        packet
    }

    /// Sends calls of these procedures together, one for each lane from `first_lane` on.
    fn send(&mut self, first_lane: u16, calls: &[(usize, u32)]) -> Vec<Sent> {
        let mut sent = Vec::new();
        for (lane, (procedure, argument)) in (first_lane..).zip(calls) {
            let number = self.numbers.entry(lane).or_default();
            *number += 1;
            sent.push(((lane, *number), *procedure, *argument));
        }
        self.send_packets(&sent);
        sent.into_iter().map(|(call, ..)| call).collect()
    }

    fn send_packets(&self, calls: &[(Sent, usize, u32)]) {
        for calls in calls.chunks(64) {
            let packets: Vec<u8> = calls
                .iter()
                .flat_map(|(call, procedure, argument)| self.packet(*call, *procedure, *argument))
                .collect();
            assert_eq!(self.socket.send_segments(&packets, 40).unwrap(), SegmentsSending::Sent);
        }
    }

    /// Waits for the results of all these calls; there is nothing here that would lose one. One may come twice: what a
    /// server sends by a socket that it gives up at that moment it sends by another once more. A server that shuts down
    /// refuses the next call of each idle lane beforehand.
    fn await_results(&mut self, calls: &[Sent]) -> BTreeMap<Sent, Vec<u8>> {
        let mut results = BTreeMap::new();
        while results.len() < calls.len() {
            for (call, kind, payload) in self.receive() {
                let (lane, number) = call;
                if kind == Kind::Refusal {
                    assert_eq!(
                        Some(number),
                        self.numbers.get(&lane).map(|last| last + 1),
                        "{call:?} was refused"
                    );
                } else if kind != Kind::Result {
                    // On a busy machine the bind was asked for twice.
                    assert!(matches!(kind, Kind::Acknowledgement | Kind::BindReply), "{kind:?}");
                } else if calls.contains(&call) {
                    let same = results.entry(call).or_insert_with(|| payload.clone());
                    assert_eq!(*same, payload, "{call:?} was answered in two ways");
                } else {
                    assert!(number <= self.numbers[&lane], "{call:?} was not asked for");
                }
            }
        }
        results
    }

    /// The packets that come next, together.
    fn receive(&mut self) -> Vec<(Sent, Kind, Vec<u8>)> {
        let CallerArrival::Datagram(segments) = self.socket.recv_segments_blocking(&mut self.buffer).unwrap()
        else {
            return Vec::new();
        };
        let packets = segments.split(&self.buffer).map(|packet| Header::parse(packet).unwrap());
        packets
            .map(|(header, payload)| ((header.lane.0, header.number.0), header.kind, payload.to_vec()))
            .collect()
    }
}

fn numbers(calls: std::ops::Range<u32>) -> Vec<(usize, u32)> {
    calls.map(|number| (NEXT, number)).collect()
}

fn number(result: &[u8]) -> u32 {
    u32::from_le_bytes(result.try_into().unwrap())
}

#[test]
fn calls_that_come_together_are_all_answered_once_with_their_own_results() {
    for address in [ONE, WILDCARD] {
        let porter = Porter::default();
        let (server, mut caller) = serve(&porter, 4, address);
        let mut sum = 0;
        for round in 0..40 {
            let first = round * 1000;
            let count = [1, 2, 31, 64, 65, 200][round as usize % 6];
            let calls = caller.send(0, &numbers(first..first + count));
            let results = caller.await_results(&calls);
            for (at, call) in calls.iter().enumerate() {
                assert_eq!(number(&results[call]), first + at as u32 + 1);
            }
            sum += count;
        }
        let runs = porter.0.runs.lock().unwrap();
        assert_eq!(runs.len(), sum as usize);
        assert!(runs.values().all(|runs| *runs == 1));
        drop(runs);
        assert_eq!(server.counters().calls, u64::from(sum));
    }
}

#[test]
fn a_caller_that_is_alone_and_packs_its_calls_is_served_by_its_dedicated_socket() {
    let porter = Porter::default();
    let (server, mut caller) = serve(&porter, 4, ONE);
    // Nothing is sent again here: that nothing is lost while sockets change is what is tested.
    let mut round = 0;
    // A machine that takes the processor from one worker for another lets the server count anew.
    while round < 100 || server.counters().packet.dedicated == 0 {
        let calls = caller.send(0, &numbers(round * 256..(round + 1) * 256));
        caller.await_results(&calls);
        round += 1;
    }
}

#[test]
fn answers_to_a_batch_come_together() {
    let porter = Porter::default();
    let (_server, mut caller) = serve(&porter, 4, ONE);
    let (mut most, mut round) = (0, 0);
    // The first come before the server expects any together; and on a busy machine each may find it waiting.
    while most < 2 {
        let calls = caller.send(0, &numbers(round * 32..(round + 1) * 32));
        let mut waits: BTreeSet<Sent> = calls.into_iter().collect();
        while !waits.is_empty() {
            let together = caller.receive();
            most = most.max(together.len());
            for (call, ..) in &together {
                waits.remove(call);
            }
        }
        round += 1;
        assert!(round < 10_000, "no two answers came together");
    }
}

#[test]
fn results_of_all_lengths_come_whole() {
    let porter = Porter::default();
    let (_server, mut caller) = serve(&porter, 4, ONE);
    for _ in 0..4 {
        let counts: Vec<u32> = (0..64).map(|at| [0, 3, 100, 1400, 20, 64][at % 6]).collect();
        let calls: Vec<_> = counts.iter().map(|count| (BYTES, *count)).collect();
        let sent = caller.send(0, &calls);
        let results = caller.await_results(&sent);
        for (call, count) in sent.iter().zip(&counts) {
            let expected = [&count.to_le_bytes()[..], &vec![7; *count as usize]].concat();
            assert_eq!(results[call], expected);
        }
    }
}

#[test]
fn a_slow_procedure_in_the_middle_holds_up_none_of_the_others() {
    for address in [ONE, WILDCARD] {
        let porter = Porter::default();
        let (_server, mut caller) = serve(&porter, 4, address);
        // So that calls are expected to come together.
        for round in 0..4 {
            let calls = caller.send(0, &numbers(round * 32..(round + 1) * 32));
            caller.await_results(&calls);
        }
        let mut calls = numbers(1000..1032);
        (calls[3], calls[16]) = ((PASS, 0), (PASS, 0));
        let mut sent = caller.send(0, &calls);
        let slow = [sent.remove(16), sent.remove(3)];
        let results = caller.await_results(&sent);
        assert_eq!(results.len(), 30);
        porter.open();
        caller.await_results(&slow);
    }
}

#[test]
fn with_one_worker_that_is_stuck_the_answers_that_are_there_go_out_and_the_rest_waits() {
    let porter = Porter::default();
    let (_server, mut caller) = serve(&porter, 1, ONE);
    for round in 0..4 {
        let calls = caller.send(0, &numbers(round * 32..(round + 1) * 32));
        caller.await_results(&calls);
    }
    let mut calls = numbers(1000..1032);
    calls[8] = (PASS, 0);
    let sent = caller.send(0, &calls);
    let before = caller.await_results(&sent[..8]);
    assert_eq!(before.len(), 8);
    // Lanes whose calls have been answered take new ones meanwhile.
    let again = caller.send(0, &numbers(2000..2008));
    porter.open();
    caller.await_results(&[&sent[8..], &again].concat());
    let runs = porter.0.runs.lock().unwrap();
    assert!(runs.values().all(|runs| *runs == 1));
}

#[test]
fn calls_known_to_take_long_run_beside_each_other_and_the_short_ones_do_not_wait() {
    let porter = Porter::default();
    let (_server, mut caller) = serve(&porter, 8, ONE);
    for round in 0..4_u32 {
        let calls: Vec<_> =
            (0..16).map(|at| (if at % 4 == 0 { DAWDLE } else { NEXT }, round * 16 + at)).collect();
        let sent = caller.send(0, &calls);
        let results = caller.await_results(&sent);
        for (at, call) in sent.iter().enumerate() {
            assert_eq!(number(&results[call]), round * 16 + at as u32 + 1);
        }
    }
    assert!(porter.0.runs.lock().unwrap().values().all(|runs| *runs == 1));
}

#[test]
fn calls_sent_again_together_are_not_run_again_and_are_answered_again() {
    let porter = Porter::default();
    let (server, mut caller) = serve(&porter, 4, ONE);
    for round in 0..4 {
        let calls = caller.send(0, &numbers(round * 32..(round + 1) * 32));
        caller.await_results(&calls);
    }
    let calls = caller.send(0, &numbers(1000..1032));
    let first = caller.await_results(&calls);
    let again: Vec<_> = calls.iter().zip(1000..).map(|(call, argument)| (*call, NEXT, argument)).collect();
    caller.send_packets(&again);
    assert_eq!(caller.await_results(&calls), first);
    assert!(porter.0.runs.lock().unwrap().values().all(|runs| *runs == 1));
    assert!(server.counters().packet.duplicates >= 32);
}

#[test]
fn two_callers_that_pack_their_calls_get_their_own_results() {
    let porter = Porter::default();
    let (server, mut one) = serve(&porter, 4, ONE);
    let mut other = RawCaller::bind(&server, DoorServer::new(porter.clone()).interface(), 2);
    for round in 0..50 {
        let first = one.send(0, &numbers(round * 100..round * 100 + 40));
        let second = other.send(0, &numbers(100_000 + round * 100..100_000 + round * 100 + 40));
        assert_eq!(number(&one.await_results(&first)[&first[0]]), round * 100 + 1);
        assert_eq!(number(&other.await_results(&second)[&second[0]]), 100_000 + round * 100 + 1);
    }
    assert!(porter.0.runs.lock().unwrap().values().all(|runs| *runs == 1));
}

#[test]
fn a_server_that_shuts_down_answers_the_batch_that_it_has() {
    let porter = Porter::default();
    let (server, mut caller) = serve(&porter, 2, ONE);
    for round in 0..4 {
        let calls = caller.send(0, &numbers(round * 32..(round + 1) * 32));
        caller.await_results(&calls);
    }
    let mut calls = numbers(1000..1032);
    calls[0] = (PASS, 0);
    let sent = caller.send(0, &calls);
    // All of them have arrived when the last is answered.
    caller.await_results(&sent[1..]);
    let stopper = std::thread::spawn(move || server.shut_down());
    porter.open();
    caller.await_results(&sent[..1]);
    stopper.join().unwrap();
}

#[test]
fn single_calls_after_batches_are_served_as_before() {
    let porter = Porter::default();
    let (_server, mut caller) = serve(&porter, 2, ONE);
    for round in 0..4 {
        let calls = caller.send(0, &numbers(round * 32..(round + 1) * 32));
        caller.await_results(&calls);
    }
    // Long enough for the server to expect none together any more; and then some come again.
    for at in 0..600 {
        let call = caller.send(0, &numbers(1000 + at..1001 + at));
        assert_eq!(number(&caller.await_results(&call)[&call[0]]), 1001 + at);
    }
    for round in 0..4 {
        let calls = caller.send(0, &numbers(5000 + round * 64..5000 + (round + 1) * 64));
        caller.await_results(&calls);
    }
    assert!(porter.0.runs.lock().unwrap().values().all(|runs| *runs == 1));
}
