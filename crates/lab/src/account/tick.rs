//! The tick of the cycle counter: how many cycles it advances at a time.
//!
//! Most processors' counters advance by a cycle or two. Those of some virtual machines follow a clock of 100 MHz: they stand still for 10 ns
//! and then advance by all the cycles of that time.

use std::hint::black_box;
use stoop_probe::cycles;

/// The most work between two readings, in rounds of a loop: some hundred nanoseconds, which are many ticks.
const WORK_MAX: u64 = 500;
const READINGS: u64 = 20_000;

/// The tick of this machine's counter, in cycles.
pub(super) fn measure() -> u64 {
    let difference = |number: u64| {
        let before = cycles();
        (0..number % WORK_MAX).for_each(|round| {
            black_box(round);
        });
        cycles().saturating_sub(before)
    };
    of((0..READINGS).map(difference).collect())
}

/// The tick of a counter, from many differences of its readings that are spread over more than a few ticks.
///
/// The values that such differences have lie a tick apart, give or take a cycle, because a tick need not be a whole number of cycles. So the tick is
/// the distance of two neighbouring values around most places of the range.
fn of(mut differences: Vec<u64>) -> u64 {
    differences.sort_unstable();
    // Interrupts lie in the longest.
    let few = differences.len() / 20;
    let mut values = differences[few..differences.len() - few].to_vec();
    values.dedup();
    let mut distances: Vec<u64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable();
    let range: u64 = distances.iter().sum();
    let mut covered = 0;
    let median = distances.into_iter().find(|distance| {
        covered += distance;
        2 * covered >= range
    });
    median.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences of readings of a counter that has advanced, at a moment, so many cycles.
    fn differences(advanced: impl Fn(u64) -> u64) -> Vec<u64> {
        let pair = |number: u64| {
            let begun = 7919 * number;
            advanced(begun + 30 + number % 700) - advanced(begun)
        };
        (0..READINGS).map(pair).collect()
    }

    #[test]
    fn tick_is_the_distance_of_the_values_that_differences_have() {
        assert_eq!(of(differences(|moment| moment)), 1);
        assert_eq!(of(differences(|moment| moment / 2 * 2)), 2);
        assert_eq!(of(differences(|moment| moment / 26 * 26)), 26);
    }

    #[test]
    fn tick_may_be_no_whole_number_of_cycles() {
        // Advances of 24 and 25 cycles in turn.
        let tick = of(differences(|moment| moment * 2 / 49 * 49 / 2));
        assert!((23..=25).contains(&tick), "{tick}");
    }

    #[test]
    fn differences_that_are_all_alike_tell_no_tick() {
        assert_eq!((of(vec![5; 100]), of(Vec::new())), (1, 1));
    }

    #[test]
    fn the_counter_of_this_machine_has_a_tick() {
        assert!(measure() >= 1);
    }
}
