//! Promises of calls over shared memory beyond those of all transports (see `conformance`).

use std::thread;
use stoop::{CallError, FailureCode, Server};

#[stoop::interface]
trait Lab {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// As many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
}

struct Bench;

impl Lab for Bench {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn bytes(&self, count: u32, value: u8) -> Vec<u8> {
        vec![value; count as usize]
    }
}

#[test]
fn more_results_than_a_binding_may_leave_lying_cost_it_none_but_those() {
    let server = Server::new().max_message(1_000_000).export(LabServer::new(Bench));
    let server = server.listen(&format!("shm:test-{}", std::process::id())).unwrap().start().unwrap();
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..12 {
                    match client.bytes(990_000, 5) {
                        Ok(bytes) => assert_eq!(bytes.len(), 990_000),
                        Err(CallError::Failed(failure)) => {
                            assert_eq!(failure.code, FailureCode::ResultTooLarge);
                            assert!(failure.detail.contains("4000000"), "{failure}");
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!((client.next(1).unwrap(), server.counters().bindings), (2, 1));
}
