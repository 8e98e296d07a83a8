//! Callers that have many calls at a time and keep to credits; calls that are refused for overload or for a shutdown.

use std::collections::VecDeque;
use std::time::Duration;
use stoop_sim::{FRAME_OVERHEAD, Faults, Line, Report, Sabotage, Scenario, Side, Sim, Told};
use stoop_wire::Kind;
use stoop_wire::bind::NO_CREDIT_LIMIT;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const LONG: Duration = Duration::from_secs(600);

/// Bytes that the runtime counts for a packet in a receive buffer.
const PACKET_IN_BUFFER: usize = 2304;

/// Callers of so many threads, and a server whose socket holds so many packets.
fn crowd(callers: usize, threads: usize, packets: u32) -> Scenario {
    let mut scenario = Scenario { callers, threads, credits: true, follows: true, ..Scenario::calm() };
    scenario.limits.calls = packets;
    scenario.server_buffer = packets as usize * PACKET_IN_BUFFER;
    (scenario.server_drain, scenario.deadline) = (Duration::from_micros(2), (LONG, LONG));
    scenario
}

fn run(scenario: Scenario) -> Sim {
    let mut sim = Sim::new(1, scenario, Sabotage::None);
    sim.run().unwrap_or_else(|violation| panic!("{violation}"));
    sim
}

fn calls_sent(sim: &Sim) -> u64 {
    sim.transmissions(Side::Caller, Kind::Call)
}

#[test]
fn of_many_calls_at_once_none_is_lost_in_a_small_buffer() {
    for (callers, threads) in [(1, 1_000), (8, 125)] {
        let sim = run(Scenario { calls: 2, ..crowd(callers, threads, 92) });
        let Report { results, overflows, retransmissions, .. } = sim.report();
        assert_eq!((results, overflows, retransmissions), (2_000, 0, 0), "{callers} callers");
    }
}

/// The packets that a hundred calls take each round trip, once the path is known.
#[test]
fn with_credits_a_call_takes_one_packet_at_round_trips_of_1_to_500_ms() {
    for trip in [1, 10, 60, 70, 100, 200, 350, 500] {
        let half = Duration::from_micros(trip * 500);
        let calm = crowd(1, 100, 1_000);
        let faults = Faults { delay: (half, half + half / 50), ..calm.faults.clone() };
        let mut sim = Sim::new(1, Scenario { faults, ..calm }, Sabotage::None);
        let mut call_all = |threads: usize| {
            let before = calls_sent(&sim);
            let calls: Vec<_> =
                (0..threads).map(|thread| sim.start_call(thread, Duration::ZERO, LONG)).collect();
            calls.into_iter().for_each(|id| assert_eq!(sim.end_of(id), Told::Result));
            calls_sent(&sim) - before
        };
        let _until_known: u64 = (0..10).map(|_| call_all(1)).sum();
        let packets: u64 = (0..5).map(|_| call_all(100)).sum();
        println!("{trip} ms: {packets} packets of 500 calls");
        assert!(packets <= 525, "{trip} ms: {packets} packets of 500 calls");
    }
}

/// Callers without a credit limit, before a line of 10 Mbit/s, which carries about eleven calls in a millisecond, and a queue there
/// that holds 20 packets.
fn narrow(threads: usize) -> Scenario {
    let mut scenario = Scenario { calls: 1, caller_buffer: 16 << 20, ..crowd(1, threads, NO_CREDIT_LIMIT) };
    scenario.server_buffer = 16 << 20;
    scenario.faults.there = Line::with_rate(10_000_000, 20 * 116);
    scenario
}

/// The retransmissions of the runtime in one look at its timeouts, at most; it looks once in a millisecond.
const REPEATED_MOST: usize = 32;

#[test]
fn calls_that_a_full_queue_has_dropped_do_not_come_again_together() {
    let threads = 1_000;
    let mut sim = Sim::new(1, narrow(threads), Sabotage::None);
    let mut again = VecDeque::new();
    let (mut most, mut done) = (0, Duration::ZERO);
    let mut before = sim.report();
    while sim.go_on() {
        let report = sim.report();
        again.extend((before.retransmissions..report.retransmissions).map(|_| sim.elapsed()));
        while again.front().is_some_and(|at| sim.elapsed() - *at >= millis(4)) {
            again.pop_front();
        }
        most = most.max(again.len());
        done = if report.results > before.results { sim.elapsed() } else { done };
        before = report;
    }
    let dropped = sim.losses().0.queue;
    println!("{} packets, {dropped} dropped, at most {most} sent again in 4 ms, {done:?}", calls_sent(&sim));
    assert_eq!(sim.report().results, threads as u64);
    assert!(dropped > threads as u64 / 2, "the queue overflows: {dropped}");
    assert!(most <= 5 * REPEATED_MOST, "{most} calls come again within 4 ms");
}

