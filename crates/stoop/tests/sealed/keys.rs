//! Which servers and callers take each other, and what the others are told.

use crate::harness::ethernet;
use crate::harness::transports::{ListenThere, address};
use crate::{Counting, Folder, Pair, VaultClient, VaultServer, over};
use std::time::{Duration, Instant};
use stoop::account::AccountOptions;
use stoop::{BindError, BindOptions, Ran, Security, Server};

/// The text of the error of binding.
fn refused(uri: &str, options: &BindOptions) -> String {
    match VaultClient::bind_with(uri, options) {
        Err(why @ BindError::Security { .. }) => why.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is bound"),
    }
}

over! { udp ether tcp: [a_name_in_no_list_of_an_interface_is_not_bound_to_it lists_name_callers_as_the_file_of_callers_does the_account_has_callers_by_their_names procedures_see_the_name_of_the_caller a_server_with_another_key_is_not_called an_unknown_caller_learns_the_line_that_its_administrator_adds a_caller_without_a_key_is_told_to_make_one a_plain_caller_of_a_sealed_address_is_told_so_and_gets_no_description a_server_that_cannot_seal_is_not_called a_text_that_is_no_key_is_an_error servers_that_serve_everybody_serve_callers_without_a_key a_caller_whose_line_is_removed_loses_its_binding a_name_and_a_key_are_found_in_a_file_of_servers] }

fn procedures_see_the_name_of_the_caller(transport: &str) {
    let pair = Pair::over(transport);
    assert_eq!(pair.client().caller().unwrap().as_deref(), Some("alice"));
}

fn lists_name_callers_as_the_file_of_callers_does(transport: &str) {
    let (folder, server) = (Folder::new(), Server::new().export(VaultServer::new(Counting::default())));
    let ((of_server, _), (alice, key), (bob, other)) =
        (folder.key("server"), folder.key("alice"), folder.key("bob"));
    let callers = folder.callers(&[("alice", key), ("ops-bob", other)]);
    let server = server.callers("Vault", ["alice", "ops-*"]).callers("Vault.count", ["alice"]);
    let server = server.security(of_server.callers(callers).unwrap());
    let server = ethernet::at_servers(|| server.listen(&address(transport))).unwrap().start().unwrap();
    let bind = |security| VaultClient::bind_with(&server.uris()[0], &BindOptions::new().security(security));
    let (alice, bob) = (bind(alice).unwrap(), bind(bob).unwrap());
    for number in 1..=3 {
        assert_eq!(alice.count().unwrap(), number);
        assert_eq!(bob.again().unwrap(), 7);
        let why = bob.count().unwrap_err();
        assert_eq!(why.ran(), Ran::No);
        assert!(why.to_string().contains("`ops-bob`"), "{why}");
    }
}

fn a_name_in_no_list_of_an_interface_is_not_bound_to_it(transport: &str) {
    let (folder, server) = (Folder::new(), Server::new().export(VaultServer::new(Counting::default())));
    let ((of_server, _), (alice, key), (bob, other)) =
        (folder.key("server"), folder.key("alice"), folder.key("bob"));
    let callers = folder.callers(&[("alice", key), ("bob", other)]);
    let server = server.callers("Vault", ["alice"]).security(of_server.callers(callers).unwrap());
    let server = ethernet::at_servers(|| server.listen(&address(transport))).unwrap().start().unwrap();
    let bind = |security| VaultClient::bind_with(&server.uris()[0], &BindOptions::new().security(security));
    assert_eq!(bind(alice).unwrap().count().unwrap(), 1);
    let why = bind(bob).map(drop).unwrap_err();
    assert!(matches!(why, BindError::Denied { .. }), "{why}");
    assert!(why.to_string().contains(".callers(\"Vault\", [\"bob\"])"), "{why}");
}

fn the_account_has_callers_by_their_names(transport: &str) {
    let folder = Folder::new();
    let ((of_server, _), (caller, key)) = (folder.key("server"), folder.key("caller"));
    let security = of_server.callers(folder.callers(&[("alice", key)])).unwrap();
    let server = Server::new().security(security).account(AccountOptions::new().short_share(1));
    let server = server.export(VaultServer::new(Counting::default()));
    let server = ethernet::at_servers(|| server.listen(&address(transport))).unwrap().start().unwrap();
    let client = VaultClient::bind_with(&server.uris()[0], &BindOptions::new().security(caller)).unwrap();
    (1..=5).for_each(|number| assert_eq!(client.count().unwrap(), number));
    // The last call is recorded after its result has been sent.
    let names = || server.account().peers.into_iter().map(|peer| peer.peer).collect::<Vec<_>>();
    let until = Instant::now() + Duration::from_secs(60);
    while names().is_empty() && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(names(), ["alice"]);
}

fn a_server_with_another_key_is_not_called(transport: &str) {
    let (pair, other) = (Pair::over(transport), Folder::new());
    let (_, wrong) = other.key("other");
    let (key, plain) = pair.parts();
    let why = refused(&plain.replacen("://", &format!("://{wrong}@"), 1), &pair.options());
    assert!(why.contains("is not the server") && why.contains(&key), "{why}");
}

