//! Tells the process that made an object from a forked child, which finds the object in its memory but must leave it to
//! its parent.
//!
//! The child has the parent's sockets, pollers and shared memory, but none of its other threads. The owner of such an
//! object stores the [`generation`] in which it was made, and does not touch it in any other.

#![allow(unsafe_code)]

use crate::waiting::ActiveWaiters;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Number of forks between this process and the first of its ancestors that [`notice`]s them. No two processes of one
/// line of descent have the same number.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins to count forks that use the C library's `fork`. (A child made by a bare system call takes itself for its
/// parent.)
pub fn notice() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this program as long as the program runs, and only stores to atomics,
        // which is all that the child of a process with threads may do. Registration fails only without memory; then
        // forks go unnoticed.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    ActiveWaiters::of_this_process().reset();
}

/// A value that each process of a line of descent makes for itself. Values of ancestors stay in memory and are never
/// dropped.
#[derive(Debug)]
pub struct PerProcess<T>(OnceLock<Box<Made<T>>>);

#[derive(Debug)]
struct Made<T> {
    generation: u32,
    value: T,
    by_descendants: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// Makes the cell, without a value.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value of this process, if it has made one.
    pub fn get(&self) -> Option<&T> {
        let mut place = self;
        while let Some(made) = place.0.get() {
            if made.generation == generation() {
                return Some(&made.value);
            }
            place = &made.by_descendants;
        }
        None
    }

    /// The value of this process, made now if there is none. If two threads make one at the same time, one of the two
    /// is dropped.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let mut new = Some(make()?);
        let mut place = self;
        loop {
            let made = place.0.get_or_init(|| {
                let value = new.take().expect("it is made once");
                Box::new(Made { generation: generation(), value, by_descendants: Self::new() })
            });
            if made.generation == generation() {
                return Ok(&made.value);
            }
            place = &made.by_descendants;
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if let Some(made) = self.0.take() {
            let Made { generation: then, value, by_descendants } = *made;
            drop(by_descendants);
            if then != generation() {
                mem::forget(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_makes_its_own_value_once() {
        let each = PerProcess::new();
        assert_eq!(each.get(), None);
        assert_eq!(each.get_or_try_make(|| Err::<i32, _>("no")), Err("no"));
        assert_eq!(each.get_or_try_make(|| Ok::<_, ()>(1)), Ok(&1));
        assert_eq!(each.get_or_try_make(|| Ok::<_, ()>(2)), Ok(&1));
        assert_eq!(each.get(), Some(&1));
    }
}
