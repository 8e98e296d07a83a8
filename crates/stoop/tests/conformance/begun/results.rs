//! The results of begun calls.

use super::*;

claims! { all: [
    results_come_back_to_their_own_calls_however_they_are_waited_for
    five_thousand_calls_are_outstanding_from_one_thread
    every_kind_of_outcome_is_that_of_the_blocking_method
    messages_of_all_lengths_travel_with_begun_calls
    long_arguments_and_results_travel_with_short_ones
    long_calls_go_on_after_many_batches_of_begun_ones
    a_result_whose_reader_panics_gives_its_place_back_once
    begun_calls_and_blocking_ones_share_a_binding
] }

fn results_come_back_to_their_own_calls_however_they_are_waited_for(transport: &str) {
    for waiting in [Waiting::Adaptive, Waiting::Block, Waiting::Spin] {
        let (_server, _, client) = works_with(transport, Server::new(), &patient(transport).waiting(waiting));
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

fn five_thousand_calls_are_outstanding_from_one_thread(transport: &str) {
    let (_server, _, client) = works_with(transport, Server::new().queue(5000), &patient(transport));
    for _ in 0..3 {
        check(stoop::wait_all(begin_many(&client, 5000)));
    }
}

fn every_kind_of_outcome_is_that_of_the_blocking_method(transport: &str) {
    let (_server, _, client) = works_with(transport, Server::new().panic_texts(true), &patient(transport));
    let calls = client.begin();
    let panicked = calls.panic("on purpose");
    let (divided, not_divided) = (calls.divide(5), calls.divide(0));
    let mixed = calls.mixed(&[1, 2, 3], 2, &"so".to_owned());
    let (none, full, taken) = (calls.bytes(0), calls.bytes(1436), calls.take(&[1; 1436]));
    drop(calls);
    let CallError::Failed(failure, ..) = panicked.wait().unwrap_err() else { panic!("not failed") };
    assert_eq!((failure.code, failure.detail.as_str()), (FailureCode::Panicked, "on purpose"));
    assert_eq!(divided.wait().unwrap(), 20);
    let Error::Application(why) = not_divided.wait().unwrap_err() else { panic!("no error of its own") };
    assert_eq!(why, "by zero");
    assert_eq!(mixed.wait().unwrap(), (6, vec![3, 2, 1], vec![7, 7], "so!".into()));
    assert_eq!((none.wait().unwrap(), full.wait().unwrap().len()), (vec![], 1436));
    assert_eq!(taken.wait().unwrap(), 1436);
}

fn messages_of_all_lengths_travel_with_begun_calls(transport: &str) {
    let (_server, _, client) = works(transport);
    let calls = client.begin();
    let messages: Vec<Vec<u8>> = (0..60).map(|number| vec![number as u8; 1 << (number % 20)]).collect();
    let pending: Vec<_> = messages.iter().map(|message| calls.echo(message)).collect();
    drop(calls);
    for (message, echo) in messages.iter().zip(stoop::wait_all(pending)) {
        assert_eq!(echo.unwrap(), *message);
    }
}

fn long_arguments_and_results_travel_with_short_ones(transport: &str) {
    let (_server, _, client) = works(transport);
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

fn long_calls_go_on_after_many_batches_of_begun_ones(transport: &str) {
    let (_server, _, client) = works(transport);
    let (client, bytes) = (client.with_timeout(Duration::from_secs(10)), [7; 5000]);
    for _ in 0..200 {
        let calls = client.begin();
        let pending: Vec<_> = (0..8).map(|_| calls.take(&bytes)).collect();
        drop(calls);
        stoop::wait_all(pending).into_iter().for_each(|taken| assert_eq!(taken.unwrap(), 5000));
    }
    assert_eq!(client.take(&bytes).unwrap(), 5000);
}

fn a_result_whose_reader_panics_gives_its_place_back_once(transport: &str) {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    // Within a process nothing is read.
    if transport == "local" {
        return;
    }
    let (_server, _, client) = works(transport);
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

fn begun_calls_and_blocking_ones_share_a_binding(transport: &str) {
    let (_server, _, client) = works(transport);
    let pending = begin_many(&client, 100);
    assert_eq!(client.next(7).unwrap(), 8);
    check(stoop::wait_all(pending));
    if transport != "local" {
        assert_eq!(client.binding().counters().calls, 101);
    }
}
