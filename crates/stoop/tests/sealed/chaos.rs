//! A sealed server that is killed again and again: no call runs twice, callers are told the truth, and no argument is on the wire.
//!
//! `STOOP_CHAOS_SECONDS=600 cargo test --release -p stoop --features seal --test sealed chaos -- --nocapture` takes ten minutes for each
//! transport.

use crate::harness::processes::{MARKS, Process, TargetClient, client, serve, started};
use crate::harness::relay::{Relay, Way};
use crate::harness::sealed::{secured, with_key};
use crate::middle::Middle;
use crate::{Folder, over};
use std::collections::{HashMap, HashSet};
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Ran, Server};

over! { udp tcp: [calls_at_a_server_that_is_killed_ran_as_their_callers_are_told_and_no_argument_is_on_the_wire] }

/// In each argument, and so in each result.
const MARKER: &[u8] = b"an argument in the clear";

/// What the wire has carried of all tests, and whether some of it was in the clear.
static CARRIED: AtomicU64 = AtomicU64::new(0);
static SHOWN: AtomicBool = AtomicBool::new(false);

fn shows_argument(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|some| some == MARKER)
}

/// Looks at bytes on the wire.
fn look(bytes: &[u8]) {
    CARRIED.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    SHOWN.fetch_or(shows_argument(bytes), Ordering::Relaxed);
}

fn passed(_: Way, datagram: &[u8]) -> Vec<Vec<u8>> {
    look(datagram);
    vec![datagram.to_vec()]
}

/// The role of a server that seals.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-sealed" {
        return false;
    }
    let (server, uri) = secured(Server::new(), uri);
    serve(server, &uri);
    true
}

/// A port that is free for both ends of a kill.
fn free_port(transport: &str) -> u16 {
    match transport {
        "udp" => UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
        _ => TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
    }
}

/// What stands between the callers and the server at an address, and looks at all bytes.
enum Wire {
    Udp(Relay),
    Tcp(Middle),
}

impl Wire {
    fn to(transport: &str, port: u16) -> Self {
        match transport {
            "udp" => Self::Udp(Relay::to(&format!("127.0.0.1:{port}"), passed)),
            _ => Self::Tcp(Middle::new(&with_key(&format!("tcp://127.0.0.1:{port}")), |frame| {
                look(&frame.bytes);
                vec![frame.bytes.clone()]
            })),
        }
    }

    fn uri(&self) -> String {
        match self {
            Self::Udp(relay) => with_key(&relay.uri),
            Self::Tcp(middle) => middle.uri.clone(),
        }
    }

    /// Forgets what it has looked at.
    fn clear(&self) {
        if let Self::Tcp(middle) = self {
            middle.seen.lock().unwrap().clear();
        }
    }
}

fn duration() -> Duration {
    let told = std::env::var("STOOP_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(told.unwrap_or(6))
}

/// Outcomes of calls by their numbers.
type Ends = Mutex<HashMap<u64, Ran>>;

/// Calls until it is told to stop, each time with another number.
fn call(
    client: &TargetClient,
    len: usize,
    (next, good, done): (&AtomicU64, &AtomicU64, &AtomicBool),
    ends: &Ends,
) {
    let bytes: Vec<u8> = MARKER.iter().copied().cycle().take(len.max(MARKER.len())).collect();
    while !done.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let outcome = client.mark(number, &bytes);
        let ran = outcome.as_ref().map_or_else(|why| why.ran(), |_| Ran::Yes);
        if let Ok(result) = outcome {
            assert!(result == bytes);
            good.fetch_add(1, Ordering::Relaxed);
        }
        ends.lock().unwrap().insert(number, ran);
    }
}

fn calls_at_a_server_that_is_killed_ran_as_their_callers_are_told_and_no_argument_is_on_the_wire(
    transport: &str,
) {
    let (folder, port) = (Folder::new(), free_port(transport));
    let marks = folder.file("marks");
    std::fs::write(&marks, "").unwrap();
    let at = with_key(&format!("{transport}://127.0.0.1:{port}"));
    let start = || {
        let mut server = Process::spawn(Process::command("serve-sealed", &at).env(MARKS, &marks));
        server.await_line("ready");
        server
    };
    let (mut server, wire) = (start(), Wire::to(transport, port));
    let options = BindOptions::new().timeout(Duration::from_secs(5));
    let client = TargetClient::bind_with(&wire.uri(), &options).unwrap();
    let (next, good, done, ends) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false), Ends::default());
    let mut deaths = 0;
    thread::scope(|scope| {
        for len in [0, 100, 1400, 3000, 100_000] {
            let (client, counts, ends) = (&client, (&next, &good, &done), &ends);
            scope.spawn(move || call(client, len, counts, ends));
        }
        let until = Instant::now() + duration();
        while deaths == 0 || Instant::now() < until {
            // Other numbers each time, and calls of every length are under way.
            let calls = good.load(Ordering::Relaxed) + 20 + 37 * deaths % 200;
            crate::harness::eventually(|| good.load(Ordering::Relaxed) > calls);
            server.kill();
            server = start();
            wire.clear();
            deaths += 1;
        }
        let calls = good.load(Ordering::Relaxed);
        crate::harness::eventually(|| good.load(Ordering::Relaxed) > calls + 10);
        done.store(true, Ordering::Relaxed);
    });
    let marks = std::fs::read(&marks).unwrap();
    let (marks, _) = marks.as_chunks::<8>();
    let ran: HashSet<_> = marks.iter().map(|mark| u64::from_ne_bytes(*mark)).collect();
    assert_eq!(ran.len(), marks.len(), "a call ran twice");
    let ends = ends.into_inner().unwrap();
    for (number, told) in &ends {
        match told {
            Ran::Yes => assert!(ran.contains(number), "{number} did not run"),
            Ran::No => assert!(!ran.contains(number), "{number} ran"),
            Ran::Perhaps => {}
        }
    }
    let carried = CARRIED.load(Ordering::Relaxed);
    assert!(carried > 0 && !SHOWN.load(Ordering::Relaxed), "an argument was in the clear");
    let count = |what| ends.values().filter(|told| **told == what).count();
    println!(
        "{transport}: {deaths} deaths; {} ran, {} did not, {} unknown; 0 of {carried} bytes on the wire in the clear",
        count(Ran::Yes),
        count(Ran::No),
        count(Ran::Perhaps)
    );
}

/// Whether a plain call has shown its argument.
static PLAIN_SHOWN: AtomicBool = AtomicBool::new(false);

#[test]
fn the_argument_of_a_plain_call_is_found_on_the_wire() {
    let server = started(Server::new(), "udp://127.0.0.1:0");
    let relay = Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), |_, datagram| {
        PLAIN_SHOWN.fetch_or(shows_argument(datagram), Ordering::Relaxed);
        vec![datagram.to_vec()]
    });
    assert_eq!(client(&relay.uri).echo(MARKER).unwrap(), MARKER);
    assert!(PLAIN_SHOWN.load(Ordering::Relaxed));
}
