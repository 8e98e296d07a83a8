//! Whether the machine was quiet while calls were measured.

use crate::others::DISTURBED_ABOVE;
use crate::samples::Quartiles;

/// The largest distance of the quartiles of the rounds' medians on a quiet machine, as a share of their median.
const SPREAD_MAX: f64 = 0.10;
/// Fewer rounds have no quartiles that mean something.
const ROUNDS_MIN: usize = 4;

/// The reason why the machine was noisy, if it was: the medians of the call without instruments, round by round, differ, or other
/// programs and the host used the processors, in processor seconds per second.
pub(super) fn of(rounds_ns: Vec<f64>, others_cpu: f64) -> Option<String> {
    let rounds = rounds_ns.len();
    let Quartiles { low, median, high } = Quartiles::of(rounds_ns);
    let spread = (high - low) / median;
    let differ = || {
        format!(
            "the call took {low:.0} to {high:.0} ns without instruments (quartiles of the rounds' medians, {:.0} % apart)",
            100.0 * spread
        )
    };
    let others = || format!("other programs and the host used {others_cpu:.1} of its processors");
    let reasons = [
        (others_cpu > DISTURBED_ABOVE).then(others),
        (rounds >= ROUNDS_MIN && spread > SPREAD_MAX).then(differ),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_machine_is_noisy_when_rounds_differ_or_others_use_it() {
        assert_eq!(of(vec![4000.0, 4010.0, 4020.0, 4300.0], 0.02), None);
        let differ = of(vec![4000.0, 4010.0, 4900.0, 5000.0], 0.0).expect("the quartiles lie 21 % apart");
        assert!(differ.contains("rounds"), "{differ}");
        let others = of(vec![4000.0], 0.6).expect("others used more than half of a processor");
        assert!(others.contains("0.6 of its processors"), "{others}");
        assert_eq!(of(vec![4000.0, 8000.0], 0.0), None, "two rounds have no quartiles");
    }
}
