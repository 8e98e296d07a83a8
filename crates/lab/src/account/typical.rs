//! The typical calls of many: the middle half, by how long they took. The time of a step is its mean over these.
//!
//! Means add up: the sum of the steps' means is the mean of the calls. They are also right where the cycle counter advances many cycles at a
//! time: a step shorter than that is sometimes 0 and sometimes one advance long, in proportion, because calls begin anywhere within an advance.
//! A median would be one of the two. The longest calls are left out because interrupts lie in them, the shortest for balance.

use crate::samples::Quartiles;

/// The durations of typical calls, in cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Typical {
    low: f64,
    high: f64,
}

impl Typical {
    /// Of calls that took so long. Durations are known to within `tick` cycles, by which the counter advances: a call that may belong to the
    /// middle half does.
    pub(super) fn of(durations: impl Iterator<Item = u64>, tick: f64) -> Self {
        let Quartiles { low, high, .. } = Quartiles::of(durations.map(|cycles| cycles as f64).collect());
        Self { low: low - tick, high: high + tick }
    }

    pub(super) fn contains(&self, duration: u64) -> bool {
        (self.low..=self.high).contains(&(duration as f64))
    }
}

/// The mean of some values; 0 if there are none.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_interrupts_are_not_typical_and_neighbours_of_the_middle_half_are() {
        let durations = [100, 110, 120, 130, 9000];
        let typical = Typical::of(durations.into_iter(), 0.0);
        assert_eq!(durations.map(|duration| typical.contains(duration)), [false, true, true, true, false]);
        let typical = Typical::of(durations.into_iter(), 10.0);
        assert_eq!(durations.map(|duration| typical.contains(duration)), [true, true, true, true, false]);
    }

    #[test]
    fn mean_of_nothing_is_zero() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean(&[]), 0.0);
    }
}
