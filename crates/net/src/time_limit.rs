//! Limits how long a receive sleeps: by a timeout of the socket (`SO_RCVTIMEO`), set only when it must change, and by
//! `ppoll` for the rest.
//!
//! A timeout of the socket costs nothing while it stays the same. A `ppoll` before each receive would cost a
//! microsecond per round trip, and setting the timeout for each call 150 ns. But the kernel keeps such timeouts in its
//! timer wheel, which rounds them up: by one tick, and by as much as an eighth of a long wait. The socket's timeout is
//! therefore always shorter than the wait, and the receive after an expired timeout sleeps in `ppoll`, which has an
//! exact timer.

use crate::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{self, Timeout};
use rustix::time::Timespec;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The limit that a socket has now.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    /// The limit in the socket, in nanoseconds and a multiple of the tick; or [`NONE`] or [`RAN_OUT`].
    usable_ns: AtomicU64,
    /// The timeout in the socket, also after it expired.
    set_ns: AtomicU64,
}

/// The socket has no limit: a receive sleeps until something arrives.
const NONE: u64 = u64::MAX;
/// The last receive ended by the timeout: the next one sleeps in `ppoll`.
const RAN_OUT: u64 = u64::MAX - 1;
/// The kernel refuses limits beyond some number of ticks.
const LONGEST_NS: u64 = 365 * 24 * 3_600 * 1_000_000_000;

impl TimeLimit {
    /// The state of a new socket, which waits for ever.
    pub(crate) const fn unset() -> Self {
        Self { usable_ns: AtomicU64::new(NONE), set_ns: AtomicU64::new(NONE) }
    }

    /// Prepares a receive that sleeps for about `about_ns` or less, and never longer than `latest_ns`. Returns the
    /// flags for it. Either the socket's timeout ends the receive, or this function has slept already and the receive
    /// must not sleep.
    #[inline]
    pub(crate) fn arm(&self, socket: BorrowedFd<'_>, about_ns: u64, latest_ns: u64) -> io::Result<RecvFlags> {
        let longest_ns = longest(about_ns, latest_ns, clock::tick_ns());
        match is_near(self.usable_ns.load(Relaxed), longest_ns) {
            true => Ok(RecvFlags::empty()),
            false => self.arm_anew(socket, about_ns.min(latest_ns), longest_ns),
        }
    }

    /// Removes the socket's timeout, so that receives wait for ever.
    #[inline]
    pub(crate) fn disarm(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.usable_ns.load(Relaxed) == NONE { Ok(()) } else { self.set(socket, NONE) }
    }

    /// Records how a receive that was [armed](Self::arm) with `flags` ended.
    #[inline]
    pub(crate) fn note<T>(&self, flags: RecvFlags, received: &Result<T, Errno>) {
        if let Err(Errno::AGAIN) = received
            && flags.is_empty()
        {
            self.usable_ns.store(RAN_OUT, Relaxed);
        }
    }

    #[cold]
    fn arm_anew(&self, socket: BorrowedFd<'_>, wait_ns: u64, longest_ns: u64) -> io::Result<RecvFlags> {
        let ran_out = self.usable_ns.load(Relaxed) == RAN_OUT;
        if ran_out {
            self.usable_ns.store(self.set_ns.load(Relaxed), Relaxed);
        }
        let limit_ns = chosen(longest_ns, clock::tick_ns());
        if ran_out || limit_ns == 0 {
            sleep_until(socket, PollFlags::IN, wait_ns)?;
            return Ok(RecvFlags::DONTWAIT);
        }
        self.set(socket, limit_ns)?;
        Ok(RecvFlags::empty())
    }

    #[cold]
    fn set(&self, socket: BorrowedFd<'_>, limit_ns: u64) -> io::Result<()> {
        let limit = (limit_ns != NONE).then(|| Duration::from_nanos(limit_ns));
        sockopt::set_socket_timeout(socket, Timeout::Recv, limit)?;
        self.set_ns.store(limit_ns, Relaxed);
        self.usable_ns.store(limit_ns, Relaxed);
        Ok(())
    }
}

/// Sleeps until one of `events` happens to `socket`, or an error is pending there, but no longer than `limit_ns`: the timer is
/// exact (to the thread's timer slack, 50 µs). A signal ends it early. Returns whether something happened.
///
/// # Errors
/// The kernel has no memory.
pub(crate) fn sleep_until(socket: BorrowedFd<'_>, events: PollFlags, limit_ns: u64) -> io::Result<bool> {
    sleep_until_any(&mut [PollFd::from_borrowed_fd(socket, events)], limit_ns)
}

