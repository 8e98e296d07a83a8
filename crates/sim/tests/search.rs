//! Small worlds, searched: every way in which a few things can go wrong, each loss, repetition, delay, restart and change
//! of address being one. `STOOP_FAULTS` searches deeper than every test can.

use std::time::Duration;
use stoop_sim::{Faults, Report, Sabotage, Scenario, Sim, Span};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn always(time: Duration) -> Span {
    (time, time)
}

/// One caller with one thread that makes two calls.
fn small() -> Scenario {
    let mut scenario = Scenario::calm();
    scenario.threads = 1;
    scenario.calls = 2;
    scenario.procedures = 1;
    scenario.deadline = always(millis(2_000));
    scenario.limits.silence = millis(5_000);
    scenario.kind = false;
    scenario.faults = Faults { loss: 1, late_duplicate: 1, how_late: always(millis(70)), ..Faults::none() };
    scenario
}

fn search(scenario: &Scenario, faults: u32) -> Report {
    let deeper = std::env::var("STOOP_FAULTS").ok().and_then(|more| more.parse().ok());
    let report = Sim::search(scenario, deeper.unwrap_or(faults), Sabotage::None);
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    println!("{report}");
    report
}

#[test]
fn duplicates_and_losses_across_restarts() {
    let mut scenario = small();
    scenario.restarts = 1;
    scenario.limits.silence = millis(300);
    let report = search(&scenario, 4);
    assert!(report.runs > 50_000 && report.unknown_by_restart > 1_000, "{report}");
}

#[test]
fn duplicates_of_calls_after_their_binding_was_released() {
    let mut scenario = small();
    scenario.think = (Duration::ZERO, millis(400));
    scenario.faults.how_late = (millis(70), millis(700));
    scenario.limits.silence = millis(100);
    let report = search(&scenario, 4);
    assert!(report.runs > 10_000 && report.sent_again > 100, "{report}");
}

#[test]
fn refusals_for_overload_and_then_duplicates() {
    let mut scenario = small();
    scenario.threads = 2;
    (scenario.workers, scenario.queue) = (1, 0);
    scenario.instant = 0;
    scenario.work = always(millis(30));
    let report = search(&scenario, 3);
    assert!(report.runs > 5_000 && report.overloaded > 500, "{report}");
}

#[test]
fn calls_behind_one_that_was_given_up() {
    let mut scenario = small();
    scenario.calls = 3;
    scenario.retires_lanes = false;
    scenario.instant = 0;
    scenario.work = (millis(10), millis(250));
    scenario.deadline = always(millis(130));
    let report = search(&scenario, 3);
    assert!(report.runs > 5_000 && report.parked > 100, "{report}");
}

#[test]
fn changes_of_address() {
    let mut scenario = small();
    scenario.calls = 1;
    scenario.instant = 0;
    scenario.work = always(millis(90));
    scenario.moves = Some((millis(40), millis(41)));
    let report = search(&scenario, 3);
    assert!(report.runs > 500 && report.proofs > 500, "{report}");
}

#[test]
fn the_search_finds_what_is_wrong() {
    let mut scenario = small();
    scenario.restarts = 1;
    let found = Sim::search(&scenario, 2, Sabotage::ResendAnyway).expect_err("it runs a call twice");
    assert!(found.what.contains("executed a second time"), "{found}");
    let found = Sim::search(&scenario, 2, Sabotage::SameSecret).expect_err("bindings are given out twice");
    assert!(found.what.contains("after the decisions"), "{found}");
}
