//! Sun RPC under TLS (RFC 9289): both ends, other implementations, and what an attacker can do.

mod attackers;
mod peers;

use crate::Folder;
use crate::certificates::{Organisation, Wanted, dns, uri, with};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::error::SendError;
use stoop::onc::{Client, ClientOptions, ConnectionLimits, Credential, Identity};
use stoop::{
    BindError, BindOptions, CallError, ListenError, Ran, RefusalCode, RunningServer, Security, Server,
    current_call,
};

const PROGRAM: u32 = 0x2000_0140;

#[stoop::interface(program = 0x2000_0140, version = 1)]
trait Ledger {
    /// Returns the sum so far.
    fn add(&self, amount: u32) -> u32;
    /// The caller's name, and the user that it claims to be.
    fn caller(&self) -> String;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
}

#[derive(Default)]
struct Sum(AtomicU32);

impl Ledger for Sum {
    fn add(&self, amount: u32) -> u32 {
        self.0.fetch_add(amount, Ordering::Relaxed) + amount
    }

    fn caller(&self) -> String {
        let call = current_call().expect("a procedure runs in a call");
        let user = match call.identity() {
            Identity::Sys(user) => format!(" as {}", user.uid),
            Identity::None => String::new(),
        };
        call.peer().map_or("nobody".into(), |peer| peer.name().to_owned()) + &user
    }

    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

fn server_with(server: Server) -> RunningServer {
    server.export(LedgerServer::new(Sum::default())).listen("onc+tcp://127.0.0.1").unwrap().start().unwrap()
}

fn serve(security: Security) -> RunningServer {
    server_with(Server::new().security(security))
}

/// A server with a certificate for `vault.example`.
fn certified(organisation: &Organisation) -> RunningServer {
    serve(organisation.security("vault", &with(&[dns("vault.example")])))
}

fn caller(organisation: &Organisation) -> Security {
    organisation.security("shop", &with(&[uri("spiffe://example.org/shop")]))
}

fn options(security: Security) -> BindOptions {
    BindOptions::new().security(security.server_name("vault.example")).timeout(Duration::from_secs(20))
}

fn bind(server: &RunningServer, security: Security) -> Result<LedgerClient, BindError> {
    LedgerClient::bind_with(&server.uris()[0], &options(security))
}

fn refused(server: &RunningServer, security: Security) -> String {
    match bind(server, security) {
        Err(why @ BindError::Security { .. }) => why.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is bound"),
    }
}

#[test]
fn calls_with_certificates_go_in_a_session_whose_caller_is_known() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let client = bind(&server, caller(&organisation)).unwrap();
    assert_eq!((client.add(5).unwrap(), client.add(7).unwrap()), (5, 12));
    assert_eq!(client.caller().unwrap(), "spiffe://example.org/shop");
    let text = client.binding().describe();
    assert!(text.contains(": sealed by TLS (TLS13_") && text.contains("its certificate names"), "{text}");
    for len in [0, 1, 16 << 10, 1 << 20, 3_000_001] {
        let bytes: Vec<_> = (0..len).map(|n: usize| n as u8).collect();
        assert_eq!(client.echo(&bytes).unwrap(), bytes);
    }
    let handles: Vec<_> = (0..200).map(|_| client.begin().add(1)).collect();
    let sums: Vec<_> = stoop::wait_all(handles).into_iter().map(Result::unwrap).collect();
    assert_eq!(sums.iter().max(), Some(&212));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| assert_eq!(client.echo(&[7; 5000]).unwrap(), [7; 5000])));
        }
    });
    // One connection for all.
    assert_eq!(server.counters().bindings, 1);
}

#[test]
fn a_claimed_user_is_a_claim_under_tls_too() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let options = options(caller(&organisation)).with(ClientOptions::new().authentication(Credential::own()));
    let client = LedgerClient::bind_with(&server.uris()[0], &options).unwrap();
    let told = client.caller().unwrap();
    assert!(told.starts_with("spiffe://example.org/shop as "), "{told}");
}

#[test]
fn connections_are_shared_by_the_names_of_callers_wherever_they_are() {
    let folder = Folder::new();
    let ((of_server, _), (alice, first), (bob, second)) =
        (folder.key("server"), folder.key("alice"), folder.key("bob"));
    let callers = folder.callers(&[("alice", first), ("bob", second)]);
    let limits = ConnectionLimits { per_peer_max: 4, ..ConnectionLimits::default() };
    let server = Server::new().security(of_server.callers(callers).unwrap()).with(limits);
    let server = server.export(LedgerServer::new(Sum::default())).listen("onc+tcp://[::]").unwrap();
    let server = server.start().unwrap();
    let bind = |host: &str, security: &Security| {
        let options = BindOptions::new().security(security.clone()).bind_timeout(Duration::from_secs(20));
        LedgerClient::bind_with(&server.uris()[0].replace("[::]", host), &options)
    };
    let mut of_alice: Vec<_> = (0..4).map(|_| bind("127.0.0.1", &alice).unwrap()).collect();
    assert!(bind("127.0.0.1", &alice).is_err() && bind("[::1]", &alice).is_err(), "she has her share");
    let of_bob: Vec<_> = (0..4).map(|_| bind("127.0.0.1", &bob).unwrap()).collect();
    assert_eq!(of_bob[3].caller().unwrap(), "bob");
    of_alice.pop();
    crate::harness::eventually(|| bind("[::1]", &alice).is_ok());
}

