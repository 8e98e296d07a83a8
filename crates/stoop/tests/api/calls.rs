//! Promises of calls over UDP, and of calls within a process, beyond those of all transports (see `conformance`).

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::loopback;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use stoop::error::SendError;
use stoop::{BindError, BindOptions, CallError, Caller, PacketOptions, Ran, RunningServer, Server, Waiting};

#[stoop::interface]
trait Lab {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Returns when the gate is opened.
    fn wait(&self) -> u32;
    /// Panics with that text.
    fn panic(&self, text: &str);
    /// Milliseconds that are left.
    fn left(&self) -> u64;
    /// As many bytes.
    fn bytes(&self, count: u32) -> Vec<u8>;
    /// Where the call came from.
    fn caller(&self) -> String;
    /// May be run again.
    #[idempotent]
    fn read(&self) -> u32;
    /// Takes anything.
    fn take(&self, bytes: &[u8]);
}

#[derive(Clone, Default)]
struct Bench(Gate);

impl Lab for Bench {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn wait(&self) -> u32 {
        self.0.pass();
        7
    }
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_millis() as u64
    }
    fn bytes(&self, count: u32) -> Vec<u8> {
        vec![5; count as usize]
    }
    fn caller(&self) -> String {
        match stoop::current_call().unwrap().caller() {
            Caller::Network(address) => address.ip().to_string(),
            other => format!("{other:?}"),
        }
    }
    fn read(&self) -> u32 {
        9
    }
    fn take(&self, _bytes: &[u8]) {}
}

fn serve_at(uri: &str, server: Server) -> (RunningServer, Gate) {
    loopback::await_free(uri);
    let gate = Gate::default();
    let server = server.export(LabServer::new(Bench(gate.clone()))).listen(uri).unwrap().start().unwrap();
    (server, gate)
}

/// A server at an address of its own, its gate, and a client bound to it.
fn lab() -> (RunningServer, Gate, LabClient) {
    let (server, gate) = serve_at(&format!("udp://{}:0", loopback::address()), Server::new());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    (server, gate, client)
}

#[test]
fn a_call_returns_its_result() {
    let (_server, _gate, client) = lab();
    assert_eq!(client.next(41).unwrap(), 42);
    let counters = client.binding().counters();
    assert_eq!(counters.calls, 1);
}

#[test]
fn arguments_too_large_for_the_server_are_not_sent() {
    let (server, _gate) = serve_at("udp://127.0.0.1:0", Server::new().max_message(2000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    client.take(&[0; 1996]).unwrap();
    let error = client.take(&[0; 1997]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_), ..)), "{error}");
    assert!(error.to_string().contains("2000"), "{error}");
    assert_eq!(server.counters().calls, 1);
}

