//! `stoop top`: a server that keeps an account, one that keeps none, and none.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use stoop::Server;
use stoop::account::AccountOptions;

#[stoop::interface]
trait Store {
    fn get(&self, key: u32) -> u32;
}

struct Disk;

impl Store for Disk {
    fn get(&self, key: u32) -> u32 {
        key
    }
}

fn top(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    let Output { status, stdout, stderr } =
        command.arg("top").args(arguments).output().expect("stoop can be started");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn procedures_and_callers_of_a_server_are_shown_by_transport_of_their_choice() {
    let server = Server::new().export(StoreServer::new(Disk)).account(AccountOptions::new());
    let server =
        server.listen("udp://127.0.0.1:0").unwrap().listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let client = StoreClient::bind(&server.uris()[0]).unwrap();
    (0..500).for_each(|key| assert_eq!(client.get(key).unwrap(), key));
    for uri in server.uris() {
        let (is_well, text) = top(&[uri, "--once"]);
        assert!(is_well, "{text}");
        for part in ["Store.get", "127.0.0.1", "calls/s", "median"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let (is_well, text) = top(&[&server.uris()[0], "--once", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(is_well && json["procedures"][0]["calls"] == 500, "{text}");
    let (is_well, text) = top(&[&server.uris()[0], "--prometheus"]);
    assert!(
        is_well && text.contains(r#"stoop_served_calls_total{interface="Store",procedure="get"} 500"#),
        "{text}"
    );
}

#[test]
fn looks_follow_each_other_while_calls_are_made() {
    let server = Server::new().export(StoreServer::new(Disk)).account(AccountOptions::new());
    let server = server.listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let client = StoreClient::bind(&server.uris()[0]).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.get(1).unwrap();
            }
        });
        let (is_well, text) = top(&[&server.uris()[0], "-n", "2", "-i", "0.05", "--json"]);
        is_over.store(true, Ordering::Relaxed);
        assert!(is_well && text.lines().count() == 2, "{text}");
    });
}

#[test]
fn a_server_without_an_account_says_how_to_have_one() {
    let server = Server::new().export(StoreServer::new(Disk)).listen("unix:@stoop-test-top-without").unwrap();
    let server = server.start().unwrap();
    let (is_well, text) = top(&[&server.uris()[0], "--once"]);
    assert!(is_well && text.contains("Server::account") && text.contains("bindings"), "{text}");
    let (is_well, text) = top(&["unix:@stoop-test-nobody-listens-for-top"]);
    assert!(!is_well && text.contains("no server listens"), "{text}");
}
