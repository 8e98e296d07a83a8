//! The times of single calls, exact: percentiles of all of them, nothing binned.
//!
//! Times are kept in picoseconds, because a `local:` call is a few nanoseconds and is timed in batches.

/// The times of the calls of one slice or of several, in the order taken until the first question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    picoseconds: Vec<u64>,
    sorted: bool,
}

impl Samples {
    pub(crate) fn new(picoseconds: Vec<u64>) -> Self {
        Samples { picoseconds, sorted: false }
    }

    /// How many calls were timed.
    pub(crate) fn len(&self) -> usize {
        self.picoseconds.len()
    }

    pub(crate) fn append(&mut self, other: &Samples) {
        self.picoseconds.extend_from_slice(&other.picoseconds);
        self.sorted = false;
    }

    /// The time in nanoseconds that `share` of the calls did not exceed (nearest rank); zero without any.
    pub(crate) fn percentile_ns(&mut self, share: f64) -> f64 {
        if !self.sorted {
            self.picoseconds.sort_unstable();
            self.sorted = true;
        }
        let rank = (self.picoseconds.len() as f64 * share).ceil() as usize;
        self.picoseconds.get(rank.saturating_sub(1)).map_or(0.0, |&ps| ps as f64 / 1000.0)
    }
}

/// The lower quartile, the median and the upper quartile of a handful of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quartiles {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Quartiles {
    /// Zero everywhere when there are no values.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| interpolate(&values, share);
        Quartiles { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

/// The value at `share` of the way through sorted `values`, between neighbours in proportion.
fn interpolate(values: &[f64], share: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let position = last as f64 * share;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    values[below] + (values[above] - values[below]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let mut samples = Samples::new((1..=1000).rev().map(|ns| ns * 1000).collect());
        assert_eq!(samples.percentile_ns(0.5), 500.0);
        assert_eq!(samples.percentile_ns(0.99), 990.0);
        assert_eq!(samples.percentile_ns(0.999), 999.0);
        assert_eq!(samples.percentile_ns(1.0), 1000.0);
    }

    #[test]
    fn a_single_sample_is_every_percentile() {
        let mut samples = Samples::new(vec![4_200]);
        assert_eq!(samples.percentile_ns(0.5), 4.2);
        assert_eq!(samples.percentile_ns(0.999), 4.2);
    }

    #[test]
    fn no_sample_is_zero() {
        assert_eq!(Samples::default().percentile_ns(0.5), 0.0);
        assert_eq!(Quartiles::of(vec![]).median, 0.0);
    }

    #[test]
    fn appended_samples_count_after_a_question_too() {
        let mut samples = Samples::new(vec![1000]);
        assert_eq!(samples.percentile_ns(1.0), 1.0);
        samples.append(&Samples::new(vec![9000, 5000]));
        assert_eq!(samples.percentile_ns(1.0), 9.0);
        assert_eq!(samples.percentile_ns(0.5), 5.0);
    }

    #[test]
    fn quartiles_lie_between_neighbours_in_proportion() {
        let quartiles = Quartiles::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(quartiles, Quartiles { low: 1.75, median: 2.5, high: 3.25 });
    }
}
