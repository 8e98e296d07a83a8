//! The threads and the task that wait for something of a pipe.

use std::task::Waker;
use std::thread::{self, Thread};

/// Threads and a task that wait for one thing.
#[derive(Default)]
pub(crate) struct Waiters {
    threads: Vec<Thread>,
    waker: Option<Waker>,
}

/// A task to be woken when no lock is held.
#[derive(Default)]
#[must_use = "a task waits for it"]
pub(crate) struct Wakeup(Option<Waker>);

impl Waiters {
    /// The calling thread waits from now on, until [`wake`](Self::wake).
    pub(crate) fn join(&mut self) {
        self.threads.push(thread::current());
    }

    /// The calling thread waits no longer.
    pub(crate) fn leave(&mut self) {
        let own = thread::current().id();
        self.threads.retain(|thread| thread.id() != own);
    }

    /// Whether this waker is registered.
    pub(crate) fn has(&self, waker: &Waker) -> bool {
        self.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    /// Whether a task waits.
    pub(crate) fn is_polled(&self) -> bool {
        self.waker.is_some()
    }

    /// Registers a task in place of another, which is returned.
    pub(crate) fn register(&mut self, waker: Waker) -> Option<Waker> {
        self.waker.replace(waker)
    }

    /// Wakes the threads now, and returns the task.
    #[inline]
    pub(crate) fn wake(&mut self) -> Wakeup {
        self.threads.drain(..).for_each(|thread| thread.unpark());
        Wakeup(self.waker.take())
    }
}

impl Wakeup {
    /// This one, or the other: of one queue, of which the first has taken what waits.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }

    /// The task, to be woken by another thread.
    pub(crate) fn into_waker(self) -> Option<Waker> {
        self.0
    }

    /// Wakes the task. The calling thread holds no lock.
    pub(crate) fn give(self) {
        if let Some(waker) = self.0 {
            waker.wake();
        }
    }
}
