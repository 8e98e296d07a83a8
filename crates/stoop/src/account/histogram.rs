//! Histograms of durations: sixteen buckets for each power of two nanoseconds, so that a bucket is at most 6.3 % wide.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of a power of two, as a power of two.
const SHARE_BITS: u32 = 4;
const SHARES: u64 = 1 << SHARE_BITS;

/// Durations from this power of two nanoseconds on (36 minutes) are in the last bucket.
const LONGEST_BITS: u32 = 41;

/// Buckets of a histogram. Those of the first sixteen nanoseconds are one nanosecond wide.
const BUCKETS: usize = ((LONGEST_BITS - SHARE_BITS + 1) as usize) << SHARE_BITS;

/// The bucket of a duration.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let ns = ns.min((1 << LONGEST_BITS) - 1);
    let power = (ns | SHARES).ilog2();
    let share = ns >> (power - SHARE_BITS);
    (u64::from(power - SHARE_BITS) * SHARES + share) as usize
}

/// The shortest duration of a bucket, in nanoseconds. One bucket behind the last: the bound of the last.
fn begin_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SHARES {
        return bucket;
    }
    let power = bucket / SHARES - 1;
    (SHARES + bucket % SHARES) << power
}

/// Durations by their length, as of one moment. Lengths are exact to 3 %, their sum and number are exact; where only a share of the calls
/// is timed, each of these stands for the calls before it that were not.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
///
/// use stoop::account::AccountOptions;
///
/// let client = AdderClient::bind_with(&uri, &stoop::BindOptions::new().account(AccountOptions::new()))?;
/// for n in 0..100 {
///     client.add(n, n)?;
/// }
/// let account = client.binding().account();
/// let times = &account.procedure("add").ok_or("it was called")?.whole;
/// assert_eq!(times.count(), 100);
/// println!("mean {:?}, median {:?}, longest {:?}", times.mean(), times.quantile(0.5), times.quantile(1.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct Histogram {
    /// The buckets that are not empty, in the order of length: number of the bucket, and of its durations.
    filled: Vec<(u16, u64)>,
    sum_ns: u64,
}

impl Histogram {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.filled.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Mean of all durations; `None` if there are none.
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// The duration that this share of all durations does not exceed, from 0 to 1: 0.5 gives the median, 1 the longest. `None` if there
    /// are none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::account::Histogram;
    ///
    /// /// Whether 99 of a hundred calls took no longer than this; of no calls, all did.
    /// fn keeps(times: &Histogram, bound: Duration) -> bool {
    ///     times.quantile(0.99).is_none_or(|longest| longest <= bound)
    /// }
    /// # assert!(keeps(&Histogram::default(), Duration::ZERO));
    /// ```
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let bucket = self.bucket_at(share)?;
        Some(Duration::from_nanos(begin_of(bucket).midpoint(begin_of(bucket + 1) - 1)))
    }

    /// The longest duration, in nanoseconds, of the bucket in which that [quantile](Self::quantile) is; 0 if there are none.
    pub(crate) fn quantile_end_ns(&self, share: f64) -> u64 {
        self.bucket_at(share).map_or(0, |bucket| begin_of(bucket + 1) - 1)
    }

    fn bucket_at(&self, share: f64) -> Option<usize> {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.filled.iter().find(|(_, count)| {
            seen = u64::saturating_add(seen, *count);
            seen >= rank
        })?;
        Some(usize::from(at.0).min(BUCKETS - 1))
    }

    /// Number of durations shorter than `bound`; those that share a bucket with it are not counted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::account::Histogram;
    ///
    /// /// The share of calls that keep a promise of 10 ms.
    /// fn kept(times: &Histogram) -> f64 {
    ///     times.count_below(Duration::from_millis(10)) as f64 / times.count().max(1) as f64
    /// }
    /// # assert_eq!(kept(&Histogram::default()), 0.0);
    /// ```
    pub fn count_below(&self, bound: Duration) -> u64 {
        let bound = bucket_of(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX));
        let below = self.filled.iter().take_while(|(bucket, _)| usize::from(*bucket) < bound);
        below.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Adds the durations of another histogram.
    ///
    /// ```
    /// use stoop::account::{CallAccount, Histogram};
    ///
    /// /// The calls of a procedure over all bindings of a program.
    /// fn of_all(accounts: &[CallAccount], procedure: &str) -> Histogram {
    ///     let mut sum = Histogram::default();
    ///     let called = accounts.iter().filter_map(|account| account.procedure(procedure));
    ///     called.for_each(|called| sum.add(&called.whole));
    ///     sum
    /// }
    /// # assert_eq!(of_all(&[], "add").count(), 0);
    /// ```
    pub fn add(&mut self, other: &Self) {
        for &(bucket, count) in &other.filled {
            match self.filled.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.filled[at].1 = self.filled[at].1.saturating_add(count),
                Err(at) => self.filled.insert(at, (bucket, count)),
            }
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// The durations that were added since `earlier`, an earlier copy of the same histogram.
    ///
    /// ```
    /// use stoop::account::Histogram;
    ///
    /// let earlier = Histogram::default();
    /// let mut now = earlier.clone();
    /// now.add(&earlier);
    /// assert_eq!(now.since(&earlier).count(), 0);
    /// assert_eq!(now.count_below(std::time::Duration::from_millis(1)), 0);
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before =
            |bucket: u16| earlier.filled.iter().find(|each| each.0 == bucket).map_or(0, |each| each.1);
        let left = self.filled.iter().map(|&(bucket, count)| (bucket, count.saturating_sub(before(bucket))));
        Self {
            filled: left.filter(|(_, count)| *count > 0).collect(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }
}

/// A histogram to which threads add durations.
pub(crate) struct LiveHistogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// Adds to a counter. `is_own`: no other thread adds to it, so that it needs no atomic addition, which takes some six times as long.
#[inline]
pub(crate) fn add_to(counter: &AtomicU64, more: u64, is_own: bool) -> u64 {
    if is_own {
        let sum = counter.load(Relaxed).wrapping_add(more);
        counter.store(sum, Relaxed);
        sum
    } else {
        counter.fetch_add(more, Relaxed).wrapping_add(more)
    }
}

impl Default for LiveHistogram {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; BUCKETS], sum_ns: AtomicU64::new(0) }
    }
}

