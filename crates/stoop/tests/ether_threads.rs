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
