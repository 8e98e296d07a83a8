//! The promises about messages of many packets and about cancels, one by one, where a reader can follow them.

use std::time::Duration;
use stoop_sim::{CallId, Faults, Line, Sabotage, Scenario, Side, Sim, Told};
use stoop_wire::{Kind, MAX_DATAGRAM, PACKET_DATA};

const NO_TIME: Duration = Duration::ZERO;
const MEBIBYTE: usize = 1 << 20;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A calm world of Ethernet frames.
fn ethernet() -> Scenario {
    let line = Line { largest: vec![MAX_DATAGRAM], ..Line::wide() };
    Scenario { faults: Faults { there: line.clone(), back: line, ..Faults::none() }, ..Scenario::calm() }
}

/// The same, with a rate and a queue.
fn at_rate(megabits: u64, queue: usize) -> Scenario {
    let line = Line { largest: vec![MAX_DATAGRAM], ..Line::with_rate(megabits * 1_000_000, queue) };
    Scenario { faults: Faults { there: line.clone(), back: line, ..Faults::none() }, ..Scenario::calm() }
}

fn bound_in(scenario: Scenario) -> Sim {
    let mut sim = Sim::new(1, scenario, Sabotage::None);
    assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
    sim
}

fn start(sim: &mut Sim, arguments: usize, result: usize) -> CallId {
    sim.start_long_call((0, 0), (arguments, result), millis(60_000))
}

fn packets(len: usize) -> u64 {
    len.div_ceil(PACKET_DATA) as u64
}

#[test]
fn without_loss_every_byte_is_sent_once() {
    let mut sim = bound_in(ethernet());
    let call = start(&mut sim, MEBIBYTE, 2 * MEBIBYTE);
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.transmissions(Side::Caller, Kind::Call), 1 + packets(MEBIBYTE));
    assert_eq!(sim.transmissions(Side::Server, Kind::Result), 1 + packets(2 * MEBIBYTE));
    let receipts = sim.transmissions(Side::Server, Kind::Receipt);
    assert!(receipts <= packets(MEBIBYTE) / 4, "{receipts} receipts");
}

#[test]
fn only_what_was_lost_is_sent_again() {
    let mut sim = bound_in(ethernet());
    sim.drop_next(Side::Caller, Kind::Call);
    sim.drop_next(Side::Server, Kind::Result);
    let call = start(&mut sim, 100_000, 100_000);
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    assert_eq!(sim.transmissions(Side::Caller, Kind::Call), 1 + packets(100_000) + 1);
    assert_eq!(sim.transmissions(Side::Server, Kind::Result), 1 + packets(100_000) + 1);
}

#[test]
fn late_duplicates_of_the_parts_of_a_call_do_not_run_it_again() {
    let mut sim = bound_in(ethernet());
    (0..3).for_each(|_| sim.repeat_next(Side::Caller, Kind::Call, millis(300)));
    let call = start(&mut sim, 3 * PACKET_DATA, 0);
    assert_eq!(sim.end_of(call), Told::Result);
    assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
    sim.run_for(millis(1000)).unwrap();
    assert_eq!(sim.executions(call), 1);
    assert_eq!(sim.incomplete_bytes(), 0, "late parts are not stored");
}

#[test]
fn a_long_call_half_of_which_reached_a_server_that_was_restarted_does_not_run_twice() {
    let mut sim = bound_in(at_rate(10, 20_000));
    let call = start(&mut sim, MEBIBYTE, 0);
    sim.run_for(millis(300)).unwrap();
    assert!(sim.incomplete_bytes() > 0);
    sim.crash_server();
    sim.start_server();
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Unknown, 0));
    let next = start(&mut sim, MEBIBYTE, 0);
    assert_eq!((sim.end_of(next), sim.executions(next)), (Told::Result, 1));
}

