//! The monotonic clock as one number.
//!
//! Both readings go through the kernel's vdso (no system call): `rustix` finds
//! `__vdso_clock_gettime` itself, as libc does for `std`. On a virtual machine of the Sapphire Rapids class
//! [`now_ns`] takes 19 ns, as `Instant::now` does, and [`coarse_now_ns`] 3.5.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Nanoseconds of the monotonic clock: CLOCK_MONOTONIC, the same for all processes of one kernel.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of the monotonic clock as of the kernel's last tick (1 to 10 ms ago; CLOCK_MONOTONIC_COARSE).
/// It never runs ahead of [`now_ns`], and lags behind it by up to two [ticks](tick_ns).
#[inline]
pub fn coarse_now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::MonotonicCoarse))
}

/// Nanoseconds of the clock that does not stop while the machine sleeps (CLOCK_BOOTTIME), the same for all processes of
/// one kernel outside time namespaces.
pub fn boot_now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Boottime))
}

/// Nanoseconds that have passed since the clock of the day (CLOCK_REALTIME) showed `stamp_ns`.
pub fn age_ns(stamp_ns: u64) -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime)).saturating_sub(stamp_ns)
}

/// How far [`coarse_now_ns`] may lag behind [`now_ns`] in nanoseconds: four ticks. The kernel keeps the coarse clock
/// within two, but a host that stops a virtual machine for a moment delays its ticks (9 ms were seen, with ticks of 4
/// ms). Before this process has asked for the [tick](tick_ns), the slowest possible tick is assumed.
#[inline]
pub fn coarse_lag_ns() -> u64 {
    COARSE_LAG_NS.load(Relaxed)
}

/// Ticks by which the coarse clock may lag.
const LAG_TICKS: u64 = 4;

static COARSE_LAG_NS: AtomicU64 = AtomicU64::new(LAG_TICKS * 10_000_000);

/// Whether the clock shows `time_ns` or later. Reads the coarse clock, and the precise one only near that time.
#[inline]
pub fn has_come(time_ns: u64) -> bool {
    coarse_now_ns().saturating_add(coarse_lag_ns()) >= time_ns && now_ns() >= time_ns
}

/// Time between two ticks of the kernel, in nanoseconds: 1 to 10 ms (the resolution of CLOCK_MONOTONIC_COARSE).
#[inline]
pub fn tick_ns() -> u64 {
    match TICK_NS.load(Relaxed) {
        0 => ask_for_tick(),
        tick_ns => tick_ns,
    }
}

/// 0: not known yet.
static TICK_NS: AtomicU64 = AtomicU64::new(0);

#[cold]
fn ask_for_tick() -> u64 {
    let tick_ns = nanoseconds(clock_getres(ClockId::MonotonicCoarse)).max(1);
    TICK_NS.store(tick_ns, Relaxed);
    COARSE_LAG_NS.store(LAG_TICKS * tick_ns, Relaxed);
    tick_ns
}

/// How long this machine has been asleep (suspended) since it started. The monotonic clock stands still meanwhile
/// (CLOCK_BOOTTIME does not). Never too much; too little by the time between two readings.
pub fn asleep_ns() -> u64 {
    let both = boot_now_ns();
    both.saturating_sub(now_ns())
}

/// The monotonic clock starts at 0 with the kernel: 584 years fit.
#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_does_not_go_back() {
        let earlier = now_ns();
        assert!(earlier > 0 && now_ns() >= earlier);
    }

    #[test]
    fn the_machine_does_not_sleep_during_a_test() {
        let before = asleep_ns();
        assert!(asleep_ns().saturating_sub(before) < 10_000_000_000);
    }

    #[test]
    fn there_are_a_hundred_to_a_thousand_ticks_a_second() {
        assert!((900_000..=10_100_000).contains(&tick_ns()), "{}", tick_ns());
        assert_eq!(tick_ns(), tick_ns());
    }

    #[test]
    fn a_time_has_come_when_the_precise_clock_shows_it() {
        let soon_ns = now_ns() + 1_000_000;
        while !has_come(soon_ns) {}
        assert!(now_ns() >= soon_ns && !has_come(u64::MAX));
    }

    #[test]
    fn coarse_clock_does_not_run_ahead() {
        let coarse = coarse_now_ns();
        assert!(coarse > 0 && coarse <= now_ns());
    }
}
