//! Interfaces with unusual names, of unusual kinds, and with short frames.

use crate::harness::echo::{BACKENDS, EchoClient, bind, serve};
use crate::harness::ethernet;
use crate::harness::ethernet::INTERFACE;
use stoop::Server;

/// The error of a bind.
fn refused(uri: &str) -> String {
    EchoClient::bind(uri).map(drop).unwrap_err().to_string()
}

fn check(client: &EchoClient, len: usize) {
    let bytes = vec![7; len];
    assert!(client.echo(bytes.clone()).unwrap() == bytes, "{len}");
    assert!(client.begin().echo(bytes.clone()).wait().unwrap() == bytes, "{len}");
}

fn set_mtu(mtu: u32) {
    let set = || ethernet::ip(&format!("link set {{}} mtu {mtu}"));
    set();
    ethernet::at_servers(set);
}

#[test]
fn interface_whose_frames_are_too_short_is_refused_and_the_least_is_enough() {
    const LEAST: u32 = 1482;
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        set_mtu(LEAST);
        let server = serve(&ethernet::address(parameters));
        let uri = &server.uris()[0];
        let client = bind(uri);
        for len in [0, 1400, 1416, 1424, 1432, 1440, 1441, 1450, 3000, 48_000, 1 << 20] {
            check(&client, len);
        }
        for mtu in [LEAST - 1, 68] {
            set_mtu(mtu);
            for why in [
                refused(uri),
                ethernet::at_servers(|| {
                    Server::new()
                        .security(stoop::Security::none())
                        .listen(&ethernet::address(parameters))
                        .map(drop)
                        .unwrap_err()
                        .to_string()
                }),
            ] {
                assert!(why.contains(&format!("the MTU of {INTERFACE} is {mtu}")), "{why}");
                assert!(why.contains("`ip link set stoop0 mtu 1482`"), "{why}");
            }
        }
    }
}

#[test]
fn alternative_names_of_an_interface_lead_to_it() {
    let long = "x".repeat(127);
    for name in ["short", "of-fifteen-char", "of-sixteen-chars", "a:b@c.d+e%f", &long] {
        if !ethernet::enter() {
            return;
        }
        let rename = || ethernet::ip(&format!("link property add dev {{}} altname {name}"));
        rename();
        ethernet::at_servers(rename);
        for parameters in BACKENDS {
            let server = serve(&format!("ether://{name}/named{parameters}"));
            let client = bind(&format!("ether://{name}/named{parameters}"));
            check(&client, 10_000);
            drop(server);
        }
    }
}

#[test]
fn interface_on_top_of_another_reaches_servers_by_each_backend_that_it_has() {
    if !ethernet::enter() {
        return;
    }
    ethernet::ip("link add above0 link {} type macvlan mode bridge");
    ethernet::ip("link set above0 up");
    let server = serve(&ethernet::address(""));
    let uri = server.uris()[0].replace(INTERFACE, "above0");
    for parameters in ["", "?backend=xdp-generic"] {
        check(&bind(&format!("{uri}{parameters}")), 100_000);
    }
    let why = refused(&format!("{uri}?backend=xdp"));
    assert!(why.contains("native XDP") && why.contains("`backend=xdp-generic`"), "{why}");
}

#[test]
fn bridge_is_an_interface_of_servers() {
    if !ethernet::enter() {
        return;
    }
    ethernet::at_servers(|| {
        ethernet::ip("link add bridge0 type bridge");
        ethernet::ip("link set {} master bridge0");
        ethernet::ip("link set bridge0 up");
    });
    for parameters in ["", "?backend=xdp-generic"] {
        let _server = serve(&format!("ether://bridge0/bridged{parameters}"));
        check(&bind(&format!("ether://{INTERFACE}/bridged")), 100_000);
    }
}

#[test]
fn a_server_on_an_ethernet_says_how_its_calls_are_protected() {
    if !ethernet::enter_unchanged() {
        return;
    }
    let why =
        ethernet::at_servers(|| stoop::Server::new().listen(&ethernet::address("")).map(drop).unwrap_err());
    assert!(matches!(why, stoop::ListenError::Unprotected(_)), "{why}");
}
