//! Messages of all lengths, and those that are longer than one side takes.

use super::*;

claims! { remote and lossy: [
    messages_around_every_boundary_travel
    large_messages_travel_both_ways_between_small_calls
    a_result_without_bytes_arrives_after_one_of_many
    arguments_longer_than_the_caller_allows_are_not_sent
    arguments_longer_than_the_server_takes_do_not_run
    a_result_larger_than_the_server_sends_is_a_failure_that_names_the_limit
    a_result_larger_than_the_caller_takes_is_a_failure_and_the_binding_lives_on
] }

mod longest {
    use super::*;

    claims! { udp tcp unix shm: [a_call_has_64_mib_of_arguments_or_results_unless_options_say_otherwise] }
}

fn a_call_has_64_mib_of_arguments_or_results_unless_options_say_otherwise(transport: &str) {
    const LEN: usize = 64 << 20;
    let (_server, _, client) = lab(transport);
    let mut bytes = vec![0; LEN];
    client.fill(3, &mut bytes).unwrap();
    assert!(bytes == vec![3; LEN]);
    assert!(client.echo(&bytes).unwrap() == bytes);
    let error = client.sum(&vec![0; LEN + 4096]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_), ..)), "{error}");
}

/// Where some transport goes over from one way of sending to another: lines, slots, packets of some links, chunks, fragments,
/// channels.
const BOUNDARIES: [usize; 9] = [32, 40, 1440, 4096, 8960, 16 << 10, 64 << 10, 128 << 10, 256 << 10];

fn messages_around_every_boundary_travel(transport: &str) {
    let (_server, _, client) = lab(transport);
    for around in BOUNDARIES {
        for len in around.saturating_sub(40)..around + 8 {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
        }
    }
}

fn large_messages_travel_both_ways_between_small_calls(transport: &str) {
    let (_server, _, client) = lab(transport);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.next(1).unwrap(), 2);
                }
            });
        }
        let large = [(1 << 20, 3), (1 << 20, 4), (6 << 20, 5)].map(|(len, value)| {
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

fn a_result_without_bytes_arrives_after_one_of_many(transport: &str) {
    let (_server, _, client) = lab(transport);
    for _ in 0..3 {
        assert_eq!(client.bytes(6 << 20, 1).unwrap().len(), 6 << 20);
        client.null().unwrap();
    }
}

fn arguments_longer_than_the_caller_allows_are_not_sent(transport: &str) {
    let (server, _, client) = lab_with(transport, Server::new(), &patient(transport).max_message(100_000));
    let error = client.sum(&[0; 100_001]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_), ..)), "{error}");
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
    assert_eq!(server.counters().calls, 1);
}

fn arguments_longer_than_the_server_takes_do_not_run(transport: &str) {
    let (server, _, client) = lab_with(transport, Server::new().max_message(100_000), &patient(transport));
    let error = client.sum(&vec![0; 5_000_000]).unwrap_err();
    assert_eq!(error.ran(), Ran::No);
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
    assert_eq!((server.counters().calls, server.counters().bindings), (1, 1));
}

fn a_result_larger_than_the_server_sends_is_a_failure_that_names_the_limit(transport: &str) {
    let (_server, _, client) = lab_with(transport, Server::new().max_message(100_000), &patient(transport));
    let error = client.bytes(200_000, 1).unwrap_err();
    let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::ResultTooLarge);
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.bytes(90_000, 1).unwrap(), vec![1; 90_000]);
}

fn a_result_larger_than_the_caller_takes_is_a_failure_and_the_binding_lives_on(transport: &str) {
    let (server, _, client) = lab_with(transport, Server::new(), &patient(transport).max_message(100_000));
    // Far longer, and so little longer that all of it lies there when its caller turns away.
    for len in [3_000_000, 300_000] {
        let error = client.bytes(len, 1).unwrap_err();
        let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
        assert_eq!(failure.code, FailureCode::ResultTooLarge);
        assert_eq!(client.bytes(90_000, 1).unwrap(), vec![1; 90_000]);
    }
    assert_eq!(server.counters().bindings, 1);
}
