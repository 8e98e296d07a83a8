//! The threads and the task that wait for something of a pipe.

use std::mem;
use std::task::Waker;
use std::thread::{self, Thread};

/// Threads and a task that wait for one thing.
#[derive(Default)]
pub(crate) struct Waiters {
    threads: Threads,
    waker: Option<Waker>,
}

/// Threads that wait: mostly one.
#[derive(Default)]
struct Threads {
    first: Option<Thread>,
    more: Vec<Thread>,
}

/// Threads and a task to be woken when the lock of the queue is not held: a thread that runs at once would only wait for it.
#[derive(Default)]
#[must_use = "threads and a task wait for it"]
pub(crate) struct Wakeup {
    threads: Threads,
    waker: Option<Waker>,
}

impl Waiters {
    /// The calling thread waits from now on, until [`wake`](Self::wake).
    pub(crate) fn join(&mut self) {
        let Threads { first, more } = &mut self.threads;
        match first {
            None => *first = Some(thread::current()),
            Some(_) => more.push(thread::current()),
        }
    }

    /// The calling thread waits no longer.
    pub(crate) fn leave(&mut self) {
        let own = thread::current().id();
        self.threads.first.take_if(|thread| thread.id() == own);
        self.threads.more.retain(|thread| thread.id() != own);
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

    /// Takes all that wait.
    #[inline]
    pub(crate) fn wake(&mut self) -> Wakeup {
        mem::take(self).into()
    }
}

impl Wakeup {
    /// This one, or the other: of one queue, of which the first has taken what waits.
    pub(crate) fn or(mut self, mut other: Self) -> Self {
        self.unpark();
        Self { threads: mem::take(&mut other.threads), waker: self.waker.take().or(other.waker.take()) }
    }

    fn unpark(&mut self) {
        let Threads { first, more } = mem::take(&mut self.threads);
        first.iter().chain(&more).for_each(Thread::unpark);
    }

    /// Wakes the threads, and returns the task, to be woken by another thread.
    pub(crate) fn into_waker(mut self) -> Option<Waker> {
        self.unpark();
        self.waker.take()
    }

    /// Wakes the threads and the task. The calling thread holds no lock.
    pub(crate) fn give(self) {
        if let Some(waker) = self.into_waker() {
            waker.wake();
        }
    }
}

impl From<Waiters> for Wakeup {
    #[inline]
    fn from(Waiters { threads, waker }: Waiters) -> Self {
        Self { threads, waker }
    }
}

impl Drop for Wakeup {
    /// Also where an error comes first: the threads are not among those that wait any more.
    #[inline]
    fn drop(&mut self) {
        self.unpark();
    }
}
