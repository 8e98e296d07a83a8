//! The threads and the task that wait for something of a pipe.

use std::mem;
use std::task::Waker;
use std::thread::{self, Thread, ThreadId};

/// Threads and a task that wait for one thing.
#[derive(Default)]
pub(crate) struct Waiters {
    threads: Threads,
    waker: Option<Waker>,
    is_own: bool,
}

/// Threads that wait: mostly one.
#[derive(Default)]
struct Threads {
    first: Option<Thread>,
    more: Option<Box<Threads>>,
}

/// Threads and a task to be woken when the lock of the queue is not held: a thread that runs at once would only wait for it.
#[derive(Default)]
#[must_use = "threads and a task wait for it"]
pub(crate) struct Wakeup {
    threads: Threads,
    waker: Option<Waker>,
    is_own: bool,
}

impl Threads {
    fn join(&mut self, thread: Thread) {
        match self.first {
            None => self.first = Some(thread),
            Some(_) => self.more.get_or_insert_default().join(thread),
        }
    }

    fn leave(&mut self, thread: ThreadId) {
        self.first.take_if(|first| first.id() == thread);
        if let Some(more) = &mut self.more {
            more.leave(thread);
        }
    }
}

impl Waiters {
    /// The calling thread waits from now on, until [`wake`](Self::wake).
    pub(crate) fn join(&mut self) {
        self.threads.join(thread::current());
    }

    /// The calling thread waits no longer.
    pub(crate) fn leave(&mut self) {
        self.threads.leave(thread::current().id());
    }

    /// Whether this waker is registered.
    pub(crate) fn has(&self, waker: &Waker) -> bool {
        self.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    /// Whether a task waits.
    pub(crate) fn is_polled(&self) -> bool {
        self.waker.is_some()
    }

    /// Registers a task in place of another, which is returned. `is_own`: it is the library's, not a program's.
    pub(crate) fn register(&mut self, waker: Waker, is_own: bool) -> Option<Waker> {
        self.is_own = is_own;
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
        let is_own = if self.waker.is_some() { self.is_own } else { other.is_own };
        let waker = self.waker.take().or(other.waker.take());
        Self { threads: mem::take(&mut other.threads), waker, is_own }
    }

    fn unpark(&mut self) {
        let mut next = Some(mem::take(&mut self.threads));
        while let Some(Threads { first, more }) = next {
            first.iter().for_each(Thread::unpark);
            next = more.map(|more| *more);
        }
    }

    /// Wakes the threads, and returns the task, to be woken by another thread.
    pub(crate) fn into_waker(mut self) -> Option<Waker> {
        self.unpark();
        self.waker.take()
    }

    /// Whether a task is to be woken that does nothing but take what has arrived: the library's own.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own && self.waker.is_some()
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
    fn from(Waiters { threads, waker, is_own }: Waiters) -> Self {
        Self { threads, waker, is_own }
    }
}

impl Drop for Wakeup {
    /// Also where an error comes first: the threads are not among those that wait any more.
    #[inline]
    fn drop(&mut self) {
        self.unpark();
    }
}
