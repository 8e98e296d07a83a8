//! Many begun calls to a server whose receive buffer holds few packets: flow control loses none of them.
//!
//! The buffer holds the calls that the credits allow, each once. A server that is not scheduled for longer than its callers' first timeout
//! gets the calls in its buffer again, and of these copies some may find no room. So no more packets may be lost than are copies.

use crate::harness::ethernet;
use crate::harness::lab::{Bench, LabClient, LabServer};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoop::{BindOptions, RunningServer, Server};

/// Nearly as many as a binding can have at a time.
const CALLS: u64 = 15_300;

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs `there` in a thread that may not exceed the system's limit for receive buffers, 208 KiB unless the administrator has set it.
fn without_privilege<R>(there: impl FnOnce() -> R) -> R {
    let all = capabilities(None).unwrap();
    let mut fewer = all;
    fewer.effective.remove(CapabilitySet::NET_ADMIN);
    set_capabilities(None, fewer).unwrap();
    let result = there();
    set_capabilities(None, all).unwrap();
    result
}

/// Datagrams that were lost in this thread's network namespace because a socket's buffer was full.
fn lost() -> u64 {
    let counters = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = counters.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "RcvbufErrors").unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

/// Packets of calls that this client has sent again.
fn copies(client: &LabClient) -> u64 {
    client.binding().counters().packet.retransmissions
}

fn assert_that_only_copies_are_lost(copies: u64) {
    let lost = lost();
    assert!(lost <= copies, "{lost} packets were lost, and {copies} were sent again");
}

/// A server with a small buffer, and a client; in a network of their own, so that others do not count.
fn small() -> Option<(RunningServer, LabClient)> {
    if !ethernet::enter() {
        return None;
    }
    without_privilege(|| {
        // The calls that wait for a worker are not to be refused either.
        let server = Server::new()
            .security(stoop::Security::none())
            .queue(CALLS as usize)
            .export(LabServer::new(Bench::default()));
        let server = server.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
        let options = BindOptions::new().timeout(DEADLINE);
        let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
        Some((server, client))
    })
}

#[test]
fn of_15_300_begun_calls_no_packet_is_lost() {
    let Some((server, client)) = small() else { return };
    let begin = client.begin();
    let calls: Vec<_> = (0..CALLS).map(|_| begin.count()).collect();
    drop(begin);
    let mut results: Vec<u64> = calls.into_iter().map(|call| call.wait().unwrap()).collect();
    results.sort_unstable();
    assert!(results.into_iter().eq(0..CALLS), "each has run once");
    assert_that_only_copies_are_lost(copies(&client));
    server.shut_down();
}

#[test]
fn of_begun_calls_that_fill_their_packets_none_is_lost() {
    let Some((server, client)) = small() else { return };
    let full = vec![7; 1400];
    let begin = client.begin();
    let calls: Vec<_> = (0..4_000).map(|_| begin.echo(&full)).collect();
    drop(begin);
    calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap(), full));
    assert_that_only_copies_are_lost(copies(&client));
    server.shut_down();
}

#[test]
fn of_the_calls_of_eight_clients_that_begin_at_once_none_is_lost() {
    let Some((server, _)) = small() else { return };
    let sent_again = AtomicU64::new(0);
    without_privilege(|| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let options = BindOptions::new().timeout(DEADLINE);
                    let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
                    let begin = client.begin();
                    let calls: Vec<_> = (0..2_000).map(|_| begin.count()).collect();
                    drop(begin);
                    calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
                    sent_again.fetch_add(copies(&client), Ordering::SeqCst);
                });
            }
        });
    });
    assert_that_only_copies_are_lost(sent_again.into_inner());
    server.shut_down();
}
