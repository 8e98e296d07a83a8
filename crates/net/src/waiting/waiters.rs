//! How many threads of this process are waiting now.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts the threads that wait: callers without their result yet, whether they spin or sleep, and
/// servers while they spin. (A server that sleeps competes with nobody.)
///
/// The counts only steer who spins, so that their operations need no order among others.
#[derive(Debug, Default)]
pub struct ActiveWaiters {
    members: AtomicU32,
    waiting: AtomicU32,
}

static PROCESS: ActiveWaiters = ActiveWaiters { members: AtomicU32::new(0), waiting: AtomicU32::new(0) };

impl ActiveWaiters {
    /// That of this process.
    #[inline]
    pub fn of_this_process() -> &'static Self {
        &PROCESS
    }

    /// Whoever was counted is not in this process, which has been forked off.
    pub(crate) fn is_left_by_all(&self) {
        self.members.store(0, Relaxed);
        self.waiting.store(0, Relaxed);
    }

    /// Announces a lane or an endpoint, on which one thread at a time will wait.
    pub fn member(&self) -> WaiterSlot<'_> {
        self.members.fetch_add(1, Relaxed);
        WaiterSlot { waiters: self }
    }

    /// How many are waiting at this moment; perhaps 0 although the only member there is waits.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }
}

/// A lane or an endpoint that takes part in a [`ActiveWaiters`] until this is dropped.
#[derive(Debug)]
pub struct WaiterSlot<'a> {
    waiters: &'a ActiveWaiters,
}

impl<'a> WaiterSlot<'a> {
    /// The calling thread waits until the returned value is dropped.
    ///
    /// A member that is alone is not counted: there is no crowd of one, and counting in and out costs
    /// 18 ns. When a second one is announced meanwhile, the count is short by one for one wait.
    #[inline]
    pub fn wait(&self) -> WaitGuard<'a> {
        if self.waiters.members.load(Relaxed) == 1 {
            return WaitGuard { waiters: None };
        }
        self.waiters.waiting.fetch_add(1, Relaxed);
        WaitGuard { waiters: Some(self.waiters) }
    }

    /// How many are waiting at this moment, for [`Wait::begin`](super::Wait::begin).
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiters.waiting()
    }
}

impl Drop for WaiterSlot<'_> {
    fn drop(&mut self) {
        self.waiters.members.fetch_sub(1, Relaxed);
    }
}

/// A thread counted in a [`ActiveWaiters`] until this is dropped.
#[derive(Debug)]
#[must_use = "the thread is counted only while this is kept"]
pub struct WaitGuard<'a> {
    waiters: Option<&'a ActiveWaiters>,
}

impl WaitGuard<'_> {
    /// Counts the thread no longer.
    #[inline]
    pub(super) fn leave(&mut self) {
        if let Some(waiters) = self.waiters.take() {
            waiters.waiting.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for WaitGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_present_is_counted_and_nobody_who_left() {
        let waiters = ActiveWaiters::default();
        let (a, b) = (waiters.member(), waiters.member());
        let first = a.wait();
        let second = b.wait();
        assert_eq!(waiters.waiting(), 2);
        drop(first);
        assert_eq!(waiters.waiting(), 1);
        drop(second);
        assert_eq!(waiters.waiting(), 0);
    }

    #[test]
    fn member_that_is_alone_is_not_counted_even_when_another_one_comes() {
        let waiters = ActiveWaiters::default();
        let alone = waiters.member();
        let waits = alone.wait();
        let other = waiters.member();
        assert_eq!(waiters.waiting(), 0);
        drop(waits);
        assert_eq!(waiters.waiting(), 0);
        let waits = alone.wait();
        drop(other);
        assert_eq!(alone.waiting(), 1);
        drop(waits);
        assert_eq!(waiters.waiting(), 0);
    }
}
