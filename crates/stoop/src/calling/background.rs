//! The background thread of a binding's begun calls: it does what no thread of the user waits for.
//!
//! The begun calls of a transport implement [`Driven`] and own a [`Background`]; [`start`] makes the thread when the first call
//! is begun. The thread runs one turn after the other ([`Driven::run_due`]) and sleeps between them.
//!
//! - *Wake-ups are not lost.* [`Driven::wake_background`] sets a flag before it unparks the thread. The thread clears the flag
//!   before a turn and looks at it before it sleeps, so a turn that begins after the wake-up sees its reason.
//! - *Beginning a call is cheap.* While calls are outstanding, the thread looks by itself. A thread that begins a call wakes it
//!   only if it is [idle](Background::is_idle), or sleeps [until something arrives](Background::sleep_until_arrival).
//! - *Lifetime.* The thread keeps the calls alive while there is something to do. While it is idle only others keep them alive;
//!   when they are dropped, the thread ends. An owner that is dropped and may leave outstanding calls behind
//!   [hands them over](hand_over) to the thread: a thread that was idle until then could not get hold of them any more.
//! - *Binding again* may take longer than some calls have, so another thread does it ([`start_binding`]).

use crate::locked::locked;
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::poller::Waker;
use stoop_net::threads;

/// Begun calls that a background thread drives.
pub(crate) trait Driven: Send + Sync + Sized + 'static {
    /// State that the thread keeps from one turn to the next.
    type Memory: Default;

    /// After the last call has ended, the thread looks so many times, at such intervals, before it is idle: a call that is begun
    /// meanwhile need not wake it.
    const LINGER: (u32, Duration) = (0, Duration::ZERO);

    fn background(&self) -> &Background;

    /// Does what is due now, and says how the thread goes on. It may sleep in the kernel until something arrives, if
    /// [`interrupt`](Self::interrupt) ends that sleep and if it does not begin to sleep when it
    /// [has been woken](Background::is_woken).
    fn run_due(self: &Arc<Self>, memory: &mut Self::Memory) -> Rest;

    /// Whether there is nothing to do. The thread asks after it has announced that it is idle.
    fn has_nothing_to_do(&self) -> bool;

    /// Ends the sleep of [`run_due`](Self::run_due), if that sleeps in the kernel.
    fn interrupt(&self) {}

    /// Binds again for the calls that wait for it; ends them if that fails. Runs in a thread of its own.
    fn bind_again(self: &Arc<Self>);

    /// There is something to do: the thread begins another turn.
    #[cold]
    fn wake_background(&self) {
        if self.background().set_woken() {
            self.interrupt();
        }
    }
}

/// How the background thread goes on after a turn.
pub(crate) enum Rest {
    /// With another turn, at once.
    None,
    /// It sleeps until it is woken, at most so long.
    For(Duration),
    /// Nothing is outstanding: it sleeps until it is woken, perhaps after it has [lingered](Driven::LINGER).
    Idle,
}

/// The background thread, as other threads see it.
#[derive(Default)]
pub(crate) struct Background {
    thread: OnceLock<Thread>,
    /// It was woken since it began its last turn.
    woken: AtomicBool,
    /// It sleeps until it is woken, or is about to.
    idle: AtomicBool,
    /// It sleeps in the kernel until something arrives or `waker` is woken, or is about to.
    listens: AtomicBool,
    /// Made when it is first needed.
    waker: OnceLock<Waker>,
    /// A thread binds again.
    binding: AtomicBool,
    /// The calls that own this, from the time at which they are handed over until the thread is idle.
    handed_over: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Background {
    /// Whether the thread has to be woken for a call that has just been begun. The calling thread has made the call visible to
    /// [`Driven::has_nothing_to_do`] before, under a lock that this takes, or before a `SeqCst` fence.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::SeqCst)
    }

    /// Whether the thread was woken since it began its last turn.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Whether a thread binds again.
    pub(crate) fn is_binding(&self) -> bool {
        self.binding.load(Ordering::SeqCst)
    }

