//! The receive role: one thread at a time receives for all threads that wait at an endpoint (Leader/Followers).
//!
//! A thread that waits takes the role if it is free, receives, and gives every other thread what arrived for it, by way of a
//! mailbox of the transport's; then it [notifies](WaitingThread::notify) that thread. A thread that finds the role taken
//! [follows](ReceiveRole::follow): it waits until another thread has delivered what it waits for, or until the role is free. A thread
//! that gives the role back passes it on to a follower, if there is one.
//!
//! When no thread waits, no thread has the role. A transport's background thread may take it then.

use crate::calling::waiting_thread::WaitingThread;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The role of receiving at one endpoint; `R` is what its holder receives into.
#[derive(Debug, Default)]
pub(crate) struct ReceiveRole<R> {
    receiver: Mutex<R>,
    is_held: AtomicBool,
    followers: Mutex<Vec<Follower>>,
}

/// A thread that waits while another receives.
#[derive(Debug)]
struct Follower {
    thread: Arc<WaitingThread>,
    /// It was notified to take the role, and has not tried since.
    is_called: bool,
}

/// The receive role, held until this is dropped.
#[derive(Debug)]
pub(crate) struct RoleGuard<'a, R> {
    role: &'a ReceiveRole<R>,
    /// There until the guard is dropped.
    receiver: Option<MutexGuard<'a, R>>,
}

/// The next step of a follower until it is notified.
pub(crate) enum Pause {
    /// Looks again at once.
    Spin,
    /// Sleeps, for so many nanoseconds at most.
    Sleep(u64),
    /// Follows no longer.
    End,
}

impl<R> ReceiveRole<R> {
    /// A role that no thread holds.
    pub(crate) fn new(receiver: R) -> Self {
        Self { receiver: Mutex::new(receiver), is_held: AtomicBool::new(false), followers: Mutex::default() }
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has the role.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// How many threads wait while another has the role.
    pub(crate) fn followers_len(&self) -> usize {
        self.followers().len()
    }

    /// The role, unless another thread has it.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<RoleGuard<'_, R>> {
        let receiver = match self.receiver.try_lock() {
            Ok(receiver) => receiver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.is_held.store(true, Ordering::Relaxed);
        Some(RoleGuard { role: self, receiver: Some(receiver) })
    }

    /// Waits while another thread has the role, until `is_over`. The thread looks again each time it is notified, and pauses in
    /// between as `pause` says. Returns the role if it became free first.
    ///
    /// Another thread that makes `is_over` true notifies `thread` afterwards.
    pub(crate) fn follow(
        &self,
        thread: &Arc<WaitingThread>,
        mut is_over: impl FnMut() -> bool,
        mut pause: impl FnMut() -> Pause,
    ) -> Option<RoleGuard<'_, R>> {
        let follows = Follows::begin(self, thread);
        loop {
            follows.looks();
            if is_over() {
                return None;
            }
            if let Some(role) = self.try_take() {
                return Some(role);
            }
            loop {
                match pause() {
                    Pause::Spin => std::hint::spin_loop(),
                    Pause::Sleep(limit_ns) => {
                        thread.sleep(limit_ns);
                        break;
                    }
                    Pause::End => return None,
                }
                if thread.is_notified() {
                    break;
                }
            }
        }
    }

    /// Has all followers look again: what they wait for will not come.
    pub(crate) fn notify_all(&self) {
        self.followers().iter().for_each(|follower| follower.thread.notify());
    }

    /// The role is free: has one of the followers take it.
    ///
    /// No follower is left without: it is on the list before it tries for the role in vain, and this looks at the list after the role
    /// is free.
    #[inline]
    fn pass_on(&self) {
        let mut followers = self.followers();
        if followers.is_empty() || followers.iter().any(|follower| follower.is_called) {
            return;
        }
        // A follower that is notified already will leave, and then passes the role on; or it takes the role.
        if let Some(next) = followers.iter_mut().find(|follower| !follower.thread.is_notified()) {
            next.is_called = true;
            next.thread.notify();
        }
    }
}

impl<R> Deref for RoleGuard<'_, R> {
    type Target = R;

    #[inline]
    fn deref(&self) -> &R {
        self.receiver.as_ref().expect("the role is held")
    }
}

impl<R> DerefMut for RoleGuard<'_, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut R {
        self.receiver.as_mut().expect("the role is held")
    }
}

impl<R> Drop for RoleGuard<'_, R> {
    #[inline]
    fn drop(&mut self) {
        self.role.is_held.store(false, Ordering::Relaxed);
        self.receiver = None;
        self.role.pass_on();
    }
}