#[test]
fn the_server_frees_the_partial_call_of_a_crashed_caller() {
    let mut sim = bound_in(at_rate(10, 20_000));
    let call = start(&mut sim, MEBIBYTE, 0);
    sim.run_for(millis(300)).unwrap();
    assert!(sim.incomplete_bytes() > 0);
    sim.crash_caller();
    sim.run_for(millis(30_000)).unwrap();
    assert_eq!((sim.incomplete_bytes(), sim.executions(call)), (0, 0));
}

#[test]
fn a_link_that_dies_for_seconds_delays_a_long_call_and_does_not_end_it() {
    let mut scenario = at_rate(10, 20_000);
    scenario.faults.partitions = Some((millis(1_700), millis(3_000)));
    let mut sim = bound_in(scenario);
    let call = start(&mut sim, MEBIBYTE, 0);
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    let took = sim.elapsed();
    assert!(took > millis(3_000) && took < millis(6_000), "{took:?}: it goes on soon after the link is back");
}

#[test]
fn a_link_that_dies_for_seconds_in_a_long_result_costs_no_byte_that_has_arrived() {
    let mut scenario = at_rate(10, 20_000);
    scenario.faults.partitions = Some((millis(1_700), millis(5_000)));
    scenario.silence_limit = millis(60_000);
    let mut sim = bound_in(scenario);
    let call = start(&mut sim, 0, MEBIBYTE);
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    assert!(sim.elapsed() < millis(8_000), "{:?}: it goes on soon after the link is back", sim.elapsed());
    let sent = sim.transmissions(Side::Server, Kind::Result);
    assert!(sent < packets(MEBIBYTE) * 11 / 10, "{sent} packets with parts of results");
}

#[test]
fn a_slow_server_holds_its_callers_back_before_its_socket_overflows() {
    let mut scenario = ethernet();
    (scenario.server_drain, scenario.server_buffer) = (Duration::from_micros(500), 64 * 1024);
    scenario.limits.window = 32 * 1024;
    let mut sim = bound_in(scenario);
    let call = start(&mut sim, MEBIBYTE, 0);
    assert_eq!(sim.end_of(call), Told::Result);
    assert_eq!(sim.report().overflows, 0);
}

#[test]
fn a_slow_caller_holds_the_server_back_before_its_socket_overflows() {
    let mut scenario = ethernet();
    (scenario.caller_drain, scenario.caller_buffer) = (Duration::from_micros(500), 64 * 1024);
    let mut sim = bound_in(scenario);
    let call = start(&mut sim, 0, MEBIBYTE);
    assert_eq!(sim.end_of(call), Told::Result);
    assert_eq!(sim.report().overflows, 0);
}

#[test]
fn larger_datagrams_are_used_where_the_line_carries_them() {
    let mut scenario = Scenario::calm();
    scenario.faults.there.largest = vec![8972];
    let mut sim = bound_in(scenario);
    let call = start(&mut sim, MEBIBYTE, 0);
    assert_eq!(sim.end_of(call), Told::Result);
    let sent = sim.transmissions(Side::Caller, Kind::Call);
    assert!(sent < packets(MEBIBYTE) / 4, "{sent} packets");
}

#[test]
fn a_line_that_carries_less_than_before_delays_a_call_and_does_not_end_it() {
    let mut scenario = Scenario::calm();
    scenario.faults.there = Line {
        largest: vec![8972, MAX_DATAGRAM],
        largest_lasts: millis(1_300),
        ..Line::with_rate(10_000_000, 64_000)
    };
    let mut sim = bound_in(scenario);
    let call = start(&mut sim, MEBIBYTE, 0);
    assert_eq!((sim.end_of(call), sim.executions(call)), (Told::Result, 1));
    assert!(sim.losses().0.too_large > 0 && sim.elapsed() < millis(4_000), "{:?}", sim.elapsed());
}

