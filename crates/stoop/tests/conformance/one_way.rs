//! One-way calls: their order with the next call, how they end, and what their callers learn.

use super::*;
use crate::harness::LIMIT;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Instant;

claims! { all: [
    a_read_finds_what_the_thread_has_written_one_way
    a_read_finds_what_many_one_way_calls_have_added
    a_clone_keeps_the_order_of_its_thread
    calls_of_other_threads_do_not_wait_for_a_one_way_call
    a_call_behind_a_slow_one_way_call_ends_at_its_deadline_without_being_sent
    a_call_waits_for_a_one_way_call_for_which_another_thread_waits
    a_call_does_not_wait_for_an_unordered_one_way_call
    a_one_way_call_that_panics_holds_nothing_back
    a_one_way_call_that_cannot_leave_says_so
    a_one_way_call_goes_on_when_its_handle_is_dropped
    closing_waits_for_one_way_and_detached_calls
    two_threads_that_flush_wait_both
    closing_tells_what_has_not_ended_and_what_gave_no_result
    closing_waits_no_longer_than_it_may_for_a_call_that_has_no_worker
] }

#[stoop::interface]
trait Register {
    /// Writes it.
    #[one_way]
    fn write(&self, value: u64);
    /// Writes it when the gate is opened.
    #[one_way]
    fn write_slowly(&self, value: u64);
    /// The same, and the caller's next call may overtake it.
    #[one_way(unordered)]
    fn write_some_time(&self, value: u64);
    /// Adds one to it.
    #[one_way]
    fn add(&self);
    /// Takes bytes.
    #[one_way]
    fn take(&self, bytes: &[u8]);
    /// Panics.
    #[one_way]
    fn fail(&self);
    /// The values that were written.
    fn read(&self) -> u64;
}

#[derive(Clone, Default)]
struct Cell {
    gate: Gate,
    value: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

impl Register for Cell {
    fn write(&self, value: u64) {
        self.value.store(value, Ordering::SeqCst);
    }
    fn write_slowly(&self, value: u64) {
        self.gate.pass();
        self.write(value);
    }
    fn write_some_time(&self, value: u64) {
        self.write_slowly(value);
    }
    fn add(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
    }
    fn take(&self, _: &[u8]) {}
    fn fail(&self) {
        panic!("expected");
    }
    fn read(&self) -> u64 {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.value.load(Ordering::SeqCst)
    }
}

fn register(transport: &str) -> (RunningServer, Cell, RegisterClient) {
    register_with(transport, 64)
}

fn register_with(transport: &str, workers: usize) -> (RunningServer, Cell, RegisterClient) {
    let cell = Cell::default();
    let server = Server::new().export(RegisterServer::new(cell.clone())).workers(workers);
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = RegisterClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    (server, cell, client)
}

fn a_read_finds_what_the_thread_has_written_one_way(transport: &str) {
    let (_server, _, client) = register(transport);
    for value in 0..2000 {
        client.write(value).unwrap();
        assert_eq!(client.read().unwrap(), value);
    }
}

fn a_read_finds_what_many_one_way_calls_have_added(transport: &str) {
    let (_server, _, client) = register(transport);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 1..20 {
                    let before = client.read().unwrap();
                    for _ in 0..round {
                        client.add().unwrap();
                    }
                    let after = client.read().unwrap();
                    assert!(after >= before + round, "{after} after {before} and {round}");
                }
            });
        }
    });
    assert_eq!(client.read().unwrap(), 3 * (1..20).sum::<u64>());
}

fn a_clone_keeps_the_order_of_its_thread(transport: &str) {
    let (_server, _, client) = register(transport);
    let clone = client.with_timeout(Duration::from_secs(60));
    for value in (0..200).step_by(2) {
        client.write(value).unwrap();
        assert_eq!(clone.clone().read().unwrap(), value);
        clone.write(value + 1).unwrap();
        assert_eq!(client.read().unwrap(), value + 1);
    }
}

fn calls_of_other_threads_do_not_wait_for_a_one_way_call(transport: &str) {
    let (_server, cell, client) = register(transport);
    client.write_slowly(1).unwrap();
    cell.gate.await_inside(1);
    thread::scope(|scope| assert_eq!(scope.spawn(|| client.read()).join().unwrap().unwrap(), 0));
    cell.gate.open();
    assert_eq!(client.read().unwrap(), 1);
}

fn a_call_behind_a_slow_one_way_call_ends_at_its_deadline_without_being_sent(transport: &str) {
    let (_server, cell, client) = register(transport);
    client.write_slowly(1).unwrap();
    cell.gate.await_inside(1);
    let (begun, timeout) = (Instant::now(), Duration::from_millis(30));
    for _ in 0..2 {
        let error = client.with_timeout(timeout).read().unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::OneWayPending, ..)), "{error}");
        assert_eq!(error.ran(), Ran::No);
    }
    assert!(begun.elapsed() >= 2 * timeout);
    cell.gate.open();
    assert_eq!((client.read().unwrap(), cell.reads.load(Ordering::SeqCst)), (1, 1));
}

fn a_call_waits_for_a_one_way_call_for_which_another_thread_waits(transport: &str) {
    let (_server, cell, client) = register(transport);
    client.write_slowly(1).unwrap();
    cell.gate.await_inside(1);
    thread::scope(|scope| {
        let flushes = scope.spawn(|| client.binding().flush(LIMIT));
        for _ in 0..20 {
            let error = client.with_timeout(Duration::from_millis(3)).read().unwrap_err();
            assert!(matches!(error, CallError::NotSent(SendError::OneWayPending, ..)), "{error}");
        }
        cell.gate.open();
        assert_eq!((client.read().unwrap(), cell.reads.load(Ordering::SeqCst)), (1, 1));
        flushes.join().unwrap().unwrap();
    });
}

