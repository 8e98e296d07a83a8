//! Calls in flight over byte streams and shared memory, and to servers of this process.

mod gate;
mod proxy;

use gate::Gate;
use proxy::Proxy;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{BindOptions, CallError, Error, Pending, Ran, RefusalCode, RunningServer, Server};

#[stoop::interface]
trait Works {
    fn add(&self, a: u32, b: u32) -> u32;
    /// Waits at the gate.
    fn wait(&self, number: u32) -> u32;
    /// Passes the gate and returns when nobody waits any more.
    fn until_cancelled(&self);
    /// Panics with that text.
    fn panic(&self, text: &str);
    fn divide(&self, a: u32, by: u32) -> Result<u32, String>;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    fn fill(&self, value: u8, #[out] bytes: &mut [u8]) -> u32;
    fn increment(&self, numbers: &mut [u32; 2], text: &mut String);
    /// Milliseconds that are left.
    fn left(&self) -> u64;
    /// The sum of 1 to `to`, by calls in flight to the same server.
    fn sum_below(&self, uri: &str, to: u32) -> u32;
    #[one_way]
    fn note(&self, text: &str);
    #[idempotent]
    fn wait_again(&self) -> u32;
    /// Passes the gate, and notes whether anybody still waits.
    fn note_interest(&self);
}

#[derive(Clone, Default)]
struct Bench {
    gate: Gate,
    notes: Arc<Mutex<Vec<String>>>,
    /// Procedures that have learnt that nobody waits for them.
    cancelled: Arc<AtomicU32>,
}

impl Works for Bench {
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
    fn wait(&self, number: u32) -> u32 {
        self.gate.pass();
        number
    }
    fn until_cancelled(&self) {
        self.gate.pass();
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        self.cancelled.fetch_add(1, Ordering::SeqCst);
    }
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn divide(&self, a: u32, by: u32) -> Result<u32, String> {
        a.checked_div(by).ok_or_else(|| format!("{a} by {by}"))
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn fill(&self, value: u8, bytes: &mut [u8]) -> u32 {
        bytes.fill(value);
        bytes.len() as u32
    }
    fn increment(&self, numbers: &mut [u32; 2], text: &mut String) {
        numbers.iter_mut().for_each(|number| *number += 1);
        text.push('!');
    }
    fn left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_millis() as u64
    }
    fn sum_below(&self, uri: &str, to: u32) -> u32 {
        if to == 0 {
            return 0;
        }
        let client = WorksClient::bind(uri).unwrap();
        let below = client.begin().sum_below(uri, to - 1);
        to + below.wait().unwrap()
    }
    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.into());
    }
    fn wait_again(&self) -> u32 {
        self.gate.pass();
        8
    }
    fn note_interest(&self) {
        self.gate.pass();
        let is_cancelled = stoop::current_call().unwrap().is_cancelled();
        self.note(if is_cancelled { "given up" } else { "wanted" });
    }
}

/// A server with a client, and what its procedures do.
struct Place {
    server: RunningServer,
    bench: Bench,
    client: WorksClient,
}

/// An address that no other test uses.
fn addresses() -> [String; 4] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("stoop-flight-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let (local, unix, shm) = (format!("local:{name}"), format!("unix:@{name}"), format!("shm:{name}"));
    [local, "tcp://127.0.0.1:0".into(), unix, shm]
}

fn place_at(address: &str, server: Server, options: &BindOptions) -> Place {
    let bench = Bench::default();
    let server = server.export(WorksServer::new(bench.clone())).listen(address).unwrap().start().unwrap();
    let client = WorksClient::bind_with(&server.uris()[0], options).unwrap();
    Place { server, bench, client }
}

/// One of each kind.
fn places() -> Vec<Place> {
    addresses().iter().map(|address| place_at(address, Server::new(), &BindOptions::new())).collect()
}