#[test]
fn a_result_too_large_for_the_server_is_a_failure_that_names_the_limit() {
    let (server, _gate) = serve_at("udp://127.0.0.1:0", Server::new().max_message(2000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(client.bytes(1996).unwrap().len(), 1996);
    let error = client.bytes(1997).unwrap_err();
    assert_eq!(error.ran(), Ran::Yes);
    assert!(error.to_string().contains("2000"), "{error}");
}

#[test]
fn the_first_call_after_a_restart_runs_at_the_new_server_if_the_client_was_idle() {
    let (server, _gate, client) = lab();
    client.next(1).unwrap();
    let uri = server.uris()[0].clone();
    server.shut_down();
    drop(server);
    let (_server, _gate) = serve_at(&uri, Server::new());
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(client.begin().next(2).wait().unwrap(), 3);
}

#[test]
fn an_idempotent_call_is_sent_again_to_a_restarted_server() {
    let (server, _gate, client) = lab();
    client.next(1).unwrap();
    let uri = server.uris()[0].clone();
    server.shut_down();
    drop(server);
    let (_server, _gate) = serve_at(&uri, Server::new());
    assert_eq!(client.read().unwrap(), 9);
}

#[test]
fn a_call_on_a_binding_released_for_silence_succeeds() {
    let limit = Duration::from_millis(4);
    let (server, _gate) =
        serve_at("udp://127.0.0.1:0", Server::new().with(PacketOptions::new().silence_limit(limit)));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let mut unnoticed = 0;
    while unnoticed < 5 {
        match client.next(1) {
            Ok(result) => {
                assert_eq!(result, 2);
                unnoticed += 1;
            }
            // This machine had no time for us: after so long the call could have been heard before the release.
            Err(CallError::Unknown { waited, .. }) => assert!(waited >= limit, "{waited:?}"),
            Err(error) => panic!("{error}"),
        }
        eventually(|| server.counters().bindings == 0);
    }
}

#[test]
fn dropping_a_client_releases_its_binding() {
    let (server, _gate, client) = lab();
    client.next(1).unwrap();
    assert_eq!(server.counters().bindings, 1);
    drop(client);
    eventually(|| server.counters().bindings == 0);
}

#[test]
fn a_call_to_a_server_that_has_gone_fails_long_before_its_deadline() {
    let (server, _gate, client) = lab();
    client.next(1).unwrap();
    server.shut_down();
    drop(server);
    let error = client.with_timeout(Duration::from_secs(600)).next(1).unwrap_err();
    let text = error.to_string();
    let is_known = ["listens at", "is shutting down"].iter().any(|part| text.contains(part));
    assert!(error.ran() == Ran::No && is_known, "{text}");
}

#[test]
fn a_server_at_all_addresses_answers_from_the_one_that_was_called() {
    let (server, _gate) = serve_at("udp://0.0.0.0:0", Server::new().security(stoop::Security::none()));
    let port = server.uris()[0].rsplit(':').next().unwrap().to_string();
    for address in ["127.0.0.1", "127.0.0.2", "127.3.4.5"] {
        let client = LabClient::bind(&format!("udp://{address}:{port}")).unwrap();
        assert_eq!(client.next(1).unwrap(), 2);
        assert!(client.caller().unwrap().starts_with("127."));
    }
}

#[test]
fn a_single_caller_has_a_dedicated_socket_until_others_call() {
    for (listen, waiting) in
        [("127.0.0.1:0", Waiting::Block), ("0.0.0.0:0", Waiting::Adaptive), ("127.0.0.1:0", Waiting::Spin)]
    {
        let (server, gate) = serve_at(
            &format!("udp://{listen}"),
            Server::new().waiting(waiting).security(stoop::Security::none()),
        );
        let port = server.uris()[0].rsplit(':').next().unwrap();
        let uri = format!("udp://127.0.0.2:{port}");
        let uri = if listen.starts_with('0') { uri } else { server.uris()[0].clone() };
        let [alone, other] = [(); 2].map(|()| LabClient::bind(&uri).unwrap());
        for round in 1..4 {
            let mut number = 0;
            while server.counters().packet.dedicated < round {
                number += 1;
                assert_eq!(alone.next(number).unwrap(), number + 1);
            }
            for number in 0..100 {
                assert_eq!(alone.next(number).unwrap(), number + 1);
            }
            for number in 0..20 {
                assert_eq!(other.next(number).unwrap(), number + 1);
                assert_eq!(alone.next(number).unwrap(), number + 1);
            }
        }
        // A procedure that is called on the lane with a dedicated socket may take long; the server attends to that lane all the same.
        let dedicated = server.counters().packet.dedicated;
        while server.counters().packet.dedicated == dedicated {
            alone.next(1).unwrap();
        }
        thread::scope(|scope| {
            let slow = scope.spawn(|| (alone.wait().unwrap(), alone.next(1).unwrap()));
            gate.await_inside(1);
            assert_eq!(other.next(1).unwrap(), 2);
            gate.open();
            assert_eq!(slow.join().unwrap(), (7, 2));
        });
    }
}

#[test]
fn a_dedicated_socket_is_closed_after_silence() {
    let (server, _gate, client) = lab();
    for _ in 0..3 {
        let dedicated = server.counters().packet.dedicated;
        while server.counters().packet.dedicated == dedicated {
            client.next(1).unwrap();
        }
        // Another one is only dedicated when this one has been given up.
        let other = LabClient::bind(client.binding().uri()).unwrap();
        assert_eq!(other.next(1).unwrap(), 2);
    }
    server.shut_down();
}

#[test]
fn a_name_is_resolved() {
    let (server, _gate) = serve_at("udp://127.0.0.1:0", Server::new());
    let port = server.uris()[0].rsplit(':').next().unwrap().to_string();
    let client = LabClient::bind(&format!("udp://localhost:{port}")).unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn garbage_is_counted_and_disturbs_no_call() {
    let (server, _gate, client) = lab();
    let address = server.uris()[0].strip_prefix("udp://").unwrap().to_string();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut seed = 1_u64;
    for len in 0..600 {
        let mut packet = vec![0; len * 7 % 1500];
        for byte in &mut packet {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (seed >> 33) as u8;
        }
        if len % 2 == 0 && packet.len() > 32 {
            packet[..4].copy_from_slice(&[0xd7, 1, len as u8 % 15, 0]);
        }
        stranger.send_to(&packet, &address).unwrap();
        assert_eq!(client.next(len as u32).unwrap(), len as u32 + 1);
    }
    assert!(server.counters().malformed > 250, "{:?}", server.counters());
}

#[test]
fn a_bind_to_a_socket_of_another_protocol_ends_in_time() {
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = BindOptions::new().bind_timeout(Duration::from_millis(50));
    let error = LabClient::bind_with(&format!("udp://{}", mute.local_addr().unwrap()), &options).unwrap_err();
    assert!(matches!(error, BindError::NoAnswer { .. }), "{error}");
}

#[test]
fn wrong_addresses_are_explained() {
    for (uri, advice) in
        [("a lab", "udp://HOST:PORT"), ("udp://127.0.0.1", "port is missing"), ("local:", "name")]
    {
        let error = LabClient::bind(uri).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
        let error = Server::new().listen(uri).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
}

#[test]
fn a_server_without_exports_or_address_does_not_start() {
    assert!(Server::new().start().unwrap_err().to_string().contains("export"));
    let lab = LabServer::new(Bench::default());
    assert!(Server::new().export(lab).start().unwrap_err().to_string().contains("listen"));
}

#[test]
fn a_call_within_a_process_uses_the_trait_object() {
    let (server, _gate) = serve_at("local:within", Server::new());
    let client = LabClient::bind("local:within").unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(client.caller().unwrap(), "Local");
    let left = client.with_timeout(Duration::from_millis(500)).left().unwrap();
    assert!(left <= 500);
    let CallError::Failed(failure, ..) = client.panic("inside").unwrap_err() else { panic!("not failed") };
    assert_eq!(failure.detail, "inside");
    assert!(matches!(Server::new().listen("local:within"), Err(stoop::ListenError::Io { .. })));
    server.shut_down();
    assert!(matches!(client.next(1), Err(CallError::NotSent(SendError::Closed, ..))));
    assert!(LabClient::bind("local:within").unwrap_err().to_string().contains("is the server running"));
}

#[test]
fn a_server_listens_at_several_addresses() {
    let server = Server::new()
        .export(LabServer::new(Bench::default()))
        .listen("udp://127.0.0.1:0")
        .unwrap()
        .listen("udp://127.0.0.1:0")
        .unwrap()
        .listen("local:several")
        .unwrap()
        .start()
        .unwrap();
    for uri in server.uris() {
        assert_eq!(LabClient::bind(uri).unwrap().next(1).unwrap(), 2);
    }
}

#[test]
fn a_binding_describes_itself() {
    let (_server, _gate, client) = lab();
    let description = client.binding().describe();
    assert!(description.contains("packet exchange over UDP"), "{description}");
    assert!(!description.contains('\n'));
}
