//! Our server against the C client of `peer.x`, rpcinfo and rpcbind.

use crate::peer::PEER;
use crate::programs::{One, Two};
use crate::sandbox::{self, rpcinfo};
use std::process::Command;
use stoop::RunningServer;
use stoop::onc::rpcbind::Rpcbind;
use stoop::onc::{Client, Server, Transport, VersionId};

fn start() -> RunningServer {
    let server = Server::new().program(One::default()).program(Two).register();
    let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
    server.listen("onc+unix:/run/peer.sock").unwrap().start().expect("rpcbind registers it")
}

fn registered() -> Vec<(u32, String)> {
    let entries = Rpcbind::local().unwrap().dump().unwrap();
    let own = entries.into_iter().filter(|entry| entry.version.program == PEER);
    let mut own: Vec<_> = own.map(|entry| (entry.version.version, entry.netid)).collect();
    own.sort();
    own
}

#[test]
fn a_c_client_gets_our_results_over_udp_and_tcp() {
    sandbox::run("c_client::a_c_client_gets_our_results_over_udp_and_tcp", || {
        let folder = sandbox::c_programs("run_time_client");
        for transport in ["udp", "tcp"] {
            let _server = start();
            let status = Command::new(folder.join("client")).args(["127.0.0.1", transport, "1"]).status();
            assert!(status.expect("the client starts").success(), "over {transport}");
        }
    });
}

#[test]
fn rpcinfo_finds_our_programs_and_they_are_gone_after_the_server() {
    sandbox::run("c_client::rpcinfo_finds_our_programs_and_they_are_gone_after_the_server", || {
        let server = start();
        let program = PEER.to_string();
        for transport in ["-u", "-t"] {
            assert!(rpcinfo(&[transport, "127.0.0.1", &program, "1"]));
            assert!(rpcinfo(&[transport, "127.0.0.1", &program]), "all versions");
            assert!(!rpcinfo(&[transport, "127.0.0.1", &program, "3"]));
        }
        assert!(rpcinfo(&["-T", "local", "127.0.0.1", &program, "1"]));
        let netids = ["local", "tcp", "udp"];
        let all: Vec<_> = [1, 2].iter().flat_map(|v| netids.map(|netid| (*v, netid.to_owned()))).collect();
        assert_eq!(registered(), all);
        let version = VersionId { program: PEER, version: 2 };
        Rpcbind::ping("127.0.0.1", Transport::Udp, version).unwrap();
        let unix = Client::bind(&format!("onc+unix:/run/peer.sock/{version}")).unwrap();
        assert_eq!(unix.call::<_, u64>(1, &9_u32).unwrap(), 81);
        server.shut_down();
        assert_eq!(registered(), []);
    });
}

#[test]
fn a_server_takes_over_what_a_killed_one_has_left_registered() {
    sandbox::run("c_client::a_server_takes_over_what_a_killed_one_has_left_registered", || {
        let rpcbind = Rpcbind::local().unwrap();
        let version = VersionId { program: PEER, version: 1 };
        assert!(rpcbind.set(version, "udp", "127.0.0.1.3.3").unwrap());
        let server = start();
        let client = Client::bind(&format!("onc+udp://127.0.0.1/{version}")).unwrap();
        assert_eq!(format!("onc+udp://{}", client.server().unwrap()), server.uris()[0]);
        client.null().unwrap();
    });
}
