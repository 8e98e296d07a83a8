//! A lock that costs nothing but a few plain steps while the same thread takes it again and again.
//!
//! Whoever has taken it last is its favourite: it says that it is inside, looks whether the favour has been withdrawn, and is in,
//! by a [fence] that is the other side's affair. Anybody else takes an ordinary lock first, withdraws the favour,
//! waits until the favourite is not inside, and is the favourite then. That takes microseconds, so this is for what hardly ever
//! changes hands, and is taken so often that the locked instructions of an ordinary lock would be felt.

#![allow(unsafe_code)]

use crate::fence;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What is behind the lock, and whose favourite it is.
pub struct Biased<T> {
    /// No other has the same: [`Taker`]s are of one lock.
    number: u64,
    favourite: Mutex<Option<Arc<Favour>>>,
    value: UnsafeCell<T>,
}

/// Who takes a lock: one thread at a time, that with this in hand.
pub struct Taker {
    /// The lock's number.
    of: u64,
    favour: Arc<Favour>,
}

/// How the one that has the favour, or had it, and the others know of each other.
struct Favour {
    /// Its taker is inside, or about to see that it may not be. Only its taker writes this.
    inside: AtomicBool,
    /// It is the favourite no longer, or never was. Changes under the lock for all.
    withdrawn: AtomicBool,
    /// Its taker knows that.
    noticed: AtomicBool,
}

/// The lock, taken, until this is dropped.
pub struct Locked<'a, T> {
    value: &'a UnsafeCell<T>,
    by: By<'a>,
}

enum By<'a> {
    Favour(&'a Favour),
    Lock { _guard: MutexGuard<'a, Option<Arc<Favour>>> },
}

// SAFETY: `lock` gives access to the value to one thread at a time, which needs no more than that it may be sent there.
unsafe impl<T: Send> Sync for Biased<T> {}

impl<T> Biased<T> {
    /// A lock around `value`, which nobody has taken yet.
    pub fn new(value: T) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self { number, favourite: Mutex::new(None), value: UnsafeCell::new(value) }
    }

    /// For one more thread that is to take the lock.
    pub fn taker(&self) -> Taker {
        let favour = Favour {
            inside: AtomicBool::new(false),
            withdrawn: AtomicBool::new(true),
            noticed: AtomicBool::new(true),
        };
        Taker { of: self.number, favour: Arc::new(favour) }
    }

    /// Waits for the lock and takes it.
    ///
    /// # Panics
    /// When the taker is another lock's.
    #[inline]
    pub fn lock<'a>(&'a self, taker: &'a mut Taker) -> Locked<'a, T> {
        assert_eq!(taker.of, self.number, "a lock is taken by its own takers");
        let favour = &*taker.favour;
        favour.inside.store(true, Ordering::Relaxed);
        // Pairs with the one in `withdraw`: at least one of the two sees what the other has written.
        fence::light();
        if favour.withdrawn.load(Ordering::Acquire) {
            favour.inside.store(false, Ordering::Release);
            return self.lock_for_all(taker);
        }
        Locked { value: &self.value, by: By::Favour(favour) }
    }

    #[cold]
    #[inline(never)]
    fn lock_for_all<'a>(&'a self, taker: &'a Taker) -> Locked<'a, T> {
        taker.favour.noticed.store(true, Ordering::Release);
        let mut favourite = self.favourite.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = favourite.replace(Arc::clone(&taker.favour)) {
            other.withdraw();
        }
        taker.favour.noticed.store(false, Ordering::Relaxed);
        taker.favour.withdrawn.store(false, Ordering::Relaxed);
        Locked { value: &self.value, by: By::Lock { _guard: favourite } }
    }
}

