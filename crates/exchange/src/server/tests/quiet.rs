//! Callers that fall silent: what the server frees, and what it answers if they are heard again.

use super::*;

const HOSTILE: Host = Host(66);
const VICTIM: Host = Host(2);
const LONG: usize = 100_000;
const GONE: (Kind, u32) = (Kind::Failure, 3);
const NEVER_RUN: (Kind, u32) = (Kind::Refusal, 11);

fn about(kind: Kind, binding: BindingId, lane: u16, number: u32) -> Vec<u8> {
    let mut header = Header::bare(kind, binding, LaneId(lane), CallNumber(number));
    header.time = 4_000_000_000;
    header.to_bytes().to_vec()
}

fn first_part(binding: BindingId, lane: u16) -> Vec<u8> {
    let template = Template::new(Kind::Call, binding, LaneId(lane));
    let mut packet = vec![0; HEADER_LEN + 1440];
    let header = packet.first_chunk_mut().unwrap();
    template.stamp_part(header, 0, CallNumber(1), LONG as u32, (0, 1440), 4_000_000_000);
    packet
}

/// Runs the first call on so many lanes of a new binding, each with a result of `len` bytes.
fn answered(server: &mut Server<Host>, from: Host, lanes: u16, len: usize) -> BindingId {
    let binding = bind_from(server, from, at(0), 77).expect("there is room");
    for lane in 0..lanes {
        let Made::Run(mut call) = give_from(server, from, at(1), &about(Kind::Call, binding, lane, 1)) else {
            panic!("not run")
        };
        let packet = call.packet_mut();
        packet.resize((HEADER_LEN + len).max(packet.len()), 7);
        call.complete(at(2), len);
        server.finish(at(2), call);
    }
    binding
}

fn answer(server: &mut Server<Host>, from: Host, now: Instant, packet: &[u8]) -> (Kind, u32) {
    match give_from(server, from, now, packet) {
        Made::Reply(kind, code) => (kind, code),
        Made::Run(_) => panic!("run again"),
        Made::Nothing => panic!("not answered"),
    }
}

/// Lets the driver look at the clock in time from `from` to `to`, in milliseconds.
fn pass(server: &mut Server<Host>, from: u64, to: u64) {
    for now in (from..=to).step_by(100).map(at) {
        if server.next_timeout() <= now {
            server.handle_timeout(now);
        }
        let mut out = Vec::new();
        while server.next_transmission(now, 65_000, &mut out).is_some() {}
    }
}

#[test]
fn long_results_of_a_silent_host_with_many_are_freed_and_said_to_be_gone() {
    let (mut server, _) = bound_with(|limits| limits.retained = 16 * LONG);
    let before = server.bytes_held();
    let binding = answered(&mut server, HOSTILE, 4, LONG);
    assert!(server.retained_bytes() > 3 * LONG);
    pass(&mut server, 0, 7_000);
    assert_eq!(server.retained_bytes(), 0);
    assert!(server.bytes_held() < before + LONG / 2, "{} after {before}", server.bytes_held());
    for kind in [Kind::Probe, Kind::Call] {
        assert_eq!(answer(&mut server, HOSTILE, at(7_001), &about(kind, binding, 1, 1)), GONE);
    }
    assert_eq!(server.counters().calls, 4);
    let next = give_from(&mut server, HOSTILE, at(7_002), &about(Kind::Call, binding, 1, 2));
    assert!(matches!(next, Made::Run(_)), "the lane goes on");
    assert_eq!(server.next_timeout(), at(15_000), "no more looks than the regular one");
}

#[test]
fn a_silent_host_with_little_keeps_its_results() {
    let (mut server, _) = bound_with(|limits| limits.retained = 256 * LONG);
    let hostile = answered(&mut server, HOSTILE, 5, LONG);
    let victim = answered(&mut server, VICTIM, 3, LONG);
    pass(&mut server, 0, 20_000);
    assert!((3 * LONG - 6 * MAX_DATAGRAM..4 * LONG).contains(&server.retained_bytes()));
    let gone = answer(&mut server, HOSTILE, at(20_001), &about(Kind::Probe, hostile, 0, 1));
    let there = answer(&mut server, VICTIM, at(20_001), &about(Kind::Probe, victim, 0, 1));
    assert_eq!((gone, there.0), (GONE, Kind::Acknowledgement));
}

