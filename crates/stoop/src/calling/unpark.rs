//! A waker for a thread that waits for calls of several tables.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Unparks the calling thread.
pub(crate) fn unparks_this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}