impl Favour {
    /// Takes the favour from whoever has it. Returns when its taker is not inside, and will not be.
    fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
        if !fence::heavy() {
            // The kernel makes no fences any more: it has to be heard from its taker.
            while !self.noticed.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        // Pairs with the Release of whoever leaves.
        while self.inside.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        // It takes nothing any more.
        self.favour.noticed.store(true, Ordering::Release);
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has access while this exists:
        // - One with the lock for all has it to itself, and has waited until the favourite was not inside and had to see, before it
        //   got there again, that it is none any more.
        // - The favourite was inside before whoever withdraws the favour has looked, who therefore waits; and nobody else can have
        //   become the favourite before, for that happens under the same lock, after the same wait. A taker is borrowed mutably
        //   as long as this exists, so that it is inside once.
        // What was written here before is seen: who leaves and who waits pair, and so do the users of the lock for all.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and this is borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let By::Favour(favour) = self.by {
            favour.inside.store(false, Ordering::Release);
        }
    }
}

impl<T> fmt::Debug for Biased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Biased").finish_non_exhaustive()
    }
}

impl fmt::Debug for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taker").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Locked<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

/// The same steps, with a full fence on both sides, for which the kernel's stands in.
#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::Mutex;
    use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use loom::sync::atomic::{AtomicBool, fence};
    use loom::thread;

    struct Favour {
        inside: AtomicBool,
        withdrawn: AtomicBool,
    }

    struct Biased {
        favourite: Mutex<Option<Arc<Favour>>>,
        value: UnsafeCell<u32>,
    }

    impl Biased {
        fn add(&self) {
            // SAFETY: that nobody else does so at the same time is what loom finds out.
            self.value.with_mut(|value| unsafe { *value += 1 });
        }

        fn lock_and_add(&self, favour: &Arc<Favour>) {
            favour.inside.store(true, Relaxed);
            fence(SeqCst);
            if !favour.withdrawn.load(Acquire) {
                self.add();
                return favour.inside.store(false, Release);
            }
            favour.inside.store(false, Release);
            let mut favourite = self.favourite.lock().unwrap();
            if let Some(other) = favourite.replace(favour.clone()) {
                other.withdrawn.store(true, Release);
                fence(SeqCst);
                while other.inside.load(Acquire) {
                    thread::yield_now();
                }
            }
            favour.withdrawn.store(false, Relaxed);
            self.add();
        }
    }

    fn take(lock: &Biased, times: usize) {
        let favour = Favour { inside: AtomicBool::new(false), withdrawn: AtomicBool::new(true) };
        let favour = Arc::new(favour);
        (0..times).for_each(|_| lock.lock_and_add(&favour));
    }

    fn model(takers: usize, times: usize) {
        loom::model(move || {
            let lock = Arc::new(Biased { favourite: Mutex::new(None), value: UnsafeCell::new(0) });
            let others: Vec<_> = (1..takers)
                .map(|_| {
                    let lock = lock.clone();
                    thread::spawn(move || take(&lock, times))
                })
                .collect();
            take(&lock, times);
            others.into_iter().for_each(|other| other.join().unwrap());
            // SAFETY: the others have ended.
            lock.value.with(|value| unsafe { assert_eq!(*value as usize, takers * times) });
        });
    }

    #[test]
    fn one_at_a_time_is_inside_of_two_that_come_again() {
        model(2, 2);
    }

    #[test]
    fn one_at_a_time_is_inside_of_three() {
        model(3, 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_several_threads_do_inside_they_do_one_after_the_other() {
        let lock = Biased::new((0_u64, 0_u64));
        let (threads, times) = (3, 3_000);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut taker = lock.taker();
                    for turn in 0..times {
                        let mut both = lock.lock(&mut taker);
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
        assert_eq!(*lock.lock(&mut lock.taker()), (threads * times, threads * times));
    }

    #[test]
    fn the_favour_of_one_that_is_gone_is_withdrawn() {
        let lock = Biased::new(0);
        for turn in 0..3 {
            let mut taker = lock.taker();
            *lock.lock(&mut taker) += 1;
            assert_eq!(*lock.lock(&mut taker), turn + 1);
        }
    }

    #[test]
    #[should_panic(expected = "its own takers")]
    fn another_locks_taker_is_refused() {
        let (one, other) = (Biased::new(0), Biased::new(0));
        drop(one.lock(&mut other.taker()));
    }
}
