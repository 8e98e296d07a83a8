//! A thread that sleeps until another thread has something for it.
//!
//! The other thread makes a system call only for a thread that sleeps: a thread that is awake finds the notice when it next
//! looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// A thread as those threads see it that may have to wake it.
#[derive(Debug)]
pub(crate) struct WaitingThread {
    thread: Thread,
    state: AtomicU32,
    counts: Counts,
}

/// How often threads slept and were woken. No thread is woken more often than it slept.
#[derive(Debug, Default)]
struct Counts {
    sleeps: AtomicU64,
    wakes: AtomicU64,
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
/// Another thread has something for it, and it has not looked since.
const NOTIFIED: u32 = 2;

thread_local! {
    static OWN: Arc<WaitingThread> = Arc::new(WaitingThread::new());
}

impl WaitingThread {
    fn new() -> Self {
        Self { thread: thread::current(), state: AtomicU32::new(AWAKE), counts: Counts::default() }
    }

    /// The calling thread. It waits for one thing at a time.
    pub(crate) fn current() -> Arc<Self> {
        // While its thread-locals are destroyed, a thread can still wait.
        OWN.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Self::new()))
    }

    /// The calling thread looks at what it waits for: a notice from now on is for the next look.
    pub(crate) fn looks(&self) {
        // Acquire: it sees what was done before it was notified.
        self.state.swap(AWAKE, Ordering::Acquire);
    }

    /// Whether another thread has notified it since it last looked.
    pub(crate) fn is_notified(&self) -> bool {
        self.state.load(Ordering::Acquire) == NOTIFIED
    }

    /// The calling thread sleeps until it is notified, at most `limit_ns` nanoseconds; or less, without reason. Returns at once if it
    /// has been notified since it last looked.
    pub(crate) fn sleep(&self, limit_ns: u64) {
        if self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        self.counts.sleeps.fetch_add(1, Ordering::Relaxed);
        thread::park_timeout(Duration::from_nanos(limit_ns));
        // It stays notified, if that was why it woke.
        let _ = self.state.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// There is something for the thread: wakes it if it sleeps.
    pub(crate) fn notify(&self) {
        // Release: it sees what was done before.
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            self.counts.wakes.fetch_add(1, Ordering::Relaxed);
            self.thread.unpark();
        }
    }

    /// How often it slept, and how often another thread woke it.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (u64, u64) {
        let Counts { sleeps, wakes } = &self.counts;
        (sleeps.load(Ordering::Relaxed), wakes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_awake_is_not_woken() {
        let own = WaitingThread::current();
        own.looks();
        own.notify();
        own.notify();
        assert!(own.is_notified());
        // It does not sleep: it has not looked since.
        own.sleep(u64::MAX);
        assert_eq!(own.counts(), (0, 0));
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_once() {
        let own = WaitingThread::current();
        let sleeper = Arc::clone(&own);
        let other = thread::spawn(move || {
            while sleeper.counts().0 == 0 {
                thread::yield_now();
            }
            (0..3).for_each(|_| sleeper.notify());
        });
        own.looks();
        while !own.is_notified() {
            own.sleep(u64::MAX);
        }
        other.join().unwrap();
        assert_eq!(own.counts().1, 1);
    }
}
