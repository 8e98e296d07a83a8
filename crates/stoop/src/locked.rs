//! Locks that a panic does not spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also if a thread has panicked while it held the lock: what the library guards is valid after every statement.
#[inline]
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
