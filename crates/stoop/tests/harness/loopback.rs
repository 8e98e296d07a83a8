//! Addresses of this machine that tests have to themselves.

use std::sync::atomic::{AtomicU32, Ordering};

/// An address in 127/8 at which nobody else binds. A port of 127.0.0.1 that a server gives back may be anybody's when it is started
/// again.
pub(crate) fn address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, own) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}", 1 + (process >> 8) % 250, process % 256, 1 + own % 250)
}
