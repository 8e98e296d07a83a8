//! The points that are on: for all calls, or for samples while no measurement has switched on others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A bit for each point that is on, and [`COUNTS`].
static ON: AtomicU64 = AtomicU64::new(0);
/// The points were [switched on](switch_on) for all calls; otherwise for samples.
static FOR_ALL: AtomicBool = AtomicBool::new(false);
/// The points that samples need.
static SAMPLED: AtomicU64 = AtomicU64::new(0);

/// Threads count their calls at the first points of their sides, to sample one in so many.
pub(crate) const COUNTS: u64 = 1 << 63;

/// A bit for each point that is on, and [`COUNTS`].
#[inline(always)]
pub(crate) fn on() -> u64 {
    ON.load(Relaxed)
}

/// Whether the points are on for all calls.
#[inline]
pub(crate) fn are_for_all() -> bool {
    FOR_ALL.load(Relaxed)
}

/// Switches on these points for all calls; if there are none, those that samples need.
pub(crate) fn switch_on(points: u64) {
    FOR_ALL.store(points != 0, Relaxed);
    ON.store(if points == 0 { SAMPLED.load(Relaxed) } else { points }, Relaxed);
}

/// Switches on these points for samples, unless others are on for all calls.
pub(crate) fn set_sampled(points: u64) {
    SAMPLED.store(points, Relaxed);
    if !are_for_all() {
        ON.store(points, Relaxed);
    }
}
