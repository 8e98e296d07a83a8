//! Calls in flight: begun by `begin()`, waited for later, over UDP.

mod gate;

use gate::Gate;
use std::collections::HashSet;
use std::future::Future;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop::error::{SendError, UnknownCause};
use stoop::{BindOptions, CallError, Data, Error, FailureCode, Pending, Ran, RunningServer, Server, Waiting};
use stoop_marshal::{DecodeError, Description, Layout, Reader, Writer};
use stoop_wire::{Header, Kind, RefusalCode};

#[stoop::interface]
trait Lab {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Adds one, when the gate is opened.
    fn wait(&self, number: u32) -> u32;
    /// Counts the calls of it.
    fn count(&self) -> u32;
    /// How often it was counted.
    fn counted(&self) -> u32;
    /// Panics with that text.
    fn panic(&self, text: &str);
    /// Divides 100.
    fn divide(&self, by: i32) -> Result<i32, String>;
    /// Reverses, fills, and tells the sum.
    fn mixed(&self, turned: &mut [u16], #[out] filled: &mut [u8], #[out] name: &mut String) -> u32;
    /// As many bytes.
    fn bytes(&self, count: u32) -> Vec<u8>;
    /// The same bytes.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Takes anything.
    fn take(&self, bytes: &[u8]) -> u32;
    /// As many bytes, which nobody can read.
    fn fragile(&self, count: u32) -> Fragile;
    /// Nobody waits for it.
    #[one_way]
    fn told(&self, number: u32);
}

/// Bytes, by somebody who has not read what is asked of `Data::decode`.
struct Fragile(Vec<u8>);

impl Data for Fragile {
    const LAYOUT: Layout = Vec::<u8>::LAYOUT;

    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }

    fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        panic!("expected");
    }

    fn describe(description: &mut Description) {
        Vec::<u8>::describe(description);
    }
}

#[derive(Clone, Default)]
struct Bench {
    gate: Gate,
    counted: Arc<AtomicUsize>,
}

