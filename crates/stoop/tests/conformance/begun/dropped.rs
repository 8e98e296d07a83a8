//! Handles that are dropped, detached, forgotten, or outlive their client.

use super::*;

claims! { all: [
    a_procedure_sees_that_its_handle_was_dropped
    a_dropped_call_that_has_not_left_does_not_run
    a_call_that_is_dropped_before_it_begins_never_runs
    places_of_dropped_calls_are_used_again
    a_thread_s_first_call_waits_until_dropped_calls_leave_it_a_lane
    a_detached_call_goes_on_though_its_client_is_dropped
    what_is_told_one_way_arrives_once_though_the_client_is_gone
    a_one_way_call_does_not_wait_for_its_procedure
    long_results_reach_a_future_and_nobody
    handles_keep_the_binding
    a_forgotten_handle_harms_nobody
    handles_that_are_dropped_detached_and_waited_for_at_once_disturb_nobody
] }

fn a_procedure_sees_that_its_handle_was_dropped(transport: &str) {
    let (_server, works, client) = works(transport);
    works.gate.open();
    let calls = client.begin();
    let (dropped, other) = (calls.until_cancelled(), calls.until_cancelled());
    drop(calls);
    works.gate.await_inside(2);
    drop(dropped);
    eventually(|| works.cancelled.load(Ordering::SeqCst) == 1);
    assert!(!other.is_ready());
    drop(other);
    eventually(|| works.cancelled.load(Ordering::SeqCst) == 2);
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
}

fn a_dropped_call_that_has_not_left_does_not_run(transport: &str) {
    let (_server, works, client) = works(transport);
    works.gate.open();
    // On a busy machine another thread may let a call leave, or run it, before it is dropped. Then another is dropped.
    let has_not_run = (0..100).any(|_| {
        let before = works.gate.inside();
        let calls = client.begin();
        drop(calls.wait(1));
        assert_eq!(calls.next(1).wait().unwrap(), 2);
        drop(calls);
        assert_eq!(client.next(1).unwrap(), 2);
        works.gate.inside() == before
    });
    assert!(has_not_run);
}

fn a_call_that_is_dropped_before_it_begins_never_runs(transport: &str) {
    let (server, works, client) = works_with(transport, Server::new().workers(1), &patient(transport));
    let held_up = client.begin().wait(1);
    works.gate.await_inside(1);
    let calls = client.begin();
    let dropped: Vec<_> = (0..5).map(|number| calls.wait(number)).collect();
    drop((calls, dropped));
    // Packets arrive in their order: what answers this has seen those.
    drop(WorksClient::bind(&server.uris()[0]).unwrap());
    works.gate.open();
    assert_eq!(held_up.wait().unwrap(), 2);
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
    server.shut_down();
    assert_eq!(works.gate.inside(), 1);
}

fn places_of_dropped_calls_are_used_again(transport: &str) {
    let (_server, works, client) = works_with(transport, Server::new().workers(4), &patient(transport));
    let dropped = client.begin().wait(1);
    works.gate.await_inside(1);
    drop(dropped);
    for _ in 0..100 {
        drop(begin_many(&client, 100));
    }
    works.gate.open();
    check(stoop::wait_all(begin_many(&client, 100)));
}

fn a_thread_s_first_call_waits_until_dropped_calls_leave_it_a_lane(transport: &str) {
    let server = Server::new().workers(1).queue(5000);
    let (_server, works, client) = works_with(transport, server, &patient(transport));
    let held_up = client.begin().wait(1);
    works.gate.await_inside(1);
    for _ in 0..100 {
        drop(begin_many(&client, 100));
    }
    let is_calling = AtomicBool::new(false);
    thread::scope(|scope| {
        let called = scope.spawn(|| {
            is_calling.store(true, Ordering::SeqCst);
            client.next(1)
        });
        eventually(|| is_calling.load(Ordering::SeqCst));
        (0..100).for_each(|_| thread::yield_now());
        works.gate.open();
        assert_eq!(called.join().unwrap().unwrap(), 2);
    });
    assert_eq!(held_up.wait().unwrap(), 2);
}

fn a_detached_call_goes_on_though_its_client_is_dropped(transport: &str) {
    let (_server, works, client) = works(transport);
    for _ in 0..10 {
        client.begin().note_interest().detach();
    }
    let calls = client.begin();
    calls.note_interest().detach();
    drop(calls);
    drop(client);
    works.gate.await_inside(11);
    works.gate.open();
    eventually(|| works.noted() == 11);
    assert!(works.notes.lock().unwrap().iter().all(|note| note == "wanted"));
}

fn what_is_told_one_way_arrives_once_though_the_client_is_gone(transport: &str) {
    let (_server, works, client) = works(transport);
    for number in 0..100 {
        client.note(&format!("{number:02}")).unwrap();
    }
    let calls = client.begin();
    calls.note("begun").wait().unwrap();
    drop(calls);
    drop(client);
    eventually(|| works.noted() == 101);
    let mut notes = std::mem::take(&mut *works.notes.lock().unwrap());
    notes.sort();
    assert!(notes.iter().take(100).zip(0..).all(|(note, number)| *note == format!("{number:02}")));
}

fn a_one_way_call_does_not_wait_for_its_procedure(transport: &str) {
    let (_server, works, client) = works(transport);
    // No thread can take the lock before the handle's drop has reported everything.
    let notes = works.notes.lock().unwrap();
    for _ in 0..10 {
        client.note("").unwrap();
    }
    drop(notes);
    eventually(|| works.noted() == 10);
}

fn long_results_reach_a_future_and_nobody(transport: &str) {
    let (_server, _, client) = works(transport);
    assert_eq!(block_on(client.begin().bytes(500_000)).unwrap().len(), 500_000);
    client.begin().bytes(500_000).detach();
    drop(client.begin().bytes(500_000));
    check(stoop::wait_all(begin_many(&client, 100)));
}

fn handles_keep_the_binding(transport: &str) {
    let (_server, works, client) = works(transport);
    let pending = client.begin().wait(1);
    drop(client);
    works.gate.open();
    assert_eq!(pending.wait().unwrap(), 2);
}

fn a_forgotten_handle_harms_nobody(transport: &str) {
    let (_server, _, client) = works(transport);
    for pending in begin_many(&client, 10) {
        std::mem::forget(pending);
    }
    check(stoop::wait_all(begin_many(&client, 10)));
}

fn handles_that_are_dropped_detached_and_waited_for_at_once_disturb_nobody(transport: &str) {
    let (server, works, client) = works(transport);
    works.gate.open();
    thread::scope(|scope| {
        for seed in 1..5_u32 {
            let client = &client;
            scope.spawn(move || {
                let mut random = seed;
                for _ in 0..60 {
                    let calls = client.begin();
                    let pending: Vec<_> = (0..50).map(|number| calls.next(number)).collect();
                    let long = calls.echo(&vec![7; 200_000]);
                    drop(calls);
                    for (number, each) in (0..).zip(pending) {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        match random >> 30 {
                            0 => drop(each),
                            1 => each.detach(),
                            2 => assert_eq!(block_on(each).unwrap(), number + 1),
                            _ => assert_eq!(each.wait().unwrap(), number + 1),
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
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(server.counters().malformed, 0);
}
