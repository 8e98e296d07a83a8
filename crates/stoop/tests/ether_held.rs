//! The descriptors that a caller holds while its interface is removed and made again.
//!
//! One test, because other tests of the process would have descriptors, too.

mod ethernet;

use std::time::Duration;
use stoop::{BindOptions, CallError, Server};

#[stoop::interface]
trait Adder {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
}

struct One;

impl Adder for One {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Calls until the call is sent: one that begins while the interface is down is not.
fn call(client: &AdderClient, number: u32) {
    loop {
        match client.next(number) {
            Err(CallError::NotSent(_)) => std::thread::yield_now(),
            result => return assert_eq!(result.unwrap(), number + 1),
        }
    }
}

#[test]
fn endpoints_at_interfaces_that_are_gone_are_closed() {
    const LONG: Duration = Duration::from_secs(60);
    for parameters in ["", "?backend=xdp-generic", "?backend=xdp"] {
        if !ethernet::enter() {
            return;
        }
        let server = ethernet::at_servers(|| {
            let server = Server::new().export(AdderServer::new(One));
            server.listen(&ethernet::address(parameters)).unwrap().start().unwrap()
        });
        let options = BindOptions::new().timeout(LONG).bind_timeout(LONG);
        let client = AdderClient::bind_with(&server.uris()[0], &options).unwrap();
        let after_one = |number: u32| {
            ethernet::make_again(|| {});
            // The second call closes what the first has replaced.
            call(&client, number);
            call(&client, number);
            descriptors()
        };
        let held = after_one(0);
        for number in 1..5 {
            after_one(number);
        }
        while descriptors() > held {
            std::thread::yield_now();
        }
    }
}
