//! Sleeping on a word of shared memory, and waking who sleeps there.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `value`, at most `limit_ns`, and perhaps less for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32, limit_ns: u64) {
    let limit = Timespec {
        tv_sec: i64::try_from(limit_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (limit_ns % 1_000_000_000) as i64,
    };
    // Not FUTEX_PRIVATE_FLAG: the one who wakes is another process.
    let result = futex::wait(word, Flags::empty(), value, Some(&limit));
    debug_assert!(matches!(result, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)), "{result:?}");
}

/// Wakes all who sleep on `word`.
#[cold]
pub(crate) fn wake(word: &AtomicU32) {
    // Fails for a word that is not mapped only.
    let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
}