impl LiveHistogram {
    /// Adds a duration that stands for so many. Returns how many are in its bucket now.
    #[inline]
    pub(crate) fn add(&self, stands_for: u32, ns: u64, is_own: bool) -> u64 {
        add_to(&self.sum_ns, ns.wrapping_mul(stands_for.into()), is_own);
        add_to(&self.counts[bucket_of(ns)], stands_for.into(), is_own)
    }

    /// A copy. If threads add durations meanwhile, some are in it and some are not.
    pub(crate) fn copy(&self) -> Histogram {
        let counts = self.counts.iter().enumerate();
        let counts = counts.map(|(bucket, count)| (bucket as u16, count.load(Relaxed)));
        Histogram {
            filled: counts.filter(|(_, count)| *count > 0).collect(),
            sum_ns: self.sum_ns.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::account::histogram::*;

    fn of(durations_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let live = LiveHistogram::default();
        durations_ns.into_iter().for_each(|ns| {
            live.add(1, ns, true);
        });
        live.copy()
    }

    #[test]
    fn each_duration_lies_within_its_bucket_and_buckets_are_narrow() {
        for power in 0..LONGEST_BITS {
            for ns in [1 << power, (1 << power) + (1 << power) / 3, (2 << power) - 1] {
                let bucket = bucket_of(ns);
                let (begin, end) = (begin_of(bucket), begin_of(bucket + 1));
                assert!((begin..end).contains(&ns), "{ns} is in {bucket}: {begin}..{end}");
                assert!(end - begin <= 1 + begin / SHARES, "{begin}..{end}");
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(begin_of(BUCKETS), 1 << LONGEST_BITS);
    }

    #[test]
    fn quantiles_mean_and_number_are_those_of_the_durations() {
        let all = of(1..=100_000);
        assert_eq!((all.count(), all.mean()), (100_000, Some(Duration::from_nanos(50_000))));
        for (share, expected) in [(0.0, 1.0), (0.5, 50_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = all.quantile(share).unwrap().as_nanos() as f64;
            assert!((found - expected).abs() <= 0.04 * expected, "{share}: {found}");
        }
        assert_eq!(all.count_below(Duration::from_nanos(65_536)), 65_535);
        assert_eq!((Histogram::default().quantile(0.5), Histogram::default().mean()), (None, None));
    }

    #[test]
    fn the_difference_of_two_copies_is_what_was_added_between_them() {
        let (before, after) = (of([5, 5, 700]), of([5, 5, 5, 700, 80_000]));
        assert_eq!(after.since(&before), of([5, 80_000]));
        let mut sum = before.clone();
        sum.add(&of([5, 80_000]));
        assert_eq!(sum, after);
    }

    #[test]
    fn a_histogram_from_a_peer_with_impossible_buckets_is_read_without_a_panic() {
        let odd = Histogram { filled: vec![(u16::MAX, u64::MAX), (3, u64::MAX)], sum_ns: u64::MAX };
        assert!(odd.quantile(1.0).is_some() && odd.mean().is_some());
        let mut sum = odd.clone();
        sum.add(&odd);
        assert!(sum.since(&odd).count() < u64::MAX);
    }
}
