//! Whether the steps of an account add up to the call.

use super::steps::Step;

/// The most by which the sum of the steps may differ from the call without instruments, as a share of it.
const DIFFERENCE_MAX: f64 = 0.05;
/// Numbers that are added up in another order differ by less.
const ROUNDING_NS: f64 = 0.1;

/// The reasons to doubt the account, if there are any: a step does not begin where the one before it ends, a step takes less than no time, the
/// sum of the steps is not about that share (`ratio`, of rounds) of the call without instruments, or other measurements contradict the steps.
pub(super) fn of(steps: &[Step], ratio: f64, stamp_ns: f64, contradictions: Vec<String>) -> Option<String> {
    let mut end_ns = 0.0;
    let apart = steps.iter().find_map(|step| {
        let gap_ns = step.begins_ns - end_ns;
        end_ns = step.begins_ns + step.ns;
        let side = if gap_ns < 0.0 { "before" } else { "behind" };
        (gap_ns.abs() > ROUNDING_NS).then(|| {
            format!("`{}` begins {:.1} ns {side} the end of the step before it", step.name, gap_ns.abs())
        })
    });
    // The cost of a stamp is uncertain, but not by half of it.
    let negative = steps.iter().filter(|step| step.ns < -stamp_ns / 2.0);
    let negative = negative.map(|step| format!("`{}` takes {:.1} ns", step.name, step.ns));
    let is_close = (ratio - 1.0).abs() <= DIFFERENCE_MAX;
    let differs = || format!("the steps are {:.1} % of the call without instruments", 100.0 * ratio);
    let reasons = apart.into_iter().chain(negative).chain((!is_close).then(differs)).chain(contradictions);
    let reasons: Vec<String> = reasons.collect();
    (!reasons.is_empty()).then(|| reasons.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::steps::Place;

    /// Steps with those begins and lengths.
    fn steps(all: &[(f64, f64)]) -> Vec<Step> {
        let step = |&(begins_ns, ns): &(f64, f64)| Step {
            name: format!("at {begins_ns}"),
            place: Place::Caller,
            begins_ns,
            ns,
            low_ns: ns,
            high_ns: ns,
        };
        all.iter().map(step).collect()
    }

    /// Where a stamp takes 10 ns, and no other measurement contradicts the steps.
    fn told(steps: &[Step], ratio: f64) -> Option<String> {
        of(steps, ratio, 10.0, Vec::new())
    }

    #[test]
    fn steps_that_follow_each_other_and_make_up_the_call_leave_no_doubt() {
        let all = steps(&[(0.0, 100.0), (100.0, 0.0), (100.04, -3.0), (97.0, 50.0)]);
        assert_eq!(told(&all, 1.0), None);
        assert_eq!((told(&all, 0.951), told(&all, 1.049)), (None, None));
    }

    #[test]
    fn gap_and_overlap_between_steps_are_told() {
        let gap = told(&steps(&[(0.0, 100.0), (107.0, 50.0)]), 1.0).expect("7 ns are missing");
        assert!(gap.contains("`at 107` begins 7.0 ns behind"), "{gap}");
        let overlap =
            told(&steps(&[(0.0, 100.0), (100.0, 50.0), (149.0, 9.0)]), 1.0).expect("1 ns is counted twice");
        assert!(overlap.contains("`at 149` begins 1.0 ns before"), "{overlap}");
        let late = told(&steps(&[(2.0, 100.0)]), 1.0).expect("the call begins at 0");
        assert!(late.contains("2.0 ns behind"), "{late}");
    }

    #[test]
    fn sum_that_differs_by_more_than_a_twentieth_is_told() {
        let all = steps(&[(0.0, 100.0)]);
        for (ratio, share) in [(0.949, "94.9 %"), (1.051, "105.1 %"), (f64::NAN, "NaN %")] {
            let why = told(&all, ratio).expect("the sum is far from the call");
            assert!(why.contains(&format!("the steps are {share} of the call")), "{why}");
        }
        let both = told(&steps(&[(5.0, 100.0)]), 0.5).expect("two reasons");
        assert!(both.contains("begins 5.0 ns") && both.contains(", and the steps are 50.0 %"), "{both}");
    }

    #[test]
    fn step_of_less_than_no_time_is_told() {
        let why = told(&steps(&[(0.0, 100.0), (100.0, -6.0)]), 1.0).expect("half of a stamp takes 5 ns");
        assert!(why.contains("`at 100` takes -6.0 ns"), "{why}");
    }

    #[test]
    fn contradiction_by_another_measurement_is_told() {
        let why = of(&steps(&[(0.0, 100.0)]), 1.0, 10.0, vec!["it lasts".into(), "it ends".into()]);
        assert_eq!(why.as_deref(), Some("it lasts, and it ends"));
    }
}
