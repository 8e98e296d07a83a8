//! Answers of rpcbind that name another address than the one that was asked. Debian's rpcbind replaces addresses by those of the interface
//! at which it was asked, so a program of the test answers in its place.

use crate::peer::PEER;
use crate::programs::Two;
use crate::register::end_rpcbind;
use crate::sandbox;
use std::process::Command;
use std::sync::{Arc, Mutex};
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop::onc::{Client, Server, VersionId};
use stoop::{BindError, RunningServer};

const TWO: VersionId = VersionId { program: PEER, version: 2 };

/// Version 4 of rpcbind: gives one universal address for every question (GETVERSADDR).
struct Rpcbind(Arc<Mutex<String>>);

impl Program for Rpcbind {
    fn version(&self) -> VersionId {
        VersionId { program: 100_000, version: 4 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        match call.procedure() {
            9 => call.reply(&*self.0.lock().unwrap()),
            _ => Err(NoResult::ProcedureUnavailable),
        }
    }
}

/// Takes the place of the sandbox's rpcbind. The text is its answer.
fn rpcbind() -> (RunningServer, Arc<Mutex<String>>) {
    end_rpcbind();
    let answer = Arc::new(Mutex::new(String::new()));
    let server = Server::new().program(Rpcbind(Arc::clone(&answer)));
    let server = server.listen("onc+udp://[::]:111").unwrap().listen("onc+tcp://[::]:111").unwrap();
    (server.start().unwrap(), answer)
}

fn add_address(address: &str) {
    let added = Command::new("ip").args(["address", "add", address, "dev", "lo"]).status();
    assert!(added.is_ok_and(|status| status.success()), "the sandbox may have {address}");
}

/// Binds by the rpcbind at `host`, and calls.
fn square(host: &str, transport: &str) -> Result<u64, BindError> {
    let client = Client::bind(&format!("onc+{transport}://{host}/{TWO}"))?;
    Ok(client.call(1, &12_u32).expect("the server answers"))
}

/// The port of a server, as the last part of a universal address.
fn port(server: &RunningServer) -> String {
    let port: u16 = server.uris()[0].rsplit_once(':').unwrap().1.parse().unwrap();
    format!("{}.{}", port >> 8, port & 0xff)
}

#[test]
fn an_address_of_another_host_is_refused() {
    sandbox::run("other_host::an_address_of_another_host_is_refused", || {
        let (_rpcbind, answer) = rpcbind();
        add_address("192.0.2.1/32");
        // RFC 5737 §3, RFC 3849: for documentation.
        for (host, transport, named, expected) in [
            ("127.0.0.1", "udp", "192.0.2.7.8.1", "192.0.2.7:2049"),
            ("127.0.0.1", "tcp", "192.0.2.7.8.1", "192.0.2.7:2049"),
            ("[::1]", "udp", "2001:db8::7.8.1", "[2001:db8::7]:2049"),
            // Calls to another host's program would go to one of this host.
            ("192.0.2.1", "udp", "127.0.0.1.8.1", "127.0.0.1:2049"),
        ] {
            *answer.lock().unwrap() = named.into();
            let error = square(host, transport).unwrap_err();
            let BindError::OtherHost { named, .. } = error.clone() else { panic!("{error}") };
            assert_eq!(named.to_string(), expected);
            assert!(
                error
                    .to_string()
                    .contains(&format!("listens at {expected}, which is no address of that host")),
                "{error}"
            );
        }
    });
}

#[test]
fn wildcards_mean_the_host_that_was_asked_and_loopback_leads_to_all_addresses_of_this_host() {
    sandbox::run(
        "other_host::wildcards_mean_the_host_that_was_asked_and_loopback_leads_to_all_addresses_of_this_host",
        || {
            let (_rpcbind, answer) = rpcbind();
            add_address("192.0.2.1/32");
            let server = Server::new().program(Two).listen("onc+udp://192.0.2.1").unwrap().start().unwrap();
            for (host, named) in [
                ("192.0.2.1", "0.0.0.0"),
                ("192.0.2.1", "::"),
                ("192.0.2.1", "::ffff:192.0.2.1"),
                ("127.0.0.1", "192.0.2.1"),
            ] {
                *answer.lock().unwrap() = format!("{named}.{}", port(&server));
                assert_eq!(square(host, "udp").unwrap(), 144, "{named} for {host}");
            }
            // No address: the program is not registered.
            for nothing in ["", "nonsense", "192.0.2.1.8"] {
                *answer.lock().unwrap() = nothing.into();
                let error = square("127.0.0.1", "udp").unwrap_err();
                assert!(matches!(error, BindError::NotRegistered { .. }), "{error}");
            }
        },
    );
}

#[test]
fn a_program_at_all_addresses_is_found_at_the_address_of_the_host_that_was_asked() {
    sandbox::run(
        "other_host::a_program_at_all_addresses_is_found_at_the_address_of_the_host_that_was_asked",
        || {
            add_address("192.0.2.1/32");
            let server = Server::new().program(Two).register();
            let server = server.listen("onc+udp://0.0.0.0").unwrap().listen("onc+tcp://[::]").unwrap();
            let _server = server.start().unwrap();
            for (host, transport) in [("127.0.0.1", "udp"), ("192.0.2.1", "udp"), ("[::1]", "tcp")] {
                assert_eq!(square(host, transport).unwrap(), 144, "{host} over {transport}");
                let client = Client::bind(&format!("onc+{transport}://{host}/{TWO}")).unwrap();
                assert_eq!(client.server().unwrap().to_string().rsplit_once(':').unwrap().0, host);
            }
        },
    );
}
