//! Threads with little stack bind and make calls of every kind.

use crate::harness::transports;
use crate::harness::transports::ListenThere;
use std::thread;
use stoop::Server;

/// A debug build needs more than a release build, and the thread-locals of the test are part of it.
const STACK: usize = 64 * 1024;

#[stoop::interface]
trait Store {
    fn null(&self);
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    fn fill(&self, #[out] bytes: &mut [u8]);
    #[one_way]
    fn tell(&self, bytes: &[u8]);
}

struct Memory;

impl Store for Memory {
    fn null(&self) {}
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
    fn tell(&self, _bytes: &[u8]) {}
}

/// Binds and makes calls of every kind, with arguments and results of one packet and of many.
fn bind_and_call(uri: &str) {
    let client = StoreClient::bind(uri).unwrap();
    client.null().unwrap();
    for len in [5_000, 200_000] {
        let bytes = vec![3; len];
        assert_eq!(client.echo(&bytes).unwrap(), bytes);
        let mut filled = vec![0; len];
        client.fill(&mut filled).unwrap();
        assert_eq!(filled, vec![7; len]);
        client.tell(&bytes).unwrap();
        let begun = [client.begin().echo(&bytes), client.begin().echo(&bytes)];
        client.begin().null().wait().unwrap();
        for call in begun {
            assert_eq!(call.wait().unwrap(), bytes);
        }
    }
    client.binding().flush(std::time::Duration::from_secs(120)).unwrap();
}

/// A stack that is too small ends the process; the message of the system's handler then has the thread's name.
#[test]
fn a_thread_with_64_kib_of_stack_binds_and_calls_over_every_transport() {
    for transport in transports::all().filter(|transport| transports::is_there(transport)) {
        let server = Server::new().export(StoreServer::new(Memory));
        let server = server.listen_there(&transports::address(transport)).unwrap().start().unwrap();
        let uri = server.uris()[0].clone();
        let thread = thread::Builder::new().name(transport.into()).stack_size(STACK);
        thread.spawn(move || bind_and_call(&uri)).unwrap().join().unwrap();
    }
}