    /// Wakes the thread if it is parked. Returns whether no other thread had woken it before.
    fn set_woken(&self) -> bool {
        let first = !self.woken.swap(true, Ordering::SeqCst);
        if first && let Some(thread) = self.thread.get() {
            thread.unpark();
            if self.listens.load(Ordering::SeqCst)
                && let Some(waker) = self.waker.get()
            {
                waker.wake();
            }
        }
        first
    }

    /// Sleeps as `sleep` does: until the time that `until_ns` gives, until something arrives, or until the waker is woken, as it is when this
    /// thread is. Meanwhile the thread is [idle](Self::is_idle) to threads that begin calls. `until_ns` is asked after that has been
    /// announced, and gives no time if there is work. `None`: the thread has not slept.
    pub(crate) fn sleep_until_arrival<R>(
        &self,
        until_ns: impl FnOnce() -> Option<u64>,
        sleep: impl FnOnce(&Waker, u64) -> R,
    ) -> Option<R> {
        let waker = match self.waker.get() {
            Some(waker) => waker,
            None => {
                // Without a descriptor for one, the thread looks as often as before.
                let made = Waker::new().ok()?;
                self.waker.get_or_init(|| made)
            }
        };
        let announce = |sleeps| {
            self.listens.store(sleeps, Ordering::SeqCst);
            self.idle.store(sleeps, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        };
        announce(true);
        let until_ns = if self.is_woken() { None } else { until_ns() };
        let slept = until_ns.map(|until_ns| sleep(waker, until_ns));
        announce(false);
        waker.drain();
        slept
    }

    fn sleep(&self, limit: Duration) {
        if !self.is_woken() {
            thread::park_timeout(limit);
        }
    }
}

impl Drop for Background {
    /// The calls are gone: the thread, which is idle, ends.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the background thread of these calls.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start<D: Driven>(calls: &Arc<D>) -> io::Result<()> {
    let driven = Arc::clone(calls);
    let thread = threads::start("stoop-background", move || run(driven))?;
    // Set once.
    let _ = calls.background().thread.set(thread.thread().clone());
    Ok(())
}

fn run<D: Driven>(mut calls: Arc<D>) {
    let mut memory = D::Memory::default();
    let mut lingered = 0;
    loop {
        let background = calls.background();
        background.woken.store(false, Ordering::SeqCst);
        let rest = calls.run_due(&mut memory);
        lingered = if let Rest::Idle = rest { lingered + 1 } else { 0 };
        match rest {
            Rest::None => {}
            Rest::For(limit) => background.sleep(limit),
            Rest::Idle => {
                let limit = (lingered <= D::LINGER.0).then_some(D::LINGER.1);
                let Some(used) = rest_until_used(calls, limit) else { return };
                calls = used;
            }
        }
    }
}

/// Sleeps until there is something to do, or for `limit`, without keeping the calls alive. `None`: they are gone.
fn rest_until_used<D: Driven>(calls: Arc<D>, limit: Option<Duration>) -> Option<Arc<D>> {
    let background = calls.background();
    // Before the look: work that its owner has left behind is seen then, and calls that are handed over later stay there.
    let handed_over = locked(&background.handed_over).take();
    background.idle.store(limit.is_none(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if background.is_woken() || !calls.has_nothing_to_do() {
        background.idle.store(false, Ordering::SeqCst);
        return Some(calls);
    }
    let idle = Arc::downgrade(&calls);
    drop((calls, handed_over));
    match limit {
        Some(limit) => thread::park_timeout(limit),
        None => thread::park(),
    }
    let calls = idle.upgrade()?;
    calls.background().idle.store(false, Ordering::SeqCst);
    Some(calls)
}

/// An owner of the calls is dropped: the thread keeps them until nothing is outstanding.
#[inline(never)]
pub(crate) fn hand_over<D: Driven>(calls: &Arc<D>) {
    *locked(&calls.background().handed_over) = Some(Arc::<D>::clone(calls));
    calls.wake_background();
}

/// Has a thread bind again, unless one does so already.
pub(crate) fn start_binding<D: Driven>(calls: &Arc<D>) {
    if calls.background().binding.swap(true, Ordering::SeqCst) {
        return;
    }
    let driven = Arc::clone(calls);
    let spawned = threads::start("stoop-bind", move || bind_again(&driven));
    if spawned.is_err() {
        // Late is better than not at all.
        bind_again(calls);
    }
}

fn bind_again<D: Driven>(calls: &Arc<D>) {
    calls.bind_again();
    calls.background().binding.store(false, Ordering::SeqCst);
    calls.wake_background();
}

#[cfg(test)]
mod tests {
    use crate::calling::background::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::{Sender, channel};
    use stoop_net::stream::Stream;

    /// Counts turns; a turn does the work that is there.
    struct Work {
        background: Background,
        left: AtomicU32,
        done: Sender<u32>,
        /// Without work, the thread sleeps until something arrives here.
        listens_to: Option<Stream>,
        ends: AtomicBool,
    }

    impl Driven for Work {
        type Memory = u32;

        fn background(&self) -> &Background {
            &self.background
        }

        fn run_due(self: &Arc<Self>, done: &mut u32) -> Rest {
            if self.has_nothing_to_do() {
                let Some(stream) = self.listens_to.as_ref().filter(|_| !self.ends.load(Ordering::SeqCst))
                else {
                    return Rest::Idle;
                };
                let until_ns = || self.has_nothing_to_do().then_some(u64::MAX);
                let sleep = |waker: &Waker, until_ns| waker.sleep_beside(stream, until_ns);
                self.background.sleep_until_arrival(until_ns, sleep);
                return Rest::None;
            }
            *done += self.left.swap(0, Ordering::SeqCst);
            let _ = self.done.send(*done);
            Rest::None
        }

        fn has_nothing_to_do(&self) -> bool {
            self.left.load(Ordering::SeqCst) == 0
        }

        fn bind_again(self: &Arc<Self>) {
            self.left.fetch_add(1000, Ordering::SeqCst);
        }
    }

    fn work() -> (Arc<Work>, std::sync::mpsc::Receiver<u32>) {
        work_beside(None)
    }

    fn work_beside(listens_to: Option<Stream>) -> (Arc<Work>, std::sync::mpsc::Receiver<u32>) {
        let (done, turns) = channel();
        let (background, left, ends) = (Background::default(), AtomicU32::new(0), AtomicBool::new(false));
        let work = Arc::new(Work { background, left, done, listens_to, ends });
        start(&work).unwrap();
        (work, turns)
    }

    #[test]
    fn work_that_is_announced_to_an_idle_thread_only_is_never_left() {
        let (work, turns) = work();
        announce_to_idle(&work, &turns);
    }

    #[test]
    fn work_that_is_announced_to_an_idle_thread_only_is_never_left_by_one_that_sleeps_until_an_arrival() {
        let (ours, theirs) = Stream::pair().unwrap();
        let (work, turns) = work_beside(Some(ours));
        announce_to_idle(&work, &turns);
        work.ends.store(true, Ordering::SeqCst);
        work.wake_background();
        drop((work, theirs));
        assert_eq!(turns.iter().last(), Some(2000), "the thread ends");
    }

    fn announce_to_idle(work: &Arc<Work>, turns: &std::sync::mpsc::Receiver<u32>) {
        for n in 1..=2000 {
            work.left.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if work.background.is_idle() {
                work.wake_background();
            }
            if n % 3 == 0 {
                assert_eq!(turns.iter().find(|done| *done >= n), Some(n));
            }
        }
    }

    #[test]
    fn the_thread_ends_when_idle_calls_are_dropped() {
        let (work, turns) = work();
        drop(work);
        assert!(turns.recv().is_err());
    }

    #[test]
    fn an_idle_thread_does_the_work_that_its_last_owner_leaves_behind() {
        for _ in 0..200 {
            let (work, turns) = work();
            // Idle, most of the time.
            thread::yield_now();
            work.left.fetch_add(1, Ordering::SeqCst);
            hand_over(&work);
            drop(work);
            assert_eq!(turns.recv(), Ok(1));
            assert!(turns.recv().is_err(), "the thread ends");
        }
    }

    #[test]
    fn the_calls_are_looked_at_when_they_are_bound_again() {
        let (work, turns) = work();
        start_binding(&work);
        assert_eq!(turns.recv(), Ok(1000));
    }
}