#[test]
fn a_lost_last_receipt_is_requested_and_no_packet_follows_it() {
    let mut sim = bound_in(ethernet());
    let call = start(&mut sim, 0, 2 * PACKET_DATA);
    sim.run_for(Duration::from_micros(30)).unwrap();
    sim.drop_next(Side::Caller, Kind::Receipt);
    assert_eq!(sim.end_of(call), Told::Result);
    sim.run_for(millis(5_000)).unwrap();
    let sent = sim.transmissions(Side::Server, Kind::Result);
    assert!(sent <= 1 + 2 + 4, "{sent} packets with parts of results");
}

#[test]
fn a_call_whose_cancel_arrives_first_never_runs() {
    for arguments in [0, 3 * PACKET_DATA] {
        let mut sim = bound_in(ethernet());
        (0..packets(arguments.max(1))).for_each(|_| sim.delay_next(Side::Caller, Kind::Call, millis(50)));
        let call = start(&mut sim, arguments, 0);
        sim.cancel(0, call);
        sim.run_for(millis(1)).unwrap();
        assert_eq!(sim.told(call), Some(Told::DidNotRun), "the lane is free, and the caller knows why");
        assert_eq!(sim.call(1, NO_TIME).1, Told::Result);
        sim.run_for(millis(500)).unwrap();
        assert_eq!((sim.executions(call), sim.incomplete_bytes()), (0, 0));
        assert_eq!(sim.call(0, NO_TIME).1, Told::Result, "the lane's next call is none the worse");
    }
}

#[test]
fn cancelling_a_long_call_frees_the_servers_memory_at_once() {
    let mut sim = bound_in(at_rate(10, 20_000));
    let call = start(&mut sim, MEBIBYTE, 0);
    sim.run_for(millis(100)).unwrap();
    assert!(sim.incomplete_bytes() > 0);
    sim.cancel(0, call);
    sim.run_for(millis(100)).unwrap();
    assert_eq!((sim.incomplete_bytes(), sim.executions(call)), (0, 0));
    assert_eq!(sim.told(call), Some(Told::DidNotRun));
}

#[test]
fn a_procedure_that_returns_when_cancelled_frees_its_lane() {
    let mut sim = bound_in(Scenario { heeds_cancels: 1000, ..ethernet() });
    let call = sim.start_call(0, millis(5_000), millis(60_000));
    sim.run_for(millis(10)).unwrap();
    sim.cancel(0, call);
    sim.run_for(millis(1_000)).unwrap();
    assert_eq!(sim.executions(call), 1);
    assert_eq!(sim.call(0, NO_TIME).1, Told::Result);
    assert!(sim.elapsed() < millis(2_000), "no caller waited for the five seconds");
}

#[test]
fn a_call_cancelled_in_the_queue_never_runs() {
    let mut sim = bound_in(Scenario { workers: 1, ..ethernet() });
    let busy = sim.start_call(0, millis(300), millis(60_000));
    sim.run_for(millis(1)).unwrap();
    let queued = sim.start_call(1, millis(1), millis(60_000));
    sim.run_for(millis(1)).unwrap();
    sim.cancel(1, queued);
    assert_eq!(sim.end_of(busy), Told::Result);
    sim.run_for(millis(1_000)).unwrap();
    assert_eq!((sim.executions(queued), sim.told(queued)), (0, Some(Told::DidNotRun)));
}

#[test]
fn a_lost_cancel_is_repeated() {
    let mut sim = bound_in(Scenario { heeds_cancels: 1000, ..ethernet() });
    let call = sim.start_call(0, millis(5_000), millis(60_000));
    sim.run_for(millis(10)).unwrap();
    (0..2).for_each(|_| sim.drop_next(Side::Caller, Kind::Cancel));
    sim.cancel(0, call);
    sim.run_for(millis(1_000)).unwrap();
    assert_eq!(sim.report().cancelled_running, 1);
    assert_eq!(sim.transmissions(Side::Caller, Kind::Cancel), 3);
}
