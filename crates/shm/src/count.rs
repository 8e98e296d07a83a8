//! A count in shared memory that one process moves on, and on which a thread of the other may sleep until it does.
//!
//! | bit  | meaning |
//! |------|---------|
//! | 0    | a thread sleeps until the count changes |
//! | 1–31 | the count |
//!
//! A thread that moves the count on exchanges the whole word: it learns of the sleeper and removes the mark in one step. A thread that
//! goes to sleep marks the count that it has seen, or finds another and does not sleep; the kernel looks once more whether the mark is
//! there before the thread sleeps. The peer may write anything: then a sleeper sleeps until its limit, as if the peer were silent.

use crate::Segment;
use crate::sync::Ordering;

/// Counts have 31 bits, and begin again at 0.
pub(crate) const MASK: u32 = u32::MAX >> 1;
const SLEEPS: u32 = 1;

/// The count at one place of a segment.
#[derive(Clone, Copy)]
pub(crate) struct Count<'a> {
    segment: &'a Segment,
    at: usize,
}

impl<'a> Count<'a> {
    #[inline]
    pub(crate) fn new(segment: &'a Segment, at: usize) -> Self {
        Self { segment, at }
    }

    /// Its value. All writes before it was [moved on](Self::set) to this value can be read from now on.
    #[inline]
    pub(crate) fn get(self) -> u32 {
        self.segment.half(self.at).load(Ordering::Acquire) >> 1
    }

    /// Moves it on, and wakes the sleeper. Publishes all earlier writes.
    #[inline]
    pub(crate) fn set(self, count: u32) {
        // SeqCst, because a full fence may have to follow (`fence_after_exchange`). Release publishes earlier writes. Acquire,
        // because the sleeper's mark says that it has seen the count before.
        if self.segment.half(self.at).swap(count << 1, Ordering::SeqCst) & SLEEPS != 0 {
            self.segment.wake(self.at);
        }
    }

    /// Sleeps until it is no longer `seen`, at most `limit_ns`, and perhaps less for no reason; not at all from
    /// [`give_up`](Self::give_up) on.
    pub(crate) fn sleep(self, seen: u32, limit_ns: u64) {
        self.sleep_unless(seen, limit_ns, || false);
    }

    /// As [`sleep`](Self::sleep), but not if `is_over` once the mark is there: the thread that brings that about [pokes](Self::poke)
    /// afterwards.
    pub(crate) fn sleep_unless(self, seen: u32, limit_ns: u64, is_over: impl FnOnce() -> bool) {
        let (unmarked, marked) = (seen << 1, seen << 1 | SLEEPS);
        let word = self.segment.half(self.at);
        // Acquire: a poke or an end before the mark is known to this thread; one after it finds the mark.
        let found = word.compare_exchange(unmarked, marked, Ordering::AcqRel, Ordering::Acquire);
        // It may have been marked before a sleep that ended for no reason.
        let is_marked = found.is_ok() || found == Err(marked);
        if is_marked && !self.segment.is_given_up() && !is_over() {
            self.segment.wait(self.at, marked, limit_ns);
        }
    }

    /// Sets it to 0, for another use, before any thread of the two processes uses it.
    pub(crate) fn reset(self) {
        self.segment.half(self.at).store(0, Ordering::Relaxed);
    }

    /// Wakes the sleeper without moving the count: an event has come for which the sleeper waits besides the count.
    pub(crate) fn poke(self) {
        if self.segment.half(self.at).fetch_and(!SLEEPS, Ordering::AcqRel) & SLEEPS != 0 {
            self.segment.wake(self.at);
        }
    }

    /// As [`poke`](Self::poke), also if the peer has removed the mark.
    #[cfg(not(all(test, loom)))]
    pub(crate) fn rouse(self) {
        self.segment.half(self.at).fetch_and(!SLEEPS, Ordering::AcqRel);
        self.segment.wake(self.at);
    }

    /// Wakes the sleeper, for good. The count stays as it is.
    pub(crate) fn give_up(self) {
        self.segment.set_given_up();
        // The kernel does not let a thread sleep whose mark is gone. A thread that marks the count after this sees by the same exchange that
        // it was given up.
        self.segment.half(self.at).fetch_and(!SLEEPS, Ordering::AcqRel);
        self.segment.wake(self.at);
    }
}
