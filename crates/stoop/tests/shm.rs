//! Calls over shared memory: both ends in this process, which they do not notice.

mod gate;

use gate::Gate;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{BindOptions, CallError, Caller, FailureCode, Ran, RefusalCode, RunningServer, Server, Waiting};

#[stoop::interface]
trait Lab {
    /// Does nothing.
    fn null(&self);
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Returns when the gate is opened.
    fn wait(&self) -> u32;
    /// Panics with that text.
    fn panic(&self, text: &str);
    /// Milliseconds that are left.
    fn left(&self) -> u64;
    /// As many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
    /// Sums what it is given.
    fn sum(&self, bytes: &[u8]) -> u64;
    /// Gives back what it is given.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Fills the buffer.
    fn fill(&self, value: u8, #[out] buffer: &mut [u8]);
    /// Fills both with their places, and tells how many there are.
    fn both(&self, #[out] first: &mut [u8], #[out] second: &mut [u64]) -> String;
    /// Adds one to each byte.
    fn increment(&self, buffer: &mut [u8]);
    /// Where the call came from.
    fn caller(&self) -> String;
    /// Returns when the gate is opened; may be run again.
    #[idempotent]
    fn read(&self) -> u32;
    /// Passes the gate, and returns when nobody waits for it any more.
    fn until_cancelled(&self) -> u32;
}

#[derive(Clone, Default)]
struct Bench(Gate);

impl Lab for Bench {
    fn null(&self) {}
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn wait(&self) -> u32 {
        self.0.pass();
        7
    }
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_millis() as u64
    }
    fn bytes(&self, count: u32, value: u8) -> Vec<u8> {
        vec![value; count as usize]
    }
    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn fill(&self, value: u8, buffer: &mut [u8]) {
        buffer.fill(value);
    }
    fn both(&self, first: &mut [u8], second: &mut [u64]) -> String {
        first.iter_mut().enumerate().for_each(|(place, byte)| *byte = place as u8);
        second.iter_mut().enumerate().for_each(|(place, word)| *word = place as u64);
        format!("{} and {}", first.len(), second.len())
    }
    fn increment(&self, buffer: &mut [u8]) {
        buffer.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    }
    fn caller(&self) -> String {
        match stoop::current_call().unwrap().caller() {
            Caller::Process(process) => format!("process {} of {}", process.pid, process.uid),
            other => format!("{other:?}"),
        }
    }
    fn read(&self) -> u32 {
        self.0.pass();
        8
    }
    fn until_cancelled(&self) -> u32 {
        self.0.pass();
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        9
    }
}

fn serve_at(uri: &str, server: Server) -> (RunningServer, Gate) {
    let bench = Bench::default();
    let gate = bench.0.clone();
    let server = server.export(LabServer::new(bench)).listen(uri).unwrap().start().unwrap();
    (server, gate)
}

fn lab() -> (RunningServer, Gate, LabClient) {
    let (server, gate) = serve_at(&name(), Server::new());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    (server, gate, client)
}

/// A name that no other test uses.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("shm:test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits for what another thread is about to bring about.
fn eventually(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

#[test]
fn a_call_returns_its_result() {
    let (server, _, client) = lab();
    assert_eq!(client.next(41).unwrap(), 42);
    let counters = client.binding().counters();
    assert_eq!((counters.calls, counters.fast), (1, 1));
    let counters = server.counters();
    assert_eq!((counters.calls, counters.bindings, counters.malformed), (1, 1, 0));
}

#[test]
fn the_first_call_of_all_may_have_no_result() {
    let (_server, _, client) = lab();
    client.null().unwrap();
    // And the first after a result so long that its buffer was not kept.
    assert_eq!(client.bytes(1 << 20, 3).unwrap().len(), 1 << 20);
    client.null().unwrap();
}

#[test]
fn every_way_of_waiting_works() {
    for waiting in [Waiting::Adaptive, Waiting::Spin, Waiting::Block] {
        let (server, _) = serve_at(&name(), Server::new().waiting(waiting));
        let options = BindOptions::new().waiting(waiting);
        let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        for number in 0..100 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        let other = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        assert_eq!((other.next(1).unwrap(), client.next(2).unwrap()), (2, 3));
    }
}

#[test]
fn many_threads_call_over_one_binding() {
    let (server, _, client) = lab();
    thread::scope(|scope| {
        for thread in 0..16 {
            let client = &client;
            scope.spawn(move || {
                for number in 0..200 {
                    assert_eq!(client.next(thread * 1000 + number).unwrap(), thread * 1000 + number + 1);
                }
            });
        }
    });
    assert_eq!(client.binding().counters().calls, 3200);
    assert_eq!((server.counters().calls, server.counters().bindings), (3200, 1));
}

#[test]
fn many_bindings_are_served_at_once() {
    let (server, _) = serve_at(&name(), Server::new());
    let clients: Vec<_> = (0..50).map(|_| LabClient::bind(&server.uris()[0]).unwrap()).collect();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| (0..20).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    assert_eq!(server.counters().bindings, 50);
    drop(clients);
    eventually(|| server.counters().bindings == 0);
}

#[test]
fn large_messages_travel_both_ways_between_small_calls() {
    let (_server, _, client) = lab();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.next(1).unwrap(), 2);
                }
            });
        }
        let large = [(1 << 20, 3), (1 << 20, 4), (20 << 20, 5)].map(|(len, value)| {
            let client = &client;
            scope.spawn(move || {
                let bytes = vec![value; len];
                for _ in 0..3 {
                    assert_eq!(client.sum(&bytes).unwrap(), len as u64 * u64::from(value));
                    assert_eq!(client.bytes(len as u32, value).unwrap(), bytes);
                    assert_eq!(client.echo(&bytes).unwrap(), bytes);
                }
            })
        });
        let ended = large.map(|thread| thread.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn messages_around_the_lengths_of_lines_slots_chunks_and_channels_travel() {
    let (_server, _, client) = lab();
    for around in [32, 40, 4096, 16 * 1024, 256 * 1024] {
        for len in around - 10..around + 8 {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
        }
    }
}

#[test]
fn buffers_are_filled_and_changed_over_there() {
    let (_server, _, client) = lab();
    for len in [0, 10, 5000, 300_000] {
        let mut buffer = vec![0; len];
        client.fill(9, &mut buffer).unwrap();
        assert_eq!(buffer, vec![9; len]);
        client.increment(&mut buffer).unwrap();
        assert_eq!(buffer, vec![10; len]);
    }
}

#[test]
fn arguments_too_large_are_not_sent() {
    let (_server, _) = serve_at(&name(), Server::new());
    let options = BindOptions::new().max_message(100_000);
    let client = LabClient::bind_with(&_server.uris()[0], &options).unwrap();
    let error = client.sum(&[0; 100_001]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_))), "{error}");
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
}

