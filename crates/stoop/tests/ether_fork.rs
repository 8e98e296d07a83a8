//! A process with endpoints on an Ethernet forks: its calls go on, and its child binds anew.
//!
//! One test, because a child has the threads of no other.

mod child;
mod ethernet;

use child::Child;
use std::time::Duration;
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Echo {
    /// Returns its argument.
    fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
}

struct Same;

impl Echo for Same {
    fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

fn check(client: &EchoClient) {
    for len in [0, 100, 3000, 200_000] {
        let bytes = vec![len as u8; len];
        assert_eq!(client.echo(bytes.clone()).unwrap(), bytes);
        assert_eq!(client.begin().echo(bytes.clone()).wait().unwrap(), bytes);
    }
}

#[test]
fn child_binds_again_and_its_parent_goes_on() {
    const LONG: Duration = Duration::from_secs(60);
    for parameters in ["", "?backend=xdp-generic", "?backend=xdp"] {
        if !ethernet::enter() {
            return;
        }
        let uri = ethernet::address(parameters);
        let server = ethernet::at_servers(|| {
            Server::new().export(EchoServer::new(Same)).listen(&uri).unwrap().start().unwrap()
        });
        let options = BindOptions::new().timeout(LONG).bind_timeout(LONG);
        let client = EchoClient::bind_with(&server.uris()[0], &options).unwrap();
        check(&client);
        for _ in 0..5 {
            let child = Child::fork(|| {
                check(&client);
                // The child's own child is another process again.
                Child::fork(|| check(&client)).ends_well();
                check(&client);
            });
            // Both at once.
            check(&client);
            child.ends_well();
            check(&client);
        }
        // A child that only drops what it has.
        let mut copy = Some(client.clone());
        Child::fork(|| drop(copy.take())).ends_well();
        check(&client);
    }
}
