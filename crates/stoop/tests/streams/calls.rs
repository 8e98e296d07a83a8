//! Calls and their results over byte streams.

use super::*;

#[test]
fn a_call_returns_its_result() {
    let (server, _, client) = lab();
    assert_eq!(client.next(41).unwrap(), 42);
    let counters = client.binding().counters();
    assert_eq!((counters.calls, counters.fast), (1, 1));
    let counters = server.counters();
    assert_eq!((counters.calls, counters.bindings, counters.malformed), (1, 1, 0));
}

#[test]
fn every_way_of_waiting_works() {
    for waiting in [Waiting::Adaptive, Waiting::Spin, Waiting::Block] {
        let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().waiting(waiting));
        let options = BindOptions::new().waiting(waiting);
        let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        for number in 0..100 {
            assert_eq!(client.next(number).unwrap(), number + 1);
        }
        let other = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        assert_eq!((other.next(1).unwrap(), client.next(2).unwrap()), (2, 3));
    }
}

#[test]
fn many_threads_call_over_one_connection() {
    let (server, _, client) = lab();
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
    assert_eq!(client.binding().counters().calls, 3200);
    assert_eq!((server.counters().calls, server.counters().bindings), (3200, 1));
}

#[test]
fn many_connections_are_served_at_once() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let clients: Vec<_> = (0..50).map(|_| LabClient::bind(&server.uris()[0]).unwrap()).collect();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| (0..20).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    assert_eq!(server.counters().bindings, 50);
    drop(clients);
    eventually(|| server.counters().bindings == 0);
}

#[test]
fn large_messages_travel_both_ways_between_small_calls() {
    let (_server, _, client) = lab();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.next(1).unwrap(), 2);
                }
            });
        }
        let large = [(1 << 20, 3), (1 << 20, 4), (20 << 20, 5)].map(|(len, value)| {
            let client = &client;
            scope.spawn(move || {
                let bytes = vec![value; len];
                for _ in 0..3 {
                    assert_eq!(client.sum(&bytes).unwrap(), len as u64 * u64::from(value));
                    assert_eq!(client.bytes(len as u32, value).unwrap(), bytes);
                    assert_eq!(client.echo(&bytes).unwrap(), bytes);
                }
            })
        });
        let ended = large.map(|thread| thread.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn messages_around_the_length_of_a_fragment_travel() {
    let (_server, _, client) = lab();
    for around in [16 * 1024, STREAM_FRAGMENT, 2 * STREAM_FRAGMENT] {
        for len in around - 40..around + 8 {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
        }
    }
}

#[test]
fn buffers_are_filled_and_changed_over_there() {
    let (_server, _, client) = lab();
    for len in [0, 10, 5000, 300_000] {
        let mut buffer = vec![0; len];
        client.fill(9, &mut buffer).unwrap();
        assert_eq!(buffer, vec![9; len]);
        client.increment(&mut buffer).unwrap();
        assert_eq!(buffer, vec![10; len]);
    }
}

#[test]
fn a_panic_is_an_error_to_its_caller_and_nothing_to_others() {
    let (_server, _, client) = lab();
    let error = client.panic("out of luck").unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!((failure.code, &*failure.detail), (FailureCode::Panicked, "out of luck"));
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn callers_of_a_unix_socket_are_known_to_the_procedure() {
    let (server, _) = serve_at(&unix_name(), Server::new());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let caller = client.caller().unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    assert_eq!(caller, format!("process {} of {uid}", std::process::id()));
}

#[test]
fn callers_over_tcp_are_known_by_their_address() {
    let (_server, _, client) = lab();
    assert!(client.caller().unwrap().starts_with("network 127.0.0.1:"));
}
