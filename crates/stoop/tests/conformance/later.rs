//! Servers that are started after their clients.

use super::*;
use std::time::Instant;

claims! { local udp tcp unix shm name: [
    binding_waits_for_a_server_that_starts_later
    binding_waits_as_long_as_it_is_told_and_then_says_why
    binding_does_not_wait_for_a_server_that_has_another_interface
    a_lazy_client_binds_at_its_first_call
    a_lazy_client_binds_at_its_first_begun_call
    calls_of_a_lazy_client_without_a_server_have_not_run
    a_lazy_client_waits_for_its_server_no_longer_than_its_call_may_take
    threads_that_make_the_first_call_of_a_lazy_client_share_one_binding
] }

/// An address at which no server listens yet.
fn free_address(transport: &str) -> String {
    match transport {
        // The port is given back, and the address is that of this test alone.
        "udp" | "tcp" => serve_at(&address(transport), Server::new()).0.uris()[0].clone(),
        _ => address(transport),
    }
}

const LONG: Duration = Duration::from_secs(600);

fn binding_waits_for_a_server_that_starts_later(transport: &str) {
    let uri = free_address(transport);
    LabClient::bind(&uri).unwrap_err();
    let options = patient(transport).wait_for_server(LONG);
    thread::scope(|scope| {
        let bound = scope.spawn(|| LabClient::bind_with(&uri, &options).unwrap());
        let (_server, _) = serve_at(&uri, Server::new());
        assert_eq!(bound.join().unwrap().next(1).unwrap(), 2);
    });
}

fn binding_waits_as_long_as_it_is_told_and_then_says_why(transport: &str) {
    let uri = free_address(transport);
    let (begun, limit) = (Instant::now(), Duration::from_millis(40));
    let error = LabClient::bind_with(&uri, &patient(transport).wait_for_server(limit)).unwrap_err();
    assert!(begun.elapsed() >= limit, "{error}");
    assert!(matches!(error, BindError::Unreachable { .. } | BindError::NoAnswer { .. }), "{error}");
}

fn binding_does_not_wait_for_a_server_that_has_another_interface(transport: &str) {
    #[stoop::interface]
    trait Kitchen {
        fn cook(&self);
    }
    let uri = free_address(transport);
    let (_server, _) = serve_at(&uri, Server::new());
    let error = KitchenClient::bind_with(&uri, &patient(transport).wait_for_server(LONG)).unwrap_err();
    assert!(matches!(error, BindError::NoSuchInterface { .. }), "{error}");
}

fn a_lazy_client_binds_at_its_first_call(transport: &str) {
    let uri = free_address(transport);
    let client = LabClient::bind_with(&uri, &patient(transport).lazy()).unwrap();
    assert!(client.binding().describe().contains("not bound yet"), "{client:?}");
    assert_eq!(client.binding().counters().calls, 0);
    let (_server, _) = serve_at(&uri, Server::new());
    assert_eq!(client.next(1).unwrap(), 2);
    assert!(!client.binding().describe().contains("not bound yet"), "{client:?}");
    assert_eq!(client.clone().next(2).unwrap(), 3);
}

fn a_lazy_client_binds_at_its_first_begun_call(transport: &str) {
    let uri = free_address(transport);
    let client = LabClient::bind_with(&uri, &patient(transport).lazy()).unwrap();
    let (_server, _) = serve_at(&uri, Server::new());
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
    assert_eq!(client.next(2).unwrap(), 3);
}

fn calls_of_a_lazy_client_without_a_server_have_not_run(transport: &str) {
    let uri = free_address(transport);
    let client = LabClient::bind_with(&uri, &patient(transport).lazy()).unwrap();
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
        assert_eq!(error.ran(), Ran::No);
    }
    let (_server, _) = serve_at(&uri, Server::new());
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(client.begin().next(2).wait().unwrap(), 3);
}

fn a_lazy_client_waits_for_its_server_no_longer_than_its_call_may_take(transport: &str) {
    let options = patient(transport).lazy().wait_for_server(LONG);
    let client = LabClient::bind_with(&free_address(transport), &options).unwrap();
    let (begun, limit) = (Instant::now(), Duration::from_millis(40));
    let error = client.with_timeout(limit).next(1).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
    assert!(begun.elapsed() >= limit, "{error}");
}

fn threads_that_make_the_first_call_of_a_lazy_client_share_one_binding(transport: &str) {
    let uri = free_address(transport);
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind_with(&uri, &patient(transport).lazy()).unwrap();
    thread::scope(|scope| {
        for number in 0..8 {
            let client = &client;
            scope.spawn(move || assert_eq!(client.next(number).unwrap(), number + 1));
        }
    });
    assert!(server.counters().bindings <= 1, "{:?}", server.counters());
}

/// Of a server that is in another process, or could be.
mod waiting {
    use super::*;

    claims! { tcp unix shm: [
        a_begun_call_that_waited_in_vain_for_the_next_server_says_why_there_is_none
        a_call_that_waited_for_the_attempts_of_another_says_why_they_failed
    ] }

