//! Servers that listen where other machines reach them.

use crate::harness::transports::address;
use std::net::{IpAddr, UdpSocket};
use stoop::{ListenError, Security, Server};

#[stoop::interface]
trait Nothing {
    fn null(&self);
}

struct Plain;

impl Nothing for Plain {
    fn null(&self) {}
}

fn server() -> Server {
    Server::new().export(NothingServer::new(Plain))
}

/// An address of this machine that others reach, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // No packet is sent: the system chooses the address from which one would go.
    socket.connect("192.0.2.77:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The addresses at which others reach a server.
fn open_addresses() -> Vec<String> {
    let hosts = ["0.0.0.0".into(), "[::]".into(), "[::ffff:0.0.0.0]".into()];
    let hosts = hosts.into_iter().chain(own_address().map(|own| own.to_string()));
    hosts.flat_map(|host| ["udp", "tcp"].map(|scheme| format!("{scheme}://{host}:0"))).collect()
}

#[test]
fn a_server_that_others_reach_does_not_listen_before_it_says_how_its_calls_are_protected() {
    for uri in open_addresses() {
        let why = server().listen(&uri).unwrap_err();
        assert!(matches!(&why, ListenError::Unprotected(at) if *at == uri), "{why}");
        let said = why.to_string();
        assert!(said.contains(&uri) && said.contains(".security(Security::none())"), "{said}");
        assert!(said.contains(".security(Security::own_key()?.callers("), "{said}");
        assert_eq!(said.contains("cargo feature `seal`"), !cfg!(feature = "seal"), "{said}");
    }
}

#[test]
fn a_server_that_says_that_its_calls_are_not_sealed_listens_everywhere() {
    for uri in open_addresses() {
        // Where the system has IPv6.
        match server().security(Security::none()).listen(&uri) {
            Err(ListenError::Io { .. }) if uri.contains('[') => continue,
            listens => drop(listens.and_then(Server::start).unwrap_or_else(|why| panic!("{uri}: {why}"))),
        }
    }
}

#[test]
fn a_server_says_nothing_about_security_where_no_other_machine_reaches_it() {
    let loopback = ["udp://127.0.0.1:0", "tcp://127.9.8.7:0", "udp://localhost:0", "onc+udp://0.0.0.0:0"];
    let addresses = loopback.map(str::to_owned).into_iter();
    for uri in addresses.chain(["unix", "shm", "local", "name", "memory"].map(address)) {
        let _ = server().listen(&uri).unwrap_or_else(|why| panic!("{uri}: {why}"));
    }
    for uri in ["udp://[::1]:0", "tcp://[::1]:0", "tcp://[::ffff:127.0.0.1]:0"] {
        if let Err(why) = server().listen(uri) {
            assert!(matches!(why, ListenError::Io { .. }), "{uri}: {why}");
        }
    }
}

#[test]
fn what_a_server_says_about_security_counts_for_later_addresses_only() {
    let local = server().listen("udp://127.0.0.1:0").unwrap().security(Security::none());
    assert!(local.listen("udp://0.0.0.0:0").unwrap().start().is_ok());
    let unsaid = server().security(Security::none()).security(Security::default());
    assert!(matches!(unsaid.listen("udp://0.0.0.0:0"), Err(ListenError::Unprotected(_))));
}