impl Lab for Bench {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn wait(&self, number: u32) -> u32 {
        self.gate.pass();
        number + 1
    }
    fn count(&self) -> u32 {
        self.counted.fetch_add(1, Ordering::SeqCst) as u32
    }
    fn counted(&self) -> u32 {
        self.counted.load(Ordering::SeqCst) as u32
    }
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn divide(&self, by: i32) -> Result<i32, String> {
        100_i32.checked_div(by).ok_or_else(|| "by zero".into())
    }
    fn mixed(&self, turned: &mut [u16], filled: &mut [u8], name: &mut String) -> u32 {
        turned.reverse();
        filled.fill(7);
        name.push_str("mixed");
        turned.iter().map(|&each| u32::from(each)).sum()
    }
    fn bytes(&self, count: u32) -> Vec<u8> {
        vec![5; count as usize]
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn take(&self, bytes: &[u8]) -> u32 {
        bytes.len() as u32
    }
    fn fragile(&self, count: u32) -> Fragile {
        Fragile(vec![5; count as usize])
    }
    fn told(&self, _number: u32) {
        self.counted.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server, what it exports, and a client bound to it.
fn lab_with(options: &BindOptions, server: Server) -> (RunningServer, Bench, LabClient) {
    let bench = Bench::default();
    let server = server.export(LabServer::new(bench.clone())).listen("udp://127.0.0.1:0").unwrap();
    let server = server.start().unwrap();
    let client = LabClient::bind_with(&server.uris()[0], options).unwrap();
    (server, bench, client)
}

fn lab() -> (RunningServer, Bench, LabClient) {
    lab_with(&BindOptions::new(), Server::new())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest runtime there is.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn begin_many(client: &LabClient, count: u32) -> Vec<Pending<Result<u32, CallError>>> {
    let calls = client.begin();
    (0..count).map(|number| calls.next(number)).collect()
}

fn check(results: Vec<Result<u32, CallError>>) {
    for (number, result) in (0..).zip(results) {
        assert_eq!(result.unwrap(), number + 1);
    }
}

#[test]
fn results_come_back_to_their_own_calls_however_they_are_waited_for() {
    for waiting in [Waiting::Adaptive, Waiting::Block, Waiting::Spin] {
        let (_server, _, client) = lab_with(&BindOptions::new().waiting(waiting), Server::new());
        assert_eq!(client.begin().next(1).wait().unwrap(), 2);
        for count in [1, 2, 63, 64, 65, 300] {
            check(stoop::wait_all(begin_many(&client, count)));
            let mut backwards: Vec<_> =
                begin_many(&client, count).into_iter().rev().map(Pending::wait).collect();
            backwards.reverse();
            check(backwards);
        }
    }
}

#[test]
fn five_thousand_calls_are_in_flight_from_one_thread() {
    let (_server, _, client) = lab();
    for _ in 0..3 {
        check(stoop::wait_all(begin_many(&client, 5000)));
    }
}

#[test]
fn more_calls_than_a_server_takes_fail_by_themselves() {
    let (_server, _, client) = lab();
    let results = stoop::wait_all(begin_many(&client, 16_384));
    let (begun, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert!(begun.len() >= 15_000 && !refused.is_empty(), "{} begun", begun.len());
    let is_too_many = |error| matches!(error, CallError::NotSent(SendError::TooManyCalls { .. }));
    assert!(refused.into_iter().map(Result::unwrap_err).all(is_too_many));
    check(stoop::wait_all(begin_many(&client, 100)));
}

#[test]
fn a_call_that_is_waited_for_leaves_before_its_siblings_are_dropped() {
    let (_server, bench, client) = lab();
    let calls = client.begin();
    let first = calls.next(1);
    let second = calls.next(2);
    assert_eq!(second.wait().unwrap(), 3);
    let third = calls.next(3);
    assert_eq!(first.wait().unwrap(), 2);
    assert_eq!(block_on(third).unwrap(), 4);
    let fourth = calls.wait(4);
    assert!(!fourth.is_ready());
    bench.gate.await_inside(1);
    bench.gate.open();
    assert_eq!(fourth.wait().unwrap(), 5);
}

#[test]
fn every_kind_of_outcome_is_that_of_the_blocking_method() {
    let (_server, _, client) = lab();
    let calls = client.begin();
    let panicked = calls.panic("on purpose");
    let (divided, not_divided) = (calls.divide(5), calls.divide(0));
    let mixed = calls.mixed(&[1, 2, 3], 2);
    let (none, full, too_large) = (calls.bytes(0), calls.bytes(1436), calls.take(&[1; 1436]));
    drop(calls);
    let CallError::Failed(failure) = panicked.wait().unwrap_err() else { panic!() };
    assert_eq!((failure.code, failure.detail.as_str()), (FailureCode::Panicked, "on purpose"));
    assert_eq!(divided.wait().unwrap(), 20);
    let Error::Application(why) = not_divided.wait().unwrap_err() else { panic!() };
    assert_eq!(why, "by zero");
    assert_eq!(mixed.wait().unwrap(), (6, vec![3, 2, 1], vec![7, 7], "mixed".into()));
    assert_eq!((none.wait().unwrap(), full.wait().unwrap().len()), (vec![], 1436));
    assert_eq!(too_large.wait().unwrap(), 1436);
}

#[test]
fn long_arguments_and_results_travel_with_short_ones() {
    // A busy machine may keep its server from answering for long.
    let patient = BindOptions::new().silence_limit(Duration::from_secs(25));
    let (_server, _, client) = lab_with(&patient, Server::new());
    for len in [1441, 5000, 100_000, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
        let calls = client.begin();
        let short = calls.next(1);
        let turned: Vec<_> = (0..4).map(|_| calls.echo(&bytes)).collect();
        let (taken, given) = (calls.take(&bytes), calls.bytes(len));
        drop(calls);
        assert_eq!(short.wait().unwrap(), 2);
        assert_eq!(given.wait().unwrap().len(), len as usize);
        assert_eq!(taken.wait().unwrap(), len);
        for result in stoop::wait_all(turned) {
            assert!(result.unwrap() == bytes);
        }
        check(stoop::wait_all(begin_many(&client, 100)));
    }
}

#[test]
fn long_results_reach_a_future_and_nobody() {
    let (_server, _, client) = lab();
    assert_eq!(block_on(client.begin().bytes(500_000)).unwrap().len(), 500_000);
    client.begin().bytes(500_000).detach();
    drop(client.begin().bytes(500_000));
    check(stoop::wait_all(begin_many(&client, 100)));
}

#[test]
fn what_is_too_long_fails_by_itself() {
    let (_server, _, client) = lab_with(&BindOptions::new().max_message(10_000), Server::new());
    let calls = client.begin();
    let (argument, result, short) = (calls.take(&[0; 20_000]), calls.bytes(20_000), calls.next(1));
    drop(calls);
    assert_eq!(argument.wait().unwrap_err().ran(), Ran::No);
    let error = result.wait().unwrap_err();
    assert!(matches!(&error, CallError::Failed(why) if why.code == FailureCode::ResultTooLarge), "{error}");
    assert_eq!(short.wait().unwrap(), 2);
}

#[test]
fn a_call_that_has_no_time_fails_by_itself() {
    let (_server, _, client) = lab();
    let hurried = client.with_timeout(Duration::ZERO);
    let pending = hurried.begin().next(1);
    assert!(pending.is_ready());
    let error = pending.wait().unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed)), "{error}");
}

#[test]
fn a_call_ends_by_its_deadline_while_others_go_on() {
    let (_server, bench, client) = lab();
    let hurried = client.with_timeout(Duration::from_millis(30));
    let (long, short) = (client.begin().wait(1), hurried.begin().wait(2));
    let error = short.wait().unwrap_err();
    assert!(
        matches!(error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. })
            || error.ran() == Ran::No,
        "{error}"
    );
    bench.gate.open();
    assert_eq!(long.wait().unwrap(), 2);
}

#[test]
fn a_handle_is_given_back_when_waiting_took_too_long() {
    let (_server, bench, client) = lab();
    let pending = client.begin().wait(1);
    let pending = pending.wait_timeout(Duration::from_millis(5)).unwrap_err();
    assert!(!pending.is_ready());
    bench.gate.open();
    assert_eq!(pending.wait_timeout(Duration::MAX).unwrap().unwrap(), 2);
}

#[test]
fn the_first_that_is_ready_is_found() {
    let (_server, bench, client) = lab();
    let calls = client.begin();
    let mut pending = vec![calls.wait(10), calls.wait(20), calls.next(30)];
    drop(calls);
    assert_eq!(stoop::wait_any(&mut pending), Some(2));
    assert_eq!(pending.swap_remove(2).wait().unwrap(), 31);
    bench.gate.open();
    let mut left = HashSet::from([11, 21]);
    while let Some(place) = stoop::wait_any(&mut pending) {
        assert!(left.remove(&pending.swap_remove(place).wait().unwrap()));
    }
    assert!(left.is_empty());
}

#[test]
fn calls_of_several_bindings_are_waited_for_together() {
    let ((_server, bench, client), (_other_server, _, other)) = (lab(), lab());
    let mut pending = vec![client.begin().wait(1), other.begin().next(2)];
    assert_eq!(stoop::wait_any(&mut pending), Some(1));
    pending.remove(1).wait().unwrap();
    bench.gate.open();
    assert_eq!(stoop::wait_any(&mut pending), Some(0));
}

#[test]
fn handles_are_futures_on_any_runtime() {
    let (_server, bench, client) = lab();
    let begun = begin_many(&client, 200);
    let sum: u32 = block_on(async {
        let mut sum = 0;
        for pending in begun {
            sum += pending.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, (1..=200).sum());
    let late = client.begin().wait(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            bench.gate.await_inside(1);
            bench.gate.open();
        });
        assert_eq!(block_on(late).unwrap(), 2);
    });
}

