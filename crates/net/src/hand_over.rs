//! Locks that the thread that releases one hands over to the thread that has waited longest for any of them.
//!
//! A [`Place`] is a lock around a value. Many places share one [`Queue`]. A thread that finds all of them locked marks them as
//! *wanted* and waits in the queue. The release of a wanted place does not free it, but gives it to the first thread of the queue. So
//! no other thread can take it in between, and a thread that releases a place that nobody wants pays for one atomic instruction.
//!
//! While a thread waits in the queue, every place is wanted: places are marked under the lock of the queue, and only become free under
//! that lock, when no thread waits.

#![allow(unsafe_code)]

use crate::clock;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::PoisonError;
use std::time::Duration;

#[cfg(all(test, loom))]
use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};
#[cfg(not(all(test, loom)))]
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};

const FREE: u32 = 0;
/// A thread has the place.
const HELD: u32 = 1;
/// A thread has the place, and must hand it over if a thread waits in the queue.
const WANTED: u32 = 2;
/// A thread of the queue has been told that the place is its own, and takes it.
const GIVEN: u32 = 3;

/// A value behind a lock.
pub struct Place<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
    number: usize,
    queue: Arc<Queue>,
}

/// The threads that wait for a place, the first the longest.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Mutex<VecDeque<Arc<Waiter>>>,
}

#[derive(Debug, Default)]
struct Waiter {
    /// The number of the place that it has been given.
    given: Mutex<Option<usize>>,
    changed: Condvar,
}

/// The place is held until this guard is dropped.
pub struct PlaceGuard<'a, T> {
    place: &'a Place<T>,
    /// It is as a borrowed value.
    value: PhantomData<&'a mut T>,
}

// SAFETY: a place gives its value to one thread at a time, for which `T: Send` is enough.
unsafe impl<T: Send> Sync for Place<T> {}

// A panic while the value is used is the user's to see to, as with a mutex that ignores poison.
impl<T> UnwindSafe for Place<T> {}
impl<T> RefUnwindSafe for Place<T> {}

impl<T> Place<T> {
    /// A free place. No other of that queue has the number.
    pub fn new(value: T, number: usize, queue: Arc<Queue>) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value), number, queue }
    }

    /// Takes the place. `None`: another thread has it, or will have it next.
    #[inline]
    pub fn try_lock(&self) -> Option<PlaceGuard<'_, T>> {
        self.take(FREE, HELD)
    }

    /// Takes the place if it has that state, which becomes `then`.
    #[inline]
    fn take(&self, if_it_is: u32, then: u32) -> Option<PlaceGuard<'_, T>> {
        // Acquire: pairs with the Release of the thread that had the place before.
        let taken = self.state.compare_exchange(if_it_is, then, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| PlaceGuard { place: self, value: PhantomData })
    }

    /// As [`try_lock`](Self::try_lock), but does not take the cache line of a place that another thread has.
    fn try_lock_if_free(&self) -> Option<PlaceGuard<'_, T>> {
        if self.state.load(Ordering::Relaxed) == FREE { self.try_lock() } else { None }
    }

    /// Takes the place, or marks it as wanted. The lock of the queue is held.
    fn try_lock_or_mark(&self) -> Option<PlaceGuard<'_, T>> {
        loop {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            match self.state.compare_exchange(HELD, WANTED, Ordering::Relaxed, Ordering::Relaxed) {
                // It has become free just now.
                Err(FREE) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Releases the place, which is wanted: gives it to the first thread of the queue, if there is one.
    #[cold]
    #[inline(never)]
    fn hand_over(&self) {
        let mut waiting = self.queue.waiting();
        match waiting.pop_front() {
            // Release: publishes the value to the thread that takes the place.
            None => self.state.store(FREE, Ordering::Release),
            Some(waiter) => {
                self.state.store(GIVEN, Ordering::Release);
                drop(waiting);
                *waiter.given() = Some(self.number);
                waiter.changed.notify_one();
            }
        }
    }

    /// The value, of a place that no other thread can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<Waiter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes any of the places, which are all of this queue. If other threads have them all, waits until it is given one, at most until
    /// `deadline_ns` by the [clock]; threads that came before are given theirs first. `place` finds one by its number.
    pub fn lock_any<'a, T: 'a>(
        &self,
        mut places: impl Iterator<Item = &'a Place<T>> + Clone,
        place: impl FnOnce(usize) -> &'a Place<T>,
        deadline_ns: u64,
    ) -> Option<PlaceGuard<'a, T>> {
        let waiter = {
            let mut waiting = self.waiting();
            // Marks none if one is free: the release of a wanted place takes longer.
            if waiting.is_empty()
                && let Some(free) = places
                    .clone()
                    .find_map(Place::try_lock_if_free)
                    .or_else(|| places.find_map(Place::try_lock_or_mark))
            {
                return Some(free);
            }
            let waiter = Arc::<Waiter>::default();
            waiting.push_back(Arc::clone(&waiter));
            waiter
        };
        let is_early = waiter.wait(deadline_ns) || !self.leave(&waiter);
        let number = is_early.then(|| waiter.number())?;
        let given = place(number).take(GIVEN, WANTED);
        Some(given.expect("a place that was given is for this thread alone"))
    }

    /// Removes a waiting thread from the queue. `false`: it has been given a place, or is about to be.
    fn leave(&self, waiter: &Arc<Waiter>) -> bool {
        let mut waiting = self.waiting();
        let found = waiting.iter().position(|other| Arc::ptr_eq(other, waiter));
        found.and_then(|found| waiting.remove(found)).is_some()
    }

    /// The number of threads that wait.
    pub fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Whether no thread waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Waiter {
    fn given(&self) -> MutexGuard<'_, Option<usize>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has been given a place, at most until that time. Returns whether it has.
    fn wait(&self, deadline_ns: u64) -> bool {
        let mut given = self.given();
        while given.is_none() {
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return false;
            }
            let waited = self.changed.wait_timeout(given, Duration::from_nanos(left_ns));
            given = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The number of the place that it has been given, or is about to be.
    fn number(&self) -> usize {
        let mut given = self.given();
        loop {
            match *given {
                Some(number) => return number,
                None => given = self.changed.wait(given).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<T> Deref for PlaceGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread has access while this guard exists. Only `take` makes a guard, after an exchange of a state in which
        // there is none (free, given) for one in which `take` makes no other (held, wanted). The state leaves those two only when
        // the guard is dropped.
        unsafe { &*self.place.value.get() }
    }
}

impl<T> DerefMut for PlaceGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and this is borrowed mutably.
        unsafe { &mut *self.place.value.get() }
    }
}

impl<T> Drop for PlaceGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let place = self.place;
        // Release: publishes the value; pairs with the Acquire in `take`.
        if place.state.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            place.hand_over();
        }
    }
}

impl<T> fmt::Debug for Place<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for PlaceGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceGuard").field("number", &self.place.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
