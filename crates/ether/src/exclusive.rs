//! A value that one thread at a time uses, for short moments, and nearly always the same thread.
//!
//! `std::sync::Mutex` needs two atomic instructions where this needs one. A thread that finds the value in
//! use does not wait: [`Exclusive::try_use`] returns `None`.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// The value.
#[derive(Debug)]
pub(crate) struct Exclusive<T> {
    in_use: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `try_use` gives the value to one thread at a time, for which `T: Send` is enough.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// Marks the value as free, also if a panic ends its use.
struct Free<'a>(&'a AtomicBool);

impl Drop for Free<'_> {
    #[inline]
    fn drop(&mut self) {
        // Publishes the value; pairs with the Acquire in `try_use`.
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { in_use: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Uses the value, or returns `None` if another thread uses it at the moment.
    #[inline]
    pub(crate) fn try_use<R>(&self, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.in_use.swap(true, Ordering::Acquire) {
            return None;
        }
        let free = Free(&self.in_use);
        // SAFETY: the flag was clear and is set now, so no other thread is between here and the end of
        // `free`, and `with` cannot get here again on this thread, because the flag is set.
        let result = with(unsafe { &mut *self.value.get() });
        drop(free);
        Some(result)
    }

    /// Replaces the value when no other thread uses it.
    pub(crate) fn replace(&self, value: T) {
        let mut value = Some(value);
        while self.try_use(|place| value.take().map(|value| *place = value)).is_none() {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn value_in_use_is_given_to_no_other_and_is_free_after_a_panic() {
        let value = Exclusive::new(1);
        assert_eq!(value.try_use(|_| value.try_use(|inner| *inner)), Some(None));
        let panicked = catch_unwind(AssertUnwindSafe(|| value.try_use(|_| panic!("as the test wants"))));
        assert!(panicked.is_err());
        assert_eq!(value.try_use(|value| *value), Some(1));
    }

    #[test]
    fn threads_see_what_others_have_written() {
        let value = Exclusive::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut done = 0;
                    while done < 10_000 {
                        done += value.try_use(|value| *value += 1).map_or(0, |()| 1);
                    }
                });
            }
        });
        assert_eq!(value.try_use(|value| *value), Some(20_000));
    }
}