/// What a line of 10 Mbit/s, with a round trip of 20 ms and a queue for 64 KiB, carries in 20 s of short calls, `threads` at a time, and
/// of messages of 256 KiB, one after the other.
#[derive(Debug)]
struct Carried {
    short_calls: u64,
    long_bytes: u64,
    /// Datagrams that the queue dropped, in a thousand.
    dropped: u64,
}

impl Carried {
    fn megabits(&self) -> (f64, f64) {
        let (short_frame, seconds) = ((32 + 24 + FRAME_OVERHEAD) as f64, 20.0);
        (self.short_calls as f64 * short_frame * 8e-6 / seconds, self.long_bytes as f64 * 8e-6 / seconds)
    }
}

fn carry(threads: usize, messages: bool) -> Carried {
    let mut scenario = crowd(1, threads + 1, 10_000);
    scenario.faults = Faults { delay: (millis(10), millis(10)), ..scenario.faults };
    scenario.faults.there = Line::with_rate(10_000_000, 64 << 10);
    (scenario.caller_buffer, scenario.server_buffer) = (16 << 20, 32 << 20);
    let mut sim = Sim::new(1, scenario, Sabotage::None);
    let start = |sim: &mut Sim, thread| {
        let len = if thread < threads { 0 } else { 256 << 10 };
        sim.start_long_call((0, thread), (len, 0), LONG)
    };
    let last = threads + usize::from(messages);
    let mut calls: Vec<_> = (0..last).map(|thread| start(&mut sim, thread)).collect();
    let mut carried = Carried { short_calls: 0, long_bytes: 0, dropped: 0 };
    while sim.elapsed() < Duration::from_secs(20) && sim.go_on() {
        for (thread, call) in (0..last).zip(&mut calls) {
            if sim.told(*call) != Some(Told::Result) {
                continue;
            }
            match thread < threads {
                true => carried.short_calls += 1,
                false => carried.long_bytes += 256 << 10,
            }
            *call = start(&mut sim, thread);
        }
    }
    let datagrams = calls_sent(&sim).max(1);
    carried.dropped = sim.losses().0.queue * 1000 / datagrams;
    carried
}

/// Calls of one packet and long messages have a congestion window each. The figures are in docs/deviations.md.
#[test]
fn short_calls_and_a_long_message_share_a_line() {
    let (alone, together) = ([carry(200, false), carry(0, true)], carry(200, true));
    for carried in alone.iter().chain([&together]) {
        let (short, long) = carried.megabits();
        println!("short calls {short:.2} Mbit/s, long messages {long:.2} Mbit/s, {carried:?}");
    }
    let (short, long) = together.megabits();
    assert!(short + long > 7.0, "the line is used: {together:?}");
    assert!(short > 1.0 && long > 1.0, "both have a part of it: {together:?}");
    assert!(together.dropped < 50, "few packets are dropped: {together:?}");
}

/// When the last of 1,000 calls of 100 ms has left, of one caller, over a network that loses one packet in a hundred each way. The server's
/// socket holds so many packets.
fn all_left_after(trip: Duration, packets: u32, sabotage: Sabotage) -> Duration {
    let mut scenario = Scenario { calls: 1, instant: 0, ..crowd(1, 1_000, packets) };
    (scenario.work, scenario.workers, scenario.queue) = ((millis(100), millis(100)), 64, 1_000);
    scenario.faults = Faults { loss: 10, delay: (trip / 2, trip / 2), ..scenario.faults };
    let mut sim = Sim::new(1, scenario, sabotage);
    let (mut after, mut left) = (Duration::ZERO, 0);
    while sim.go_on() {
        let first_sent = calls_sent(&sim) - sim.report().retransmissions;
        after = if first_sent > left { sim.elapsed() } else { after };
        left = first_sent;
    }
    assert_eq!((left, sim.report().results), (1_000, 1_000));
    after
}

/// A call of a long procedure holds no place in its caller's window until its first timeout: the window is used anew after a round trip and
/// little more than a millisecond. Ten calls go into it, and more after round trips without a loss.
#[test]
fn all_calls_of_a_long_procedure_leave_within_a_number_of_round_trips() {
    for (trip, packets, rounds) in
        [(Duration::from_micros(50), 92, 100), (millis(2), 92, 100), (millis(20), 1_000, 20)]
    {
        let soon = rounds * (trip + Duration::from_micros(1_500));
        let [left, late] = [Sabotage::None, Sabotage::HidesThatOthersWait]
            .map(|sabotage| all_left_after(trip, packets, sabotage));
        println!(
            "{trip:?}: all left after {left:?}, and after {late:?} if the server does not know that others wait"
        );
        assert!(left <= soon, "{trip:?}: {left:?}");
        assert!(late > soon, "{trip:?}: {late:?}");
    }
}
