//! Two servers at two addresses of one name: what becomes of calls when the one in use is killed, or shuts down.

use crate::harness::gate::Gate;
use crate::harness::hosts_file::{NAME, Names};
use crate::harness::processes::Process;
use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, Ran, RunningServer, Server};

#[stoop::interface]
trait Worker {
    /// The server's process, and its number.
    fn identity(&self) -> (u32, u64);
    /// Appends a number to a file that outlives the server, and returns it.
    fn record(&self, file: &str, number: u64) -> u64;
    /// Records a number, prints a line at the server, and returns when the gate is open.
    fn hang(&self, file: &str, number: u64);
}

#[derive(Clone, Default)]
struct Desk {
    number: u64,
    gate: Gate,
}

impl Worker for Desk {
    fn identity(&self) -> (u32, u64) {
        (std::process::id(), self.number)
    }

    fn record(&self, file: &str, number: u64) -> u64 {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(&number.to_le_bytes()).unwrap();
        number
    }

    fn hang(&self, file: &str, number: u64) {
        self.record(file, number);
        println!("hangs");
        self.gate.pass();
    }
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

fn start(uri: &str, desk: &Desk) -> RunningServer {
    Server::new().export(WorkerServer::new(desk.clone())).listen(uri).unwrap().start().unwrap()
}

fn bind(scheme: &str, port: u16) -> WorkerClient {
    let options = BindOptions::new().timeout(LONG).bind_timeout(LONG);
    WorkerClient::bind_with(&format!("{scheme}://{NAME}:{port}"), &options).unwrap()
}

/// A port that is free at the addresses of these numbers. No other test uses them.
fn free_port(numbers: [u64; 2]) -> u16 {
    let bind = |number, port| UdpSocket::bind((format!("127.0.7.{number}"), port));
    loop {
        let first = bind(numbers[0], 0).unwrap();
        let port = first.local_addr().unwrap().port();
        if bind(numbers[1], port).is_ok() {
            return port;
        }
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-at-desk" {
        return false;
    }
    let server = start(uri, &Desk::default());
    println!("ready");
    server.wait();
    true
}

/// Starts a server in another process, at the address of that number, and waits until it listens.
fn start_process(scheme: &str, number: u64, port: u16) -> Process {
    let mut process = Process::start("serve-at-desk", &format!("{scheme}://127.0.7.{number}:{port}"));
    process.await_line("ready");
    process
}

/// The numbers that were recorded in a file.
fn recorded(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

fn file_of(numbers: [u64; 2]) -> PathBuf {
    let file = std::env::temp_dir().join(format!("stoop-two-{}-{}", std::process::id(), numbers[0]));
    fs::write(&file, "").unwrap();
    file
}

/// Checks that a call ran as often as its caller was told.
fn check(number: u64, outcome: Result<u64, CallError>, ran: &[u64]) {
    let times = ran.iter().filter(|other| **other == number).count();
    match outcome {
        Ok(result) => assert_eq!((result, times), (number, 1), "it has run once"),
        Err(error) => match error.ran() {
            Ran::No => assert_eq!(times, 0, "{number} has run: {error}"),
            Ran::Yes => assert_eq!(times, 1, "{number} has not run: {error}"),
            Ran::Perhaps => assert!(times <= 1, "{number} has run {times} times: {error}"),
        },
    }
}

/// Kills the server that runs calls of both kinds and gets others; the next call goes to the other server.
fn killed_in_use(scheme: &str, numbers: [u64; 2]) {
    let Some(names) = Names::new() else { return };
    let (port, file) = (free_port(numbers), file_of(numbers));
    let mut first = start_process(scheme, numbers[0], port);
    let second = start_process(scheme, numbers[1], port);
    names.lead_to(&numbers);
    let client = bind(scheme, port);
    assert_eq!(client.identity().unwrap().0, first.pid());
    let path = file.to_str().unwrap();
    let begun_hang = client.begin().hang(path, 1);
    thread::scope(|scope| {
        let blocking_hang = scope.spawn(|| client.hang(path, 2));
        first.await_line("hangs");
        first.await_line("hangs");
        let begin = client.begin();
        let begun: Vec<_> = (10..60).map(|number| (number, begin.record(path, number))).collect();
        drop(begin);
        first.kill();
        let hung = [(1, begun_hang.wait()), (2, blocking_hang.join().unwrap())];
        let outcomes: Vec<_> = begun.into_iter().map(|(number, call)| (number, call.wait())).collect();
        let ran = recorded(&file);
        for (number, outcome) in hung {
            let error = outcome.expect_err("its server was killed");
            assert_eq!(error.ran(), Ran::Perhaps, "{number}: {error}");
        }
        outcomes.into_iter().for_each(|(number, outcome)| check(number, outcome, &ran));
    });
    assert_eq!(client.identity().unwrap().0, second.pid(), "the next call goes to the other server");
    fs::remove_file(file).unwrap();
}

#[test]
fn after_a_kill_calls_over_udp_go_to_the_other_server() {
    killed_in_use("udp", [20, 21]);
}

#[test]
fn after_a_kill_calls_over_tcp_go_to_the_other_server() {
    killed_in_use("tcp", [22, 23]);
}

#[test]
fn begun_calls_go_to_the_next_server_while_the_one_that_shuts_down_runs_others() {
    let Some(names) = Names::new() else { return };
    let (numbers, gate) = ([24, 25], Gate::default());
    let (port, file) = (free_port(numbers), file_of(numbers));
    let [first, second] = numbers
        .map(|number| start(&format!("udp://127.0.7.{number}:{port}"), &Desk { number, gate: gate.clone() }));
    names.lead_to(&numbers);
    let client = bind("udp", port);
    let path = file.to_str().unwrap();
    let hangs = client.begin().hang(path, 1);
    thread::scope(|scope| {
        let _opens = gate.open_on_drop();
        hangs.is_ready();
        gate.await_inside(1);
        scope.spawn(|| first.shut_down());
        let begun_number = || client.begin().identity().wait().unwrap().1;
        while begun_number() == numbers[0] {}
        let begin = client.begin();
        let calls: Vec<_> = (10..110).map(|number| begin.record(path, number)).collect();
        drop(begin);
        for (number, call) in (10..).zip(calls) {
            assert_eq!(call.wait().unwrap(), number);
        }
        assert_eq!(begun_number(), numbers[1]);
        assert!(!hangs.is_ready(), "the first server runs it still");
        gate.open();
        hangs.wait().unwrap();
        assert_eq!(begun_number(), numbers[1]);
    });
    let mut ran = recorded(&file);
    ran.sort_unstable();
    assert!(ran.into_iter().eq([1].into_iter().chain(10..110)), "each has run once");
    second.shut_down();
    fs::remove_file(file).unwrap();
}