    /// The system says that nobody listens there, in all attempts to bind again.
    fn check_says_why(error: &CallError) {
        assert_eq!(error.ran(), Ran::No, "{error}");
        let CallError::NotSent(SendError::Bind(why), ..) = error else { panic!("{error}") };
        assert!(matches!(**why, BindError::Unreachable { .. }), "{error}");
    }

    fn a_begun_call_that_waited_in_vain_for_the_next_server_says_why_there_is_none(transport: &str) {
        let uri = free_address(transport);
        let (server, _) = serve_at(&uri, Server::new());
        let client = LabClient::bind_with(&uri, &patient(transport).wait_for_restart(LONG)).unwrap();
        assert_eq!(client.begin().next(1).wait().unwrap(), 2);
        drop(server);
        check_says_why(&client.with_timeout(Duration::from_millis(300)).begin().next(2).wait().unwrap_err());
    }

    fn a_call_that_waited_for_the_attempts_of_another_says_why_they_failed(transport: &str) {
        let uri = free_address(transport);
        let (server, _) = serve_at(&uri, Server::new());
        let client = LabClient::bind_with(&uri, &patient(transport).wait_for_restart(LONG)).unwrap();
        assert_eq!(client.next(1).unwrap(), 2);
        drop(server);
        thread::scope(|scope| {
            let calls = [300, 350].map(|limit| {
                let client = client.with_timeout(Duration::from_millis(limit));
                scope.spawn(move || client.next(2).unwrap_err())
            });
            for call in calls {
                match call.join().unwrap() {
                    // The server's notice was there before its end was noticed, and no other server was found.
                    CallError::Refused(why, ..) if why.code == RefusalCode::ShuttingDown => {}
                    error => check_says_why(&error),
                }
            }
        });
    }
}

mod lost {
    use super::*;

    claims! { udp tcp unix shm: [
        a_client_that_waits_for_a_restart_does_not_wait_in_binding
        a_client_that_waits_for_a_restart_calls_the_next_server
        a_begun_call_of_a_client_that_waits_for_a_restart_is_made_at_the_next_server
        a_begun_call_of_another_client_does_not_wait_for_the_next_server
    ] }

    fn a_client_that_waits_for_a_restart_does_not_wait_in_binding(transport: &str) {
        let error =
            LabClient::bind_with(&free_address(transport), &patient(transport).wait_for_restart(LONG))
                .unwrap_err();
        assert!(matches!(error, BindError::Unreachable { .. } | BindError::NoAnswer { .. }), "{error}");
    }

    fn a_client_that_waits_for_a_restart_calls_the_next_server(transport: &str) {
        let uri = free_address(transport);
        let (server, _) = serve_at(&uri, Server::new());
        let client = LabClient::bind_with(&uri, &patient(transport).wait_for_restart(LONG)).unwrap();
        assert_eq!(client.next(1).unwrap(), 2);
        drop(server);
        let (begun, limit) = (Instant::now(), Duration::from_millis(40));
        let error = client.with_timeout(limit).next(2).unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(begun.elapsed() >= limit, "{error}");
        thread::scope(|scope| {
            let next = scope.spawn(|| client.next(3));
            let (_server, _) = serve_at(&uri, Server::new());
            assert_eq!(next.join().unwrap().unwrap(), 4);
        });
    }

    fn a_begun_call_of_a_client_that_waits_for_a_restart_is_made_at_the_next_server(transport: &str) {
        let uri = free_address(transport);
        let (server, _) = serve_at(&uri, Server::new());
        let client = LabClient::bind_with(&uri, &patient(transport).wait_for_restart(LONG)).unwrap();
        // The endpoint of the begun calls is new, and gets no notice of the server's end.
        drop(server);
        let next = client.begin().next(3);
        let long = client.begin().sum(&[1; 100_000]);
        let (begun, limit) = (Instant::now(), Duration::from_millis(200));
        let error = client.with_timeout(limit).begin().next(2).wait().unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(begun.elapsed() >= limit, "{error}");
        // They wait, too: of one that has ended it is not known whether it has run.
        let is_early = [next.is_ready(), long.is_ready()];
        let (_server, _) = serve_at(&uri, Server::new());
        check_made(next.wait(), 4, is_early[0]);
        check_made(long.wait(), 100_000, is_early[1]);
    }

    /// The call was made at the next server; or, on a busy machine, its second packet to the closed port came there, and then it is not
    /// known what the first one has met.
    fn check_made<T: PartialEq + std::fmt::Debug>(outcome: Result<T, CallError>, result: T, is_early: bool) {
        match outcome {
            Ok(returned) => assert_eq!((returned, is_early), (result, false)),
            Err(error) => assert_eq!(error.ran(), Ran::Perhaps, "{error}"),
        }
    }

    fn a_begun_call_of_another_client_does_not_wait_for_the_next_server(transport: &str) {
        let (server, _, client) = lab(transport);
        drop(server);
        let error = client.with_timeout(LONG).begin().next(1).wait().unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
    }
}
