//! Measures round trips between two endpoints on a private Ethernet: `cargo run --release -p stoop-ether
//! --example round_trip`.
//!
//! Needs root, iproute2 and two processors. Prints medians and other quantiles for frames of 64 and 1,514
//! bytes, each mechanism, and a receiver that spins or sleeps. `checksum` as an argument: with CRC-32C; else
//! without, so that the figures can be compared with the bare mechanism. `--round-trips N`, `--frames N` in
//! each ring, `--idle N` more endpoints of the caller; and words that choose among the lines, such as `ring`.

#[path = "../tests/network/mod.rs"]
mod network;

use network::{BACKENDS, Ethernet};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use stoop_ether::frame::{Checksum, OVERHEAD};
use stoop_ether::{Arrival, Endpoint, Options};

/// How a receiver waits.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    Spin,
    Sleep,
}

/// The processors of caller and server.
const PLACES: [(&str, [usize; 2]); 2] = [("two processors", [0, 1]), ("one processor", [1, 1])];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |option: &str| {
        words.iter().position(|word| word == option).and_then(|at| words.get(at + 1)?.parse::<usize>().ok())
    };
    let (count, frames) = (number("--round-trips"), number("--frames"));
    let idle = number("--idle").unwrap_or(0);
    let computed = words.iter().any(|word| word == "checksum");
    let checksum = if computed { Checksum::Computed } else { Checksum::Omitted };
    let chosen: Vec<&String> = words
        .iter()
        .filter(|word| !word.starts_with("--") && *word != "checksum" && word.parse::<u32>().is_err())
        .collect();
    let Some(ethernet) = Ethernet::make("round_trip", 1500) else { return };
    println!("nanoseconds a round trip: least, median, 99 %");
    for (place, processors) in PLACES {
        for wait in [Wait::Spin, Wait::Sleep] {
            if wait == Wait::Spin && processors[0] == processors[1] {
                continue;
            }
            for backend in BACKENDS {
                for frame_len in [64, 1514] {
                    let mut options = Options::of_many_lanes();
                    options.frames = frames.unwrap_or(options.frames);
                    let server = ethernet.b.listen(7400, backend, &options).unwrap();
                    let caller = ethernet.a.connect(backend, &options).unwrap();
                    // AF_XDP has one.
                    let connect = |_| ethernet.a.connect(backend, &options);
                    let _idle: Vec<Endpoint> = (0..idle).map_while(|at| connect(at).ok()).collect();
                    let waiting = if wait == Wait::Spin { "spinning" } else { "sleeping" };
                    let line = format!("{caller}, {place}, {waiting}, {frame_len} bytes");
                    if !chosen.iter().all(|word| line.contains(&***word)) {
                        continue;
                    }
                    let count = count.unwrap_or(if wait == Wait::Spin { 50_000 } else { 5_000 });
                    let times = measure(&caller, &server, processors, wait, checksum, frame_len, count);
                    println!("{line:80} {:6} {:6} {:6}", times[0], times[count / 2], times[count * 99 / 100]);
                }
            }
        }
    }
}

/// The times of `count` round trips in nanoseconds, sorted.
fn measure(
    caller: &Endpoint,
    server: &Endpoint,
    processors: [usize; 2],
    wait: Wait,
    checksum: Checksum,
    frame_len: usize,
    count: usize,
) -> Vec<u64> {
    let end = AtomicBool::new(false);
    let mut times = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(processors[1]);
            let mut buffer = [0; 2048];
            let back = server.template(caller.address(), checksum);
            while let Some(len) = next(server, wait, &mut buffer, &end) {
                server.send(&back, &buffer[..len]).unwrap();
            }
        });
        let times = scope.spawn(|| {
            pin(processors[0]);
            let (packet, mut buffer) = (vec![0x5a; frame_len - OVERHEAD], [0; 2048]);
            let to = caller.template(server.address(), checksum);
            let round_trip = |_| {
                let start = Instant::now();
                caller.send(&to, &packet).unwrap();
                next(caller, wait, &mut buffer, &AtomicBool::new(false));
                start.elapsed().as_nanos() as u64
            };
            let warm = count / 10;
            (0..warm + count).map(round_trip).skip(warm).collect::<Vec<_>>()
        });
        let times = times.join().unwrap();
        end.store(true, Ordering::Relaxed);
        server.wake();
        times
    });
    times.sort_unstable();
    times
}

fn next(endpoint: &Endpoint, wait: Wait, buffer: &mut [u8], end: &AtomicBool) -> Option<usize> {
    loop {
        let arrival = match wait {
            Wait::Spin => endpoint.receive(buffer),
            Wait::Sleep => endpoint.receive_within(buffer, None).unwrap(),
        };
        match arrival {
            Arrival::Packet { len, .. } => return Some(len),
            _ if end.load(Ordering::Relaxed) => return None,
            _ => {}
        }
    }
}

fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).unwrap();
}
