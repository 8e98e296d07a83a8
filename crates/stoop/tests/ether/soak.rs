//! Calls of random lengths on an Ethernet whose interface goes down, and whose servers are started again under their name; and what
//! the process holds afterwards.
//!
//! `STOOP_SOAK_ROUNDS=100 cargo test --release -p stoop --test ether soak:: -- --nocapture` goes on for longer.

use crate::harness::ethernet;
use crate::harness::processes::alone;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, Ran, RunningServer, Server};

#[stoop::interface]
trait Soak {
    /// Counts a run of this call and returns the bytes.
    fn add(&self, id: u64, bytes: Vec<u8>) -> Vec<u8>;
}

/// How often each call has run, at all servers together.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<HashMap<u64, u32>>>);

impl Soak for Runs {
    fn add(&self, id: u64, bytes: Vec<u8>) -> Vec<u8> {
        *self.0.lock().unwrap().entry(id).or_default() += 1;
        bytes
    }
}

const CALLERS: u64 = 3;
const CALLS: u64 = 40;
/// Longer than the interface is down and the server is gone.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of memory that an allocator may keep.
const MAY_STAY: usize = 48 << 20;

fn rounds() -> u64 {
    std::env::var("STOOP_SOAK_ROUNDS").map_or(3, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Descriptors of this process, and bytes of its memory.
fn held() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = resident.split_whitespace().next().unwrap().parse().unwrap();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), kib << 10)
}

fn start(uri: &str, runs: &Runs) -> RunningServer {
    ethernet::at_servers(|| {
        Server::new()
            .security(stoop::Security::none())
            .export(SoakServer::new(runs.clone()))
            .listen(uri)
            .unwrap()
            .start()
            .unwrap()
    })
}

/// A number that depends on `seed` alone (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
fn random(seed: u64) -> u64 {
    let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The argument of a call: mostly short, sometimes long.
fn argument(id: u64) -> Vec<u8> {
    let (chance, content) = (random(id), random(!id).to_le_bytes());
    let len = match chance % 8 {
        0 => chance >> 8 & 0x3_ffff,
        1 | 2 => chance >> 8 & 0x1fff,
        _ => chance >> 8 & 0x1ff,
    };
    content.into_iter().cycle().take(len as usize).collect()
}

/// Makes one caller's calls, half of them begun; each result is the call's own.
fn call(client: &SoakClient, first: u64, ended: &Ended) -> Vec<(u64, Result<(), CallError>)> {
    let one = |id: u64| {
        let bytes = argument(id);
        let result = match id % 2 {
            0 => client.add(id, bytes.clone()),
            _ => client.begin().add(id, bytes.clone()).wait(),
        };
        ended.add_one();
        (id, result.map(|result| assert!(result == bytes, "call {id} got another result")))
    };
    (first..first + CALLS).map(one).collect()
}

/// Calls that have ended.
#[derive(Default)]
struct Ended(Mutex<u64>, Condvar);

impl Ended {
    fn add_one(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    fn wait_for_more_than(&self, calls: u64) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |ended| *ended <= calls).unwrap());
    }
}

/// All callers call while the interface goes down and comes up, and while the server is started again.
fn round(uri: &str, number: u64) {
    let runs = Runs::default();
    let server = start(uri, &runs);
    let options = BindOptions::new().timeout(Duration::from_secs(2)).bind_timeout(LIMIT);
    let client = SoakClient::bind_with(uri, &options).unwrap();
    let ended = Ended::default();
    let (ends, _server) = thread::scope(|scope| {
        let first = |caller| (number * CALLERS + caller) * CALLS;
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (client, ended) = (&client, &ended);
                scope.spawn(move || call(client, first(caller), ended))
            })
            .collect();
        ended.wait_for_more_than(CALLS / 2);
        ethernet::ip("link set {} down");
        ethernet::ip("link set {} up");
        ended.wait_for_more_than(CALLS);
        server.shut_down();
        drop(server);
        let server = start(uri, &runs);
        let ends: Vec<_> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        (ends, server)
    });
    // Calls that begin while the interface is down, or no server is there, fail at once or at their deadlines.
    ethernet::wait_for(|| client.add(u64::MAX, vec![1]).map_err(|why| why.to_string()));
    check(&runs, &ends);
}

/// Compares what ran with what the callers were told.
fn check(runs: &Runs, ends: &[(u64, Result<(), CallError>)]) {
    let runs = runs.0.lock().unwrap();
    for (id, end) in ends {
        let times = runs.get(id).copied().unwrap_or(0);
        match end.as_ref().map_or_else(CallError::ran, |()| Ran::Yes) {
            Ran::Yes => assert_eq!(times, 1, "call {id}: {end:?}"),
            Ran::No => assert_eq!(times, 0, "call {id}: {end:?}"),
            Ran::Perhaps => assert!(times <= 1, "call {id}: {end:?}"),
        }
    }
    assert!(ends.iter().any(|(_, end)| end.is_ok()));
}

#[test]
fn servers_that_are_started_again_lose_no_call_and_leave_nothing_behind() {
    alone(|| {
        for (backend, parameters) in ["", "?backend=xdp-generic", "?backend=xdp"].into_iter().enumerate() {
            if !ethernet::enter() {
                return;
            }
            let uri = format!("ether://{}/soak{parameters}", ethernet::INTERFACE);
            let soak = |number| round(&uri, (backend as u64 * 1_000_000) + number);
            // What the first round makes for the whole process stays.
            soak(0);
            let (descriptors, memory) = held();
            (1..rounds()).for_each(soak);
            // Other threads give them back.
            ethernet::wait_for(|| match held() {
                (now, bytes) if now <= descriptors && bytes <= memory + MAY_STAY => Ok(()),
                (now, bytes) => {
                    Err(format!("{now} descriptors, {bytes} bytes; before {descriptors}, {memory}"))
                }
            });
            println!(
                "{uri}: {descriptors} descriptors and {memory} bytes after one round, {:?} at the end",
                held()
            );
        }
    });
}