fn an_unknown_caller_learns_the_line_that_its_administrator_adds(transport: &str) {
    let pair = Pair::over(transport);
    let (stranger, key) = pair.folder.key("stranger");
    let options = BindOptions::new().security(stranger);
    let why = refused(&pair.uri(), &options);
    assert!(why.contains(&format!("NAME {key}")), "{why}");
    let handshakes = || pair.server.counters().handshakes;
    assert_eq!((handshakes().bound, handshakes().unknown_caller), (0, 1));
    pair.folder.callers(&[("alice", pair.key), ("bob", key)]);
    let client = VaultClient::bind_with(&pair.uri(), &options).unwrap();
    assert_eq!(client.caller().unwrap().as_deref(), Some("bob"));
    assert_eq!((handshakes().bound, handshakes().unknown_caller), (1, 1));
}

fn a_caller_without_a_key_is_told_to_make_one(transport: &str) {
    let pair = Pair::over(transport);
    let why = refused(&pair.uri(), &BindOptions::new().security(Security::without_key()));
    assert!(why.contains("keygen"), "{why}");
}

fn a_plain_caller_of_a_sealed_address_is_told_so_and_gets_no_description(transport: &str) {
    let pair = Pair::over(transport);
    let (_, plain) = pair.parts();
    let why = refused(&plain, &BindOptions::new());
    assert!(why.contains("sealed calls only") && why.contains("KEY@"), "{why}");
}

fn a_server_that_cannot_seal_is_not_called(transport: &str) {
    let folder = Folder::new();
    let (caller, key) = folder.key("caller");
    let server = Server::new().export(VaultServer::new(Counting::default()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let plain = &server.uris()[0];
    let uri = plain.replacen("://", &format!("://{key}@"), 1);
    let why = refused(&uri, &BindOptions::new().security(caller));
    assert!(why.contains("cannot seal"), "{why}");
    assert_eq!(server.counters().calls, 0);
}

fn a_text_that_is_no_key_is_an_error(transport: &str) {
    let pair = Pair::over(transport);
    let why = refused(&pair.uri().replacen("://", "://x", 1), &pair.options());
    assert!(why.contains("names no key"), "{why}");
}

fn servers_that_serve_everybody_serve_callers_without_a_key(transport: &str) {
    let folder = Folder::new();
    let (security, _) = folder.key("server");
    let server = Server::new().security(security.anonymous()).export(VaultServer::new(Counting::default()));
    let server = ethernet::at_servers(|| server.listen(&address(transport))).unwrap().start().unwrap();
    let options = BindOptions::new().security(Security::without_key());
    let client = VaultClient::bind_with(&server.uris()[0], &options).unwrap();
    assert_eq!((client.count().unwrap(), client.caller().unwrap()), (1, None));
}

fn a_caller_whose_line_is_removed_loses_its_binding(transport: &str) {
    let pair = Pair::over(transport);
    let client = pair.client().with_timeout(Duration::from_millis(300));
    assert_eq!(client.count().unwrap(), 1);
    let (_, other) = pair.folder.key("other");
    pair.folder.callers(&[("other", other)]);
    let until = Instant::now() + Duration::from_secs(60);
    while client.count().is_ok() {
        assert!(Instant::now() < until, "it is served still");
        std::thread::yield_now();
    }
}

fn a_name_and_a_key_are_found_in_a_file_of_servers(transport: &str) {
    let pair = Pair::over(transport);
    let (key, plain) = pair.parts();
    let path = pair.folder.file("servers");
    std::fs::write(&path, format!("vault {key}\n")).unwrap();
    let security = pair.caller.clone().servers(path).unwrap();
    let client = VaultClient::bind_with(&plain, &BindOptions::new().security(security)).unwrap();
    assert_eq!(client.count().unwrap(), 1);
}

#[test]
fn a_server_with_a_key_serves_unix_sockets_and_shared_memory_in_the_clear_beside_sealed_addresses() {
    let folder = Folder::new();
    let server = Server::new().security(folder.key("server").0).export(VaultServer::new(Counting::default()));
    let [unix, shm] = ["unix", "shm"].map(address);
    let all = ["tcp://127.0.0.1:0", &unix, &shm];
    let server = all.into_iter().fold(server, |server, uri| server.listen(uri).unwrap()).start().unwrap();
    for uri in &server.uris()[1..] {
        assert_eq!(VaultClient::bind(uri).unwrap().again().unwrap(), 7, "{uri}");
    }
    assert!(server.uris()[0].contains('@'));
}

#[test]
fn a_server_with_a_key_listens_where_others_reach_it() {
    let folder = Folder::new();
    for scheme in ["udp", "tcp"] {
        let (security, key) = folder.key(scheme);
        let server = Server::new().security(security).export(VaultServer::new(Counting::default()));
        let server = server.listen(&format!("{scheme}://0.0.0.0:0")).unwrap().start().unwrap();
        assert!(server.uris()[0].starts_with(&format!("{scheme}://{key}@0.0.0.0:")), "{:?}", server.uris());
    }
}

#[test]
fn a_main_that_returns_the_error_of_a_missing_key_prints_what_to_do() {
    let missing = Folder::new().0.join("key");
    let why = Security::key_file(&missing).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::NotFound);
    let text = format!("{why:?}");
    assert!(text.contains(missing.to_str().unwrap()) && text.contains("stoop keygen"), "{text}");
    assert_eq!(text, std::io::Error::from(why).to_string());
    Security::generate_key(&missing).unwrap();
    let why = Security::generate_key(&missing).unwrap_err().to_string();
    assert!(why.contains("exists") && why.contains("`stoop key`"), "{why}");
}