#[test]
fn a_call_larger_than_the_server_takes_is_refused_and_the_binding_lives_on() {
    let (server, _) = serve_at(&name(), Server::new().max_message(100_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let refused = client.sum(&vec![0; 5_000_000]).unwrap_err();
    let CallError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code, RefusalCode::MessageTooLarge);
    assert!(refusal.detail.contains("100000"), "{refusal}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
    let counters = server.counters();
    assert_eq!((counters.calls, counters.refused, counters.bindings), (1, 1, 1));
}

#[test]
fn a_result_larger_than_the_server_sends_is_a_failure_that_names_the_limit() {
    let (server, _) = serve_at(&name(), Server::new().max_message(100_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let error = client.bytes(200_000, 1).unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::ResultTooLarge);
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.bytes(90_000, 1).unwrap().len(), 90_000);
}

#[test]
fn a_result_larger_than_the_caller_takes_is_a_failure_and_the_binding_lives_on() {
    let (server, _) = serve_at(&name(), Server::new());
    let options = BindOptions::new().max_message(100_000);
    let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
    // Longer than what there is room for, and shorter: all of it lies there when its caller turns away.
    for len in [3_000_000, 300_000] {
        let error = client.bytes(len, 1).unwrap_err();
        let CallError::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.code, FailureCode::ResultTooLarge);
        assert_eq!(client.bytes(90_000, 1).unwrap().len(), 90_000);
    }
    assert_eq!(server.counters().bindings, 1);
}

#[test]
fn a_slow_procedure_does_not_hold_up_other_calls_of_its_binding() {
    let (_server, gate, client) = lab();
    thread::scope(|scope| {
        let slow: Vec<_> = (0..8).map(|_| scope.spawn(|| client.wait().unwrap())).collect();
        gate.await_inside(8);
        for number in 0..50 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        gate.open();
        slow.into_iter().for_each(|slow| assert_eq!(slow.join().unwrap(), 7));
    });
}

#[test]
fn a_call_that_takes_too_long_ends_at_its_deadline_and_the_binding_lives_on() {
    let (server, gate, client) = lab();
    let hurried = client.with_timeout(Duration::from_millis(20));
    for _ in 0..3 {
        let error = hurried.wait().unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }), "{error}");
        assert_eq!(error.ran(), Ran::Perhaps);
        assert_eq!(client.next(1).unwrap(), 2);
    }
    gate.open();
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(server.counters().bindings, 1);
}

