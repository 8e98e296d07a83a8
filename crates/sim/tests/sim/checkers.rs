//! A checker that cannot fail is no checker: each of these mistakes, built into the drivers around the protocol, must
//! be noticed within a few hundred seeds.

use stoop_sim::{Family, Sabotage, Sim};

/// The report on the first run that goes wrong.
fn complaint(sabotage: Sabotage) -> String {
    complaint_in(Family::Small, sabotage)
}

fn complaint_in(family: Family, sabotage: Sabotage) -> String {
    let broken = (0..1000).find_map(|seed| Sim::run_seed(family, seed, sabotage).err());
    broken.unwrap_or_else(|| panic!("{sabotage:?} is not noticed")).what
}

#[test]
fn sending_again_after_a_restart_is_noticed() {
    let what = complaint(Sabotage::ResendAnyway);
    assert!(what.contains("executed a second time"), "{what}");
}

#[test]
fn sending_an_old_call_again_under_a_new_binding_is_noticed() {
    let what = complaint(Sabotage::ResendHoweverOld);
    assert!(what.contains("executed a second time"), "{what}");
}

#[test]
fn a_restarted_server_that_gives_out_the_same_bindings_is_noticed() {
    // A call runs twice, or gets another's result, or is said not to have run: any of them will do.
    complaint(Sabotage::SameSecret);
}

#[test]
fn a_server_that_runs_duplicates_is_noticed() {
    let what = complaint(Sabotage::DuplicatesAsNew);
    assert!(what.contains("second time") || what.contains("runs beside"), "{what}");
}

#[test]
fn a_server_that_refuses_a_call_and_runs_it_is_noticed() {
    let what = complaint(Sabotage::RefuseButRun);
    assert!(what.contains("told that it did not run"), "{what}");
}

#[test]
fn a_caller_that_puts_parts_in_the_wrong_place_is_noticed() {
    let what = complaint_in(Family::Large, Sabotage::MisplacedParts);
    // The misplaced bytes may be the number by which the result is known.
    assert!(what.contains("is not what was sent") || what.contains("is given the result of"), "{what}");
}

#[test]
fn a_caller_that_sends_more_than_its_server_asked_for_is_noticed() {
    let what = complaint_in(Family::Large, Sabotage::IgnoresLimits);
    assert!(what.contains("limit"), "{what}");
}

#[test]
fn a_server_that_runs_a_call_after_it_said_that_it_was_cancelled_is_noticed() {
    let what = complaint_in(Family::Large, Sabotage::RunsCancelled);
    assert!(what.contains("told that it did not run"), "{what}");
}

#[test]
fn a_caller_that_relies_on_its_clock_is_noticed() {
    let what = complaint(Sabotage::ComparesClocks);
    assert!(what.contains("second time") || what.contains("told that it did not run"), "{what}");
}

#[test]
fn a_caller_that_sends_more_than_its_credit_is_noticed() {
    let what = complaint_in(Family::Load, Sabotage::IgnoresCredit);
    assert!(what.contains("beyond its caller's credit"), "{what}");
}

#[test]
fn a_caller_that_uses_a_credit_whose_grant_came_late_is_noticed() {
    let what = complaint_in(Family::Load, Sabotage::TrustsLateGrants);
    assert!(what.contains("on a credit that the server may give to others"), "{what}");
}

#[test]
fn a_caller_that_loses_credit_is_noticed() {
    let what = complaint_in(Family::Load, Sabotage::LosesCredit);
    assert!(what.contains("credit is lost"), "{what}");
}

#[test]
fn a_caller_that_believes_the_refusal_of_the_last_attempt_alone_is_noticed() {
    let what = complaint_in(Family::Load, Sabotage::ForgetsLostAttempts);
    assert!(what.contains("ends with DidNotRun"), "{what}");
}

#[test]
fn a_caller_that_makes_running_calls_at_the_next_server_too_is_noticed() {
    let what = complaint_in(Family::Load, Sabotage::TakesRunningCallsAlong);
    assert!(what.contains("executed a second time"), "{what}");
}