#[test]
fn the_waker_given_last_is_woken() {
    struct Count(AtomicUsize, Thread);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.1.unpark();
        }
    }
    let (_server, bench, client) = lab();
    let mut pending = pin!(client.begin().wait(1));
    let wakers = [0, 0].map(|count| Arc::new(Count(AtomicUsize::new(count), thread::current())));
    for waker in wakers.iter().map(|count| Waker::from(Arc::clone(count))) {
        assert!(pending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    bench.gate.open();
    while wakers[1].0.load(Ordering::SeqCst) == 0 {
        thread::park();
    }
    assert_eq!(wakers[0].0.load(Ordering::SeqCst), 0);
    let waker = Waker::from(Arc::clone(&wakers[1]));
    assert!(pending.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn a_dropped_call_that_has_not_left_does_not_run() {
    let (_server, _, client) = lab();
    let calls = client.begin();
    drop(calls.count());
    assert_eq!(calls.counted().wait().unwrap(), 0);
    drop(calls);
    assert_eq!(client.counted().unwrap(), 0);
}

#[test]
fn places_of_dropped_calls_are_used_again() {
    let (_server, bench, client) = lab_with(&BindOptions::new(), Server::new().workers(4));
    let dropped = client.begin().wait(1);
    bench.gate.await_inside(1);
    drop(dropped);
    for _ in 0..100 {
        drop(begin_many(&client, 100));
    }
    bench.gate.open();
    check(stoop::wait_all(begin_many(&client, 100)));
}

#[test]
fn a_detached_call_runs_though_its_client_is_dropped() {
    let (_server, bench, client) = lab();
    for _ in 0..10 {
        client.begin().count().detach();
    }
    let held = client.begin();
    held.count().detach();
    drop(held);
    drop(client);
    await_count(&bench.counted, 11);
}

/// Waits until that many have been counted. There is nothing else to wait for: nobody is told.
fn await_count(counted: &AtomicUsize, count: usize) {
    while counted.load(Ordering::SeqCst) < count {
        thread::yield_now();
    }
}

#[test]
fn handles_keep_the_binding() {
    let (_server, bench, client) = lab();
    let pending = client.begin().wait(1);
    drop(client);
    bench.gate.open();
    assert_eq!(pending.wait().unwrap(), 2);
}

#[test]
fn a_forgotten_handle_harms_nobody() {
    let (_server, _, client) = lab();
    for pending in begin_many(&client, 10) {
        std::mem::forget(pending);
    }
    check(stoop::wait_all(begin_many(&client, 10)));
}

#[test]
fn threads_begin_and_wait_at_once() {
    let (_server, _, client) = lab_with(&BindOptions::new(), Server::new().workers(4));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..50 {
                    check(stoop::wait_all(begin_many(&client, round * 3)));
                }
            });
        }
    });
    let counters = client.binding().counters();
    assert_eq!(counters.calls, 8 * (0..50).map(|round| round * 3).sum::<u64>());
}