/// As [`sleep_until`], until something happens to one of `sources`, which then tell what.
///
/// # Errors
/// The kernel has no memory.
pub(crate) fn sleep_until_any(sources: &mut [PollFd<'_>], limit_ns: u64) -> io::Result<bool> {
    let limit_ns = limit_ns.min(LONGEST_NS);
    let limit =
        Timespec { tv_sec: (limit_ns / 1_000_000_000) as i64, tv_nsec: (limit_ns % 1_000_000_000) as i64 };
    match poll(sources, Some(&limit)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The longest timeout in the socket with which a receive ends no later than `latest_ns`, and not much later than
/// `about_ns`.
///
/// A limit of *n* ticks ends after *n* + 1 ticks at the latest, or an eighth of that more where it is 63 ticks or longer
/// (`calc_wheel_index` in Linux, kernel/time/timer.c).
#[inline]
fn longest(about_ns: u64, latest_ns: u64, tick_ns: u64) -> u64 {
    about_ns.max(tick_ns).min((latest_ns - latest_ns / 8).saturating_sub(tick_ns))
}

/// Whether the socket's timeout can stand in for `longest_ns`. It may be as short as half of that, so that similar
/// waits need no other.
#[inline]
fn is_near(usable_ns: u64, longest_ns: u64) -> bool {
    usable_ns.wrapping_sub(longest_ns / 2) <= longest_ns / 2
}

/// The timeout to set, in nanoseconds: in the middle of the range of [`is_near`], in whole ticks; 0 if there is none.
fn chosen(longest_ns: u64, tick_ns: u64) -> u64 {
    let ticks = longest_ns.min(LONGEST_NS) / tick_ns;
    (ticks - ticks / 4) * tick_ns
}

/// A timeout with which a wait ends before `latest_ns`; 0 if there is none.
pub(crate) fn shorter(latest_ns: u64) -> u64 {
    let tick_ns = clock::tick_ns();
    chosen(longest(latest_ns, latest_ns, tick_ns), tick_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LIMITS: [u64; 12] = [
        1,
        MS,
        4 * MS,
        9 * MS,
        20 * MS,
        21 * MS + 1,
        50 * MS,
        999 * MS,
        3_500 * MS,
        30_000 * MS,
        60_000 * MS,
        u64::MAX,
    ];
    const TICKS: [u64; 4] = [MS, 3_333_333, 4 * MS, 10 * MS];

    /// Latest time at which the timer wheel ends a wait.
    fn latest_end(limit_ns: u64, tick_ns: u64) -> u64 {
        let ticks = limit_ns.div_ceil(tick_ns);
        let granularity = if ticks < 63 { 1 } else { ticks / 7 };
        limit_ns.saturating_add(tick_ns.saturating_mul(granularity))
    }

    #[test]
    fn a_chosen_limit_serves_the_same_wait_and_similar_ones() {
        for tick_ns in TICKS {
            for limit_ns in LIMITS.into_iter().filter(|limit_ns| *limit_ns <= LONGEST_NS) {
                let longest_ns = longest(limit_ns, limit_ns, tick_ns);
                let chosen_ns = chosen(longest_ns, tick_ns);
                assert!(chosen_ns == 0 || is_near(chosen_ns, longest_ns), "{limit_ns} {tick_ns}");
            }
            let chosen_ns = chosen(longest(30_000 * MS, 30_000 * MS, tick_ns), tick_ns);
            for similar in [24_000 * MS, 29_999 * MS, 30_001 * MS, 36_000 * MS] {
                assert!(is_near(chosen_ns, longest(similar, similar, tick_ns)), "{similar} {tick_ns}");
            }
        }
    }

    #[test]
    fn the_timer_wheel_never_ends_a_wait_too_late() {
        for tick_ns in TICKS {
            for armed_ns in LIMITS.map(|limit_ns| chosen(longest(limit_ns, limit_ns, tick_ns), tick_ns)) {
                for (about_ns, latest_ns) in
                    LIMITS.into_iter().flat_map(|about| LIMITS.map(|latest| (about, latest)))
                {
                    let longest_ns = longest(about_ns, latest_ns, tick_ns);
                    let limits = [
                        is_near(armed_ns, longest_ns).then_some(armed_ns),
                        Some(chosen(longest_ns, tick_ns)),
                    ];
                    for limit_ns in limits.into_iter().flatten().filter(|limit_ns| *limit_ns > 0) {
                        let end_ns = latest_end(limit_ns, tick_ns);
                        assert!(
                            end_ns <= latest_ns,
                            "{limit_ns} ends at {end_ns}, not {latest_ns}, tick {tick_ns}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_unset_or_expired_limit_is_near_no_other() {
        for longest_ns in LIMITS.into_iter().map(|limit_ns| longest(limit_ns, limit_ns, 4 * MS)).chain([0]) {
            assert!(!is_near(NONE, longest_ns) && !is_near(RAN_OUT, longest_ns), "{longest_ns}");
        }
    }

    #[test]
    fn an_inexact_wait_uses_the_limit_in_the_socket() {
        for tick_ns in TICKS {
            assert!(chosen(longest(MS, u64::MAX, tick_ns), tick_ns) >= tick_ns);
        }
        assert_eq!(chosen(longest(MS, 5 * MS, 4 * MS), 4 * MS), 0);
    }
}
