//! Bindings that are made by UDP and go on directly on the Ethernet that both ends are on.

use crate::harness::echo::{EchoClient, EchoServer, Same};
use crate::harness::ethernet;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use stoop::{BindOptions, RunningServer, Server};

/// A server at the other end, by UDP and at this address of the Ethernet.
fn serve(ether: &str) -> RunningServer {
    ethernet::at_servers(|| {
        let server = Server::new().security(stoop::Security::none()).export(EchoServer::new(Same));
        let udp = format!("udp://{}:0", ethernet::SERVER_ADDRESS);
        server.listen(&udp).unwrap().listen(ether).unwrap().start().unwrap()
    })
}

/// Binds by UDP, calls, and tells what the binding says of itself.
fn described(server: &RunningServer, options: &BindOptions) -> String {
    let client = EchoClient::bind_with(&server.uris()[0], options).unwrap();
    assert_eq!(client.echo(vec![41]).unwrap(), [41]);
    client.binding().describe()
}

#[test]
fn binding_goes_on_on_the_ethernet_that_both_ends_are_on_if_both_allow_it() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    let upgraded = described(&server, &BindOptions::new().upgrade());
    assert!(upgraded.contains("over Ethernet (packet socket"), "{upgraded}");
    let because = format!("because the server at {} is on this Ethernet and offers it", server.uris()[0]);
    assert!(upgraded.contains(&because), "{upgraded}");
    let as_it_says = described(&server, &BindOptions::new());
    assert!(
        as_it_says.contains("over UDP") && as_it_says.contains("because the address says so"),
        "{as_it_says}"
    );
}

#[test]
fn offer_does_not_choose_for_the_caller() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address("?backend=xdp-generic&checksum=off"));
    let upgraded = described(&server, &BindOptions::new().upgrade());
    assert!(upgraded.contains("over Ethernet (packet socket"), "{upgraded}");
    assert!(upgraded.contains("with a checksum in each frame"), "{upgraded}");
}

#[test]
fn server_that_listens_under_a_name_is_found_by_it() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&format!("ether://{}/upgraded", ethernet::INTERFACE));
    let upgraded = described(&server, &BindOptions::new().upgrade());
    assert!(upgraded.contains("over Ethernet (packet socket"), "{upgraded}");
}

#[test]
fn port_that_changes_when_the_server_is_started_again_is_not_offered() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&format!("ether://{}/:0", ethernet::INTERFACE));
    let described = described(&server, &BindOptions::new().upgrade());
    assert!(
        described.contains("over UDP") && described.contains("because the address says so"),
        "{described}"
    );
}

#[test]
fn binding_without_the_privilege_stays_with_udp_and_says_why() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    // Of this thread alone.
    let mut have = capabilities(None).unwrap();
    have.effective.remove(CapabilitySet::NET_RAW);
    set_capabilities(None, have).unwrap();
    let described = described(&server, &BindOptions::new().upgrade());
    assert!(described.contains("over UDP") && described.contains("could not be used"), "{described}");
    assert!(described.contains("lacks CAP_NET_RAW"), "{described}");
}