#[test]
fn the_key_in_the_address_names_the_server_and_means_tls() {
    let folder = Folder::new();
    let ((of_server, _), (security, key)) = (folder.key("server"), folder.key("caller"));
    let (_, other) = folder.key("other");
    let server = serve(of_server.callers(folder.callers(&[("alice", key)])).unwrap());
    let uri = server.uris()[0].clone();
    assert!(uri.contains('@'), "{uri}");
    let client = LedgerClient::bind_with(&uri, &BindOptions::new().security(security.clone())).unwrap();
    assert_eq!(client.caller().unwrap(), "alice");
    assert!(client.binding().describe().contains("with the server of the key"));

    let rest = uri.split_once('@').unwrap().1;
    let own = ClientOptions::new().security(security.clone());
    let why =
        Client::bind_with(&format!("onc+tcp://{other}@{rest}/0x20000140:1"), &own).map(drop).unwrap_err();
    assert!(why.to_string().contains("is not the server that this client takes"), "{why}");
    let (stranger, key) = folder.key("stranger");
    let own = ClientOptions::new().security(stranger);
    let why = Client::bind_with(&format!("{uri}/0x20000140:1"), &own).map(drop).unwrap_err().to_string();
    assert!(why.contains("does not know this caller") && why.contains(&key.to_string()), "{why}");

    // Another credential has a connection of its own, which is under TLS, too.
    let own = ClientOptions::new().security(security);
    let untyped = Client::bind_with(&format!("{uri}/0x20000140:1"), &own).unwrap();
    let as_user = untyped.with_authentication(Credential::own());
    assert!(as_user.call::<_, String>(2, &()).unwrap().starts_with("alice as "));
    assert!(untyped.describe().contains("sealed by TLS"));
}

#[test]
fn a_caller_whose_line_is_gone_loses_its_connection() {
    let folder = Folder::new();
    let ((of_server, _), (security, key)) = (folder.key("server"), folder.key("caller"));
    let server = serve(of_server.callers(folder.callers(&[("alice", key)])).unwrap());
    let uri = server.uris()[0].clone();
    let client = LedgerClient::bind_with(&uri, &BindOptions::new().security(security)).unwrap();
    assert_eq!(client.add(1).unwrap(), 1);
    folder.callers(&[]);
    let is_lost = || client.add(1).is_err_and(|why| why.to_string().contains("does not know this caller"));
    crate::harness::eventually(is_lost);
}

#[test]
fn a_server_that_serves_everybody_serves_callers_without_a_certificate() {
    let organisation = Organisation::new();
    let server = serve(organisation.security("vault", &with(&[dns("vault.example")])).anonymous());
    let client = bind(&server, Security::roots(organisation.roots()).unwrap()).unwrap();
    assert_eq!((client.add(3).unwrap(), client.caller().unwrap()), (3, "nobody".into()));
}

#[test]
fn lists_of_callers_have_the_names_of_tls() {
    let organisation = Organisation::new();
    let security = organisation.security("vault", &with(&[dns("vault.example")])).anonymous();
    let server = Server::new()
        .security(security)
        .callers("Ledger.add", ["spiffe://example.org/*"])
        .callers("Ledger.caller", ["alice"]);
    let server = server_with(server);
    let client = bind(&server, caller(&organisation)).unwrap();
    assert_eq!(client.add(3).unwrap(), 3);
    let denied = client.caller().unwrap_err();
    assert_eq!(denied.ran(), Ran::No);
    assert!(denied.to_string().contains("does not accept the credential"), "{denied}");
    let nobody = bind(&server, Security::roots(organisation.roots()).unwrap()).unwrap();
    assert!(nobody.add(3).unwrap_err().to_string().contains("stronger authentication"));
}

#[test]
fn a_plain_caller_is_refused_and_told_of_tls() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let plain = LedgerClient::bind(&server.uris()[0]).unwrap();
    for _ in 0..2 {
        let why = plain.add(1).unwrap_err();
        assert_eq!(why.ran(), Ran::No);
        assert!(why.to_string().contains("or under TLS if it requires that"), "{why}");
    }
    // A refusal counts when it has left.
    crate::harness::eventually(|| server.counters().refusals.of(RefusalCode::Denied) == 2);
    assert_eq!(server.counters().calls, 0);
}

