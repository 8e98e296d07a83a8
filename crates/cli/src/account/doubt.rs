//! Whether the steps of an account add up to the call.

use super::steps::Step;

/// The most by which the sum of the steps may differ from the call without instruments, as a share of it.
const DIFFERENCE_MAX: f64 = 0.05;
/// Numbers that are added up in another order differ by less.
const ROUNDING_NS: f64 = 0.1;

/// The reason to doubt the account, if there is one: a step does not begin where the one before it ends, or the sum of the steps is
/// not about that share (`ratio`, of rounds) of the call without instruments.
pub(super) fn of(steps: &[Step], ratio: f64) -> Option<String> {
    let mut end_ns = 0.0;
    let apart = steps.iter().find_map(|step| {
        let gap_ns = step.begins_ns - end_ns;
        end_ns = step.begins_ns + step.ns;
        let side = if gap_ns < 0.0 { "before" } else { "behind" };
        (gap_ns.abs() > ROUNDING_NS).then(|| {
            format!("`{}` begins {:.1} ns {side} the end of the step before it", step.name, gap_ns.abs())
        })
    });
    let is_close = (ratio - 1.0).abs() <= DIFFERENCE_MAX;
    let differs = || format!("the steps are {:.1} % of the call without instruments", 100.0 * ratio);
    let reasons: Vec<String> = apart.into_iter().chain((!is_close).then(differs)).collect();
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

    #[test]
    fn steps_that_follow_each_other_and_make_up_the_call_leave_no_doubt() {
        let all = steps(&[(0.0, 100.0), (100.0, 0.0), (100.04, -3.0), (97.0, 50.0)]);
        assert_eq!(of(&all, 1.0), None);
        assert_eq!((of(&all, 0.951), of(&all, 1.049)), (None, None));
    }

    #[test]
    fn gap_and_overlap_between_steps_are_told() {
        let gap = of(&steps(&[(0.0, 100.0), (107.0, 50.0)]), 1.0).expect("7 ns are missing");
        assert!(gap.contains("`at 107` begins 7.0 ns behind"), "{gap}");
        let overlap =
            of(&steps(&[(0.0, 100.0), (100.0, 50.0), (149.0, 9.0)]), 1.0).expect("1 ns is counted twice");
        assert!(overlap.contains("`at 149` begins 1.0 ns before"), "{overlap}");
        let late = of(&steps(&[(2.0, 100.0)]), 1.0).expect("the call begins at 0");
        assert!(late.contains("2.0 ns behind"), "{late}");
    }

    #[test]
    fn sum_that_differs_by_more_than_a_twentieth_is_told() {
        let all = steps(&[(0.0, 100.0)]);
        for (ratio, told) in [(0.949, "94.9 %"), (1.051, "105.1 %"), (f64::NAN, "NaN %")] {
            let why = of(&all, ratio).expect("the sum is far from the call");
            assert!(why.contains(&format!("the steps are {told} of the call")), "{why}");
        }
        let both = of(&steps(&[(5.0, 100.0)]), 0.5).expect("two reasons");
        assert!(both.contains("begins 5.0 ns") && both.contains(", and the steps are 50.0 %"), "{both}");
    }
}