#[test]
fn a_caller_that_is_heard_keeps_its_results() {
    let (mut server, _) = bound_with(|limits| limits.retained = 16 * LONG);
    let binding = answered(&mut server, HOSTILE, 4, LONG);
    for second in 0..20 {
        let asked = answer(&mut server, HOSTILE, at(second * 1_000), &about(Kind::Probe, binding, 0, 1));
        assert_eq!(asked.0, Kind::Acknowledgement);
        pass(&mut server, second * 1_000, second * 1_000 + 900);
    }
    assert!(server.retained_bytes() > 3 * LONG);
}

#[test]
fn silence_while_the_server_did_not_look_proves_nothing() {
    let (mut server, _) = bound_with(|limits| limits.retained = 16 * LONG);
    let binding = answered(&mut server, HOSTILE, 4, LONG);
    pass(&mut server, 0, 1_500);
    // The server's process was stopped for a minute. It handles its timers first, and then receives the packets of that minute.
    pass(&mut server, 61_500, 61_600);
    let asked = answer(&mut server, HOSTILE, at(61_700), &about(Kind::Probe, binding, 0, 1));
    assert_eq!(asked.0, Kind::Acknowledgement);
    pass(&mut server, 61_700, 68_700);
    assert_eq!(server.retained_bytes(), 0);
}

#[test]
fn short_answers_of_a_silent_host_with_many_are_freed() {
    let (mut server, _) = bound_with(|limits| limits.packets = 1024);
    let binding = answered(&mut server, HOSTILE, 500, 4);
    let held = server.bytes_held();
    pass(&mut server, 0, 21_000);
    assert_eq!(server.packets(), 0);
    // The copies of the answers: their headers, four bytes each, and what the server notes about them.
    assert!(server.bytes_held() < held - 500 * (HEADER_LEN + 4), "{} of {held}", server.bytes_held());
    assert_eq!(answer(&mut server, HOSTILE, at(21_001), &about(Kind::Call, binding, 3, 1)), GONE);
    assert_eq!(server.counters().calls, 500);
}

#[test]
fn half_received_calls_of_a_silent_host_with_much_are_refused_for_good() {
    let (mut server, _) = bound_with(|limits| {
        (limits.incomplete, limits.patience) = (8 << 20, Duration::from_secs(600));
    });
    let hostile = bind_from(&mut server, HOSTILE, at(0), 1).expect("there is room");
    let victim = bind_from(&mut server, VICTIM, at(0), 2).expect("there is room");
    for lane in 0..20 {
        give_from(&mut server, HOSTILE, at(1), &first_part(hostile, lane));
    }
    give_from(&mut server, VICTIM, at(1), &first_part(victim, 0));
    pass(&mut server, 0, 7_000);
    assert!((1..=LONG + HEADER_LEN).contains(&server.incomplete_bytes()), "{}", server.incomplete_bytes());
    assert_eq!(server.counters().incomplete, 20);
    assert_eq!(answer(&mut server, HOSTILE, at(7_001), &first_part(hostile, 0)), NEVER_RUN);
    match give_from(&mut server, VICTIM, at(7_001), &first_part(victim, 0)) {
        Made::Reply(kind, _) => assert_eq!(kind, Kind::Receipt, "the victim's call goes on arriving"),
        Made::Run(_) => panic!("run without its arguments"),
        Made::Nothing => {}
    }
    server.bytes_held();
}

