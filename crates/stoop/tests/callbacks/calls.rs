//! Callbacks and their outcomes.

use crate::harness::eventually;
use crate::{GuestClient, claims, joined};
use std::thread;
use stoop::{CallError, Ran, wait_all};

claims! {[
    a_procedure_calls_its_caller_while_it_waits
    a_server_calls_the_object_of_a_client_when_it_likes
    one_way_callbacks_run_in_the_order_in_which_they_were_made
    a_callback_runs_after_all_that_its_thread_has_made_before
    callbacks_are_begun_and_awaited
    a_handle_fails_when_its_client_has_gone
]}

fn a_procedure_calls_its_caller_while_it_waits(transport: &str) {
    let (_server, _, _, room) = joined(transport);
    for number in 0..100 {
        assert_eq!(room.next_of_caller(number).unwrap(), number + 1);
    }
    assert_eq!(room.begin().next_of_caller(7).wait().unwrap(), 8);
}

fn a_server_calls_the_object_of_a_client_when_it_likes(transport: &str) {
    let (_server, hall, _, _room) = joined(transport);
    let guest = hall.guest();
    for number in 0..100 {
        assert_eq!(guest.next(number).unwrap(), number + 1);
    }
}

fn one_way_callbacks_run_in_the_order_in_which_they_were_made(transport: &str) {
    const LINES: usize = 10_000;
    let (_server, hall, screen, _room) = joined(transport);
    let guest = hall.guest();
    (0..LINES).for_each(|line| guest.said(&line.to_string()).unwrap());
    eventually(|| screen.lines().len() == LINES);
    assert!(screen.lines().iter().enumerate().all(|(place, line)| *line == place.to_string()));
}

fn a_callback_runs_after_all_that_its_thread_has_made_before(transport: &str) {
    let (_server, hall, screen, _room) = joined(transport);
    let tell = |guest: GuestClient, text: &str| {
        for round in 1..=30 {
            (0..3).for_each(|_| guest.said(text).unwrap());
            assert_eq!(guest.next(7).unwrap(), 8);
            assert_eq!(screen.lines().iter().filter(|line| *line == text).count(), 3 * round);
        }
    };
    thread::scope(|scope| {
        let _other = scope.spawn(|| tell(hall.guest(), "other"));
        tell(hall.guest(), "own");
    });
}

fn callbacks_are_begun_and_awaited(transport: &str) {
    let (_server, hall, _, _room) = joined(transport);
    let guest = hall.guest();
    let begin = guest.begin();
    let calls: Vec<_> = (0..100).map(|number| begin.next(number)).collect();
    drop(begin);
    let numbers: Result<Vec<_>, _> = wait_all(calls).into_iter().collect();
    assert_eq!(numbers.unwrap(), (1..101).collect::<Vec<_>>());
    let guest = guest.to_async();
    assert_eq!(crate::harness::runtime::block_on(async { guest.next(7).await }).unwrap(), 8);
}

fn a_handle_fails_when_its_client_has_gone(transport: &str) {
    let (_server, hall, _, room) = joined(transport);
    let guest = hall.guest();
    drop(room);
    eventually(|| guest.said("?").is_err());
    let error = guest.next(7).unwrap_err();
    assert!(matches!(error, CallError::NotSent(..)) && error.ran() == Ran::No, "{error}");
}
