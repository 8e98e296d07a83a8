//! Slow peers and procedures, and the callers that must not wait for them.

use super::*;

claims! { remote: [
    a_slow_procedure_does_not_hold_up_other_calls_of_its_binding
    a_call_that_takes_too_long_ends_at_its_deadline_and_the_binding_lives_on
    among_many_callers_those_whose_deadline_passes_do_not_disturb_the_others
    the_deadline_travels_and_bounds_nested_calls
    calls_beyond_workers_and_queue_are_refused
    a_call_that_still_waits_for_a_worker_is_refused_before_its_deadline
] }

fn a_slow_procedure_does_not_hold_up_other_calls_of_its_binding(transport: &str) {
    let (_server, gate, client) = lab(transport);
    thread::scope(|scope| {
        let slow: Vec<_> = (0..20).map(|_| scope.spawn(|| client.wait().unwrap())).collect();
        gate.await_inside(20);
        for number in 0..50 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        gate.open();
        slow.into_iter().for_each(|slow| assert_eq!(slow.join().unwrap(), 7));
    });
}

fn a_call_that_takes_too_long_ends_at_its_deadline_and_the_binding_lives_on(transport: &str) {
    let (server, gate, client) = lab(transport);
    for _ in 0..3 {
        let (error, _) = too_late(&client, LabClient::wait);
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }), "{error}");
        assert_eq!(error.ran(), Ran::Perhaps);
        // The procedure still runs, and the next call of this thread does not wait for it.
        assert_eq!(client.next(1).unwrap(), 2);
    }
    gate.open();
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(server.counters().bindings, 1);
}

fn among_many_callers_those_whose_deadline_passes_do_not_disturb_the_others(transport: &str) {
    let (_server, gate, client) = lab(transport);
    let hurried = client.with_timeout(Duration::from_millis(5));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| drop(hurried.wait().unwrap_err())));
            scope.spawn(|| (0..200).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    gate.open();
}

fn the_deadline_travels_and_bounds_nested_calls(transport: &str) {
    let (server, _, client) = lab(transport);
    let (hurried, patient) =
        (client.with_timeout(Duration::from_secs(10)), client.with_timeout(Duration::from_secs(60)));
    let left = hurried.left().unwrap();
    assert!((1..=10_000).contains(&left), "{left}");
    let uri = &server.uris()[0];
    let left = hurried.left_through(uri, 60_000).unwrap();
    assert!((1..=10_000).contains(&left), "the inner call asked for a minute and got {left} ms");
    let left = patient.left_through(uri, 10_000).unwrap();
    assert!((1..=10_000).contains(&left), "the inner call asked for ten seconds and got {left} ms");
}

fn calls_beyond_workers_and_queue_are_refused(transport: &str) {
    let (_server, gate, client) = lab_with(transport, Server::new().workers(2).queue(3), &patient(transport));
    thread::scope(|scope| {
        let (ends, ended) = std::sync::mpsc::channel();
        for _ in 0..8 {
            let (client, ends) = (&client, ends.clone());
            scope.spawn(move || ends.send(client.wait()).unwrap());
        }
        for _ in 0..3 {
            let refused = ended.recv().unwrap().unwrap_err();
            assert_eq!(refused.ran(), Ran::No);
            let CallError::Refused(refusal, ..) = refused else { panic!("{refused}") };
            assert_eq!(refusal.code, RefusalCode::Overloaded);
            assert!(refusal.retry_after.is_some(), "{refusal}");
        }
        gate.open();
        assert!((0..5).all(|_| ended.recv().unwrap().unwrap() == 7));
    });
    assert_eq!(client.next(1).unwrap(), 2);
}

fn a_call_that_still_waits_for_a_worker_is_refused_before_its_deadline(transport: &str) {
    let (server, gate, client) = lab_with(transport, Server::new().workers(1), &patient(transport));
    thread::scope(|scope| {
        let running = scope.spawn(|| client.wait().unwrap());
        gate.await_inside(1);
        let hurried = client.with_timeout(Duration::from_millis(500));
        // On a busy machine the refusal may reach the caller after the deadline.
        let is_refused = |result| match result {
            Err(CallError::Refused(refusal, ..)) => refusal.code == RefusalCode::DeadlinePassed,
            _ => false,
        };
        eventually(|| is_refused(hurried.next(1)));
        eventually(|| is_refused(hurried.begin().next(1).wait()));
        assert!(server.counters().queue.overdue >= 2, "{:?}", server.counters());
        gate.open();
        assert_eq!(running.join().unwrap(), 7);
        assert_eq!(client.next(1).unwrap(), 2);
    });
}
