//! Callbacks that call the server, which calls back.

use crate::harness::eventually;
use crate::*;

claims! {[
    callbacks_nest_and_one_that_is_too_deep_is_refused
    one_way_callbacks_wait_while_a_callback_waits_for_a_call_of_its_own
    so_many_callbacks_run_at_once_as_the_options_say
    a_server_calls_back_from_an_async_procedure
]}

fn callbacks_nest_and_one_that_is_too_deep_is_refused(transport: &str) {
    let (_server, _, screen, room) = joined(transport);
    screen.room.set(room.clone()).unwrap();
    for depth in 0..8 {
        assert_eq!(room.down(depth).unwrap(), depth + 1);
    }
    let error = room.down(40).unwrap_err().to_string();
    assert!(error.contains("eight callbacks of this client wait"), "{error}");
    // All threads are there again.
    assert_eq!(room.down(7).unwrap(), 8);
    screen.room.get().expect("it was set");
}

fn one_way_callbacks_wait_while_a_callback_waits_for_a_call_of_its_own(transport: &str) {
    let (_server, _, screen, room) = joined(transport);
    screen.room.set(room.clone()).unwrap();
    let texts: Vec<_> = (0..100).map(|number: u32| number.to_string()).collect();
    assert_eq!(room.tell_and_ask(&texts).unwrap(), 7);
    eventually(|| screen.lines().len() == 100);
    assert_eq!(screen.lines(), texts);
}

fn so_many_callbacks_run_at_once_as_the_options_say(transport: &str) {
    let (_server, hall, screen, _room) = joined_with(transport, |options| options.callback_threads(3));
    let _opens = screen.gate.open_on_drop();
    let guest = hall.guest();
    let begin = guest.begin();
    let calls: Vec<_> = (0..3).map(|number| begin.next_later(number)).collect();
    drop(begin);
    screen.gate.await_inside(3);
    screen.gate.open();
    let numbers: Vec<_> = calls.into_iter().map(|call| call.wait().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

fn a_server_calls_back_from_an_async_procedure(transport: &str) {
    let (_server, _, _, room) = joined(transport);
    assert_eq!(room.next_awaited(6).unwrap(), 7);
    assert_eq!(room.begin().next_awaited(7).wait().unwrap(), 8);
}
