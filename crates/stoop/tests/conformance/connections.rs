//! Transports on which nothing is lost, and each binding has a connection.

use super::*;

claims! { tcp unix shm: [
    a_call_takes_the_fast_path_and_is_counted_once
    a_call_larger_than_the_server_takes_is_refused_with_the_limit
] }

fn a_call_takes_the_fast_path_and_is_counted_once(transport: &str) {
    let (server, _, client) = lab(transport);
    assert_eq!(client.next(41).unwrap(), 42);
    let counters = client.binding().counters();
    assert_eq!((counters.calls, counters.fast), (1, 1));
    let counters = server.counters();
    assert_eq!((counters.calls, counters.bindings, counters.malformed), (1, 1, 0));
}

fn a_call_larger_than_the_server_takes_is_refused_with_the_limit(transport: &str) {
    let (server, _, client) = lab_with(transport, Server::new().max_message(100_000), &patient(transport));
    let refused = client.sum(&vec![0; 5_000_000]).unwrap_err();
    let CallError::Refused(refusal, ..) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code, RefusalCode::MessageTooLarge);
    assert!(refusal.detail.contains("100000"), "{refusal}");
    let counters = server.counters();
    assert_eq!((counters.calls, counters.refused, counters.bindings), (0, 1, 1));
}
