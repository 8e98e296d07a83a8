//! A lock that is cheap while the same thread takes it again and again.
//!
//! The last thread to take the lock is its *owner*. The owner sets a flag that it is inside, checks that its ownership
//! has not been revoked, and is in, by a [fence] whose cost the other side pays. Any other thread first takes an
//! ordinary mutex, revokes the ownership, waits until the owner is not inside, and becomes the owner. That takes
//! microseconds. The lock suits data that rarely change hands, but are used so often that the atomic instructions of an
//! ordinary lock would cost too much.

#![allow(unsafe_code)]

use crate::fence;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A value behind the lock.
pub struct OwnerLock<T> {
    /// Number of this lock. A [`Key`] belongs to one lock.
    number: u64,
    owner: Mutex<Option<Arc<Ownership>>>,
    value: UnsafeCell<T>,
}

/// A thread's key to one lock. One thread at a time uses it.
pub struct Key {
    /// Number of the lock.
    of: u64,
    ownership: Arc<Ownership>,
}

/// The state that an owner, or former owner, shares with other threads.
struct Ownership {
    /// The owner is inside, or is about to see that it may not be. Only the owner writes this.
    inside: AtomicBool,
    /// The ownership is revoked, or was never given. Changes only under the mutex.
    revoked: AtomicBool,
    /// The former owner knows that its ownership is revoked.
    noticed: AtomicBool,
}

/// The lock is held until this guard is dropped.
pub struct OwnerGuard<'a, T> {
    value: &'a UnsafeCell<T>,
    by: By<'a>,
}

enum By<'a> {
    Owner(&'a Ownership),
    Lock { _guard: MutexGuard<'a, Option<Arc<Ownership>>> },
}

// SAFETY: `lock` gives access to the value to one thread at a time, for which `T: Send` is enough.
unsafe impl<T: Send> Sync for OwnerLock<T> {}

impl<T> OwnerLock<T> {
    /// A lock around `value`, without an owner.
    pub fn new(value: T) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self { number, owner: Mutex::new(None), value: UnsafeCell::new(value) }
    }

    /// A key for one more thread that is to take the lock.
    pub fn key(&self) -> Key {
        let ownership = Ownership {
            inside: AtomicBool::new(false),
            revoked: AtomicBool::new(true),
            noticed: AtomicBool::new(true),
        };
        Key { of: self.number, ownership: Arc::new(ownership) }
    }

    /// Waits for the lock and takes it.
    ///
    /// # Panics
    /// If the key belongs to another lock.
    #[inline]
    pub fn lock<'a>(&'a self, key: &'a mut Key) -> OwnerGuard<'a, T> {
        assert_eq!(key.of, self.number, "a lock is taken with its own keys");
        let ownership = &*key.ownership;
        ownership.inside.store(true, Ordering::Relaxed);
        // Pairs with the fence in `revoke`: at least one of the two threads sees the other's write.
        fence::light();
        if ownership.revoked.load(Ordering::Acquire) {
            ownership.inside.store(false, Ordering::Release);
            return self.lock_for_all(key);
        }
        OwnerGuard { value: &self.value, by: By::Owner(ownership) }
    }

    #[cold]
    #[inline(never)]
    fn lock_for_all<'a>(&'a self, key: &'a Key) -> OwnerGuard<'a, T> {
        key.ownership.noticed.store(true, Ordering::Release);
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = owner.replace(Arc::clone(&key.ownership)) {
            other.revoke();
        }
        key.ownership.noticed.store(false, Ordering::Relaxed);
        key.ownership.revoked.store(false, Ordering::Relaxed);
        OwnerGuard { value: &self.value, by: By::Lock { _guard: owner } }
    }
}

impl Ownership {
    /// Revokes the ownership. Returns when the owner is not inside and will not enter as the owner again.
    fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
        if !fence::heavy() {
            // The kernel no longer makes fences for us, so the owner itself has to notice.
            while !self.noticed.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        // Pairs with the Release of the owner that leaves.
        while self.inside.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // The key will not be used again.
        self.ownership.noticed.store(true, Ordering::Release);
    }
}

