//! Options of transports at addresses where they cannot act: neither a server nor a client takes them in silence.

use crate::harness::transports;
use crate::harness::transports::ListenThere;
use std::time::Duration;
use stoop::onc::{ClientOptions, ConnectionLimits, ReplyCacheLimits};
use stoop::{
    BindError, BindOptions, ListenError, PacketOptions, RunningServer, Server, ShmOptions, UnixOptions,
};

#[stoop::interface(program = 0x2000_7001, version = 1)]
trait Adder {
    fn add(&self, a: i32, b: i32) -> i32;
}

struct Calculator;

impl Adder for Calculator {
    fn add(&self, a: i32, b: i32) -> i32 {
        a + b
    }
}

/// Options: what errors call them, how they are given to a server and to a client, and the schemes at which they act for each.
struct Case {
    name: &'static str,
    server: fn(Server) -> Server,
    client: fn(BindOptions) -> BindOptions,
    at_servers: &'static [&'static str],
    at_clients: &'static [&'static str],
}

macro_rules! cases {
    ($($name:literal, $options:expr, $at_servers:expr, $at_clients:expr;)*) => {
        [$(Case {
            name: $name,
            server: |server| server.with($options),
            client: |options| options.with($options),
            at_servers: $at_servers,
            at_clients: $at_clients,
        }),*]
    };
}

const UNIX: &[&str] = &["unix"];
const SHM: &[&str] = &["shm"];
/// To a server at this machine's own interface, an address of the Ethernet leads by shared memory.
const TO_SHM: &[&str] = &["shm", "ether"];
const PACKETS: &[&str] = &["udp", "ether", "memory"];
const ONC: &[&str] = &["onc+udp", "onc+tcp", "onc+unix"];
const NOWHERE: &[&str] = &[];

/// Every option of a transport, and each type of them with none set.
fn cases() -> impl Iterator<Item = Case> {
    cases! {
        "UnixOptions", UnixOptions::new(), UNIX, UNIX;
        "UnixOptions", UnixOptions::new().allow_user(65534), UNIX, UNIX;
        "UnixOptions", UnixOptions::new().allow_everybody(), UNIX, UNIX;
        "ShmOptions", ShmOptions::new(), SHM, TO_SHM;
        "ShmOptions", ShmOptions::new().allow_user(65534), SHM, TO_SHM;
        "ShmOptions", ShmOptions::new().allow_everybody(), SHM, TO_SHM;
        "ShmOptions::in_place", ShmOptions::new().in_place(1 << 20), SHM, NOWHERE;
        "PacketOptions", PacketOptions::new(), PACKETS, PACKETS;
        "PacketOptions", PacketOptions::new().silence_limit(Duration::from_secs(60)), PACKETS, PACKETS;
        "PacketOptions::checksum", PacketOptions::new().checksum(), NOWHERE, PACKETS;
        "PacketOptions::share_endpoints", PacketOptions::new().share_endpoints(), NOWHERE, PACKETS;
        "ClientOptions", ClientOptions::new(), NOWHERE, ONC;
        "ReplyCacheLimits", ReplyCacheLimits::default(), &["onc+udp"], NOWHERE;
        "ConnectionLimits", ConnectionLimits::default(), &["onc+tcp", "onc+unix"], NOWHERE;
    }
    .into_iter()
}

/// All schemes of addresses that this machine has, and the one for tests.
fn schemes() -> impl Iterator<Item = &'static str> {
    transports::all()
        .filter(|scheme| transports::is_there(scheme))
        .chain(["memory"])
        .chain(ONC.iter().copied())
}

fn address(scheme: &str) -> String {
    match scheme {
        "onc+udp" | "onc+tcp" => format!("{scheme}://127.0.0.1:0"),
        "onc+unix" => transports::address("unix").replace("unix:", "onc+unix:"),
        _ => transports::address(scheme),
    }
}

fn server() -> Server {
    Server::new().export(AdderServer::new(Calculator))
}

fn started(scheme: &str) -> RunningServer {
    server().listen_there(&address(scheme)).unwrap().start().unwrap()
}

/// The type of options of which this is one: no part of one acts where the type does not.
fn type_of(name: &str) -> &str {
    name.split("::").next().unwrap()
}

