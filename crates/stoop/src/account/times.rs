//! The times of a procedure's calls, recorded by many threads.

use crate::account::histogram::{Histogram, LiveHistogram, add_to};
use crate::account::options::AccountOptions;
use crate::thread_number::thread_number;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Threads with numbers below it each record in a place of their own. The others share one.
const OWN_PLACES: usize = 64;

/// Times of one procedure as one thread records them.
pub(crate) struct ProcedureTimes {
    pub(crate) whole: LiveHistogram,
    pub(crate) server: LiveHistogram,
    pub(crate) rest: LiveHistogram,
    /// Calls without a result.
    pub(crate) failed: AtomicU64,
    /// A call that takes longer is slow, in nanoseconds.
    slow_ns: AtomicU64,
}

/// Before so many calls of a procedure were recorded, those that take longer than [`FIRST_SLOW_NS`] are slow.
const ENOUGH: u64 = 1000;
const FIRST_SLOW_NS: u64 = 1_000_000;
/// Calls in one bucket after which the slowest in a thousand are determined again.
const LEARNS_AFTER: u64 = 4096;

impl Default for ProcedureTimes {
    fn default() -> Self {
        let (whole, server, rest) = <(LiveHistogram, LiveHistogram, LiveHistogram)>::default();
        // The first call that is slower determines when a call is slow, as each one does.
        Self { whole, server, rest, failed: AtomicU64::new(0), slow_ns: AtomicU64::new(0) }
    }
}

impl ProcedureTimes {
    /// Adds a call that stands for so many. Returns how many calls are in its bucket now.
    #[inline]
    pub(crate) fn add(&self, stands_for: u32, whole_ns: u64, server_ns: Option<u64>, is_own: bool) -> u64 {
        if let Some(server_ns) = server_ns {
            self.server.add(stands_for, server_ns, is_own);
            self.rest.add(stands_for, whole_ns.saturating_sub(server_ns), is_own);
        }
        self.whole.add(stands_for, whole_ns, is_own)
    }

    /// Whether a call that took so long is slow. `in_bucket`: how many have taken as long, with those for which this one stands.
    #[inline]
    pub(crate) fn is_slow(
        &self,
        stands_for: u32,
        whole_ns: u64,
        in_bucket: u64,
        slow_after: Option<Duration>,
    ) -> bool {
        let may_be_slow = whole_ns > self.slow_ns.load(Relaxed);
        let learns = in_bucket % LEARNS_AFTER < u64::from(stands_for);
        (may_be_slow || learns) && self.learn(stands_for, whole_ns, slow_after)
    }

    /// Determines when a call is slow; returns whether this one is.
    #[cold]
    fn learn(&self, stands_for: u32, whole_ns: u64, slow_after: Option<Duration>) -> bool {
        let slow_ns = match slow_after {
            Some(after) => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
            None => {
                let whole = self.whole.copy();
                let is_enough = whole.count() >= ENOUGH * u64::from(stands_for);
                if is_enough { whole.quantile_end_ns(0.999) } else { FIRST_SLOW_NS }
            }
        };
        self.slow_ns.store(slow_ns, Relaxed);
        whole_ns > slow_ns
    }

    #[inline]
    pub(crate) fn note_failure(&self, stands_for: u32, is_own: bool) {
        add_to(&self.failed, stands_for.into(), is_own);
    }
}

/// Times of one procedure at a server, as one thread records them.
#[derive(Default)]
pub(crate) struct Served {
    /// A call that is timed stands for the calls before it, too, that were not.
    whole: LiveHistogram,
    begun: AtomicU64,
    ended: AtomicU64,
    /// Calls that begin before the next one is timed. After a call that took long in comparison with a reading of the clock: 0.
    untimed: AtomicU32,
    /// The next call that is timed stands for the calls before it, too, that were not.
    has_skipped: AtomicBool,
}

/// A procedure that takes less is short, in nanoseconds.
const SHORT_NS: u64 = 5_000;

impl Served {
    /// Counts a call that begins. Returns whether it is timed. Threads that share this place may time one call more or less.
    #[inline]
    pub(crate) fn begin(&self, is_own: bool) -> bool {
        add_to(&self.begun, 1, is_own);
        let untimed = self.untimed.load(Relaxed);
        if untimed > 0 {
            self.untimed.store(untimed - 1, Relaxed);
        }
        untimed == 0
    }

    /// Adds the time of a call that was timed, after which `short_share` - 1 are not if it is short. Returns for how many calls this one
    /// stands.
    pub(crate) fn note(&self, took_ns: u64, short_share: u32, is_own: bool) -> u32 {
        let is_long = took_ns >= SHORT_NS;
        let stands_for = if self.has_skipped.load(Relaxed) { short_share } else { 1 };
        self.whole.add(stands_for, took_ns, is_own);
        self.has_skipped.store(!is_long, Relaxed);
        self.untimed.store(if is_long { 0 } else { short_share - 1 }, Relaxed);
        stands_for
    }

    /// Counts a call that has ended.
    #[inline]
    pub(crate) fn end(&self, is_own: bool) {
        add_to(&self.ended, 1, is_own);
    }
}

/// The times of some procedures, of type `T` for each procedure and thread.
pub(crate) struct Times<T> {
    procedures: usize,
    /// For each thread, and last for those that share a place.
    places: Box<[Place<T>]>,
    pub(crate) slow_after: Option<Duration>,
}

