//! The old services: rpc.rusersd, rpc.rstatd, and rpcbind's broadcast.

use crate::peer::PEER;
use crate::programs::{One, Two};
use crate::sandbox::{self, wait_until};
use std::process::Command;
use std::time::Duration;
use stoop::onc::{self, Server, VersionId};

const LOCAL: &str = "127.0.0.1";
/// The versions that the ready-made callers call.
const RUSERS: VersionId = VersionId { program: 100_002, version: 2 };
const RSTAT: VersionId = VersionId { program: 100_001, version: 3 };

/// Starts a daemon, which ends with the sandbox. `false`, and the test is skipped, if it is not installed.
fn start(program: &str) -> bool {
    let started = Command::new(program).status().is_ok_and(|status| status.success());
    if !started {
        println!("SKIPPED: {program} does not start (Debian: rusersd, rstatd)");
    }
    started
}

/// Whether rpcbind knows this version: a daemon registers its versions one after the other.
fn is_registered(version: VersionId) -> bool {
    onc::rpcinfo(LOCAL).unwrap().iter().any(|entry| entry.version == version && entry.netid == "udp")
}

/// Logs users in to the sandbox, whose /run is empty: records of utmp(5), whose process is the first one of the sandbox.
fn log_in(users: &[&str]) {
    let record = |user: &&str| {
        let mut record = [0; 384];
        record[0] = 7; // USER_PROCESS
        record[4] = 1;
        record[8..13].copy_from_slice(b"pts/0");
        record[44..44 + user.len()].copy_from_slice(user.as_bytes());
        record
    };
    let records: Vec<u8> = users.iter().flat_map(record).collect();
    std::fs::write("/run/utmp", records).expect("the sandbox may write there");
}

#[test]
fn rusersd_and_rstatd_answer() {
    sandbox::run("services::rusersd_and_rstatd_answer", || {
        if start("rpc.rusersd") {
            wait_until("rusersd has registered", || is_registered(RUSERS));
            assert_eq!(onc::rusers(LOCAL).unwrap(), 0, "nobody is logged in to the sandbox");
            log_in(&["alice", "bob"]);
            assert_eq!(onc::rusers(LOCAL).unwrap(), 2);
        }
        if start("rpc.rstatd") {
            wait_until("rstatd has registered", || is_registered(RSTAT));
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
