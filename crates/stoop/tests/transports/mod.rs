//! The transports that tests run over. A new transport is a line of `ALL` and a line of `address`.

use crate::loopback;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every transport, by the scheme of its addresses.
#[allow(dead_code, reason = "some tests name their transports")]
pub(crate) const ALL: [&str; 5] = ["local", "udp", "tcp", "unix", "shm"];

/// An address on that transport at which no other server listens.
pub(crate) fn address(transport: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("stoop-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    match transport {
        "local" => format!("local:{name}"),
        // A server of this process, over whatever is best.
        "name" => name,
        "udp" | "tcp" => format!("{transport}://{}:0", loopback::address()),
        "unix" => format!("unix:@{name}"),
        "shm" => format!("shm:{name}"),
        other => panic!("{other} is no transport"),
    }
}