/// One for each procedure.
type Place<T> = OnceLock<Box<[OnceLock<Box<T>>]>>;

impl<T: Default> Times<T> {
    pub(crate) fn new(procedures: usize, options: &AccountOptions) -> Self {
        let places = (0..=OWN_PLACES).map(|_| OnceLock::new()).collect();
        Self { procedures, places, slow_after: options.slow_after }
    }

    /// Number of procedures.
    #[inline]
    pub(crate) fn procedures(&self) -> usize {
        self.procedures
    }

    /// The calling thread's times of a procedure, and whether no other thread records there.
    #[inline]
    pub(crate) fn of(&self, procedure: usize) -> (&T, bool) {
        let number = thread_number().min(OWN_PLACES);
        let place =
            self.places[number].get_or_init(|| (0..self.procedures).map(|_| OnceLock::new()).collect());
        (place[procedure].get_or_init(Box::default), number < OWN_PLACES)
    }

    fn all(&self, procedure: usize) -> impl Iterator<Item = &T> {
        let made = self.places.iter().filter_map(OnceLock::get);
        made.filter_map(move |place| Some(&**place[procedure].get()?))
    }
}

impl Times<ProcedureTimes> {
    /// The sum of what all threads have recorded: the whole, the server's part, the rest, and the number of failures.
    pub(crate) fn sum(&self, procedure: usize) -> ([Histogram; 3], u64) {
        let (mut sums, mut failed) = ([const { None }; 3], 0);
        for times in self.all(procedure) {
            for (sum, live) in sums.iter_mut().zip([&times.whole, &times.server, &times.rest]) {
                sum.get_or_insert_with(Histogram::default).add(&live.copy());
            }
            failed += times.failed.load(Relaxed);
        }
        (sums.map(Option::unwrap_or_default), failed)
    }
}

impl Times<Served> {
    /// The sum of what all threads have recorded: the calls that have begun, those that have not ended, and the times of those that were
    /// timed.
    pub(crate) fn served(&self, procedure: usize) -> (u64, u64, Histogram) {
        let (mut begun, mut ended, mut whole) = (0, 0, Histogram::default());
        for times in self.all(procedure) {
            // Ends first: a call that begins and ends meanwhile counts as running rather than less than none.
            ended += times.ended.load(Relaxed);
            begun += times.begun.load(Relaxed);
            whole.add(&times.whole.copy());
        }
        (begun, begun.saturating_sub(ended), whole)
    }
}

#[cfg(test)]
mod tests {
    use crate::account::times::*;
    use std::thread;

    #[test]
    fn no_call_is_lost_though_more_threads_record_than_have_places() {
        let times = Times::<ProcedureTimes>::new(2, &AccountOptions::new());
        thread::scope(|scope| {
            for _ in 0..OWN_PLACES + 16 {
                scope.spawn(|| {
                    for call in 0..500 {
                        let (own, is_own) = times.of(1);
                        own.add(1, 1_000 + call, Some(call), is_own);
                    }
                });
            }
        });
        let ([whole, server, rest], failed) = times.sum(1);
        let calls = 500 * (OWN_PLACES as u64 + 16);
        assert_eq!((whole.count(), server.count(), rest.count(), failed), (calls, calls, calls, 0));
        assert_eq!(whole.sum(), server.sum() + rest.sum());
        assert_eq!(times.sum(0).0[0].count(), 0);
    }

    #[test]
    fn a_timed_call_stands_for_those_before_it_that_were_not_timed() {
        let served = Served::default();
        let mut timed = Vec::new();
        for took_ns in [100; 9].into_iter().chain([SHORT_NS; 4]) {
            if served.begin(true) {
                timed.push(served.note(took_ns, 4, true));
            }
            served.end(true);
        }
        // Of the nine short calls the first, the fifth and the ninth; three of the long ones pass before the next is timed.
        assert_eq!(timed, [1, 4, 4, 4]);
        let whole = served.whole.copy();
        assert_eq!((whole.count(), whole.sum()), (13, Duration::from_nanos(9 * 100 + 4 * SHORT_NS)));
        assert!(served.begin(true));
        assert_eq!(served.note(SHORT_NS, 4, true), 1);
    }

    #[test]
    fn a_call_is_slow_beyond_the_given_time_or_among_the_slowest_of_a_thousand() {
        let fixed = AccountOptions::new().slow_after(Duration::from_nanos(500));
        let times = Times::<ProcedureTimes>::new(1, &fixed);
        let (own, is_own) = times.of(0);
        let is_slow = |ns| own.is_slow(1, ns, own.add(1, ns, None, is_own), times.slow_after);
        assert!(!is_slow(500) && is_slow(501) && is_slow(2_000_000));

        let times = Times::<ProcedureTimes>::new(1, &AccountOptions::new());
        let (own, is_own) = times.of(0);
        let is_slow = |ns| own.is_slow(1, ns, own.add(1, ns, None, is_own), None);
        assert!(!is_slow(900_000) && is_slow(1_100_000), "few are known: a millisecond");
        assert!(!(0..2 * LEARNS_AFTER).any(|_| is_slow(5_000)));
        assert!(is_slow(900_000), "thousands are known, which took far less");
    }
}
