//! A checker that cannot fail is no checker: each of these mistakes, built into the drivers around the protocol, must
//! be noticed within a few hundred seeds.

use stoop_sim::{Family, Sabotage, Sim};

/// One of the runs with this mistake goes wrong, and the report on it says one of these.
fn is_noticed(family: Family, sabotage: Sabotage, reports: &[&str]) {
    let says = |what: &str| reports.iter().any(|report| what.contains(report));
    let mut wrong = (0..1000).filter_map(|seed| Sim::run_seed(family, seed, sabotage).err());
    assert!(wrong.any(|violation| says(&violation.what)), "{sabotage:?} is not noticed");
}

#[test]
fn sending_again_after_a_restart_is_noticed() {
    is_noticed(Family::Small, Sabotage::ResendAnyway, &["executed a second time"]);
}

#[test]
fn sending_an_old_call_again_under_a_new_binding_is_noticed() {
    is_noticed(Family::Small, Sabotage::ResendHoweverOld, &["executed a second time"]);
}

#[test]
fn a_restarted_server_that_gives_out_the_same_bindings_is_noticed() {
    // A call runs twice, or gets another's result, or is said not to have run: any of them will do.
    is_noticed(Family::Small, Sabotage::SameSecret, &[""]);
}

#[test]
fn a_server_that_runs_duplicates_is_noticed() {
    is_noticed(Family::Small, Sabotage::DuplicatesAsNew, &["second time", "runs beside"]);
}

#[test]
fn a_server_that_refuses_a_call_and_runs_it_is_noticed() {
    is_noticed(Family::Small, Sabotage::RefuseButRun, &["told that it did not run"]);
}

#[test]
fn a_caller_that_puts_parts_in_the_wrong_place_is_noticed() {
    is_noticed(Family::Large, Sabotage::MisplacedParts, &["is not what was sent", "is given the result of"]);
}

#[test]
fn a_caller_that_sends_more_than_its_server_asked_for_is_noticed() {
    is_noticed(Family::Large, Sabotage::IgnoresLimits, &["limit"]);
}

#[test]
fn a_server_that_runs_a_call_after_it_said_that_it_was_cancelled_is_noticed() {
    is_noticed(Family::Large, Sabotage::RunsCancelled, &["told that it did not run"]);
}

#[test]
fn a_caller_that_relies_on_its_clock_is_noticed() {
    is_noticed(Family::Small, Sabotage::ComparesClocks, &["second time", "told that it did not run"]);
}

#[test]
fn a_caller_that_sends_more_than_its_credit_is_noticed() {
    is_noticed(Family::Load, Sabotage::IgnoresCredit, &["beyond its caller's credit"]);
}

#[test]
fn a_caller_that_uses_a_credit_whose_grant_came_late_is_noticed() {
    is_noticed(Family::Load, Sabotage::TrustsLateGrants, &["on a credit that the server may give to others"]);
}

#[test]
fn a_caller_that_loses_credit_is_noticed() {
    is_noticed(Family::Load, Sabotage::LosesCredit, &["credit is lost"]);
}

#[test]
fn a_caller_that_believes_the_refusal_of_the_last_attempt_alone_is_noticed() {
    is_noticed(Family::Load, Sabotage::ForgetsLostAttempts, &["ends with DidNotRun"]);
}

#[test]
fn a_caller_that_makes_running_calls_at_the_next_server_too_is_noticed() {
    is_noticed(Family::Load, Sabotage::TakesRunningCallsAlong, &["executed a second time"]);
}

#[test]
fn a_caller_that_believes_a_refusal_after_it_has_sent_the_call_again_is_noticed() {
    let reports = ["ends with DidNotRun", "executed a second time"];
    is_noticed(Family::Load, Sabotage::KeepsRefusal, &reports);
}

#[test]
fn a_call_that_uses_a_fourth_session_is_noticed() {
    is_noticed(Family::Load, Sabotage::ForgetsSessions, &["is sent on 4 sessions"]);
}

#[test]
fn a_call_begun_during_a_failed_attempt_to_bind_that_ends_with_it_is_noticed() {
    is_noticed(Family::Small, Sabotage::EndsLaterCalls, &["an attempt to bind that began before it"]);
}

#[test]
fn a_caller_that_does_not_hear_a_server_that_it_has_left_is_noticed() {
    is_noticed(Family::Load, Sabotage::FormerSessionNotHeard, &["arrives, and the call goes on"]);
}

#[test]
fn an_event_of_an_earlier_call_that_hits_the_present_one_is_noticed() {
    is_noticed(Family::Load, Sabotage::IgnoresCallIds, &["is cancelled, and its program waits for it"]);
    is_noticed(Family::Load, Sabotage::IgnoresCallIds, &["earlier than its caller was to wait"]);
}

#[test]
fn a_call_that_is_left_on_a_lost_session_is_noticed() {
    is_noticed(Family::Small, Sabotage::LeavesLostCalls, &["waits for a session"]);
    is_noticed(Family::Load, Sabotage::LeavesLostCalls, &["is left on a session that is lost"]);
}

#[test]
fn a_server_that_answers_an_open_call_twice_is_noticed() {
    is_noticed(Family::Small, Sabotage::AnswersTwice, &["is answered a second time"]);
}

#[test]
fn a_server_that_gives_an_answer_to_another_open_call_is_noticed() {
    is_noticed(Family::Small, Sabotage::AnswersForAnother, &["is given the result of"]);
}

#[test]
fn a_server_that_answers_a_call_whose_reply_was_dropped_is_noticed() {
    is_noticed(Family::Small, Sabotage::AnswersAbandoned, &["is answered a second time"]);
}

#[test]
fn a_number_that_is_used_twice_is_noticed() {
    is_noticed(Family::Sealed, Sabotage::ReusesNumber, &["is used twice"]);
}

#[test]
fn a_caller_that_believes_an_attacker_is_noticed() {
    is_noticed(Family::Sealed, Sabotage::BelievesHints, &["executed a second time"]);
}

#[test]
fn a_server_that_opens_packets_of_old_phases_is_noticed() {
    is_noticed(Family::Sealed, Sabotage::KeepsOldPhases, &["executed a second time"]);
}

#[test]
fn a_mark_of_bundles_that_anybody_can_change_is_noticed() {
    is_noticed(Family::Sealed, Sabotage::UnprotectedBundles, &["is given the result of"]);
}

#[test]
fn a_caller_that_concludes_from_the_age_of_packets_is_noticed() {
    is_noticed(
        Family::Sealed,
        Sabotage::ConcludesFromAge,
        &["executed a second time", "told that it did not run"],
    );
}
