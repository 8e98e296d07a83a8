//! Sleeping on a word of shared memory, and waking the threads that sleep there.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::AtomicU32;

/// The longest sleep. A hostile peer can move our sleeper to a word of its own (`FUTEX_REQUEUE`), or put one before it that makes
/// every wake fail (`FUTEX_LOCK_PI`): a sleeping thread looks by itself now and then whether the peer is still there.
const LONGEST_NS: u64 = 1_000_000_000;

/// Sleeps while `word` is `value`, at most `limit_ns` and at most a second, and perhaps less for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32, limit_ns: u64) {
    let limit_ns = limit_ns.min(LONGEST_NS);
    let limit =
        Timespec { tv_sec: (limit_ns / 1_000_000_000) as i64, tv_nsec: (limit_ns % 1_000_000_000) as i64 };
    // Not FUTEX_PRIVATE_FLAG: another process wakes.
    let result = futex::wait(word, Flags::empty(), value, Some(&limit));
    debug_assert!(matches!(result, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)), "{result:?}");
}

/// Threads that one [`wake`] wakes at most. A hostile peer can have thousands of its own threads sleep on a word, and waking one takes
/// five microseconds.
pub(crate) const WOKEN_MAX: u32 = 16;

/// Wakes threads that sleep on `word`, [`WOKEN_MAX`] at most.
#[cold]
pub(crate) fn wake(word: &AtomicU32) {
    // Fails only for a word that is not mapped, and when the peer does what no peer of ours does.
    let _ = futex::wake(word, Flags::empty(), WOKEN_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    #[test]
    fn one_wake_wakes_no_more_threads_than_the_bound() {
        let word = AtomicU32::new(1);
        let woken = AtomicU32::new(0);
        let sleepers = 3 * WOKEN_MAX;
        // Moves those that sleep on the word to the same word, and so counts them.
        let asleep = || futex::requeue(&word, Flags::empty(), 0, i32::MAX as u32, &word).unwrap() as u32;
        thread::scope(|scope| {
            for _ in 0..sleepers {
                scope.spawn(|| {
                    // Until the word changes: not for no reason, nor because a second has passed.
                    while word.load(Relaxed) == 1 && futex::wait(&word, Flags::empty(), 1, None).is_err() {}
                    woken.fetch_add(1, Relaxed);
                });
            }
            while asleep() < sleepers {
                thread::yield_now();
            }
            wake(&word);
            let left = asleep();
            word.store(0, Relaxed);
            while woken.load(Relaxed) < sleepers {
                wake(&word);
            }
            assert_eq!(left, sleepers - WOKEN_MAX);
        });
    }

    #[test]
    fn a_sleeper_whom_the_peer_has_moved_to_another_word_wakes_up_by_itself() {
        let (ours, theirs) = (AtomicU32::new(1), AtomicU32::new(0));
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(&ours, 1, u64::MAX));
            while !sleeper.is_finished() && futex::requeue(&ours, Flags::empty(), 0, 1, &theirs) == Ok(0) {
                thread::yield_now();
            }
            ours.store(0, Relaxed);
            wake(&ours);
            sleeper.join().unwrap();
        });
    }
}