fn two_threads_that_flush_wait_both(transport: &str) {
    let (_server, cell, client) = register(transport);
    client.write_some_time(1).unwrap();
    cell.gate.await_inside(1);
    let flush_often = || {
        for _ in 0..20 {
            let report = client.binding().flush(Duration::from_millis(3));
            assert_eq!(report.unwrap_err().outstanding, 1);
        }
    };
    thread::scope(|scope| {
        scope.spawn(flush_often);
        flush_often();
    });
    cell.gate.open();
    client.binding().flush(LIMIT).unwrap();
}

fn a_call_does_not_wait_for_an_unordered_one_way_call(transport: &str) {
    let (_server, cell, client) = register(transport);
    client.write_some_time(1).unwrap();
    cell.gate.await_inside(1);
    assert_eq!(client.read().unwrap(), 0);
    cell.gate.open();
    client.close(Duration::from_secs(60)).unwrap();
}

fn a_one_way_call_that_panics_holds_nothing_back(transport: &str) {
    let (_server, _, client) = register(transport);
    client.fail().unwrap();
    assert_eq!(client.read().unwrap(), 0);
}

fn a_one_way_call_that_cannot_leave_says_so(transport: &str) {
    let (_server, _, client) = register(transport);
    let error = client.with_timeout(Duration::ZERO).write(1).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
    let error = client.take(&vec![0; 100 << 20]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_), ..)), "{error}");
    assert_eq!(client.read().unwrap(), 0);
}

fn a_one_way_call_goes_on_when_its_handle_is_dropped(transport: &str) {
    let (_server, cell, client) = register(transport);
    drop(client.begin().add());
    let calls = client.begin();
    drop(calls.add());
    let kept = calls.add();
    drop(calls.add());
    drop((calls, kept));
    client.close(Duration::from_secs(60)).unwrap();
    assert_eq!(cell.value.load(Ordering::SeqCst), 4);
}

fn closing_waits_for_one_way_and_detached_calls(transport: &str) {
    let (_server, cell, client) = register(transport);
    for _ in 0..100 {
        client.add().unwrap();
        client.begin().add().detach();
    }
    client.close(Duration::from_secs(60)).unwrap();
    assert_eq!(cell.value.load(Ordering::SeqCst), 200);
}

fn closing_tells_what_has_not_ended_and_what_gave_no_result(transport: &str) {
    let (_server, cell, client) = register(transport);
    client.binding().flush(Duration::ZERO).unwrap();
    client.write_slowly(1).unwrap();
    client.write_some_time(1).unwrap();
    cell.gate.await_inside(2);
    let unfinished = client.clone().close(Duration::from_millis(10)).unwrap_err();
    assert_eq!((unfinished.outstanding, unfinished.failed), (2, 0), "{unfinished}");
    cell.gate.open();
    client.fail().unwrap();
    let failed = client.binding().flush(Duration::from_secs(60)).unwrap_err();
    assert_eq!((failed.outstanding, failed.failed), (0, 1), "{failed}");
    assert!(
        matches!(&failed.cause, Some(CallError::Failed(why, ..)) if why.code == FailureCode::Panicked),
        "{failed}"
    );
    client.close(Duration::from_secs(60)).unwrap();
}

fn closing_waits_no_longer_than_it_may_for_a_call_that_has_no_worker(transport: &str) {
    let (_server, cell, client) = register_with(transport, 1);
    client.write_slowly(1).unwrap();
    cell.gate.await_inside(1);
    client.write_slowly(2).unwrap();
    let _opens = cell.gate.open_on_drop();
    let (closed, (send, receive)) = (client.clone(), mpsc::channel());
    thread::spawn(move || send.send(closed.close(Duration::from_millis(10)).unwrap_err().outstanding));
    let outstanding =
        receive.recv_timeout(Duration::from_secs(60)).expect("it gives up while the gate is closed");
    assert_eq!(outstanding, 2);
    cell.gate.open();
    client.close(Duration::from_secs(60)).unwrap();
}

/// A thread that waits for its one-way calls does not run their procedures itself.
mod in_process {
    use super::*;

    claims! { local: [a_call_behind_a_one_way_call_that_has_no_worker_ends_at_its_deadline] }

    fn a_call_behind_a_one_way_call_that_has_no_worker_ends_at_its_deadline(transport: &str) {
        let (_server, cell, client) = register_with(transport, 1);
        thread::scope(|scope| scope.spawn(|| client.write_slowly(1)).join().unwrap()).unwrap();
        cell.gate.await_inside(1);
        client.write_slowly(2).unwrap();
        // The gate is closed: the reader's thread must not run the procedure.
        let error = client.with_timeout(Duration::from_millis(30)).read().unwrap_err();
        cell.gate.open();
        assert!(matches!(error, CallError::NotSent(SendError::OneWayPending, ..)), "{error}");
    }
}

/// Over UDP a packet leaves even without a server.
mod gone {
    use super::*;

    claims! { local tcp unix shm: [a_one_way_call_to_a_server_that_is_gone_was_not_sent] }

    fn a_one_way_call_to_a_server_that_is_gone_was_not_sent(transport: &str) {
        let (server, _, client) = register(transport);
        client.add().unwrap();
        assert_eq!(client.read().unwrap(), 1);
        server.shut_down();
        // Until the loss has been noticed, a call may still leave.
        let client = client.with_timeout(Duration::from_secs(1));
        assert!(client.read().is_err());
        let error = client.add().unwrap_err();
        assert!(matches!(error, CallError::NotSent(..)), "{error}");
    }
}
