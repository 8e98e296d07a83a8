//! Promises of calls over shared memory beyond those of all transports (see `conformance`).

use crate::harness::lab::{Bench, LabClient};
use crate::harness::processes::name;
use std::thread;
use stoop::{CallError, FailureCode, Server};

#[test]
fn more_results_than_a_binding_may_leave_lying_cost_it_none_but_those() {
    let server = Bench::default().serve(Server::new().max_message(1_000_000), &name());
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..12 {
                    match client.bytes(990_000, 5) {
                        Ok(bytes) => assert_eq!(bytes.len(), 990_000),
                        Err(CallError::Failed(failure, ..)) => {
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
