//! What is seen over shared memory when a server or a client is killed or stopped at any moment: real processes.

use crate::harness::eventually;
use crate::harness::processes;
use crate::harness::processes::{MARKS, Process, TargetClient, alone, client, holds, is_no_more, name};
use crate::harness::shm_peer::Dice;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stoop::error::UnknownCause;
use stoop::{BindOptions, CallError, Ran, Server};

/// How often something is killed: each time at another moment.
fn deaths() -> u64 {
    std::env::var("STOOP_TEST_DEATHS").map_or(40, |deaths| deaths.parse().unwrap())
}

/// Does nothing for a while that only the dice know.
fn dawdle(dice: &mut Dice) {
    let looks = 1 << dice.below(22);
    for _ in 0..dice.below(looks) {
        std::hint::spin_loop();
    }
}

/// A file of this process, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(what: &str) -> Self {
        Self(std::env::temp_dir().join(format!("stoop-test-{}-{what}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn calls_in_progress_when_a_server_is_killed_ran_as_their_callers_are_told() {
    alone(|| {
        let marks = Scratch::new("marks");
        std::fs::write(&marks.0, "").unwrap();
        let uri = name();
        let start = || {
            let mut server = Process::spawn(Process::command("serve", &uri).env(MARKS, &marks.0));
            server.await_line("ready");
            server
        };
        let mut server = start();
        // A first binding, because a process keeps some descriptors from its first binding on.
        drop(client(&uri));
        let held = holds("/proc/self");
        let (done, next, good) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let ends = Mutex::new(HashMap::new());
        let client = client(&uri);
        thread::scope(|scope| {
            for len in [0, 0, 3000, 200_000, 2_000_000] {
                let (client, done, next, good, ends) = (&client, &done, &next, &good, &ends);
                scope.spawn(move || {
                    let bytes = vec![len as u8; len];
                    while !done.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let ran = match client.mark(number, &bytes) {
                            Ok(result) => {
                                assert!(result == bytes);
                                good.fetch_add(1, Ordering::Relaxed);
                                Ran::Yes
                            }
                            Err(CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }) => {
                                Ran::Perhaps
                            }
                            // No server listens until the next one has started.
                            Err(error @ CallError::NotSent(..)) => error.ran(),
                            Err(error) => panic!("{error}"),
                        };
                        ends.lock().unwrap().insert(number, ran);
                    }
                });
            }
            let mut dice = Dice(deaths());
            for _ in 0..deaths() {
                let calls = good.load(Ordering::Relaxed) + dice.below(50);
                eventually(|| good.load(Ordering::Relaxed) > calls);
                dawdle(&mut dice);
                server.kill();
                server = start();
            }
            let calls = good.load(Ordering::Relaxed);
            eventually(|| good.load(Ordering::Relaxed) > calls + 10);
            done.store(true, Ordering::Relaxed);
        });
        drop(client);
        eventually(|| is_no_more(holds("/proc/self"), held));
        eventually(|| server.holds().1 == 0);
        let marks = std::fs::read(&marks.0).unwrap();
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
        let count = |what| ends.values().filter(|told| **told == what).count();
        println!("{} ran, {} did not, {} unknown", count(Ran::Yes), count(Ran::No), count(Ran::Perhaps));
    });
}

#[test]
fn a_client_that_is_killed_leaves_nothing_at_the_server_and_others_go_on() {
    let uri = name();
    let server = Process::server(&uri);
    let mut honest = Process::start("call", &uri);
    honest.await_line("lap");
    let own = client(&uri);
    assert_eq!(own.bindings().unwrap(), 2);
    let held = server.holds();
    let mut dice = Dice(deaths());
    for death in 0..deaths() {
        let mut victim = Process::start(if death % 2 == 0 { "call" } else { "fetch" }, &uri);
        // Some are killed before they are bound.
        if dice.below(4) > 0 {
            victim.await_line(if death % 2 == 0 { "lap" } else { "fetched" });
        }
        dawdle(&mut dice);
        victim.kill();
    }
    eventually(|| own.bindings().unwrap() == 2);
    eventually(|| is_no_more(server.holds(), held));
    honest.await_line("lap");
    honest.await_line("lap");
    assert_eq!(own.malformed().unwrap(), 0);
}

#[test]
fn the_file_of_a_server_that_was_killed_is_the_next_ones() {
    let path = Scratch::new("socket");
    let uri = format!("shm:{}", path.0.display());
    let mut server = Process::server(&uri);
    let client = client(&uri);
    assert_eq!(client.next(1).unwrap(), 2);
    server.kill();
    assert!(path.0.exists());
    let error = client.next(1).unwrap_err();
    assert!(matches!(error.ran(), Ran::No | Ran::Perhaps), "{error}");
    let _server = Process::server(&uri);
    assert_eq!(client.next(2).unwrap(), 3);
}

#[test]
fn a_server_that_is_stopped_is_not_taken_for_dead() {
    let uri = name();
    let server = Process::server(&uri);
    let client = client(&uri);
    assert_eq!(client.next(1).unwrap(), 2);
    let long = vec![1; 3 << 20];
    assert_eq!(client.echo(&long).unwrap(), long);
    for _ in 0..3 {
        server.stop();
        let hurried = client.with_timeout(Duration::from_millis(30));
        let late = |result: Result<(), CallError>| match result.unwrap_err() {
            CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. } | CallError::NotSent(..) => {}
            error => panic!("{error}"),
        };
        thread::scope(|scope| {
            for _ in 0..5 {
                // All channels, and one more.
                scope.spawn(|| late(hurried.echo(&long).map(drop)));
                scope.spawn(|| late(hurried.next(1).map(drop)));
            }
        });
        // A call already waits for a channel when the server continues.
        thread::scope(|scope| {
            let waiting: Vec<_> =
                (0..6).map(|_| scope.spawn(|| client.echo(&long).unwrap() == long)).collect();
            server.signal(Signal::CONT);
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap()));
        });
        assert_eq!(client.next(1).unwrap(), 2);
        assert_eq!(client.bindings().unwrap(), 1);
    }
    assert_eq!(client.malformed().unwrap(), 0);
}

#[test]
fn a_client_that_is_stopped_in_the_midst_of_a_result_holds_up_nobody() {
    let uri = name();
    let server = Process::server(&uri);
    let mut victim = Process::start("fetch", &uri);
    let own = client(&uri);
    let mut dice = Dice(1);
    for _ in 0..10 {
        victim.await_line("fetched");
        dawdle(&mut dice);
        victim.stop();
        for number in 0..100 {
            assert_eq!(own.next(number).unwrap(), number + 1);
        }
        assert_eq!(own.bytes(3 << 20, 1).unwrap().len(), 3 << 20);
        victim.signal(Signal::CONT);
    }
    victim.await_line("fetched");
    victim.kill();
    eventually(|| own.bindings().unwrap() == 1);
    drop(own);
    eventually(|| server.holds().1 == 0);
}

#[test]
fn a_server_shuts_down_though_a_client_has_stopped_in_the_midst_of_a_result() {
    let uri = name();
    let server = processes::started(Server::new(), &uri);
    let mut victim = Process::start("fetch", &uri);
    victim.await_line("fetched");
    victim.stop();
    server.shut_down();
    assert!(TargetClient::bind_with(&uri, &BindOptions::new()).is_err());
}