impl<T> Deref for OwnerGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread has access while this guard exists:
        // - A holder of the mutex has waited until the owner was not inside. The owner sees, before it enters again,
        //   that it is not the owner any more.
        // - An owner was inside before the thread that revokes its ownership looked, so that thread waits. No other
        //   thread can have become the owner before, because that happens under the same mutex, after the same wait. A
        //   key is borrowed mutably as long as the guard exists, so its owner is inside only once.
        // Earlier writes are visible: a leaving owner and a waiting thread synchronise, and so do the users of the
        // mutex.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for OwnerGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and this is borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for OwnerGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let By::Owner(ownership) = self.by {
            ownership.inside.store(false, Ordering::Release);
        }
    }
}

impl<T> fmt::Debug for OwnerLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerLock").finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OwnerGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerGuard").finish_non_exhaustive()
    }
}

/// The same steps, with a full fence on both sides in place of the kernel's.
#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::Mutex;
    use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use loom::sync::atomic::{AtomicBool, fence};
    use loom::thread;

    struct Ownership {
        inside: AtomicBool,
        revoked: AtomicBool,
    }

    struct OwnerLock {
        owner: Mutex<Option<Arc<Ownership>>>,
        value: UnsafeCell<u32>,
    }

    impl OwnerLock {
        fn add(&self) {
            // SAFETY: loom checks that no other thread does this at the same time.
            self.value.with_mut(|value| unsafe { *value += 1 });
        }

        fn lock_and_add(&self, ownership: &Arc<Ownership>) {
            ownership.inside.store(true, Relaxed);
            fence(SeqCst);
            if !ownership.revoked.load(Acquire) {
                self.add();
                return ownership.inside.store(false, Release);
            }
            ownership.inside.store(false, Release);
            let mut owner = self.owner.lock().unwrap();
            if let Some(other) = owner.replace(ownership.clone()) {
                other.revoked.store(true, Release);
                fence(SeqCst);
                while other.inside.load(Acquire) {
                    thread::yield_now();
                }
            }
            ownership.revoked.store(false, Relaxed);
            self.add();
        }
    }

    fn take(lock: &OwnerLock, times: usize) {
        let ownership = Ownership { inside: AtomicBool::new(false), revoked: AtomicBool::new(true) };
        let ownership = Arc::new(ownership);
        (0..times).for_each(|_| lock.lock_and_add(&ownership));
    }

    fn model(threads: usize, times: usize) {
        loom::model(move || {
            let lock = Arc::new(OwnerLock { owner: Mutex::new(None), value: UnsafeCell::new(0) });
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let lock = lock.clone();
                    thread::spawn(move || take(&lock, times))
                })
                .collect();
            take(&lock, times);
            others.into_iter().for_each(|other| other.join().unwrap());
            // SAFETY: the others have ended.
            lock.value.with(|value| unsafe { assert_eq!(*value as usize, threads * times) });
        });
    }

    #[test]
    fn of_two_threads_that_lock_twice_one_at_a_time_is_inside() {
        model(2, 2);
    }

    #[test]
    fn of_three_threads_one_at_a_time_is_inside() {
        model(3, 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn several_threads_are_inside_one_after_the_other() {
        let lock = OwnerLock::new((0_u64, 0_u64));
        let (threads, times) = (3, 3_000);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut key = lock.key();
                    for turn in 0..times {
                        let mut both = lock.lock(&mut key);
                        assert_eq!(both.0, both.1);
                        both.0 += 1;
                        if turn % 64 == 0 {
                            thread::yield_now();
                        }
                        both.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(&mut lock.key()), (threads * times, threads * times));
    }

    #[test]
    fn the_ownership_of_a_dropped_key_is_revoked() {
        let lock = OwnerLock::new(0);
        for turn in 0..3 {
            let mut key = lock.key();
            *lock.lock(&mut key) += 1;
            assert_eq!(*lock.lock(&mut key), turn + 1);
        }
    }

    #[test]
    #[should_panic(expected = "its own keys")]
    fn the_key_of_another_lock_is_refused() {
        let (one, other) = (OwnerLock::new(0), OwnerLock::new(0));
        drop(one.lock(&mut other.key()));
    }
}