/// A thread's place among the followers, until this is dropped.
struct Follows<'a, R> {
    role: &'a ReceiveRole<R>,
    thread: &'a Arc<WaitingThread>,
}

impl<'a, R> Follows<'a, R> {
    fn begin(role: &'a ReceiveRole<R>, thread: &'a Arc<WaitingThread>) -> Self {
        role.followers().push(Follower { thread: Arc::clone(thread), is_called: false });
        Self { role, thread }
    }

    /// The thread is about to look, and to try for the role. A notice from now on is for its next look.
    fn looks(&self) {
        let mut followers = self.role.followers();
        if let Some(own) = followers.iter_mut().find(|follower| Arc::ptr_eq(&follower.thread, self.thread)) {
            own.is_called = false;
        }
        self.thread.looks();
    }
}

impl<R> Drop for Follows<'_, R> {
    fn drop(&mut self) {
        self.role.followers().retain(|follower| !Arc::ptr_eq(&follower.thread, self.thread));
        // The role may have been given back since, and passed to this thread; another is to take it.
        if !self.role.is_held.load(Ordering::Relaxed) {
            self.role.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn one_thread_at_a_time_has_the_role() {
        let role = ReceiveRole::new(7);
        let held = role.try_take();
        assert!(held.is_some() && role.try_take().is_none());
        drop(held);
        assert_eq!(role.try_take().as_deref(), Some(&7));
    }

    #[test]
    fn a_role_that_is_given_back_goes_to_a_follower() {
        let role = ReceiveRole::new(());
        let held = role.try_take().unwrap();
        thread::scope(|scope| {
            let follower = scope.spawn(|| {
                let thread = WaitingThread::current();
                role.follow(&thread, || false, || Pause::Sleep(u64::MAX)).is_some()
            });
            while role.followers().is_empty() {
                thread::yield_now();
            }
            drop(held);
            assert!(follower.join().unwrap());
        });
        assert!(role.followers().is_empty());
    }

    #[test]
    fn a_follower_that_leaves_passes_the_role_on() {
        let role = ReceiveRole::new(());
        let held = role.try_take().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let leaves = scope.spawn(|| {
                let thread = WaitingThread::current();
                let over = || is_over.load(Ordering::SeqCst);
                role.follow(&thread, over, || Pause::Sleep(u64::MAX)).is_some()
            });
            while role.followers().is_empty() {
                thread::yield_now();
            }
            let stays = scope.spawn(|| {
                let thread = WaitingThread::current();
                role.follow(&thread, || false, || Pause::Sleep(u64::MAX)).is_some()
            });
            while role.followers().len() < 2 {
                thread::yield_now();
            }
            // The first in the list is called when the role is given back, but it has what it waits for.
            is_over.store(true, Ordering::SeqCst);
            drop(held);
            assert!(!leaves.join().unwrap());
            assert!(stays.join().unwrap());
        });
    }

    /// Threads make calls at an endpoint that answers at once; each is woken only while it sleeps, and none sleeps for ever.
    #[test]
    fn many_threads_get_their_answers_and_none_is_woken_while_it_is_awake() {
        const THREADS: usize = 4;
        const CALLS: u64 = 2_000;
        let asked: [AtomicU64; THREADS] = Default::default();
        let answered: [AtomicU64; THREADS] = Default::default();
        let threads: Mutex<Vec<Option<Arc<WaitingThread>>>> = Mutex::new(vec![None; THREADS]);
        let role = ReceiveRole::new(());
        let answer_all = || {
            for other in 0..THREADS {
                let asked = asked[other].load(Ordering::SeqCst);
                if answered[other].swap(asked, Ordering::SeqCst) < asked
                    && let Some(thread) = threads.lock().unwrap()[other].as_ref()
                {
                    thread.notify();
                }
            }
        };
        thread::scope(|scope| {
            for own in 0..THREADS {
                let (role, asked, answered, threads, answer_all) =
                    (&role, &asked, &answered, &threads, &answer_all);
                scope.spawn(move || {
                    let thread = WaitingThread::current();
                    threads.lock().unwrap()[own] = Some(Arc::clone(&thread));
                    for call in 1..=CALLS {
                        asked[own].store(call, Ordering::SeqCst);
                        let is_over = || answered[own].load(Ordering::SeqCst) >= call;
                        let role = role
                            .try_take()
                            .or_else(|| role.follow(&thread, is_over, || Pause::Sleep(u64::MAX)));
                        if role.is_some() {
                            thread::yield_now();
                            answer_all();
                        }
                        assert!(is_over());
                    }
                    let (sleeps, wakes) = thread.counts();
                    assert!(wakes <= sleeps, "{wakes} wakes of {sleeps} sleeps");
                });
            }
        });
    }
}