/// Waits for what another thread is about to bring about.
fn eventually(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end, asleep until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn a_begun_call_gives_what_the_blocking_one_does() {
    for Place { client, .. } in places() {
        assert_eq!(client.begin().add(2, 3).wait().unwrap(), 5);
        assert_eq!(client.begin().divide(7, 2).wait().unwrap(), 3);
        let Err(Error::Application(why)) = client.begin().divide(7, 0).wait() else { panic!("an error") };
        assert_eq!(why, "7 by 0");
        assert_eq!(client.begin().fill(9, 3).wait().unwrap(), (3, vec![9; 3]));
        let changed = client.begin().increment(&[1, 2], &"so".to_owned()).wait().unwrap();
        assert_eq!(changed, ([2, 3], "so!".to_owned()));
        let Err(CallError::Failed(failure)) = client.begin().panic("alas").wait() else {
            panic!("a failure")
        };
        assert_eq!(failure.detail, "alas");
    }
}

#[test]
fn many_calls_of_one_thread_are_in_flight_at_once() {
    for Place { client, bench, .. } in places() {
        let calls = client.begin();
        let pending: Vec<_> = (0..40).map(|number| calls.wait(number)).collect();
        drop(calls);
        bench.gate.await_inside(40);
        assert!(pending.iter().all(|each| !each.is_ready()));
        bench.gate.open();
        let results: Vec<u32> = stoop::wait_all(pending).into_iter().map(Result::unwrap).collect();
        assert_eq!(results, (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn far_more_calls_than_lanes_come_back_each_with_its_own_result() {
    for address in addresses() {
        let place = place_at(&address, Server::new().queue(5000), &BindOptions::new());
        for _ in 0..3 {
            let calls = place.client.begin();
            let pending: Vec<_> = (0..3000).map(|number| calls.add(number, 1)).collect();
            drop(calls);
            for (number, sum) in (0..).zip(stoop::wait_all(pending)) {
                assert_eq!(sum.unwrap(), number + 1);
            }
        }
    }
}

#[test]
fn calls_leave_when_one_of_them_is_waited_for() {
    for Place { client, .. } in places() {
        let calls = client.begin();
        let (first, second) = (calls.add(1, 1), calls.add(2, 2));
        assert_eq!(second.wait().unwrap(), 4);
        let third = calls.add(3, 3);
        assert_eq!((first.wait().unwrap(), third.wait().unwrap()), (2, 6));
        let polled = calls.add(4, 4);
        assert_eq!(block_on(polled).unwrap(), 8);
        let asked = calls.add(5, 5);
        eventually(|| asked.is_ready());
        assert_eq!(asked.wait().unwrap(), 10);
    }
}

#[test]
fn the_first_that_is_ready_is_found_among_others() {
    for Place { client, bench, .. } in places() {
        let calls = client.begin();
        let mut pending = vec![calls.wait(7), calls.add(1, 2), calls.wait(8)];
        drop(calls);
        assert_eq!(stoop::wait_any(&mut pending), Some(1));
        assert_eq!(pending.swap_remove(1).wait().unwrap(), 3);
        let pending = match pending.pop().unwrap().wait_timeout(Duration::from_millis(1)) {
            Err(pending) => [pending, calls_one_more(&client)],
            Ok(_) => panic!("the gate is shut"),
        };
        bench.gate.open();
        let [waited, one_more] = pending.map(|each| each.wait().unwrap());
        assert_eq!((waited, one_more), (8, 9));
    }
}

fn calls_one_more(client: &WorksClient) -> Pending<Result<u32, CallError>> {
    client.begin().add(4, 5)
}

#[test]
fn handles_are_waited_for_by_other_threads_and_beside_blocking_calls() {
    for Place { client, bench, .. } in places() {
        let calls = client.begin();
        let slow: Vec<_> = (0..8).map(|number| calls.wait(number)).collect();
        drop(calls);
        thread::scope(|scope| {
            let waiting: Vec<_> = slow.into_iter().map(|each| scope.spawn(|| each.wait().unwrap())).collect();
            bench.gate.await_inside(8);
            for number in 0..100 {
                assert_eq!(client.add(number, 1).unwrap(), number + 1);
                assert_eq!(client.begin().add(number, 2).wait().unwrap(), number + 2);
            }
            bench.gate.open();
            for (number, thread) in (0..8).zip(waiting) {
                assert_eq!(thread.join().unwrap(), number);
            }
        });
    }
}

#[test]
fn futures_of_several_bindings_are_woken() {
    let places = places();
    for number in 0..50 {
        let futures: Vec<_> = places.iter().map(|place| place.client.begin().add(number, 1)).collect();
        for future in futures {
            assert_eq!(block_on(future).unwrap(), number + 1);
        }
    }
    let slow: Vec<_> = places.iter().map(|place| place.client.begin().wait(5)).collect();
    let opener = thread::spawn({
        let gates: Vec<Gate> = places.iter().map(|place| place.bench.gate.clone()).collect();
        move || {
            gates.iter().for_each(|gate| gate.await_inside(1));
            gates.iter().for_each(Gate::open);
        }
    });
    for each in slow {
        assert_eq!(block_on(each).unwrap(), 5);
    }
    opener.join().unwrap();
    let mut pending: Vec<_> = places.iter().map(|place| place.client.begin().add(1, 1)).collect();
    while let Some(ready) = stoop::wait_any(&mut pending) {
        assert_eq!(pending.swap_remove(ready).wait().unwrap(), 2);
    }
}

#[test]
fn a_procedure_sees_that_its_handle_was_dropped() {
    for Place { client, bench, .. } in places() {
        bench.gate.open();
        let calls = client.begin();
        let (dropped, other) = (calls.until_cancelled(), calls.until_cancelled());
        drop(calls);
        bench.gate.await_inside(2);
        drop(dropped);
        eventually(|| bench.cancelled.load(Ordering::SeqCst) == 1);
        assert!(!other.is_ready());
        drop(other);
        eventually(|| bench.cancelled.load(Ordering::SeqCst) == 2);
        assert_eq!(client.begin().add(1, 1).wait().unwrap(), 2);
    }
}

#[test]
fn a_call_that_is_dropped_before_it_begins_never_runs() {
    for address in addresses() {
        let place = place_at(&address, Server::new().workers(1), &BindOptions::new());
        let held_up = place.client.begin().wait(1);
        place.bench.gate.await_inside(1);
        let calls = place.client.begin();
        let dropped: Vec<_> = (0..5).map(|number| calls.wait(number)).collect();
        drop((calls, dropped));
        // Not even sent.
        let calls = place.client.begin();
        drop(calls.wait(3));
        drop(calls);
        place.bench.gate.open();
        assert_eq!(held_up.wait().unwrap(), 1);
        assert_eq!(place.client.begin().add(1, 1).wait().unwrap(), 2);
        place.server.shut_down();
        place.bench.gate.await_inside(1);
        assert_eq!(place.bench.gate.inside(), 1);
    }
}

#[test]
fn a_detached_call_goes_on() {
    for Place { client, bench, .. } in places() {
        let calls = client.begin();
        calls.note_interest().detach();
        drop(calls);
        drop(client);
        bench.gate.await_inside(1);
        bench.gate.open();
        eventually(|| !bench.notes.lock().unwrap().is_empty());
        assert_eq!(*bench.notes.lock().unwrap(), ["wanted"]);
    }
}

#[test]
fn what_is_told_one_way_arrives_once_though_the_client_is_gone() {
    for Place { client, bench, .. } in places() {
        for number in 0..100 {
            client.note(&format!("{number:02}")).unwrap();
        }
        let calls = client.begin();
        calls.note("begun").wait().unwrap();
        drop(calls);
        drop(client);
        eventually(|| bench.notes.lock().unwrap().len() == 101);
        let mut notes = std::mem::take(&mut *bench.notes.lock().unwrap());
        notes.sort();
        assert!(notes.iter().take(100).zip(0..).all(|(note, number)| *note == format!("{number:02}")));
    }
}

#[test]
fn a_one_way_call_does_not_wait_for_its_procedure() {
    for Place { client, bench, .. } in places() {
        // Nobody can take the lock before all has been told.
        let notes = bench.notes.lock().unwrap();
        for _ in 0..10 {
            client.note("").unwrap();
        }
        drop(notes);
        eventually(|| bench.notes.lock().unwrap().len() == 10);
    }
}

#[test]
fn a_call_in_flight_ends_at_its_deadline() {
    for Place { client, bench, .. } in places() {
        let hurried = client.with_timeout(Duration::from_millis(30));
        for error in [hurried.begin().wait(1).wait(), block_on(hurried.begin().wait(1))] {
            match error.unwrap_err() {
                CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. } => {}
                // The machine has more to do than this.
                CallError::Refused(refusal) if refusal.code == RefusalCode::DeadlinePassed => {}
                other => panic!("{other}"),
            }
        }
        let error = client.with_timeout(Duration::ZERO).begin().add(1, 1).wait().unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed)), "{error}");
        bench.gate.open();
        let left = client.begin().left().wait().unwrap();
        assert!(left <= 30_000, "{left}");
    }
}

#[test]
fn messages_of_all_lengths_travel_in_flight() {
    for Place { client, .. } in places() {
        let calls = client.begin();
        let messages: Vec<Vec<u8>> = (0..60).map(|number| vec![number as u8; 1 << (number % 20)]).collect();
        let pending: Vec<_> = messages.iter().map(|message| calls.echo(message)).collect();
        drop(calls);
        for (message, echo) in messages.iter().zip(stoop::wait_all(pending)) {
            assert_eq!(echo.unwrap(), *message);
        }
    }
}

#[test]
fn procedures_that_wait_for_calls_to_their_own_server_do_not_hold_each_other_up() {
    let [local, ..] = addresses();
    let place = place_at(&local, Server::new().workers(2), &BindOptions::new());
    let calls = place.client.begin();
    let pending: Vec<_> = (0..4).map(|_| calls.sum_below(&local, 20)).collect();
    drop(calls);
    for sum in stoop::wait_all(pending) {
        assert_eq!(sum.unwrap(), 210);
    }
}

#[test]
fn more_calls_than_may_wait_are_refused() {
    for address in addresses() {
        let place = place_at(&address, Server::new().workers(1).queue(2), &BindOptions::new());
        let first = place.client.begin().wait(0);
        place.bench.gate.await_inside(1);
        let calls = place.client.begin();
        let pending: Vec<_> = (1..20).map(|number| calls.wait(number)).collect();
        drop(calls);
        let pending: Vec<_> = pending.into_iter().chain([first]).collect();
        let opener = {
            let gate = place.bench.gate.clone();
            thread::spawn(move || gate.open())
        };
        let results = stoop::wait_all(pending);
        opener.join().unwrap();
        for result in results {
            match result {
                Ok(_) => {}
                Err(CallError::Refused(refusal)) => assert_eq!(refusal.code, RefusalCode::Overloaded),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_server_that_shuts_down_finishes_what_runs_and_refuses_the_rest() {
    for address in addresses() {
        let place = place_at(&address, Server::new().workers(1), &BindOptions::new());
        let calls = place.client.begin();
        let (running, waiting) = (calls.wait(1), calls.wait(2));
        drop(calls);
        place.bench.gate.await_inside(1);
        let server = place.server.clone();
        let stopper = thread::spawn(move || server.shut_down());
        if address.starts_with("local:") {
            let error = waiting.wait().unwrap_err();
            assert_eq!(error.ran(), Ran::No, "{error}");
        } else {
            // It had arrived.
            drop(waiting);
        }
        place.bench.gate.open();
        assert_eq!(running.wait().unwrap(), 1);
        stopper.join().unwrap();
        assert!(place.client.begin().add(1, 1).wait().is_err());
    }
}

/// A server over TCP, with a client whose connections can be cut.
fn cuttable() -> (Place, Proxy, WorksClient) {
    let place = place_at("tcp://127.0.0.1:0", Server::new(), &BindOptions::new());
    let address = place.server.uris()[0].strip_prefix("tcp://").unwrap().parse().unwrap();
    let proxy = Proxy::to(address);
    let client = WorksClient::bind(&proxy.uri).unwrap();
    (place, proxy, client)
}

#[test]
fn calls_whose_connection_is_lost_end_at_once_and_those_after_them_get_another() {
    let (place, proxy, client) = cuttable();
    let calls = client.begin();
    let lost: Vec<_> = (0..3).map(|number| calls.wait(number)).collect();
    let (woken, detached) = (calls.wait(3), calls.wait(4));
    detached.detach();
    drop(calls);
    place.bench.gate.await_inside(5);
    proxy.cut();
    for error in stoop::wait_all(lost).into_iter().chain([block_on(woken)]).map(Result::unwrap_err) {
        let CallError::Unknown { cause, transmissions, .. } = error else { panic!("{error}") };
        assert_eq!((cause, transmissions), (UnknownCause::ConnectionLost, 1));
    }
    assert_eq!(client.begin().add(1, 1).wait().unwrap(), 2);
    assert_eq!(block_on(client.begin().add(1, 2)).unwrap(), 3);
    assert_eq!(client.add(1, 3).unwrap(), 4);
    place.bench.gate.open();
}

#[test]
fn a_long_call_that_the_server_does_not_take_keeps_no_other_from_its_deadline() {
    let (_place, proxy, client) = cuttable();
    assert_eq!(client.add(1, 1).unwrap(), 2);
    // The binding, and the beginning of a call; no socket's buffers have room for the rest of it.
    proxy.let_pass(Some(200_000));
    proxy.cut();
    let bytes = vec![5; 48 << 20];
    // The connection is lost, so that it is the keeper who gets another and sends it there.
    let long = client.begin().echo(&bytes);
    let hurried = client.with_timeout(Duration::from_millis(50));
    let error = block_on(hurried.begin().add(1, 1)).unwrap_err();
    assert!(matches!(error, CallError::Unknown { .. } | CallError::NotSent(_)), "{error}");
    proxy.let_pass(None);
    assert!(long.wait().unwrap() == bytes, "it was still leaving");
}

#[test]
fn an_idempotent_call_in_flight_is_sent_again_over_another_connection() {
    let (place, proxy, client) = cuttable();
    let calls = client.begin();
    let (waited, woken) = (calls.wait_again(), calls.wait_again());
    drop(calls);
    place.bench.gate.await_inside(2);
    proxy.cut();
    place.bench.gate.await_inside(4);
    place.bench.gate.open();
    assert_eq!((waited.wait().unwrap(), block_on(woken).unwrap()), (8, 8));
}

#[test]
fn where_nobody_listens_any_more_a_call_says_that_it_was_not_sent() {
    let mut place = place_at("tcp://127.0.0.1:0", Server::new(), &BindOptions::new());
    assert_eq!(place.client.begin().add(1, 1).wait().unwrap(), 2);
    place.server.shut_down();
    place.server = place_at(&addresses()[0], Server::new(), &BindOptions::new()).server;
    // So soon after an answer it may be sent in vain.
    assert!(place.client.begin().add(1, 1).wait().is_err());
    let calls = place.client.begin();
    let pending: Vec<_> = (0..3).map(|number| calls.add(number, 1)).collect();
    drop(calls);
    for error in stoop::wait_all(pending).into_iter().map(Result::unwrap_err) {
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(error.to_string().contains("nobody listens"), "{error}");
    }
}

#[test]
fn begun_calls_are_counted() {
    for Place { client, .. } in places().into_iter().skip(1) {
        let calls = client.begin();
        let pending: Vec<_> = (0..100).map(|number| calls.add(number, 1)).collect();
        drop(calls);
        stoop::wait_all(pending);
        assert_eq!(client.add(1, 1).unwrap(), 2);
        assert_eq!(client.binding().counters().calls, 101);
    }
}

#[test]
fn handles_that_are_dropped_detached_and_waited_for_at_once_disturb_nobody() {
    for Place { client, server, bench } in places() {
        bench.gate.open();
        thread::scope(|scope| {
            for seed in 1..5_u32 {
                let client = &client;
                scope.spawn(move || {
                    let mut random = seed;
                    for _ in 0..60 {
                        let calls = client.begin();
                        let pending: Vec<_> = (0..50).map(|number| calls.add(number, seed)).collect();
                        let long = calls.echo(&vec![7; 200_000]);
                        drop(calls);
                        for (number, each) in (0..).zip(pending) {
                            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            match random >> 30 {
                                0 => drop(each),
                                1 => each.detach(),
                                2 => assert_eq!(block_on(each).unwrap(), number + seed),
                                _ => assert_eq!(each.wait().unwrap(), number + seed),
                            }
                        }
                        match random >> 29 & 1 {
                            0 => drop(long),
                            _ => assert_eq!(long.wait().unwrap().len(), 200_000),
                        }
                    }
                });
            }
        });
        assert_eq!(client.add(1, 1).unwrap(), 2);
        assert_eq!(server.counters().malformed, 0);
    }
}
