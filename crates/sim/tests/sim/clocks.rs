//! Calls whose binding was lost while clocks stood still, drifted or leapt. None of them runs a second time; and a call
//! that was made after its client had been idle is sent again wherever that is possible.
//!
//! Each story also shows which simpler rule than the one in `stoop_exchange::outcome` runs the call twice.

use std::time::Duration;
use stoop_sim::{CallId, Sabotage, Scenario, Side, Sim, Stop, Told};
use stoop_wire::Kind;

const SERVERS_MACHINE: usize = 0;
const CALLERS_MACHINE: usize = 1;
const NO_TIME: Duration = Duration::ZERO;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A calm world of two machines, whose server releases silent bindings after 600 s.
fn calm() -> Scenario {
    Scenario { kind: false, ..Scenario::calm() }
}

/// The same, in which the caller has bound.
fn bound(scenario: &Scenario, sabotage: Sabotage) -> Sim {
    let mut sim = Sim::new(1, scenario.clone(), sabotage);
    assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
    sim
}

/// Begins a call that runs, and whose result is lost.
fn call_that_runs(sim: &mut Sim) -> CallId {
    sim.drop_next(Side::Server, Kind::Result);
    let call = sim.start_call(0, NO_TIME, seconds(1_000));
    sim.run_for(millis(1)).unwrap();
    assert_eq!(sim.executions(call), 1);
    call
}

fn until_refused(sim: &mut Sim) {
    while sim.report().unknown_bindings == 0 {
        assert!(sim.go_on(), "no call is refused");
    }
}

/// Tells a story of a call that has run. Its caller must be told *unknown*; and a caller that makes this mistake runs it
/// again.
fn ran_and_is_unknown(scenario: &Scenario, mistake: Sabotage, story: impl Fn(&mut Sim) -> CallId) {
    let mut sim = bound(scenario, Sabotage::None);
    let call = story(&mut sim);
    sim.run().unwrap();
    assert_eq!((sim.told(call), sim.executions(call)), (Some(Told::Unknown), 1));

    let mut sim = bound(scenario, mistake);
    story(&mut sim);
    let violation = sim.run().expect_err("the mistake is noticed");
    assert!(violation.what.contains("executed a second time"), "{violation}");
}

/// Tells a story in which a client is idle until its server has forgotten the binding. Returns what the next call is told.
fn after_idleness(scenario: &Scenario, story: impl Fn(&mut Sim)) -> Told {
    let mut sim = bound(scenario, Sabotage::None);
    story(&mut sim);
    let (call, told) = sim.call(0, NO_TIME);
    assert_eq!(sim.report().unknown_bindings, 1);
    assert_eq!(sim.executions(call), u32::from(told == Told::Result));
    told
}

#[test]
fn call_that_ran_before_its_callers_machine_was_saved_does_not_run_again() {
    ran_and_is_unknown(&calm(), Sabotage::ResendHoweverOld, |sim| {
        let call = call_that_runs(sim);
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(700));
        call
    });
}

#[test]
fn call_that_ran_before_its_callers_machine_slept_does_not_run_again() {
    ran_and_is_unknown(&calm(), Sabotage::ResendHoweverOld, |sim| {
        let call = call_that_runs(sim);
        sim.stop_machine(CALLERS_MACHINE, Stop::Asleep, seconds(700));
        call
    });
}

#[test]
fn call_that_ran_does_not_run_again_when_the_address_leads_to_another_server_and_back() {
    ran_and_is_unknown(&calm(), Sabotage::ResendHoweverOld, |sim| {
        let call = call_that_runs(sim);
        sim.wander();
        until_refused(sim);
        sim.wander();
        call
    });
}

#[test]
fn call_refused_by_one_server_does_not_run_at_another_that_grants_the_binding() {
    // Sent once: without its result the caller's machine is saved, and a copy of the packet comes to the other server.
    ran_and_is_unknown(&calm(), Sabotage::IgnoresWandering, |sim| {
        sim.repeat_next(Side::Caller, Kind::Call, seconds(30));
        let call = call_that_runs(sim);
        sim.wander();
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(30) - millis(2));
        until_refused(sim);
        sim.wander();
        call
    });
}

