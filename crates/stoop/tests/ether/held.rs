//! The descriptors that a caller holds while its interface is removed and made again.

use crate::harness::echo::{BACKENDS, bind, call, serve};
use crate::harness::ethernet;
use crate::harness::processes::alone;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn endpoints_at_interfaces_that_are_gone_are_closed() {
    alone(|| {
        for parameters in BACKENDS {
            if !ethernet::enter() {
                return;
            }
            let server = serve(&ethernet::address(parameters));
            let client = bind(&server.uris()[0]);
            let after_one = |number: u8| {
                ethernet::make_again(|| {});
                // The second call closes what the first has replaced.
                for _ in 0..2 {
                    assert_eq!(call(&client, &[number]), [number]);
                }
                descriptors()
            };
            let held = after_one(0);
            for number in 1..5 {
                after_one(number);
            }
            ethernet::wait_for(|| match descriptors() {
                number if number <= held => Ok(()),
                number => Err(format!("{number} descriptors, and {held} after the first time")),
            });
        }
    });
}
