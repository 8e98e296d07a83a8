//! Calls and their results.

use super::*;

claims! { all and lossy: [
    results_belong_to_their_calls
    every_way_of_waiting_works
    many_threads_call_over_one_binding
    buffers_are_filled_and_changed_over_there
    results_land_where_they_belong_with_what_comes_beside
    a_procedure_finds_nothing_of_other_callers_in_what_it_fills
    a_panic_is_an_error_to_its_caller_and_nothing_to_others
    a_panics_message_stays_on_the_machine_unless_the_server_says_otherwise
] }

mod counted {
    use super::*;

    claims! { remote: [a_call_is_counted_as_begun_or_as_refused_and_never_as_both] }

    fn a_call_is_counted_as_begun_or_as_refused_and_never_as_both(transport: &str) {
        let (server, _, client) =
            lab_with(transport, Server::new().max_message(100_000), &patient(transport));
        let counted = || (server.counters().calls, server.counters().refused);
        assert_eq!(client.next(1).unwrap(), 2);
        assert_eq!(counted(), (1, 0));
        let refused = client.fill(1, &mut [0; 200_000]).unwrap_err();
        assert!(
            matches!(&refused, CallError::Refused(why, ..) if why.code == RefusalCode::ResultTooLarge),
            "{refused}"
        );
        assert_eq!(counted(), (1, 1));
        client.panic("so it is").unwrap_err();
        assert_eq!(counted(), (2, 1), "it ran");
        client.fill(1, &mut [0; 90_000]).unwrap();
        assert_eq!(counted(), (3, 1));
    }
}

mod many_threads {
    use super::*;

    claims! { ether udp memory: [more_threads_than_a_link_has_endpoints_call_over_one_binding] }

    fn more_threads_than_a_link_has_endpoints_call_over_one_binding(transport: &str) {
        let (_server, _, client) = lab(transport);
        let together = std::sync::Barrier::new(70);
        thread::scope(|scope| {
            for number in 0..70 {
                let (client, together) = (&client, &together);
                scope.spawn(move || {
                    // Each thread has its lane now, and keeps it.
                    assert_eq!(client.next(number).unwrap(), number + 1);
                    together.wait();
                    (0..20).for_each(|_| assert_eq!(client.next(number).unwrap(), number + 1));
                });
            }
        });
    }
}

fn results_belong_to_their_calls(transport: &str) {
    let (_server, _, client) = lab(transport);
    client.null().unwrap();
    assert_eq!(client.next(41).unwrap(), 42);
    // And after a result so long that its buffer was not kept.
    assert_eq!(client.bytes(1 << 20, 3).unwrap(), vec![3; 1 << 20]);
    client.null().unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
}

fn every_way_of_waiting_works(transport: &str) {
    for waiting in [Waiting::Adaptive, Waiting::Spin, Waiting::Block] {
        let options = patient(transport).waiting(waiting);
        let (server, _, client) = lab_with(transport, Server::new().waiting(waiting), &options);
        for number in 0..100 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        let other = LabClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
        assert_eq!((other.next(1).unwrap(), client.next(2).unwrap()), (2, 3));
    }
}

fn many_threads_call_over_one_binding(transport: &str) {
    let (_server, _, client) = lab(transport);
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
}

fn buffers_are_filled_and_changed_over_there(transport: &str) {
    let (_server, _, client) = lab(transport);
    for len in [0, 10, 5000, 300_000] {
        let mut buffer = vec![0; len];
        client.fill(9, &mut buffer).unwrap();
        assert_eq!(buffer, vec![9; len]);
        client.increment(&mut buffer).unwrap();
        assert_eq!(buffer, vec![10; len]);
    }
}

fn results_land_where_they_belong_with_what_comes_beside(transport: &str) {
    let (_server, _, client) = lab(transport);
    for len in [3, 5_001, 200_003] {
        let (mut first, mut second) = (vec![0_u8; len], vec![0_u64; len / 2]);
        let rest = client.both(&mut first, &mut second).unwrap();
        assert!(first.iter().enumerate().all(|(place, byte)| *byte == place as u8), "{len}");
        assert!(second.iter().enumerate().all(|(place, word)| *word == place as u64), "{len}");
        assert_eq!(rest, format!("{len} and {}", len / 2));
    }
}

fn a_panic_is_an_error_to_its_caller_and_nothing_to_others(transport: &str) {
    let (_server, _, client) = lab(transport);
    panics(&client);
    assert_eq!(client.next(1).unwrap(), 2);
}

fn a_procedure_finds_nothing_of_other_callers_in_what_it_fills(transport: &str) {
    // One worker has all calls, and one buffer for their results.
    let (server, _, client) = lab_with(transport, Server::new().workers(1), &patient(transport));
    let other = LabClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    for len in [8, 40, 1000, 4000, 100_000] {
        let (mut filled, mut found) = (vec![0; len], vec![0; len]);
        client.fill(7, &mut filled).unwrap();
        assert_eq!(other.found(&mut found).unwrap(), 0, "{len} bytes behind an argument");
        assert!(found.iter().all(|byte| *byte == 0));
        client.bytes(len as u32, 9).unwrap();
        assert_eq!(other.found(&mut found).unwrap(), 0, "{len} bytes behind a result");
    }
}

/// The message with which a call fails whose procedure panics; empty if the server does not tell it. Blocking and begun calls get the
/// same.
fn panics(client: &LabClient) -> String {
    let errors = [client.panic("out of luck"), client.begin().panic("out of luck").wait()];
    let messages = errors.map(|outcome| {
        let error = outcome.unwrap_err();
        let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
        assert_eq!((failure.code, error.ran()), (FailureCode::Panicked, Ran::Yes));
        let text = error.to_string();
        let where_it_is_told = match failure.detail.is_empty() {
            true => "the server's standard error tells why and where",
            false => "the standard error of its process tells where",
        };
        assert!(text.contains("panicked") && text.contains(where_it_is_told), "{text}");
        assert_eq!(text.contains("out of luck"), !failure.detail.is_empty(), "{text}");
        failure.detail.clone()
    });
    assert_eq!(messages[0], messages[1]);
    let [message, _] = messages;
    message
}

fn a_panics_message_stays_on_the_machine_unless_the_server_says_otherwise(transport: &str) {
    let message = |server| panics(&lab_with(transport, server, &patient(transport)).2);
    let is_within_machine = ["local", "unix", "shm"].contains(&transport);
    assert_eq!(message(Server::new()), if is_within_machine { "out of luck" } else { "" });
    assert_eq!(message(Server::new().panic_texts(true)), "out of luck");
    // A caller in the server's own process could see it anyway.
    assert_eq!(
        message(Server::new().panic_texts(false)),
        if transport == "local" { "out of luck" } else { "" }
    );
}
