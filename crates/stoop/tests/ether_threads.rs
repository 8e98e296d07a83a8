//! Many threads call over an Ethernet: each has an endpoint of its own, and all go on when the interface has been down.

mod ethernet;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, RunningServer, Server};
use stoop_ether::{Interface, State};

#[stoop::interface]
trait Next {
    /// Returns the next number.
    fn next(&self, number: u64) -> u64;
}

struct Successor;

impl Next for Successor {
    fn next(&self, number: u64) -> u64 {
        number + 1
    }
}

/// Longer than the test takes.
const LONG: Duration = Duration::from_secs(60);
const BACKENDS: [&str; 3] = ["", "?backend=xdp-generic", "?backend=xdp"];

fn serve(address: &str) -> RunningServer {
    ethernet::at_servers(|| {
        Server::new().export(NextServer::new(Successor)).listen(address).unwrap().start().unwrap()
    })
}

fn bind(uri: &str) -> NextClient {
    NextClient::bind_with(uri, &BindOptions::new().timeout(LONG).bind_timeout(LONG)).unwrap()
}

#[test]
fn threads_that_began_together_go_on_when_the_interface_has_been_down() {
    const THREADS: u64 = 32;
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let server = serve(&ethernet::address(parameters));
        let client = bind(&server.uris()[0]);
        let together = Barrier::new(THREADS as usize + 1);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (client, together) = (&client, &together);
                scope.spawn(move || {
                    together.wait();
                    assert_eq!(client.next(thread).unwrap(), thread + 1);
                    together.wait();
                    // The interface is down meanwhile.
                    together.wait();
                    assert_eq!(client.next(thread).unwrap(), thread + 1);
                });
            }
            together.wait();
            together.wait();
            ethernet::ip("link set {} down");
            ethernet::ip("link set {} up");
            let state = || Interface::by_name(ethernet::INTERFACE).unwrap().state;
            while state() != State::Up {
                thread::yield_now();
            }
            together.wait();
        });
    }
}

#[test]
fn threads_come_and_go_and_are_more_than_endpoints() {
    const THREADS: u64 = 100;
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let server = serve(&ethernet::address(parameters));
        let client = bind(&server.uris()[0]);
        for _ in 0..3 {
            let together = Barrier::new(THREADS as usize);
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (client, together) = (&client, &together);
                    scope.spawn(move || {
                        together.wait();
                        for number in thread..thread + 3 {
                            assert_eq!(client.next(number).unwrap(), number + 1);
                        }
                        assert_eq!(client.begin().next(thread).wait().unwrap(), thread + 1);
                    });
                }
            });
        }
    }
}

#[test]
fn process_that_calls_many_servers_has_more_endpoints_than_a_group_has_places() {
    // Each may take two endpoints; a group has 64 places.
    const SERVERS: u64 = 70;
    if !ethernet::enter() {
        return;
    }
    let servers: Vec<_> = (0..SERVERS).map(|_| serve(&ethernet::address(""))).collect();
    let clients: Vec<_> = servers.iter().map(|server| bind(&server.uris()[0])).collect();
    for (number, client) in (0..).zip(&clients) {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    let begun: Vec<_> = (0..).zip(&clients).map(|(number, client)| client.begin().next(number)).collect();
    for (number, pending) in (0..).zip(begun) {
        assert_eq!(pending.wait().unwrap(), number + 1);
    }
}
