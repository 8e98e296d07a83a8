//! Memory of a server's process after long calls, when all its callers have gone.
//!
//! `STOOP_SOAK_MIB=16 cargo test --release -p stoop --test memory soak:: -- --nocapture --test-threads=1` takes the server to about
//! 500 MB, and prints what is left after ten seconds. Without the variable the calls are shorter.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use crate::harness::ethernet;
use crate::harness::processes::{Process, name, patient};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use stoop::Server;

#[stoop::interface]
trait Press {
    fn null(&self);
    /// Returns the bytes when the calls of all callers run.
    fn press(&self, bytes: Vec<u8>) -> Vec<u8>;
}

/// Callers, each with a binding of its own.
const CALLERS: usize = 11;
/// Bytes that may stay.
const MAY_STAY: usize = 32 << 20;
/// A process that has not given its memory back by then will not.
const LIMIT: Duration = Duration::from_secs(120);

struct Together(Barrier);

impl Press for Together {
    fn null(&self) {}
    fn press(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.0.wait();
        bytes
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-pressed" {
        return false;
    }
    let server = Server::new()
        .security(stoop::Security::none())
        .export(PressServer::new(Together(Barrier::new(CALLERS))));
    let server = server.listen(uri).unwrap().start().unwrap();
    println!("{}", server.uris()[0]);
    server.wait();
    true
}

/// Bytes of memory that a process has, or has had at most; `None` where the system does not tell.
fn memory(server: &Process, field: &str) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?;
    kib.parse::<usize>().ok().map(|kib| kib << 10)
}

fn resident(server: &Process) -> usize {
    memory(server, "VmRSS:").expect("the server is alive")
}

/// Bytes of a call's argument, and of its result, if another length is wanted than that of every test.
fn soak_len() -> Option<usize> {
    std::env::var("STOOP_SOAK_MIB").ok().map(|mib| mib.parse::<usize>().expect("a number of MiB") << 20)
}

/// Calls of all callers at once, three times.
fn press(uri: &str, len: usize) {
    thread::scope(|scope| {
        for value in 0..CALLERS {
            scope.spawn(move || {
                let client = PressClient::bind_with(uri, &patient(uri)).unwrap();
                let bytes = vec![value as u8; len];
                for _ in 0..3 {
                    assert!(client.press(bytes.clone()).unwrap() == bytes);
                }
            });
        }
    });
}

fn memory_comes_back(address: &str) {
    memory_comes_back_of(Process::start("serve-pressed", address), address);
}

fn memory_comes_back_of(mut server: Process, address: &str) {
    let uri = loop {
        let line = server.next_line();
        if line.starts_with(address.split(':').next().unwrap()) {
            break line;
        }
    };
    let Some(before) = memory(&server, "VmRSS:") else {
        println!("skipped: /proc does not tell the memory of a process here");
        return;
    };
    let len = soak_len().unwrap_or(4 << 20);
    press(&uri, len);
    let ended = Instant::now();
    let peak = memory(&server, "VmHWM:").unwrap();
    assert!(peak > before + CALLERS * len, "the calls took {peak} bytes");
    while resident(&server) > before + MAY_STAY {
        assert!(ended.elapsed() < LIMIT, "{address}: {before} bytes before, {} after", resident(&server));
        // No event tells that a process has less memory: its figure is read again and again.
        thread::sleep(Duration::from_millis(50));
    }
    report(address, &server, [before, peak], ended);
}

fn report(address: &str, server: &Process, [before, peak]: [usize; 2], ended: Instant) {
    let mb = |bytes: usize| bytes as f64 / 1e6;
    let down = ended.elapsed();
    if soak_len().is_some() {
        // A soak by hand also reports how much memory stays after ten seconds.
        thread::sleep(Duration::from_secs(10).saturating_sub(down));
    }
    println!(
        "{address}: {:.1} MB before, {:.1} at the peak, down after {down:.1?}, {:.1} after {:.1?}",
        mb(before),
        mb(peak),
        mb(resident(server)),
        ended.elapsed()
    );
}

#[test]
fn memory_comes_back_over_udp() {
    memory_comes_back("udp://127.0.0.1:0");
}

#[test]
fn memory_comes_back_over_tcp() {
    memory_comes_back("tcp://127.0.0.1:0");
}

#[test]
fn memory_comes_back_over_unix_sockets() {
    memory_comes_back(&name().replace("shm:", "unix:@"));
}

#[test]
fn memory_comes_back_over_shared_memory() {
    memory_comes_back(&name());
}

#[test]
fn memory_comes_back_over_ethernet() {
    for backend in ["", "?backend=xdp-generic", "?backend=xdp"] {
        if !ethernet::enter() {
            return;
        }
        let address = ethernet::address(backend);
        let server = ethernet::at_servers(|| Process::start("serve-pressed", &address));
        memory_comes_back_of(server, &address);
    }
}
