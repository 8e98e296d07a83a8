//! The threads and tasks to wake because calls have ended, once the lock around the calls is released.

use crate::calling::waiting_thread::WaitingThread;
use std::sync::Arc;
use std::task::Waker;

/// Threads and tasks whose calls have ended. [`give`](Self::give) wakes them when no lock is held: a waker runs code of the user.
#[derive(Default)]
#[must_use]
pub(crate) struct Wakeups {
    pub(crate) threads: Vec<Arc<WaitingThread>>,
    pub(crate) wakers: Vec<Waker>,
}

impl Wakeups {
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.wakers.is_empty()
    }

    /// Notifies the threads. A lock may be held.
    pub(crate) fn notify_threads(&mut self) {
        self.threads.drain(..).for_each(|thread| thread.notify());
    }

    /// Wakes all.
    pub(crate) fn give(&mut self) {
        self.notify_threads();
        self.wakers.drain(..).for_each(Waker::wake);
    }
}