#[test]
fn a_handle_is_waited_for_by_another_thread() {
    let (_server, _, client) = lab();
    let pending = begin_many(&client, 100);
    thread::scope(|scope| {
        let waits = |pending: Pending<Result<u32, CallError>>| scope.spawn(move || pending.wait());
        let threads: Vec<_> = pending.into_iter().map(waits).collect();
        check(threads.into_iter().map(|thread| thread.join().unwrap()).collect());
    });
}

#[test]
fn a_thread_that_waits_does_not_depend_on_one_that_waits_longer() {
    let (_server, bench, client) = lab();
    let slow = client.begin().wait(1);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(slow.wait().unwrap(), 2));
        bench.gate.await_inside(1);
        for _ in 0..100 {
            assert_eq!(client.begin().next(5).wait().unwrap(), 6);
        }
        bench.gate.open();
    });
}

#[test]
fn blocking_calls_and_calls_in_flight_share_a_binding() {
    let (_server, _, client) = lab();
    let pending = begin_many(&client, 50);
    assert_eq!(client.next(7).unwrap(), 8);
    check(stoop::wait_all(pending));
}

#[test]
fn one_way_calls_arrive_without_anybody_waiting() {
    let (_server, bench, client) = lab();
    for number in 0..100 {
        client.told(number).unwrap();
    }
    drop(client);
    await_count(&bench.counted, 100);
}

#[test]
fn a_restarted_server_is_bound_to_again() {
    let (server, _, client) = lab();
    check(stoop::wait_all(begin_many(&client, 10)));
    let uri = server.uris()[0].clone();
    drop(server);
    let again = Server::new().export(LabServer::new(Bench::default())).listen(&uri).unwrap().start().unwrap();
    // What was out may have run before the restart, as far as anybody knows.
    for result in stoop::wait_all(begin_many(&client, 100)) {
        let error = result.unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }), "{error}");
    }
    check(stoop::wait_all(begin_many(&client, 100)));
    drop(again);
}

#[test]
fn a_result_whose_reader_panics_gives_its_place_back_once() {
    let (_server, _, client) = lab();
    for count in [0, 40, 500, 5000] {
        let calls = client.begin();
        let pending: Vec<_> = (0..20).map(|_| calls.fragile(count)).collect();
        drop(calls);
        for pending in pending {
            assert!(catch_unwind(AssertUnwindSafe(|| pending.wait().is_ok())).is_err());
        }
        // Two that had been given the same place would have the same result.
        check(stoop::wait_all(begin_many(&client, 100)));
    }
}

#[test]
fn each_call_ends_by_its_own_deadline_while_there_is_no_server_to_bind_to() {
    let options = BindOptions::new().bind_timeout(Duration::from_secs(3600));
    let (server, _, client) = lab_with(&options, Server::new());
    check(stoop::wait_all(begin_many(&client, 10)));
    let address = server.uris()[0].strip_prefix("udp://").unwrap().to_owned();
    drop(server);
    let forgetful = UdpSocket::bind(address).unwrap();
    thread::spawn(move || {
        let mut packet = [0; 1500];
        while let Ok((len, caller)) = forgetful.recv_from(&mut packet) {
            let (call, _) = Header::parse(&packet[..len]).unwrap();
            if call.kind == Kind::Call {
                let mut refusal = Header::bare(Kind::Refusal, call.binding, call.lane, call.number);
                refusal.time = RefusalCode::UnknownBinding.code();
                forgetful.send_to(&refusal.to_bytes(), caller).unwrap();
            }
        }
    });
    let hurried = client.with_timeout(Duration::from_millis(200));
    let long = client.begin().next(1);
    for number in 0..3 {
        let short = hurried.begin().next(number);
        let error = block_on(short).unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }), "{error}");
        assert!(!long.is_ready());
    }
}

#[test]
fn a_closed_port_is_noticed() {
    let (server, _, client) = lab();
    check(stoop::wait_all(begin_many(&client, 10)));
    drop(server);
    for result in stoop::wait_all(begin_many(&client, 100)) {
        let error = result.unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::PortClosed, .. }), "{error}");
    }
}
