//! An asymmetric fence: it costs nothing on the side that runs often.
//!
//! Two threads each write, and then read what the other writes. With a full fence between the two steps in each thread,
//! at least one sees the other's write. Here the frequent side has no fence of its own, and the rare side has the
//! kernel make one in every thread of the process (`membarrier`, private expedited). If that fence falls before the
//! frequent side's write, then its read comes later and sees the rare side's write; if it falls behind the write, the
//! rare side sees it. If the kernel has no such call, both sides make their own fence.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::LazyLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether the kernel makes fences for us. Asked once, because [`light`] and [`heavy`] must agree.
static BY_KERNEL: LazyLock<bool> =
    LazyLock::new(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());

/// Registers with the kernel, which may take some milliseconds in a process with several threads.
pub fn prepare() {
    let _ = *BY_KERNEL;
}

/// The fence of the frequent side, between its two steps.
#[inline]
pub fn light() {
    if *BY_KERNEL { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
}

/// The fence of the rare side, between its two steps; it takes some microseconds. `false`: there was no fence, because
/// this process has been forbidden to ask for one since it first did.
#[must_use = "without a fence, what is read next may be old"]
pub fn heavy() -> bool {
    fence(Ordering::SeqCst);
    !*BY_KERNEL || membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// With a full fence on both sides in place of the kernel's.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
    use loom::thread;

    const HERE: u64 = 0;
    const AWAY: u64 = 1;

    /// As a server's background thread does, which watches procedures while they run (`Role::leave` and
    /// `WorkerPool::fall_asleep`).
    #[test]
    fn no_thread_goes_away_unseen_while_its_watcher_falls_asleep() {
        loom::model(|| {
            let (word, asleep) = (Arc::new(AtomicU64::new(HERE)), Arc::new(AtomicBool::new(false)));
            let background = {
                let (word, asleep) = (word.clone(), asleep.clone());
                thread::spawn(move || {
                    asleep.store(true, Relaxed);
                    fence(SeqCst);
                    // Sleeps until woken: loom reports a thread that never is.
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