#[test]
fn among_many_callers_those_whose_deadline_passes_do_not_disturb_the_others() {
    let (_server, gate, client) = lab();
    let hurried = client.with_timeout(Duration::from_millis(5));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| drop(hurried.wait().unwrap_err())));
            scope.spawn(|| (0..200).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    gate.open();
}

#[test]
fn the_deadline_travels() {
    let (_server, _, client) = lab();
    let left = client.with_timeout(Duration::from_secs(20)).left().unwrap();
    assert!((15_000..=20_000).contains(&left), "{left}");
}

#[test]
fn a_panic_is_an_error_to_its_caller_and_nothing_to_others() {
    let (_server, _, client) = lab();
    let error = client.panic("out of luck").unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!((failure.code, &*failure.detail), (FailureCode::Panicked, "out of luck"));
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn after_a_restart_of_the_server_the_next_call_works() {
    let (server, _, client) = lab();
    let uri = server.uris()[0].clone();
    assert_eq!(client.next(1).unwrap(), 2);
    drop(server);
    let error = client.next(1).unwrap_err();
    assert!(error.to_string().contains("nobody listens") || error.ran() == Ran::Perhaps, "{error}");
    let (_server, _) = serve_at(&uri, Server::new());
    assert_eq!(client.next(2).unwrap(), 3);
}

#[test]
fn shutting_down_finishes_what_runs_and_refuses_what_is_new() {
    let (server, gate, client) = lab();
    let late = LabClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| client.wait());
        gate.await_inside(1);
        let closing = server.clone();
        let stopped = scope.spawn(move || closing.shut_down());
        eventually(|| match late.next(1) {
            Ok(_) => false,
            Err(CallError::Refused(refusal)) => refusal.code == RefusalCode::ShuttingDown,
            Err(other) => panic!("{other}"),
        });
        assert!(LabClient::bind(&server.uris()[0]).is_err());
        gate.open();
        assert_eq!(running.join().unwrap().unwrap(), 7);
        stopped.join().unwrap();
    });
    assert!(late.next(1).is_err());
}

#[test]
fn callers_are_known_to_the_procedure() {
    let (server, _) = serve_at(&name(), Server::new());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let caller = client.caller().unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    assert_eq!(caller, format!("process {} of {uid}", std::process::id()));
}

#[test]
fn a_socket_with_a_file_works_and_a_stale_file_is_replaced() {
    let path = std::env::temp_dir().join(format!("stoop-test-{}.sock", std::process::id()));
    let uri = format!("shm:{}", path.display());
    // What a server that was killed leaves behind: a socket's file, and nobody behind it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind(&uri).unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
    let taken = Server::new().export(LabServer::new(Bench::default())).listen(&uri).unwrap_err();
    assert!(taken.to_string().contains("another server"), "{taken}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn results_land_where_they_belong_with_what_comes_beside() {
    let (_server, _, client) = lab();
    for len in [3, 5_001, 200_003] {
        let (mut first, mut second) = (vec![0_u8; len], vec![0_u64; len / 2]);
        let rest = client.both(&mut first, &mut second).unwrap();
        assert!(first.iter().enumerate().all(|(place, byte)| *byte == place as u8), "{len}");
        assert!(second.iter().enumerate().all(|(place, word)| *word == place as u64), "{len}");
        assert_eq!(rest, format!("{len} and {}", len / 2));
    }
}

#[test]
fn more_results_than_a_binding_may_leave_lying_cost_it_none_but_those() {
    let (server, _) = serve_at(&name(), Server::new().max_message(1_000_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..50 {
                    match client.bytes(990_000, 5) {
                        Ok(bytes) => assert_eq!(bytes.len(), 990_000),
                        Err(CallError::Failed(failure)) => {
                            assert_eq!(failure.code, FailureCode::ResultTooLarge);
                            assert!(failure.detail.contains("4000000"), "{failure}");
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!((client.next(1).unwrap(), server.counters().bindings), (2, 1));
}
