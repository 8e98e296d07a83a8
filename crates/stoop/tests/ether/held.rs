//! The descriptors that a caller holds while its interface is removed and made again.

use crate::harness::echo::{BACKENDS, bind, call, serve};
use crate::harness::ethernet;
use crate::harness::processes::alone;

/// What each descriptor stands for.
fn descriptors() -> Vec<String> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mut targets: Vec<_> = targets.map(|target| target.display().to_string()).collect();
    targets.sort();
    targets
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
            let mut held = after_one(0);
            // On a busy machine a caller also holds what it needs to ask where a silent server has gone, until its endpoint is replaced, and
            // from its first quiet time on what wakes its background thread. A descriptor that is never closed would be counted once more
            // after each five replacements.
            ethernet::wait_for(|| {
                let before = held.clone();
                (1..=5).for_each(|number| held = after_one(number));
                match held.len() <= before.len() {
                    true => Ok(()),
                    false => Err(format!("{held:#?}, and five times before {before:#?}")),
                }
            });
        }
    });
}
