//! Many threads call over an Ethernet: each has an endpoint of its own, and all go on when the interface has been down.

use crate::harness::echo::{BACKENDS, EchoClient, bind, serve};
use crate::harness::ethernet;
use std::sync::Barrier;
use std::thread;
use stoop_ether::{Interface, State};

/// A call with an argument of its own; panics if it fails.
fn call(client: &EchoClient, number: u64) {
    assert_eq!(client.echo(number.to_le_bytes().into()).unwrap(), number.to_le_bytes());
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
                    call(client, thread);
                    together.wait();
                    // The interface is down meanwhile.
                    together.wait();
                    call(client, thread);
                });
            }
            together.wait();
            together.wait();
            ethernet::ip("link set {} down");
            ethernet::ip("link set {} up");
            ethernet::wait_for(|| match Interface::by_name(ethernet::INTERFACE).unwrap().state {
                State::Up => Ok(()),
                other => Err(format!("{other:?}")),
            });
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
                        (thread..thread + 3).for_each(|number| call(client, number));
                        let begun = client.begin().echo(thread.to_le_bytes().into());
                        assert_eq!(begun.wait().unwrap(), thread.to_le_bytes());
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
        call(client, number);
    }
    let begin = |(number, client): (u64, &EchoClient)| client.begin().echo(number.to_le_bytes().into());
    let begun: Vec<_> = (0..).zip(&clients).map(begin).collect();
    for (number, pending) in (0u64..).zip(begun) {
        assert_eq!(pending.wait().unwrap(), number.to_le_bytes());
    }
}