/// The option that a server's error names; nothing if it started.
fn refused_to_start(server: Server, uri: &str) -> Option<&'static str> {
    match server.start() {
        Ok(_) => None,
        Err(error) => {
            let text = error.to_string();
            let ListenError::UnusedOptions { option, addresses, schemes } = error else { panic!("{text}") };
            assert_eq!(addresses, [uri]);
            assert!(text.contains(option), "{text}");
            assert!(text.contains(uri) || schemes.is_empty(), "{text}");
            assert!(text.contains("leave"), "it says what to do: {text}");
            Some(option)
        }
    }
}

#[test]
fn a_server_starts_only_with_options_that_act_at_its_address() {
    for scheme in schemes() {
        for case in cases() {
            let uri = address(scheme);
            let refused = refused_to_start((case.server)(server()).listen_there(&uri).unwrap(), &uri);
            let acts = case.at_servers.contains(&scheme);
            let is_named = refused.is_none_or(|name| [case.name, type_of(case.name)].contains(&name));
            assert!(refused.is_none() == acts && is_named, "{} at {uri}: {refused:?}", case.name);
        }
    }
}

#[test]
fn a_client_binds_only_with_options_that_can_act_at_the_address() {
    for scheme in schemes() {
        let server = started(scheme);
        let uri = &server.uris()[0];
        for case in cases() {
            for options in [BindOptions::new(), BindOptions::new().lazy()] {
                let acts = case.at_clients.contains(&scheme);
                let bound = AdderClient::bind_with(uri, &(case.client)(options));
                match bound {
                    Ok(client) => {
                        assert!(acts, "{} at {uri} is taken in silence", case.name);
                        assert_eq!(client.add(1, 2).unwrap(), 3);
                    }
                    Err(error) => {
                        let text = error.to_string();
                        let BindError::UnusedOptions { server, option, schemes } = error else {
                            panic!("{text}")
                        };
                        assert!(!acts, "{} acts at {uri}: {text}", case.name);
                        assert_eq!(&server, uri);
                        assert!([case.name, type_of(case.name)].contains(&option), "{text}");
                        assert!(text.contains(option) && text.contains("leave it out"), "{text}");
                        assert!(text.contains(uri.as_str()) || schemes.is_empty(), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_name_and_an_upgrade_take_the_options_of_each_transport_to_which_they_may_lead() {
    let name = transports::address("name");
    let _server = server().listen(&name).unwrap().listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    for case in cases() {
        let bound = AdderClient::bind_with(&name, &(case.client)(BindOptions::new())).map(|_| ());
        let may_act = !case.at_clients.is_empty() && case.at_clients != ONC;
        assert_eq!(bound.is_ok(), may_act, "{}: {bound:?}", case.name);
    }
    for scheme in ["udp", "tcp", "unix"] {
        let server = started(scheme);
        let bind = |options| AdderClient::bind_with(&server.uris()[0], &options).map(|_| ());
        assert!(bind(BindOptions::new().upgrade().with(ShmOptions::new().allow_user(1))).is_ok());
        assert!(bind(BindOptions::new().with(ShmOptions::new().allow_user(1))).is_err());
        let other = bind(BindOptions::new().upgrade().with(ClientOptions::new()));
        assert!(matches!(other, Err(BindError::UnusedOptions { .. })), "{other:?}");
    }
}

#[test]
fn one_address_of_several_is_enough_for_an_option() {
    let (udp, unix) = ("udp://127.0.0.1:0", transports::address("unix"));
    let both = server().with(UnixOptions::new().allow_user(1)).listen(udp).unwrap().listen(&unix).unwrap();
    assert!(both.start().is_ok());
}

#[test]
fn options_that_are_set_after_the_last_address_or_replaced_before_they_act_are_told() {
    let unix = transports::address("unix");
    let late = server().listen(&unix).unwrap().with(UnixOptions::new().allow_user(1));
    let why = late.start().unwrap_err().to_string();
    assert!(why.contains("UnixOptions") && why.contains("call Server::with before Server::listen"), "{why}");

    let tcp = "tcp://127.0.0.1:0";
    let replaced = server().with(UnixOptions::new().allow_user(1)).listen(tcp).unwrap();
    let replaced = replaced.with(UnixOptions::new().allow_user(2)).listen(&unix).unwrap();
    assert_eq!(refused_to_start(replaced, tcp), Some("UnixOptions"));

    let twice = server().with(UnixOptions::new().allow_user(1)).with(UnixOptions::new().allow_user(2));
    assert!(twice.listen(&unix).unwrap().start().is_ok(), "options that no address has had are replaced");
}
