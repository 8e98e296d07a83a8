//! Small worlds, searched: every way in which a few things can go wrong, each loss, repetition, delay, restart and change
//! of address being one. `STOOP_FAULTS` searches deeper than every test can.

use std::time::Duration;
use stoop_sim::{Faults, Line, Report, Sabotage, Scenario, Sim, Span};
use stoop_wire::{MAX_DATAGRAM, PACKET_DATA};

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
    println!("{} worlds, {} states on their ways\n{report}", report.runs, report.steps);
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
    scenario.think = (Duration::ZERO, millis(2_000));
    scenario.faults.how_late = (millis(70), millis(700));
    scenario.limits.silence = millis(1_000);
    scenario.packet_life = millis(700);
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
fn calls_behind_an_abandoned_one() {
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
fn the_search_finds_a_sabotaged_driver() {
    let mut scenario = small();
    scenario.restarts = 1;
    let found = Sim::search(&scenario, 2, Sabotage::ResendAnyway).expect_err("it runs a call twice");
    assert!(found.what.contains("executed a second time"), "{found}");
    let found = Sim::search(&scenario, 2, Sabotage::SameSecret).expect_err("bindings are given out twice");
    assert!(found.what.contains("after the decisions"), "{found}");
}

/// The same, with calls or results of three packets, some of which overtake others.
fn in_parts(arguments: usize, result: usize) -> Scenario {
    let mut scenario = small();
    (scenario.arguments, scenario.results) = ((arguments, arguments), (result, result));
    let line = Line { largest: vec![MAX_DATAGRAM], ..Line::wide() };
    let faults = Faults { straggler: 1, there: line.clone(), back: line, ..scenario.faults };
    Scenario { faults, ..scenario }
}

const PARTS: usize = 2 * PACKET_DATA + 100;

#[test]
fn parts_of_a_call_that_are_lost_repeated_and_overtaken() {
    let report = search(&Scenario { kind: true, ..in_parts(PARTS, 0) }, 3);
    assert!(report.runs > 10_000 && report.resumed > 1_000, "{report}");
}

#[test]
fn parts_of_a_result_that_are_lost_repeated_and_overtaken() {
    let report = search(&Scenario { kind: true, ..in_parts(0, PARTS) }, 3);
    assert!(report.runs > 10_000 && report.result_parts > 10_000, "{report}");
}

#[test]
fn parts_of_calls_across_restarts() {
    let mut scenario = in_parts(PACKET_DATA + 100, PACKET_DATA + 100);
    scenario.restarts = 1;
    let report = search(&scenario, 3);
    assert!(report.runs > 20_000 && report.unknown_by_restart > 1_000, "{report}");
}

#[test]
fn parts_of_calls_where_there_is_memory_for_one_of_two() {
    let mut scenario = in_parts(PACKET_DATA + 100, 0);
    scenario.threads = 2;
    scenario.calls = 1;
    scenario.limits.incomplete = 2 * PACKET_DATA;
    let report = search(&Scenario { kind: true, ..scenario }, 3);
    assert!(report.runs > 5_000 && report.waited > 1_000, "{report}");
}

#[test]
fn parts_of_a_call_of_which_the_rest_does_not_come_in_time() {
    let mut scenario = in_parts(PARTS, 0);
    scenario.limits.patience = millis(30);
    let report = search(&scenario, 3);
    assert!(report.runs > 10_000 && report.incomplete > 0, "{report}");
}

#[test]
fn parts_of_a_call_behind_an_abandoned_one() {
    let mut scenario = in_parts(PACKET_DATA + 100, PACKET_DATA + 100);
    scenario.retires_lanes = false;
    scenario.instant = 0;
    scenario.work = (millis(10), millis(250));
    scenario.deadline = always(millis(130));
    let report = search(&scenario, 3);
    assert!(report.runs > 10_000 && report.parked > 100, "{report}");
}

#[test]
fn parts_of_calls_and_changes_of_address() {
    let mut scenario = in_parts(PARTS, PARTS);
    scenario.calls = 1;
    scenario.instant = 0;
    scenario.work = always(millis(30));
    scenario.moves = Some((millis(20), millis(31)));
    let report = search(&scenario, 2);
    assert!(report.runs > 500 && report.proofs > 500, "{report}");
}

/// Every call is cancelled: when it has been sent and has not arrived yet, or later, when it runs.
fn with_cancels() -> Scenario {
    let mut scenario = small();
    scenario.cancels = 1000;
    scenario.cancel_after = Some((Duration::from_micros(85), millis(15)));
    scenario.heeds_cancels = 1;
    scenario.faults.straggler = 1;
    scenario.instant = 0;
    scenario.work = always(millis(30));
    scenario
}

#[test]
fn cancels_that_overtake_their_calls_are_lost_or_repeated() {
    let report = search(&with_cancels(), 4);
    assert!(report.runs > 10_000 && report.cancelled > 5_000 && report.cancelled_running > 1_000, "{report}");
}

#[test]
fn cancels_across_restarts() {
    let report = search(&Scenario { restarts: 1, cancels: 1, ..with_cancels() }, 3);
    assert!(report.runs > 10_000 && report.cancelled > 1_000, "{report}");
}

#[test]
fn cancels_and_refusals_of_two_lanes_across_restarts() {
    let mut scenario = with_cancels();
    (scenario.threads, scenario.calls) = (2, 1);
    (scenario.workers, scenario.queue) = (1, 0);
    scenario.restarts = 1;
    let report = search(&scenario, 3);
    assert!(report.runs > 10_000 && report.overloaded > 500 && report.cancelled > 1_000, "{report}");
}

#[test]
fn cancels_of_calls_that_wait_for_a_worker() {
    let mut scenario = with_cancels();
    (scenario.threads, scenario.calls) = (2, 1);
    (scenario.workers, scenario.queue) = (1, 1);
    let report = search(&scenario, 4);
    assert!(report.runs > 10_000 && report.cancelled_queued > 100, "{report}");
}

#[test]
fn cancels_of_calls_behind_an_abandoned_one() {
    let mut scenario = with_cancels();
    scenario.cancels = 1;
    scenario.retires_lanes = false;
    scenario.work = (millis(30), millis(250));
    scenario.deadline = always(millis(130));
    let report = search(&scenario, 4);
    assert!(report.runs > 10_000 && report.parked > 100, "{report}");
}

#[test]
fn cancels_of_calls_and_results_in_parts() {
    let mut scenario = with_cancels();
    (scenario.arguments, scenario.results) = ((PARTS, PARTS), (PARTS, PARTS));
    scenario.calls = 1;
    // Later is while the parts of the result are under way.
    scenario.cancel_after = Some((Duration::from_micros(85), Duration::from_micros(30_110)));
    let report = search(&scenario, 4);
    assert!(report.runs > 10_000 && report.cancelled > 5_000 && report.result_parts > 5_000, "{report}");
}

#[test]
fn the_search_finds_a_cancelled_call_that_runs() {
    let mut scenario = with_cancels();
    (scenario.threads, scenario.calls) = (2, 1);
    (scenario.workers, scenario.queue) = (1, 1);
    let found = Sim::search(&scenario, 3, Sabotage::RunsCancelled).expect_err("it runs a cancelled call");
    assert!(found.what.contains("told that it did not run"), "{found}");
}
