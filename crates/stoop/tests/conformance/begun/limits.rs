//! Begun calls without time or room, and servers that end.

use super::*;
use std::time::Instant;

claims! { all: [
    a_call_that_has_no_time_fails_by_itself
    a_call_ends_by_its_deadline_while_others_go_on
    a_call_that_is_begun_after_others_of_its_group_has_all_of_its_time
    what_is_too_long_fails_by_itself
    more_calls_than_may_wait_are_refused
    a_server_that_shuts_down_finishes_what_runs_and_refuses_the_rest
    the_last_result_of_a_server_that_shuts_down_reaches_a_future
] }

fn a_call_that_has_no_time_fails_by_itself(transport: &str) {
    let (_server, _, client) = works(transport);
    let pending = client.with_timeout(Duration::ZERO).begin().next(1);
    assert!(pending.is_ready());
    let error = pending.wait().unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
    let left = client.begin().left().wait().unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
}

fn a_call_ends_by_its_deadline_while_others_go_on(transport: &str) {
    let (_server, works, client) = works(transport);
    let long = client.begin().wait(1);
    let hurried = client.with_timeout(Duration::from_millis(30));
    for result in [hurried.begin().wait(2).wait(), block_on(hurried.begin().wait(2))] {
        match result.unwrap_err() {
            CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. } => {}
            // The machine has more to do than this.
            error => assert_eq!(error.ran(), Ran::No, "{error}"),
        }
    }
    works.gate.open();
    assert_eq!(long.wait().unwrap(), 2);
}

fn a_call_that_is_begun_after_others_of_its_group_has_all_of_its_time(transport: &str) {
    // Each call stays at the gate.
    let (_server, works, client) = works_with(transport, Server::new().workers(32), &patient(transport));
    let _opens = works.gate.open_on_drop();
    let timeout = Duration::from_millis(40);
    let client = client.with_timeout(timeout);
    for pause in [Duration::from_micros(300); 10].into_iter().chain([timeout / 2]) {
        let calls = client.begin();
        let (first, begun_first) = (calls.wait(1), Instant::now());
        eventually(|| begun_first.elapsed() >= pause);
        let begun = Instant::now();
        let second = calls.wait(2);
        drop(calls);
        let error = second.wait().unwrap_err();
        // The server may refuse a call that it has not begun to run shortly before its deadline.
        assert!(
            begun.elapsed() >= timeout || error.ran() == Ran::No,
            "{pause:?}: {:?}, {error}",
            begun.elapsed()
        );
        drop(first);
    }
}

fn what_is_too_long_fails_by_itself(transport: &str) {
    // Within a process nothing has a length.
    if transport == "local" {
        return;
    }
    let (_server, _, client) = works_with(transport, Server::new(), &patient(transport).max_message(10_000));
    let calls = client.begin();
    let (argument, result, short) = (calls.take(&[0; 20_000]), calls.bytes(20_000), calls.next(1));
    drop(calls);
    assert_eq!(argument.wait().unwrap_err().ran(), Ran::No);
    let error = result.wait().unwrap_err();
    assert!(
        matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::ResultTooLarge),
        "{error}"
    );
    assert_eq!(short.wait().unwrap(), 2);
}

fn more_calls_than_may_wait_are_refused(transport: &str) {
    let (_server, works, client) =
        works_with(transport, Server::new().workers(1).queue(2), &patient(transport));
    let first = client.begin().wait(0);
    works.gate.await_inside(1);
    let calls = client.begin();
    let pending: Vec<_> = (1..20).map(|number| calls.wait(number)).collect();
    drop(calls);
    let opener = thread::spawn(move || works.gate.open());
    let results = stoop::wait_all(pending.into_iter().chain([first]));
    opener.join().unwrap();
    for error in results.into_iter().filter_map(Result::err) {
        let CallError::Refused(refusal, ..) = error else { panic!("{error}") };
        assert_eq!(refusal.code, RefusalCode::Overloaded);
    }
}

fn a_server_that_shuts_down_finishes_what_runs_and_refuses_the_rest(transport: &str) {
    let (server, works, client) = works_with(transport, Server::new().workers(1), &patient(transport));
    let calls = client.begin();
    let (running, waiting) = (calls.wait(1), calls.wait(2));
    drop(calls);
    works.gate.await_inside(1);
    let stopper = thread::spawn(move || server.shut_down());
    if transport == "local" {
        let error = waiting.wait().unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
    } else {
        // It had arrived.
        drop(waiting);
    }
    works.gate.open();
    assert_eq!(running.wait().unwrap(), 2);
    stopper.join().unwrap();
    // Over an Ethernet nothing tells that the server has gone.
    assert!(client.with_timeout(Duration::from_millis(100)).begin().next(1).wait().is_err());
}

fn the_last_result_of_a_server_that_shuts_down_reaches_a_future(transport: &str) {
    for _ in 0..5 {
        let (server, works, client) = works(transport);
        let running = client.begin().wait(1);
        works.gate.await_inside(1);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| block_on(running));
            scope.spawn(|| server.shut_down());
            works.gate.open();
            assert_eq!(waiting.join().unwrap().unwrap(), 2);
        });
    }
}
