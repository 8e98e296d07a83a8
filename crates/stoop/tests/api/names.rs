//! Clients that bind by a name, which later leads to another server.

use crate::harness::hosts_file::{NAME, Names};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, PacketOptions, Ran, RunningServer, Server};

#[stoop::interface]
trait Whereabouts {
    /// The server's number.
    fn number(&self) -> u64;
    #[idempotent]
    fn number_again(&self) -> u64;
}

struct Numbered(u64);

impl Whereabouts for Numbered {
    fn number(&self) -> u64 {
        self.0
    }

    fn number_again(&self) -> u64 {
        self.0
    }
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn server(scheme: &str, number: u64, port: &str) -> RunningServer {
    let server = Server::new().export(WhereaboutsServer::new(Numbered(number)));
    server.listen(&format!("{scheme}://127.0.7.{number}:{port}")).unwrap().start().unwrap()
}

fn port(server: &RunningServer) -> String {
    server.uris()[0].rsplit_once(':').unwrap().1.into()
}

fn bind(scheme: &str, port: &str) -> WhereaboutsClient {
    // A port that is closed on one address may be another test's server on the other: each test has its own numbers.
    let options = BindOptions::new().timeout(LONG).bind_timeout(LONG);
    WhereaboutsClient::bind_with(&format!("{scheme}://{NAME}:{port}"), &options).unwrap()
}

/// A client whose server was shut down, after the name has come to lead to these numbers; and the second server.
fn moved(
    scheme: &str,
    names: &Names,
    (from, to): (u64, u64),
    leads: &[u64],
) -> (WhereaboutsClient, RunningServer) {
    let first = server(scheme, from, "0");
    names.lead_to(&[from]);
    let client = bind(scheme, &port(&first));
    assert_eq!((client.number().unwrap(), client.begin().number().wait().unwrap()), (from, from));
    let second = server(scheme, to, &port(&first));
    first.shut_down();
    names.lead_to(leads);
    (client, second)
}

#[test]
fn the_next_call_over_udp_follows_the_name() {
    let Some(names) = Names::new() else { return };
    let (client, second) = moved("udp", &names, (1, 2), &[2]);
    assert_eq!(client.number().unwrap(), 2, "the port is closed, so that the call has not run before");
    assert_eq!(client.begin().number().wait().unwrap(), 2);
    assert!(client.binding().describe().contains("127.0.7.2"), "{}", client.binding().describe());
    second.shut_down();
}

#[test]
fn the_next_call_over_udp_takes_another_address_of_the_name() {
    let Some(names) = Names::new() else { return };
    let (client, second) = moved("udp", &names, (3, 4), &[3, 4]);
    assert_eq!(client.number().unwrap(), 4);
    second.shut_down();
}

#[test]
fn begun_calls_over_udp_follow_the_name() {
    let Some(names) = Names::new() else { return };
    let (client, second) = moved("udp", &names, (5, 6), &[6]);
    // The first call finds out, and a call that left before the client has bound there may have run.
    while let Err(error) = client.begin().number().wait() {
        assert!(!matches!(error, CallError::Refused(..)), "{error}");
    }
    assert_eq!(client.begin().number().wait().unwrap(), 6);
    assert_eq!(client.begin().number_again().wait().unwrap(), 6);
    second.shut_down();
}

#[test]
fn after_a_call_without_an_answer_the_next_one_follows_the_name() {
    let Some(names) = Names::new() else { return };
    let first = server("udp", 7, "0");
    names.lead_to(&[7]);
    // It makes no call there: the server would tell it that it shuts down.
    let client = bind("udp", &port(&first));
    let (second, address) = (server("udp", 8, &port(&first)), format!("127.0.7.7:{}", port(&first)));
    first.shut_down();
    // A server gives its socket up some time after it has been told to shut down.
    let _silent = loop {
        match UdpSocket::bind(&address) {
            Err(why) if why.kind() == ErrorKind::AddrInUse => thread::yield_now(),
            bound => break bound.unwrap(),
        }
    };
    assert_eq!(client.with_timeout(SHORT).number().unwrap_err().ran(), Ran::Perhaps);
    names.lead_to(&[8]);
    assert_eq!(client.with_timeout(SHORT).number().map_err(|error| error.ran()).unwrap_or(8), 8);
    assert_eq!(client.number().unwrap(), 8);
    second.shut_down();
}

#[test]
fn a_server_that_is_only_slow_is_not_left_while_the_name_stands_for_it() {
    let Some(names) = Names::new() else { return };
    let (first, port) = (server("udp", 9, "0"), String::new());
    names.lead_to(&[9]);
    let port = port + &self::port(&first);
    let client = bind("udp", &port);
    let second = server("udp", 10, &port);
    names.lead_to(&[10, 9]);
    assert!(client.with_timeout(Duration::from_nanos(1)).number().is_err());
    assert_eq!(client.number().unwrap(), 9);
    second.shut_down();
    first.shut_down();
}

#[test]
fn the_next_call_over_tcp_follows_the_name() {
    let Some(names) = Names::new() else { return };
    let (client, second) = moved("tcp", &names, (11, 12), &[12]);
    assert_eq!(client.number_again().unwrap(), 12);
    assert_eq!(client.begin().number_again().wait().unwrap(), 12);
    second.shut_down();
}

#[test]
fn a_binding_with_shared_endpoints_stays_where_it_is() {
    let Some(names) = Names::new() else { return };
    let first = server("udp", 13, "0");
    names.lead_to(&[13]);
    let shared = PacketOptions::new().share_endpoints();
    let options = BindOptions::new().timeout(LONG).bind_timeout(LONG).with(shared);
    let client = WhereaboutsClient::bind_with(&format!("udp://{NAME}:{}", port(&first)), &options).unwrap();
    first.shut_down();
    names.lead_to(&[14]);
    assert_eq!(client.number().unwrap_err().ran(), Ran::No);
}
