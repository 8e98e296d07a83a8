//! Servers that shut down or are started again, and clients that go.

use super::*;

claims! { remote: [
    many_bindings_are_served_at_once_and_given_up_with_their_clients
    calls_work_again_after_a_restart_of_the_server
    shutting_down_finishes_what_runs_and_refuses_what_is_new
] }

mod where_ports_answer {
    use super::*;
    claims! { answering: [a_call_to_a_server_that_has_gone_fails_long_before_its_deadline] }
}

fn many_bindings_are_served_at_once_and_given_up_with_their_clients(transport: &str) {
    let (server, _) = serve_at(&address(transport), Server::new());
    let clients: Vec<_> = (0..50).map(|_| LabClient::bind(&server.uris()[0]).unwrap()).collect();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| (0..20).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1)));
        }
    });
    let counters = server.counters();
    assert_eq!((counters.calls, counters.bindings, counters.malformed), (1000, 50, 0));
    drop(clients);
    eventually(|| server.counters().bindings == 0);
}

fn calls_work_again_after_a_restart_of_the_server(transport: &str) {
    let (server, _, client) = lab(transport);
    let uri = server.uris()[0].clone();
    assert_eq!(client.next(1).unwrap(), 2);
    drop(server);
    let (_server, _) = serve_at(&uri, Server::new());
    // The first may have been lost with the old server.
    match client.next(2) {
        Ok(next) => assert_eq!(next, 3),
        Err(error) => assert_eq!(error.ran(), Ran::Perhaps, "{error}"),
    }
    assert_eq!(client.next(3).unwrap(), 4);
}

fn a_call_to_a_server_that_has_gone_fails_long_before_its_deadline(transport: &str) {
    let (server, _, client) = lab(transport);
    client.next(1).unwrap();
    drop(server);
    let error = client.with_timeout(Duration::from_secs(600)).next(1).unwrap_err();
    let text = error.to_string();
    let is_known = ["no server listens", "is shutting down"].iter().any(|part| text.contains(part));
    assert!(is_known || error.ran() == Ran::Perhaps, "{text}");
}

fn shutting_down_finishes_what_runs_and_refuses_what_is_new(transport: &str) {
    let (server, gate, client) = lab(transport);
    let late = LabClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| client.wait());
        gate.await_inside(1);
        let closing = server.clone();
        let stopped = scope.spawn(move || closing.shut_down());
        eventually(|| match late.next(1) {
            Ok(_) => false,
            Err(CallError::Refused(refusal, ..)) => refusal.code == RefusalCode::ShuttingDown,
            Err(other) => panic!("{other}"),
        });
        assert!(LabClient::bind(&server.uris()[0]).is_err());
        gate.open();
        assert_eq!(running.join().unwrap().unwrap(), 7);
        stopped.join().unwrap();
    });
    // Over an Ethernet nothing tells that the server has gone.
    assert!(late.with_timeout(Duration::from_millis(100)).next(1).is_err());
    server.wait();
}
