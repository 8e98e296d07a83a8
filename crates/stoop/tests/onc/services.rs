//! The old services: rpc.rusersd, rpc.rstatd, and rpcbind's broadcast.

use crate::peer::PEER;
use crate::programs::{One, Two};
use crate::sandbox::{self, wait_until};
use std::process::Command;
use std::time::Duration;
use stoop::onc::{self, Server, VersionId};

const LOCAL: &str = "127.0.0.1";

/// Starts a daemon, which ends with the sandbox. `false`, and the test is skipped, if it is not installed.
fn start(program: &str) -> bool {
    let started = Command::new(program).status().is_ok_and(|status| status.success());
    if !started {
        println!("SKIPPED: {program} does not start (Debian: rusersd, rstatd)");
    }
    started
}

fn is_registered(program: u32) -> bool {
    onc::rpcinfo(LOCAL).unwrap().iter().any(|entry| entry.version.program == program && entry.netid == "udp")
}

#[test]
fn rusersd_and_rstatd_answer() {
    sandbox::run("services::rusersd_and_rstatd_answer", || {
        if start("rpc.rusersd") {
            wait_until("rusersd has registered", || is_registered(100_002));
            assert_eq!(onc::rusers(LOCAL).unwrap(), 0, "nobody is logged in to the sandbox");
        }
        if start("rpc.rstatd") {
            wait_until("rstatd has registered", || is_registered(100_001));
            let statistics = onc::rstat(LOCAL).unwrap();
            assert!(
                statistics.now > statistics.started && statistics.started > 1_000_000_000,
                "{statistics:?}"
            );
            assert!(statistics.load.iter().all(|load| (0..256 * 10_000).contains(load)), "{statistics:?}");
        }
    });
}

#[test]
fn rpcbind_forwards_a_broadcast_to_our_server() {
    sandbox::run("services::rpcbind_forwards_a_broadcast_to_our_server", || {
        let server = Server::new().program(One::default()).program(Two).register();
        let server = server.listen("onc+udp://127.0.0.1").unwrap().start().unwrap();
        let two = VersionId { program: PEER, version: 2 };
        let mut replies = Vec::new();
        let loopback = LOCAL.parse().unwrap();
        let is_enough = onc::broadcast(loopback, two, 1, &9_u32, Duration::from_secs(20), |reply| {
            replies.push((reply.result, reply.program));
            true
        });
        assert!(is_enough.unwrap());
        let place = server.uris()[0].rsplit_once('/').unwrap().1.parse().ok();
        assert_eq!(replies, [(81_u64, place)]);
        // Errors have no reply.
        let missing = VersionId { program: 7, version: 1 };
        let none = onc::broadcast::<_, u32>(loopback, missing, 1, &(), Duration::from_millis(200), |_| true);
        assert!(!none.unwrap());
    });
}