#[test]
fn a_server_without_tls_is_not_called_by_a_client_that_wants_it() {
    let organisation = Organisation::new();
    let server = server_with(Server::new());
    let why = refused(&server, caller(&organisation));
    assert!(why.contains("does not go on under TLS (the server does not accept the credential)"), "{why}");
    assert!(why.contains("No call was sent to it. Have its administrator switch TLS on"), "{why}");
    let lazy = LedgerClient::bind_with(&server.uris()[0], &options(caller(&organisation)).lazy()).unwrap();
    assert!(lazy.binding().describe().contains("the connection will be sealed by TLS"));
    let why = lazy.add(1).unwrap_err();
    assert_eq!(why.ran(), Ran::No);
    assert!(matches!(&why, CallError::NotSent(SendError::Bind(_), ..)), "{why}");
    assert_eq!(server.counters().calls, 2, "of the two questions");
}

#[test]
fn ends_that_do_not_take_each_other_say_why() {
    let (organisation, other) = (Organisation::new(), Organisation::named("Another"));
    let (vault, shop) = ([dns("vault.example")], [uri("urn:shop")]);
    let told = |server: &RunningServer, security, what: &str| {
        let why = refused(server, security);
        assert!(why.contains(what), "{why}");
        assert_eq!(server.counters().calls, 0);
    };
    let server = certified(&organisation);
    let old = organisation.security("old", &Wanted { names: &shop, from: 2020, until: 2021 });
    told(&server, old, "expired");
    let (chain, key) = other.issue("stranger", &with(&shop));
    let stranger = Security::certificates(chain, key, organisation.roots()).unwrap();
    told(&server, stranger, "none of the server's roots has issued it");
    told(&server, Security::roots(organisation.roots()).unwrap(), "serves callers with certificates only");
    told(&server, Security::roots(other.roots()).unwrap(), "none of the roots");
    let (with_key, _) = organisation.folder.key("key");
    told(&server, with_key, "has keys where");

    let expired = serve(organisation.security("vault", &Wanted { names: &vault, from: 2020, until: 2021 }));
    told(&expired, caller(&organisation), "was valid until 2021-01-01");
    let elsewhere = serve(organisation.security("vault", &with(&[dns("bank.example")])));
    told(&elsewhere, caller(&organisation), "is not for vault.example");
}

#[test]
fn only_connections_over_tcp_are_sealed() {
    let folder = Folder::new();
    let (security, _) = folder.key("key");
    let server = || Server::new().security(security.clone()).export(LedgerServer::new(Sum::default()));
    let why = server().listen("onc+udp://127.0.0.1").map(drop).unwrap_err();
    assert!(matches!(&why, ListenError::Io { .. }), "{why}");
    assert!(why.to_string().contains("listen at onc+tcp://, or say Security::none()"), "{why}");
    let own = ClientOptions::new().security(security.clone()).lazy();
    for uri in ["onc+udp://127.0.0.1:9/7:1", "onc+unix:@nothing/7:1"] {
        let why = Client::bind_with(uri, &own).map(drop).unwrap_err().to_string();
        assert!(why.contains("Sun RPC is sealed over TCP, at onc+tcp://"), "{why}");
        let typed = LedgerClient::bind_with(uri, &BindOptions::new().security(security.clone()));
        assert!(matches!(typed.map(drop), Err(BindError::UnusedOptions { option: "Security", .. })));
    }
    let mixed = server().listen("onc+tcp://127.0.0.1").unwrap().security(Security::none());
    let mixed = mixed.listen("onc+udp://127.0.0.1").unwrap().start().unwrap();
    assert_eq!(LedgerClient::bind(&mixed.uris()[1]).unwrap().add(2).unwrap(), 2);
}

#[test]
fn a_lost_connection_is_made_again_under_tls() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let at = server.uris()[0].clone();
    let client = bind(&server, caller(&organisation)).unwrap();
    assert_eq!(client.add(1).unwrap(), 1);
    drop(server);
    crate::harness::loopback::await_free(&at);
    let again = Server::new().security(organisation.security("vault", &with(&[dns("vault.example")])));
    let again = again.export(LedgerServer::new(Sum::default())).listen(&at).unwrap().start().unwrap();
    let is_bound = || client.add(1).is_ok();
    crate::harness::eventually(is_bound);
    assert_eq!(client.caller().unwrap(), "spiffe://example.org/shop");
    drop(again);
}

#[test]
fn the_key_log_has_the_secrets_of_sessions_for_other_programs() {
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let log = organisation.folder.file("secrets");
    let client = bind(&server, caller(&organisation).key_log(&log).unwrap()).unwrap();
    assert_eq!(client.add(1).unwrap(), 1);
    let text = std::fs::read_to_string(log).unwrap();
    for label in ["CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "] {
        let line = text.lines().find_map(|line| line.strip_prefix(label)).expect(label);
        assert_eq!(line.split_once(' ').map(|(random, _)| random.len()), Some(64), "{line}");
    }
}
