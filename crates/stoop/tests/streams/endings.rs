//! Connections that are lost, servers that restart or shut down.

use super::*;
use stoop_wire::UnbindReason;

#[test]
fn a_connection_lost_during_a_call_leaves_its_outcome_unknown_and_the_next_call_binds_again() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let proxy = Proxy::to(address_of(&server));
    let client = LabClient::bind(&proxy.uri).unwrap();
    thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| client.wait().unwrap_err())).collect();
        gate.await_inside(4);
        proxy.cut();
        for call in calls {
            let error = call.join().unwrap();
            assert!(
                matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }),
                "{error}"
            );
        }
    });
    gate.open();
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn an_idempotent_call_is_sent_again_over_another_connection() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let proxy = Proxy::to(address_of(&server));
    let client = LabClient::bind(&proxy.uri).unwrap();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.read().unwrap());
        gate.await_inside(1);
        proxy.cut();
        gate.await_inside(2);
        gate.open();
        assert_eq!(call.join().unwrap(), 8);
    });
}

#[test]
fn after_a_restart_of_the_server_the_next_call_works() {
    let (server, _, client) = lab();
    let uri = server.uris()[0].clone();
    assert_eq!(client.next(1).unwrap(), 2);
    drop(server);
    let error = client.next(1).unwrap_err();
    assert!(error.to_string().contains("no server listens") || error.ran() == Ran::Perhaps, "{error}");
    let (_server, _) = serve_at(&uri, Server::new());
    assert_eq!(client.next(2).unwrap(), 3);
}

#[test]
fn shutting_down_waits_until_large_results_have_been_taken() {
    let (server, gate, client) = lab();
    let mut raw = Raw::bound(&server);
    let payload = [&(4_u32 << 20).to_le_bytes()[..], &[6]].concat();
    for number in 1..=8 {
        let header = raw.call(BYTES, number, payload.len() as u32);
        raw.send(&header, &payload);
    }
    eventually(|| server.counters().calls == 8);
    gate.open();
    drop(client);
    thread::scope(|scope| {
        scope.spawn(|| server.shut_down());
        let mut received = 0;
        let last = loop {
            let (header, payload) = raw.receive().expect("the stream does not end before it says so");
            match header.kind {
                Kind::Result => received += payload.len(),
                // The notice that the server refuses what comes now: of no call.
                Kind::Refusal => assert_eq!(header.number, CallNumber(0)),
                _ => break header,
            }
        };
        assert_eq!((received, last.kind), (8 * (4 + (4 << 20)), Kind::Unbind));
        assert_eq!(UnbindReason::from_code(last.time), UnbindReason::ShuttingDown);
        assert!(raw.receive().is_none());
    });
}
