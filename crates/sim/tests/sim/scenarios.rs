//! The promises of the protocol, one by one, where a reader can follow them.

use std::time::Duration;
use stoop_sim::{Faults, Scenario, Side, Sim, Told};
use stoop_wire::Kind;

const NO_TIME: Duration = Duration::ZERO;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A calm world whose caller has bound.
fn bound() -> Sim {
    bound_in(Scenario::calm())
}

fn bound_in(scenario: Scenario) -> Sim {
    let mut sim = Sim::new(1, scenario, stoop_sim::Sabotage::None);
    assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
    sim
}

#[test]
fn without_loss_a_call_is_one_packet_in_each_direction() {
    let mut sim = bound();
    for _ in 0..100 {
        assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
    }
    assert_eq!(sim.transmissions(Side::Caller, Kind::Call), 101);
    assert_eq!(sim.transmissions(Side::Server, Kind::Result), 101);
    assert_eq!(sim.transmissions(Side::Server, Kind::Acknowledgement), 0);
    assert_eq!(sim.transmissions(Side::Caller, Kind::Bind), 2, "a question and the cookie");
}

#[test]
fn lost_call_is_sent_again() {
    let mut sim = bound();
    sim.drop_next(Side::Caller, Kind::Call);
    let (call, told) = sim.call(0, NO_TIME);
    assert_eq!((told, sim.executions(call)), (Told::Result, 1));
}

#[test]
fn lost_result_is_sent_again_without_running_the_procedure_twice() {
    let mut sim = bound();
    sim.drop_next(Side::Server, Kind::Result);
    let (call, told) = sim.call(0, NO_TIME);
    assert_eq!((told, sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.transmissions(Side::Server, Kind::Result), 3);
}

#[test]
fn late_duplicate_of_a_call_does_not_run() {
    let mut sim = bound();
    sim.repeat_next(Side::Caller, Kind::Call, millis(500));
    let (call, _) = sim.call(0, NO_TIME);
    for _ in 0..10 {
        sim.call(0, NO_TIME);
    }
    sim.run_for(millis(1000)).unwrap();
    assert_eq!(sim.executions(call), 1);
}

#[test]
fn long_call_is_acknowledged_and_probed_and_not_sent_again() {
    let mut sim = bound();
    let (call, told) = sim.call(0, millis(3_000));
    assert_eq!((told, sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.transmissions(Side::Caller, Kind::Call), 3, "twice, of which one was acknowledged");
    assert!((4..=6).contains(&sim.transmissions(Side::Caller, Kind::Probe)));
}

#[test]
fn killed_server_is_noticed_long_before_the_deadline() {
    let mut sim = bound();
    let call = sim.start_call(0, millis(30_000), millis(60_000));
    sim.run_for(millis(1_000)).unwrap();
    sim.crash_server();
    sim.run_for(millis(2_500)).unwrap();
    assert_eq!(sim.end_of(call), Told::Unknown);
    assert_eq!(sim.transmissions(Side::Server, Kind::Result), 1, "it ended within these 3.5 s");
}

#[test]
fn call_that_ran_before_a_restart_is_unknown_and_does_not_run_again() {
    let mut sim = bound();
    sim.drop_next(Side::Server, Kind::Result);
    let call = sim.start_call(0, NO_TIME, millis(10_000));
    sim.run_for(millis(1)).unwrap();
    sim.crash_server();
    sim.start_server();
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Unknown, 1));
    assert_eq!(sim.call(0, NO_TIME).1, Told::Result, "the next call has the new binding");
}

#[test]
fn call_after_a_release_for_silence_is_sent_again_under_a_new_binding() {
    let mut scenario = Scenario::calm();
    scenario.limits.silence = millis(100_000);
    let mut sim = bound_in(scenario);
    sim.run_for(millis(200_000)).unwrap();
    assert_eq!(sim.bindings(), 0);
    let (call, told) = sim.call(0, NO_TIME);
    assert_eq!((told, sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.report().sent_again, 1);
}

#[test]
fn duplicate_of_a_call_refused_for_overload_never_runs() {
    let scenario = Scenario { workers: 1, queue: 0, ..Scenario::calm() };
    let mut sim = bound_in(scenario);
    let busy = sim.start_call(0, millis(5), millis(1_000));
    sim.run_for(millis(1)).unwrap();
    sim.repeat_next(Side::Caller, Kind::Call, millis(100));
    let (refused, told) = sim.call(1, millis(1));
    assert_eq!(told, Told::DidNotRun);
    assert_eq!(sim.end_of(busy), Told::Result);
    sim.run_for(millis(500)).unwrap();
    assert_eq!(sim.executions(refused), 0);
}

#[test]
fn next_call_of_a_lane_waits_for_an_abandoned_one() {
    let scenario = Scenario { retires_lanes: false, ..Scenario::calm() };
    let mut sim = bound_in(scenario);
    let given_up = sim.start_call(0, millis(300), millis(50));
    assert_eq!(sim.end_of(given_up), Told::Unknown);
    let (next, told) = sim.call(0, NO_TIME);
    assert_eq!((told, sim.executions(next), sim.executions(given_up)), (Told::Result, 1, 1));
    assert_eq!(sim.report().parked, 1);
}

#[test]
fn caller_whose_address_changes_during_a_call_gets_its_result() {
    let mut sim = bound();
    let call = sim.start_call(0, millis(800), millis(10_000));
    sim.run_for(millis(100)).unwrap();
    sim.move_caller();
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.bindings(), 1, "the binding moved with it");
    assert_eq!(sim.report().proofs, 1);
}

