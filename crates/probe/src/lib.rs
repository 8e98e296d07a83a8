//! Stamps at the named points in the life of a call: which [`Point`] a thread has passed, and when.
//!
//! [`stamp`] is an empty function unless this crate is compiled with the feature `stamps`. With it, a stamp is one load and
//! one branch while its point is off, and a reading of the [cycle counter](cycles) and one store while it is
//! [on](switch_on). Stamps go to a buffer of the calling thread, without a lock or a system call; [`take`] collects them.
//!
//! `Sampling` is for programs at work: one call in so many is stamped at all points, and its thread keeps the `Sample` until an account
//! takes it.
//!
//! The cycle counter is the same for all processors of a machine that this is used on (an invariant time stamp counter), so
//! that stamps of two processes lie on one time axis.

#![deny(unsafe_code)]

mod cycles;
#[cfg(feature = "stamps")]
mod kept;
#[cfg(feature = "stamps")]
mod passing;
mod point;
#[cfg(feature = "stamps")]
mod recording;
#[cfg(feature = "stamps")]
mod sampling;
#[cfg(feature = "stamps")]
mod switches;

pub use cycles::cycles;
#[cfg(feature = "stamps")]
pub use kept::{take_all, take_own};
pub use point::Point;
#[cfg(feature = "stamps")]
pub use sampling::{
    Claim, Role, Sample, Sampling, claim, concerns_sample, is_sampled, stamp_cycles, take_is_full,
};

/// A point that a thread has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the thread in this process, in the order of the first stamps.
    pub thread: u32,
    /// The point.
    pub point: Point,
    /// The [cycle counter](cycles) at that moment.
    pub cycles: u64,
}

/// The stamps of all threads since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// In the order of each thread, one thread behind the other.
    pub stamps: Vec<Stamp>,
    /// Stamps that found their thread's buffer full.
    pub lost: u64,
}

/// Whether stamps are compiled in.
pub const COMPILED: bool = cfg!(feature = "stamps");

/// Notes that this thread passes `point`, if that point is switched on.
#[inline(always)]
pub fn stamp(point: Point) {
    #[cfg(feature = "stamps")]
    passing::stamp(point);
    #[cfg(not(feature = "stamps"))]
    let _ = point;
}

/// Switches on exactly these points, in all threads. Nothing without the feature.
pub fn switch_on(points: &[Point]) {
    #[cfg(feature = "stamps")]
    passing::switch_on(points);
    #[cfg(not(feature = "stamps"))]
    let _ = points;
}

/// Takes the stamps of all threads. Switch all points off before, and let the threads end their calls: a stamp that is made
/// meanwhile may be lost.
#[must_use]
pub fn take() -> Stamps {
    #[cfg(feature = "stamps")]
    return recording::take();
    #[cfg(not(feature = "stamps"))]
    Stamps::default()
}
