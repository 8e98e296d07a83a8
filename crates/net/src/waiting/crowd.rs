//! How many threads of this process are waiting now.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts the threads that wait: callers without their result yet, whether they spin or sleep, and
/// servers while they spin. (A server that sleeps competes with nobody.)
///
/// The count only steers who spins, so that its operations need no order among others.
#[derive(Debug, Default)]
pub struct Crowd {
    waiting: AtomicU32,
}

static PROCESS: Crowd = Crowd { waiting: AtomicU32::new(0) };

impl Crowd {
    /// That of this process.
    #[inline]
    pub fn of_this_process() -> &'static Self {
        &PROCESS
    }

    /// Counts the calling thread until the returned value is dropped.
    #[inline]
    pub fn join(&self) -> Present<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Present { crowd: self }
    }

    /// How many are waiting at this moment.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }
}

/// A thread counted in a [`Crowd`] until this is dropped.
#[derive(Debug)]
pub struct Present<'a> {
    crowd: &'a Crowd,
}

impl Drop for Present<'_> {
    #[inline]
    fn drop(&mut self) {
        self.crowd.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_present_is_counted_and_nobody_who_left() {
        let crowd = Crowd::default();
        let first = crowd.join();
        let second = crowd.join();
        assert_eq!(crowd.waiting(), 2);
        drop(first);
        assert_eq!(crowd.waiting(), 1);
        drop(second);
        assert_eq!(crowd.waiting(), 0);
    }
}