#[test]
fn server_that_shuts_down_finishes_running_calls_and_refuses_new_ones() {
    let mut sim = bound();
    let running = sim.start_call(0, millis(20), millis(1_000));
    sim.run_for(millis(1)).unwrap();
    sim.shut_down_server();
    assert_eq!(sim.call(1, NO_TIME).1, Told::DidNotRun);
    assert_eq!(sim.end_of(running), Told::Result);
}

/// Another server has been there for less than the life of a packet: it cannot tell what the one before it has run.
fn told_after_a_restart(notices_arrive: bool) -> Told {
    let mut sim = bound();
    if !notices_arrive {
        (0..2).for_each(|_| sim.drop_next(Side::Server, Kind::Refusal));
    }
    sim.shut_down_server();
    sim.run_for(millis(100)).unwrap();
    sim.start_server();
    sim.call(0, NO_TIME).1
}

#[test]
fn caller_that_has_heard_of_a_shutdown_makes_its_next_call_at_the_next_server() {
    assert_eq!(told_after_a_restart(true), Told::Result);
    assert_eq!(told_after_a_restart(false), Told::Unknown);
}

#[test]
fn unbinding_releases_the_binding_at_once() {
    let mut sim = bound();
    assert_eq!(sim.bindings(), 1);
    sim.unbind_caller();
    sim.run_for(millis(1)).unwrap();
    assert_eq!(sim.bindings(), 0);
}

#[test]
fn duplicate_of_a_bind_request_makes_no_second_binding() {
    let mut sim = Sim::with_seed(1);
    sim.repeat_next(Side::Caller, Kind::Bind, millis(5));
    sim.repeat_next(Side::Caller, Kind::Bind, millis(5));
    sim.call(0, NO_TIME);
    sim.run_for(millis(20)).unwrap();
    assert_eq!(sim.bindings(), 1);
}

#[test]
fn after_a_few_calls_a_long_round_trip_costs_no_retransmissions() {
    for trip in [1, 10, 60, 70, 100, 200, 350, 500] {
        let half = Duration::from_micros(trip * 500);
        let calm = Scenario::calm();
        let faults = Faults { delay: (half, half + half / 50), ..calm.faults.clone() };
        let mut sim = bound_in(Scenario { faults, ..calm });
        let calls = |sim: &mut Sim, many| {
            let before = sim.transmissions(Side::Caller, Kind::Call);
            (0..many).for_each(|_| assert_eq!(sim.call(0, NO_TIME).1, Told::Result));
            sim.transmissions(Side::Caller, Kind::Call) - before
        };
        calls(&mut sim, 9);
        assert_eq!(calls(&mut sim, 100), 100, "{trip} ms");
    }
}

/// A calm world whose procedures all return before their answers are there, which come in half a second.
fn open_calls() -> Scenario {
    Scenario { later: 1000, reply_after: (millis(500), millis(500)), ..Scenario::calm() }
}

#[test]
fn an_open_call_is_acknowledged_and_holds_no_worker() {
    let mut sim = bound_in(Scenario { workers: 1, queue: 0, ..open_calls() });
    let first = sim.start_call(0, millis(1), millis(10_000));
    sim.run_for(millis(100)).unwrap();
    let second = sim.start_call(1, millis(1), millis(10_000));
    assert_eq!((sim.end_of(first), sim.end_of(second)), (Told::Result, Told::Result));
    assert_eq!((sim.executions(first), sim.executions(second)), (1, 1));
}

#[test]
fn duplicate_of_an_open_call_does_not_run() {
    let mut sim = bound_in(open_calls());
    sim.repeat_next(Side::Caller, Kind::Call, millis(100));
    let (call, told) = sim.call(0, millis(1));
    assert_eq!((told, sim.executions(call)), (Told::Result, 1));
}

#[test]
fn lost_answer_of_an_open_call_is_sent_again() {
    let mut sim = bound_in(open_calls());
    sim.drop_next(Side::Server, Kind::Result);
    let (call, told) = sim.call(0, millis(1));
    assert_eq!((told, sim.executions(call)), (Told::Result, 1));
}

#[test]
fn call_that_is_open_when_its_server_crashes_is_unknown_and_does_not_run_again() {
    let mut sim = bound_in(Scenario { reply_after: (millis(5_000), millis(5_000)), ..open_calls() });
    let call = sim.start_call(0, millis(1), millis(10_000));
    sim.run_for(millis(1_000)).unwrap();
    sim.crash_server();
    sim.start_server();
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Unknown, 1));
}

#[test]
fn call_whose_reply_is_dropped_has_run_and_fails() {
    let mut sim = Sim::new(1, Scenario { replies_lost: 1000, ..open_calls() }, stoop_sim::Sabotage::None);
    let (call, told) = sim.call(0, millis(1));
    assert_eq!((told, sim.executions(call)), (Told::Failed, 1));
}