#[test]
fn machines_that_were_saved_one_after_the_other_for_as_long_have_clocks_that_agree() {
    ran_and_is_unknown(&calm(), Sabotage::ComparesClocks, |sim| {
        sim.stop_machine(SERVERS_MACHINE, Stop::Saved, seconds(700));
        sim.run_for(seconds(701)).unwrap();
        let call = call_that_runs(sim);
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(700));
        call
    });
}

#[test]
fn machine_that_was_saved_for_as_long_as_its_clock_had_run_ahead_has_a_clock_that_agrees() {
    let (exact, eighth_too_fast) = (1024, 1024 + 128);
    let scenario = Scenario { rates: vec![exact, eighth_too_fast], ..calm() };
    ran_and_is_unknown(&scenario, Sabotage::ComparesClocks, |sim| {
        for _ in 0..14 {
            sim.run_for(seconds(400)).unwrap();
            assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
        }
        let call = call_that_runs(sim);
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(700));
        call
    });
}

#[test]
fn server_that_has_been_up_for_long_when_it_is_bound_to_may_have_been_young_when_it_refused() {
    // A copy of the call that the first server ran reaches the second one 30 s later. The caller is there to be told so, and
    // is saved again before it binds.
    ran_and_is_unknown(&calm(), Sabotage::AsksForAgeLater, |sim| {
        sim.repeat_next(Side::Caller, Kind::Call, seconds(30));
        let call = call_that_runs(sim);
        sim.crash_server();
        sim.start_server();
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(30) - millis(2));
        until_refused(sim);
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(100));
        call
    });
}

#[test]
fn acknowledged_call_whose_binding_was_released_does_not_run_again() {
    // Sent once, and asked about since: a packet that does not begin a call says nothing about the one that did.
    ran_and_is_unknown(&calm(), Sabotage::ForgetsAcknowledgement, |sim| {
        sim.repeat_next(Side::Caller, Kind::Call, Duration::from_micros(100));
        let call = sim.start_call(0, millis(50), seconds(1_000));
        sim.run_for(millis(1)).unwrap();
        sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(700));
        call
    });
}

#[test]
fn binding_whose_call_runs_is_not_released_however_silent_its_caller_is() {
    let mut scenario = Scenario { silence_limit: seconds(1_000), ..calm() };
    scenario.limits.silence = seconds(10);
    let mut sim = bound(&scenario, Sabotage::None);
    let call = sim.start_call(0, seconds(25), seconds(1_000));
    sim.run_for(seconds(1)).unwrap();
    sim.stop_machine(CALLERS_MACHINE, Stop::Saved, seconds(20));
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.bindings(), 1);
}

#[test]
fn call_after_a_release_for_silence_is_sent_again() {
    let told = after_idleness(&calm(), |sim| sim.run_for(seconds(700)).unwrap());
    assert_eq!(told, Told::Result);
}

#[test]
fn call_after_a_restart_that_was_longer_ago_than_packets_live_is_sent_again() {
    let told = after_idleness(&calm(), |sim| {
        sim.crash_server();
        sim.start_server();
        sim.run_for(seconds(70)).unwrap();
    });
    assert_eq!(told, Told::Result);
}

#[test]
fn call_just_after_a_restart_is_sent_again_on_the_servers_machine_alone() {
    for (one_machine, expected) in [(true, Told::Result), (false, Told::Unknown)] {
        let scenario = Scenario { one_machine, ..calm() };
        let told = after_idleness(&scenario, |sim| {
            sim.crash_server();
            sim.start_server();
            sim.run_for(millis(1)).unwrap();
        });
        assert_eq!(told, expected, "one machine: {one_machine}");
    }
}

#[test]
fn call_that_was_lost_and_then_refused_is_sent_again_on_the_servers_machine_alone() {
    for (one_machine, expected) in [(true, Told::Result), (false, Told::Unknown)] {
        let scenario = Scenario { one_machine, ..calm() };
        let told = after_idleness(&scenario, |sim| {
            sim.run_for(seconds(700)).unwrap();
            sim.drop_next(Side::Caller, Kind::Call);
        });
        assert_eq!(told, expected, "one machine: {one_machine}");
    }
}
