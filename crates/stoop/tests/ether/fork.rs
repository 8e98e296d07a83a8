//! A process with endpoints on an Ethernet forks: its calls go on, and its child binds anew.

use crate::harness::child::Child;
use crate::harness::echo::{BACKENDS, EchoClient, bind, serve};
use crate::harness::ethernet;
use crate::harness::processes::alone;

fn check(client: &EchoClient) {
    for len in [0, 100, 3000, 200_000] {
        let bytes = vec![len as u8; len];
        assert_eq!(client.echo(bytes.clone()).unwrap(), bytes);
        assert_eq!(client.begin().echo(bytes.clone()).wait().unwrap(), bytes);
    }
}

#[test]
fn child_binds_again_and_its_parent_goes_on() {
    alone(|| {
        for parameters in BACKENDS {
            if !ethernet::enter() {
                return;
            }
            let server = serve(&ethernet::address(parameters));
            let client = bind(&server.uris()[0]);
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
    });
}
