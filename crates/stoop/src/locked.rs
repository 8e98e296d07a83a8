//! Locks that a panic does not spoil.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Locks `mutex`, also if a thread has panicked while it held the lock: what the library guards is valid after every statement.
#[inline]
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What threads use in turn, some of them again and again: these [let others pass](Self::let_others_pass) in between.
#[derive(Default)]
pub(crate) struct Turns<T> {
    value: Mutex<T>,
    /// Threads that wait for their turn.
    contenders: AtomicU32,
}

/// Times that a thread yields to others at most.
const YIELDS: u32 = 200;

impl<T> Turns<T> {
    #[inline]
    pub(crate) fn turn(&self) -> MutexGuard<'_, T> {
        match self.value.try_lock() {
            Ok(value) => value,
            Err(_) => self.await_turn(),
        }
    }

    #[cold]
    fn await_turn(&self) -> MutexGuard<'_, T> {
        self.contenders.fetch_add(1, Ordering::Relaxed);
        let value = locked(&self.value);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        value
    }

    /// Lets waiting threads take their turn: the thread that had the last one would otherwise have the next as well.
    pub(crate) fn let_others_pass(&self) {
        for _ in 0..YIELDS {
            if self.contenders.load(Ordering::Relaxed) == 0 {
                return;
            }
            thread::yield_now();
        }
    }
}
