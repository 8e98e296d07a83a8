//! A fence of which one side costs nothing, between what happens all the time and what hardly ever does.
//!
//! Two threads each write, and then read what the other writes: with a full fence between its two steps in each, at least one sees
//! the other. Here the one that is in a hurry has none, and the other has the kernel make one in every thread of the process
//! (`membarrier`, private expedited): whatever the first was about, the fence falls before its write, and then it reads after, or
//! behind it, and then its write is seen. Where the kernel does not do that, both have a fence of their own.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::LazyLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether the kernel makes fences for us. Asked once: [`light`] and [`heavy`] must be of one mind.
static BY_KERNEL: LazyLock<bool> =
    LazyLock::new(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());

/// Agrees with the kernel, which may take it some milliseconds in a process that has several threads already.
pub fn prepare() {
    let _ = *BY_KERNEL;
}

/// Between the two steps of the thread that is in a hurry.
#[inline]
pub fn light() {
    if *BY_KERNEL { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
}

/// Between the two steps of the other, which takes a microsecond or a few. `false`: there was none after all, for somebody has
/// forbidden this process to ask for it since it was first asked.
#[must_use = "without a fence, what is read next may be old"]
pub fn heavy() -> bool {
    fence(Ordering::SeqCst);
    !*BY_KERNEL || membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// With a full fence on both sides, for which the kernel's stands in.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
    use loom::thread;

    const HERE: u64 = 0;
    const AWAY: u64 = 1;

    /// As a server's background does, which looks after procedures while they run (`Role::leave` and `WorkerPool::fall_asleep`).
    #[test]
    fn nobody_goes_away_while_who_looks_after_it_falls_asleep() {
        loom::model(|| {
            let (word, asleep) = (Arc::new(AtomicU64::new(HERE)), Arc::new(AtomicBool::new(false)));
            let background = {
                let (word, asleep) = (word.clone(), asleep.clone());
                thread::spawn(move || {
                    asleep.store(true, Relaxed);
                    fence(SeqCst);
                    // For ever, unless it is woken: loom finds who is not.
                    while word.load(Acquire) == HERE {
                        thread::park();
                    }
                })
            };
            word.store(AWAY, Release);
            fence(SeqCst);
            if asleep.load(Relaxed) {
                background.thread().unpark();
            }
            background.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    #[test]
    fn one_of_two_sees_the_other() {
        for _ in 0..2_000 {
            let (hurried, patient) = (AtomicBool::new(false), AtomicBool::new(false));
            let start = Barrier::new(2);
            thread::scope(|scope| {
                let sees = scope.spawn(|| {
                    start.wait();
                    hurried.store(true, Relaxed);
                    light();
                    patient.load(Relaxed)
                });
                start.wait();
                patient.store(true, Relaxed);
                let seen = !heavy() || hurried.load(Relaxed);
                assert!(seen || sees.join().unwrap());
            });
        }
    }
}