#[test]
fn a_half_received_call_behind_a_running_one_is_refused_for_good() {
    let (mut server, _) = bound_with(|limits| limits.incomplete = 512 << 10);
    let binding = bind_from(&mut server, HOSTILE, at(0), 1).expect("there is room");
    let Made::Run(running) = give_from(&mut server, HOSTILE, at(1), &about(Kind::Call, binding, 0, 1)) else {
        panic!("not run")
    };
    let mut second = first_part(binding, 0);
    second[16] = 2;
    give_from(&mut server, HOSTILE, at(1), &second);
    assert!(server.incomplete_bytes() >= 16 << 10);
    pass(&mut server, 0, 7_000);
    assert_eq!(server.incomplete_bytes(), 0);
    assert!(matches!(finish(&mut server, running), Next::Nothing));
    assert_eq!(answer(&mut server, HOSTILE, at(7_001), &second), NEVER_RUN);
    assert_eq!(server.counters().calls, 1);
}

#[test]
fn a_binding_is_quiet_when_nothing_was_heard_on_it_for_five_seconds_of_watching() {
    let (mut server, binding) = bound();
    give_from(&mut server, CALLER, at(1_000), &about(Kind::Call, binding, 0, 1));
    assert!(!server.is_quiet(at(5_999), binding, at(0)));
    assert!(server.is_quiet(at(6_000), binding, at(0)));
    assert!(!server.is_quiet(at(6_000), binding, at(1_001)), "the server did not look before");
    give_from(&mut server, CALLER, at(6_000), &about(Kind::Probe, binding, 0, 1));
    assert!(!server.is_quiet(at(10_999), binding, at(0)), "its caller lives");
    let unbind = Header::bare(Kind::Unbind, binding, LaneId(0), CallNumber(0)).to_bytes();
    give_from(&mut server, CALLER, at(7_000), &unbind);
    assert!(server.is_quiet(at(7_001), binding, at(0)), "it is gone");
}

fn cancels(server: &mut Server<Host>, from: Host, lanes: u16) -> BindingId {
    let binding = bind_from(server, from, at(0), 78).expect("there is room");
    for lane in (0..lanes).step_by(4) {
        give_from(server, from, at(1), &about(Kind::Cancel, binding, lane, 1));
    }
    binding
}

#[test]
fn lanes_of_a_silent_host_with_many_take_little_memory_and_keep_their_outcomes() {
    let (mut server, _) = bound_with(|limits| limits.all_lanes = 8192);
    let before = server.bytes_held();
    let binding = cancels(&mut server, HOSTILE, 4096);
    let held = server.bytes_held() - before;
    server.watch(at(1));
    pass(&mut server, 0, 7_000);
    let resting = server.bytes_held() - before;
    assert!(resting < held / 3, "{resting} of {held}");
    assert_eq!(server.next_timeout(), at(15_000), "no more looks while they rest");
    let cancelled = (Kind::Refusal, 10);
    assert_eq!(answer(&mut server, HOSTILE, at(7_001), &about(Kind::Call, binding, 400, 1)), cancelled);
    let next = give_from(&mut server, HOSTILE, at(7_002), &about(Kind::Call, binding, 400, 2));
    assert!(matches!(next, Made::Run(_)), "the lane goes on");
    // Those that have woken rest again, after the next sweep.
    for round in 1..4 {
        for lane in (0..4096).step_by(4).filter(|lane| *lane != 400) {
            let again = about(Kind::Cancel, binding, lane, 1);
            assert_eq!(answer(&mut server, HOSTILE, at(round * 30_000), &again), cancelled);
        }
        pass(&mut server, round * 30_000, round * 30_000 + 29_000);
        let again = server.bytes_held() - before;
        assert!(again <= resting + 2 * MAX_DATAGRAM, "{again} after {resting}");
    }
}

#[test]
fn lanes_of_a_host_that_is_heard_or_has_few_do_not_rest() {
    let (mut server, _) = bound_with(|limits| limits.all_lanes = 8192);
    let hostile = cancels(&mut server, HOSTILE, 4096);
    cancels(&mut server, VICTIM, 100);
    server.watch(at(1));
    let held = server.bytes_held();
    for second in 0..8 {
        give_from(&mut server, HOSTILE, at(second * 1_000), &about(Kind::Cancel, hostile, 0, 1));
        pass(&mut server, second * 1_000, second * 1_000 + 900);
    }
    assert_eq!(server.bytes_held(), held);
}
