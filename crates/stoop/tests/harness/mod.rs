//! What tests share: addresses, networks, processes, peers made by hand. Each program of tests has it as a module.

#![allow(dead_code, unused_imports, reason = "each program uses a part of it")]

pub(crate) mod cameras;
pub(crate) mod child;
pub(crate) mod echo;
pub(crate) mod ethernet;
pub(crate) mod gate;
pub(crate) mod hosts_file;
pub(crate) mod lab;
pub(crate) mod loopback;
pub(crate) mod passed_sockets;
pub(crate) mod processes;
pub(crate) mod proxy;
pub(crate) mod relay;
pub(crate) mod runtime;
#[cfg(feature = "seal")]
pub(crate) mod sealed;
pub(crate) mod shm_peer;
pub(crate) mod transports;

use std::thread;
use std::time::{Duration, Instant};

/// No test waits longer for an event: even a busy machine takes less.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until another thread or process has made the condition true.
///
/// # Panics
/// It is not true within the [limit](LIMIT). The message names the line that waits.
#[track_caller]
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "waited {LIMIT:?} in vain");
        thread::yield_now();
    }
}
