//! Who binds again: one thread at a time, and no other waits for it beyond its own deadline.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The turns of the threads of one binding.
#[derive(Default)]
pub(crate) struct TimedLock {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// A turn; over when it is dropped.
pub(crate) struct TimedGuard<'a>(&'a TimedLock);

impl TimedLock {
    /// Waits for a turn, at most so long.
    pub(crate) fn take(&self, limit: Duration) -> Option<TimedGuard<'_>> {
        let waited = self.given_back.wait_timeout_while(self.taken(), limit, |taken| *taken);
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
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::timed_lock::*;

    #[test]
    fn a_turn_is_one_threads_and_ends() {
        let turns = TimedLock::default();
        let turn = turns.take(Duration::ZERO);
        assert!(turn.is_some() && turns.take(Duration::ZERO).is_none());
        assert!(turns.take(Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| turns.take(Duration::MAX).is_some());
            drop(turn);
            assert!(other.join().unwrap());
        });
    }
}
