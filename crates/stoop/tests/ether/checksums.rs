//! Checksums of Ethernet frames: they are left out only if both ends say so.

use crate::harness::echo::{EchoClient, serve};
use crate::harness::ethernet;
use crate::harness::ethernet::raw::address_in;
use std::thread;
use stoop::BindError;
use stoop_ether::frame::Checksum;
use stoop_ether::{Backend, Endpoint, Interface, Options};

/// Short and long calls by this thread, by others, and begun.
fn check(client: &EchoClient) {
    for len in [0, 100, 50_000] {
        let bytes = vec![7; len];
        let call = || assert!(client.echo(bytes.clone()).unwrap() == bytes);
        call();
        thread::scope(|scope| drop([(); 2].map(|()| scope.spawn(call))));
        assert!(client.begin().echo(bytes.clone()).wait().unwrap() == bytes);
    }
}

#[test]
fn frames_go_without_checksums_if_both_ends_say_so() {
    for backend in ["backend=ring", "backend=xdp-generic", "backend=xdp"] {
        if !ethernet::enter() {
            return;
        }
        let server = serve(&ethernet::address(&format!("?{backend}&checksum=off")));
        let by_its_own = server.uris()[0].clone();
        let client = EchoClient::bind(&by_its_own).unwrap();
        check(&client);
        let described = client.binding().describe();
        assert!(described.contains("without checksums in frames, as both ends have agreed"), "{described}");

        let client = EchoClient::bind(&by_its_own.replace("checksum=off", "checksum=on")).unwrap();
        check(&client);
        let described = client.binding().describe();
        assert!(described.contains("with a checksum in each frame"), "{described}");
        assert_eq!(server.counters().packet.corrupt, 0);
    }
}

#[test]
fn binding_without_checksums_fails_where_the_server_requires_them() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    let refused = EchoClient::bind(&format!("{}?checksum=off", server.uris()[0])).map(drop).unwrap_err();
    assert!(matches!(refused, BindError::Refused { .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("it requires a checksum in each frame"), "{said}");
    assert!(said.contains("have the server listen at an address with checksum=off, too"), "{said}");
}

#[test]
fn frames_without_a_checksum_are_dropped_and_counted_where_the_server_requires_them() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    let client = EchoClient::bind(&server.uris()[0]).unwrap();
    let interface = Interface::by_name(ethernet::INTERFACE).unwrap();
    let stranger = Endpoint::connect(&interface, Backend::PacketRing, &Options::of_one_lane()).unwrap();
    let to = address_in(&server.uris()[0]);
    for _ in 0..10 {
        stranger.send(&stranger.template(to, Checksum::Omitted), &[0; 40]).unwrap();
    }
    // The server receives in order.
    check(&client);
    assert_eq!(server.counters().packet.corrupt, 10);
}
