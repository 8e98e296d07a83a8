//! How often a client asks a server of an older revision before it is bound.

use crate::harness::ethernet::{self, raw::Raw};
use crate::harness::relay::{Relay, Way};
use crate::harness::shm_peer;
use crate::harness::transports::{ListenThere, address, is_there};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;
use stoop::{RunningServer, Server};
use stoop_ether::frame::OVERHEAD;
use stoop_wire::bind::BindRequest;
use stoop_wire::{HEADER_LEN, Kind};

mod before {
    #[stoop::interface]
    pub(crate) trait Ledger {
        fn enter(&self, entry: Entry) -> u32;
        fn total(&self) -> u32;
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub amount: u32,
    }
}

mod after {
    #[stoop::interface(revision = 3)]
    pub(crate) trait Ledger {
        #[since(1)]
        fn list(&self) -> Vec<Entry>;
        fn enter(&self, entry: Entry) -> u32;
        fn total(&self) -> u32;
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub amount: u32,
        #[stoop(since = 2)]
        pub note: String,
        #[stoop(since = 3)]
        pub number: Option<u64>,
    }
}

struct Book;

impl before::Ledger for Book {
    fn enter(&self, entry: before::Entry) -> u32 {
        entry.amount
    }
    fn total(&self) -> u32 {
        0
    }
}

fn serve(uri: &str) -> (RunningServer, String) {
    let server = Server::new().export(before::LedgerServer::new(Book)).listen_there(uri).unwrap();
    let server = server.start().unwrap();
    let address = server.uris()[0].rsplit('/').next().unwrap().to_owned();
    (server, address)
}

/// Binds the newer client, and shows that it is bound to both procedures that the server has.
fn bind(uri: &str) -> after::LedgerClient {
    after::LedgerClient::bind(uri).unwrap()
}

fn check(client: &after::LedgerClient) {
    let entry = after::Entry { amount: 7, note: String::new(), number: None };
    assert_eq!((client.enter(entry).unwrap(), client.total().unwrap()), (7, 0));
}

#[test]
fn a_client_asks_an_older_server_over_udp_four_times() {
    /// The packets that went to the server. A repeated one is the same.
    static SENT: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    let (_server, address) = serve("udp://127.0.0.1:0");
    let relay = Relay::to(&address, |way, packet| {
        if let Way::There = way {
            SENT.lock().unwrap().insert(packet.to_vec());
        }
        vec![packet.to_vec()]
    });
    let client = bind(&relay.uri);
    are_four_binds(&SENT.lock().unwrap());
    check(&client);
}

#[test]
fn a_client_asks_an_older_server_on_an_ethernet_four_times() {
    if !is_there("ether") {
        return;
    }
    let (server, _) = serve(&address("ether"));
    let frames = ethernet::at_servers(Raw::open);
    let client = bind(&server.uris()[0]);
    let (mut sent, mut frame) = (BTreeSet::new(), [0; 2048]);
    while let Some(frame) = frames.receive(&mut frame) {
        // Other tests have frames on the same Ethernet, of other kinds.
        let packet = &frame[OVERHEAD..];
        if packet[2] == Kind::Bind as u8 && packet[HEADER_LEN..].windows(6).any(|text| text == b"Ledger") {
            sent.insert(packet.to_vec());
        }
    }
    assert!(!sent.is_empty());
    are_four_binds(&sent);
    check(&client);
}

/// For a proof of the address; for the newest forms, for older ones, and for those that both know.
#[track_caller]
fn are_four_binds(sent: &BTreeSet<Vec<u8>>) {
    let kinds: Vec<_> = sent.iter().map(|packet| packet[2]).collect();
    assert!(sent.len() <= 4 && kinds.iter().all(|kind| *kind == Kind::Bind as u8), "{kinds:?}");
    let requests = sent.iter().map(|packet| BindRequest::decode(&packet[HEADER_LEN..]).unwrap());
    assert_eq!(requests.map(|request| request.nonce).collect::<BTreeSet<_>>().len(), 1, "one nonce for all");
}

#[test]
fn a_client_asks_an_older_server_over_a_connection_three_times() {
    let (_server, address) = serve("tcp://127.0.0.1:0");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&kinds);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&address).unwrap());
            let (mut to, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                // A message after the other.
                let mut message = vec![0; HEADER_LEN];
                while client.read_exact(&mut message).is_ok() {
                    seen.lock().unwrap().push(message[2]);
                    let len = u32::from_le_bytes(message[20..24].try_into().unwrap()) as usize;
                    message.resize(HEADER_LEN + len, 0);
                    client.read_exact(&mut message[HEADER_LEN..]).unwrap();
                    server.write_all(&message).unwrap();
                    message.truncate(HEADER_LEN);
                }
            });
        }
    });
    let client = bind(&uri);
    let asked = kinds.lock().unwrap().clone();
    check(&client);
    assert_eq!(asked, [Kind::Bind as u8; 3]);
}

#[test]
fn a_client_asks_an_older_server_over_shared_memory_three_times() {
    let (server, name) = serve(&address("shm"));
    let uri = format!("{}-relay", server.uris()[0]);
    let listener = UnixListener::bind_addr(&shm_peer::address(&uri)).unwrap();
    let asked = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = shm_peer::connect(&name);
        let mut kinds = Vec::new();
        while let Some(question) = shm_peer::receive(&mut client) {
            kinds.push(question[2]);
            if question[2] == Kind::Attach as u8 {
                // It is bound, and asks for its memory.
                return kinds;
            }
            server.write_all(&question).unwrap();
            client.write_all(&shm_peer::receive(&mut server).unwrap()).unwrap();
        }
        kinds
    });
    assert!(after::LedgerClient::bind(&uri).is_err(), "the relay has no memory for it");
    let (bind, attach) = (Kind::Bind as u8, Kind::Attach as u8);
    assert_eq!(asked.join().unwrap(), [bind, bind, bind, attach]);
}

#[cfg(feature = "seal")]
#[test]
fn asking_again_under_seal_is_one_handshake_and_no_call() {
    for transport in ["tcp_sealed", "udp_sealed"] {
        let (server, _) = serve(&address(transport));
        let client = bind(&server.uris()[0]);
        check(&client);
        let counters = server.counters();
        let (of_handshakes, mut expected) = (counters.handshakes, stoop::HandshakeCounters::default());
        expected.bound = 1;
        assert_eq!((of_handshakes, counters.bindings, counters.calls), (expected, 1, 2), "{transport}");
    }
}
