//! What the procedures of a server know of it at the ends of their pipes.

use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the ends of all procedures of a server.
pub(crate) struct Served {
    /// How long they wait for room, in nanoseconds.
    step_ns: u64,
    is_closing: AtomicBool,
}

impl Served {
    pub(crate) fn new(step_ns: u64) -> Self {
        Self { step_ns, is_closing: AtomicBool::new(false) }
    }

    /// How long a procedure waits for room, in nanoseconds.
    pub(crate) fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// The server begins to shut down.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Whether the server shuts down.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }
}
