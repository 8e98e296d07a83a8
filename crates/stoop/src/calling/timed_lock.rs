//! A lock that a thread waits for no longer than a limit: binding again is done by one thread at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The lock.
#[derive(Default)]
pub(crate) struct TimedLock {
    taken: Mutex<bool>,
    released: Condvar,
}

/// The lock, held until this is dropped.
pub(crate) struct TimedGuard<'a>(&'a TimedLock);

impl TimedLock {
    /// Takes the lock; `None` if other threads hold it for longer than `limit`.
    pub(crate) fn take(&self, limit: Duration) -> Option<TimedGuard<'_>> {
        let waited = self.released.wait_timeout_while(self.taken(), limit, |taken| *taken);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!std::mem::replace(&mut *taken, true)).then(|| TimedGuard(self))
    }

    fn taken(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TimedGuard<'_> {
    fn drop(&mut self) {
        *self.0.taken() = false;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::timed_lock::*;

    #[test]
    fn the_lock_is_one_threads_until_the_guard_is_dropped() {
        let lock = TimedLock::default();
        let guard = lock.take(Duration::ZERO);
        assert!(guard.is_some() && lock.take(Duration::ZERO).is_none());
        assert!(lock.take(Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| lock.take(Duration::MAX).is_some());
            drop(guard);
            assert!(other.join().unwrap());
        });
    }
}
