//! A server that is replaced again and again under load: no call fails, and each runs once, idempotent or not.

use crate::harness::passed_sockets;
use crate::harness::passed_sockets::{Sockets, patient};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, Ran, Server};

#[stoop::interface]
trait Ledger {
    /// Records a number, and returns it.
    fn record(&self, file: &str, number: u64) -> u64;
    #[one_way]
    fn note(&self, file: &str, number: u64);
}

struct Book;

impl Ledger for Book {
    fn record(&self, file: &str, number: u64) -> u64 {
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(&number.to_le_bytes()).unwrap();
        number
    }

    fn note(&self, file: &str, number: u64) {
        self.record(file, number);
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, addresses: &str) -> bool {
    if role != "serve-ledger" {
        return false;
    }
    passed_sockets::serve(|| {
        let server = Server::new().export(LedgerServer::new(Book));
        addresses.split(' ').try_fold(server, |server, uri| server.listen(uri))?.start()
    });
    true
}

/// The numbers that were recorded in a file, in rising order.
fn recorded(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    let mut numbers: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    numbers.sort_unstable();
    numbers
}

/// Calls on their way together.
const TOGETHER: usize = 20;
const RESTARTS: usize = 4;

/// A client's calls of all kinds, until it is told to end.
struct Load<'a> {
    client: LedgerClient,
    file: &'a str,
    next: AtomicU64,
    /// Calls that have ended, of each caller.
    made: [AtomicU64; 4],
    ends: AtomicBool,
    /// Where packets can be lost, calls may fail, if they say truly whether they ran. The numbers of those that have failed.
    failed: Option<Mutex<Vec<u64>>>,
}

impl Load<'_> {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn check(&self, number: u64, result: Result<u64, CallError>) {
        match (result, &self.failed) {
            (Err(error), Some(failed)) if error.ran() != Ran::Yes => failed.lock().unwrap().push(number),
            (result, _) => assert_eq!(result.unwrap(), number),
        }
    }

    fn block(&self, made: &AtomicU64) {
        while !self.ends.load(Ordering::Relaxed) {
            let number = self.number();
            self.check(number, self.client.record(self.file, number));
            made.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn begin(&self, made: &AtomicU64) {
        while !self.ends.load(Ordering::Relaxed) {
            let begin = self.client.begin();
            let calls: Vec<_> = (0..TOGETHER).map(|_| self.number()).collect();
            let calls: Vec<_> =
                calls.iter().map(|number| (*number, begin.record(self.file, *number))).collect();
            drop(begin);
            for (number, call) in calls {
                self.check(number, call.wait());
                made.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn tell(&self, made: &AtomicU64) {
        while !self.ends.load(Ordering::Relaxed) {
            let number = self.number();
            self.check(number, self.client.note(self.file, number).map(|()| number));
            let number = self.number();
            self.check(number, self.client.record(self.file, number));
            made.fetch_add(2, Ordering::Relaxed);
        }
    }
}

/// Replaces the server at one of the passed sockets. The next one is there before the one before it shuts down.
fn replace_under_load(choose: impl Fn(&Sockets) -> String) {
    replace_under_load_of(&patient(), None, choose);
}

/// As [`replace_under_load`], of a client with these options.
fn replace_under_load_of(
    options: &BindOptions,
    failed: Option<Mutex<Vec<u64>>>,
    choose: impl Fn(&Sockets) -> String,
) {
    let sockets = Sockets::new();
    let uri = choose(&sockets);
    let (mut process, said) = sockets.serve("serve-ledger", &uri);
    assert!(said.starts_with("ready"), "{said}");
    let file: PathBuf = sockets.path.with_extension("ledger");
    fs::write(&file, "").unwrap();
    let load = Load {
        client: LedgerClient::bind_with(&uri, options).unwrap(),
        file: file.to_str().unwrap(),
        next: AtomicU64::new(0),
        made: Default::default(),
        ends: AtomicBool::new(false),
        failed,
    };
    thread::scope(|scope| {
        let callers = [
            scope.spawn(|| load.block(&load.made[0])),
            scope.spawn(|| load.block(&load.made[1])),
            scope.spawn(|| load.begin(&load.made[2])),
            scope.spawn(|| load.tell(&load.made[3])),
        ];
        let go_on = || {
            // All that began before the last restart have ended then. A call may lose two sessions: on a busy machine the others are fast
            // enough for it to lose more.
            let enough = load.made.each_ref().map(|made| made.load(Ordering::Relaxed) + TOGETHER as u64);
            let are_enough = || {
                let sum: u64 = load.made.iter().map(|made| made.load(Ordering::Relaxed)).sum();
                sum >= enough.iter().sum::<u64>() + 16 * TOGETHER as u64
                    && load
                        .made
                        .iter()
                        .zip(&enough)
                        .all(|(made, enough)| made.load(Ordering::Relaxed) >= *enough)
            };
            while !are_enough() && !callers.iter().any(|caller| caller.is_finished()) {
                thread::yield_now();
            }
        };
        for _ in 0..RESTARTS {
            go_on();
            let (next, said) = sockets.serve("serve-ledger", &uri);
            assert!(said.starts_with("ready"), "{said}");
            process.end();
            process = next;
        }
        go_on();
        load.ends.store(true, Ordering::Relaxed);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    let all = load.next.load(Ordering::Relaxed);
    load.client.close(Duration::from_secs(60)).unwrap();
    process.end();
    let failed = load.failed.map_or_else(Vec::new, |failed| failed.into_inner().unwrap());
    assert!(failed.len() as u64 <= all / 10, "{} of {all} calls have failed", failed.len());
    let mut ran = recorded(&file);
    assert!(ran.is_sorted_by(|one, next| one < next), "no call has run twice");
    ran.retain(|number| !failed.contains(number));
    assert!(
        ran.into_iter().eq((0..all).filter(|number| !failed.contains(number))),
        "each other has run once"
    );
    fs::remove_file(file).unwrap();
}

#[test]
fn no_call_over_tcp_fails_or_runs_twice() {
    replace_under_load(|sockets| sockets.uris()[0].clone());
}

#[test]
fn no_call_over_unix_sockets_fails_or_runs_twice() {
    replace_under_load(|sockets| sockets.uris()[2].clone());
}

#[test]
fn no_call_over_shared_memory_fails_or_runs_twice() {
    replace_under_load(|sockets| sockets.uris()[2].replace("unix:", "shm:"));
}

/// Only one server at a time receives at a UDP socket: the next one begins when the one before it has ended, and callers wait for it.
#[test]
fn no_call_over_udp_runs_twice_and_each_with_a_result_has_run() {
    let waits = patient().wait_for_server(Duration::from_secs(60));
    replace_under_load_of(&waits, Some(Mutex::default()), |sockets| sockets.uris()[1].clone());
}
