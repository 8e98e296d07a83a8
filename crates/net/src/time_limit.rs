//! A socket's receive time limit (`SO_RCVTIMEO`), told to the kernel only when it must change.
//!
//! A limit in the socket costs nothing while it stays the same; asking `poll` before each receive
//! would cost a microsecond a round trip, and setting the limit for each call 150 ns.

use rustix::fd::BorrowedFd;
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The limit that a socket has now.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    /// In milliseconds; 0: none.
    armed_ms: AtomicU64,
}

impl TimeLimit {
    /// Of a new socket, which waits for ever.
    pub(crate) const fn unset() -> Self {
        Self { armed_ms: AtomicU64::new(0) }
    }

    /// Sees to it that receives on `socket` wait for about `limit_ns`: an eighth less at most, and a
    /// millisecond more at most (plus the kernel's own rounding up to its tick). Who waits looks at the clock
    /// and waits for the rest.
    #[inline]
    pub(crate) fn arm(&self, socket: BorrowedFd<'_>, limit_ns: u64) -> io::Result<()> {
        match rearmed(self.armed_ms.load(Relaxed), limit_ns) {
            None => Ok(()),
            Some(limit_ms) => self.set(socket, limit_ms),
        }
    }

    /// Sees to it that receives on `socket` wait for ever.
    #[inline]
    pub(crate) fn disarm(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.armed_ms.load(Relaxed) == 0 { Ok(()) } else { self.set(socket, 0) }
    }

    #[cold]
    fn set(&self, socket: BorrowedFd<'_>, limit_ms: u64) -> io::Result<()> {
        let limit = (limit_ms > 0).then(|| Duration::from_millis(limit_ms));
        sockopt::set_socket_timeout(socket, Timeout::Recv, limit)?;
        self.armed_ms.store(limit_ms, Relaxed);
        Ok(())
    }
}

/// The limit to set, in milliseconds, or `None` when the one that is armed will do.
///
/// A new limit is a sixteenth shorter than asked for, in the middle of what is tolerated: a wait that ends too early
/// is gone on with, one that ends too late has missed a deadline.
#[inline]
fn rearmed(armed_ms: u64, limit_ns: u64) -> Option<u64> {
    // A limit beyond a year, which the kernel might refuse, is a year.
    let limit_ms = limit_ns.div_ceil(1_000_000).clamp(1, 365 * 24 * 3_600_000);
    let tolerated = limit_ms - limit_ms / 8..=limit_ms;
    if tolerated.contains(&armed_ms) { None } else { Some(limit_ms - limit_ms / 16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn first_limit_is_armed_and_kept_for_similar_ones() {
        assert_eq!(rearmed(0, 1_000 * MS), Some(938));
        for similar in [938 * MS, 1_000 * MS, 1_070 * MS] {
            assert_eq!(rearmed(938, similar), None, "{similar} ns");
        }
    }

    #[test]
    fn wait_is_never_longer_than_the_limit_and_at_most_an_eighth_shorter() {
        for armed_ms in [0, 1, 2, 17, 200, 938, 30_000, u64::MAX] {
            for limit_ns in [1, MS, 20 * MS, 21 * MS + 1, 999 * MS, 30_000 * MS, u64::MAX] {
                let limit_ms = limit_ns.div_ceil(MS).min(365 * 24 * 3_600_000);
                let wait_ms = rearmed(armed_ms, limit_ns).unwrap_or(armed_ms);
                let shortest = (limit_ms - limit_ms / 8).max(1);
                assert!((shortest..=limit_ms).contains(&wait_ms), "{armed_ms} {limit_ns}");
            }
        }
    }
}
