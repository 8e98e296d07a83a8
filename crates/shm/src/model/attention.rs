//! A server that goes to sleep, and callers that publish.

use super::{World, call, explore};
use loom::thread;

#[test]
fn no_request_is_left_lying_by_a_server_that_goes_to_sleep() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                (0..2).for_each(|ticket| assert_eq!(world.take(ticket).lane, ticket as u16))
            })
        };
        world.request(&call(0, 1, 0), &[]);
        world.request(&call(1, 1, 0), &[]);
        server.join().unwrap();
    });
}
