//! The outcome of a call whose server is gone: the same over every transport.

use super::*;
use std::time::Instant;

claims! { local udp udp_shared tcp unix shm memory lossy: [
    a_call_to_a_server_that_was_shut_down_before_has_not_run
    a_long_call_to_a_server_that_was_shut_down_before_has_not_run
    a_begun_call_to_a_server_that_was_shut_down_before_has_not_run
] }

/// A client whose server is gone, after an answer of which so much time has passed that its connection is looked at.
fn left_alone(transport: &str) -> LabClient {
    let (server, _, client) = lab(transport);
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
    let uri = server.uris()[0].clone();
    drop(server);
    loopback::await_free(&uri);
    let gone = Instant::now();
    eventually(|| gone.elapsed() > Duration::from_millis(5));
    client.with_timeout(Duration::from_secs(600))
}

fn assert_has_not_run(error: &CallError) {
    assert_eq!(error.ran(), Ran::No, "{error}");
    let text = error.to_string();
    assert!(
        ["listens at", "no server", "shut down", "is shutting down"].iter().any(|part| text.contains(part)),
        "{text}"
    );
}

fn a_call_to_a_server_that_was_shut_down_before_has_not_run(transport: &str) {
    let client = left_alone(transport);
    for _ in 0..3 {
        assert_has_not_run(&client.next(1).unwrap_err());
    }
}

fn a_long_call_to_a_server_that_was_shut_down_before_has_not_run(transport: &str) {
    let client = left_alone(transport);
    for len in [5_000, 500_000] {
        let bytes = vec![1; len];
        assert_has_not_run(&client.sum(&bytes).unwrap_err());
        assert_has_not_run(&client.begin().sum(&bytes).wait().unwrap_err());
    }
}

fn a_begun_call_to_a_server_that_was_shut_down_before_has_not_run(transport: &str) {
    let client = left_alone(transport);
    for _ in 0..3 {
        let error = match client.begin().next(1).wait() {
            Err(error) => error,
            Ok(number) => panic!("{number}"),
        };
        assert_has_not_run(&error);
    }
}
