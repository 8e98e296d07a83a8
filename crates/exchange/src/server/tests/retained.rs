//! Answers that are retained in their packets, or as copies.

use super::*;

fn lane(server: &mut Server<Host>, binding: BindingId) -> &mut lane::LaneState<Host> {
    server.bindings.get_mut(binding).unwrap().lanes.get_mut(LaneId(0)).unwrap()
}

/// Makes the call of that number at `now`, and returns the answer that is sent.
fn call_at(server: &mut Server<Host>, binding: BindingId, now: Instant, number: u32) -> Vec<u8> {
    let mut reply = Vec::new();
    let call = packet(Kind::Call, binding, number);
    let Effect::Run(mut assignment) = server.handle_packet(now, &CALLER, &call, &mut reply) else {
        panic!("not run")
    };
    assignment.packet_mut()[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&number.to_le_bytes());
    let sent = assignment.complete(now, 4).to_vec();
    assert!(matches!(server.finish(now, assignment), Next::Nothing));
    sent
}

/// The answer to a duplicate of that call at `now`.
fn again_at(server: &mut Server<Host>, binding: BindingId, now: Instant, number: u32) -> Vec<u8> {
    let mut reply = Vec::new();
    let call = packet(Kind::Call, binding, number);
    assert!(matches!(server.handle_packet(now, &CALLER, &call, &mut reply), Effect::Reply));
    reply
}

fn is_gone(answer: &[u8]) -> bool {
    let (header, _) = Header::parse(answer).unwrap();
    (header.kind, header.time) == (Kind::Failure, FailureCode::ResultGone.code())
}

#[test]
fn the_only_call_of_a_lane_is_retained_as_a_copy_until_its_deadline() {
    let (mut server, binding) = bound();
    let sent = call_at(&mut server, binding, at(1), 1);
    assert!(!lane(&mut server, binding).has_packet());
    assert_eq!(server.packets(), 1);
    assert_eq!(again_at(&mut server, binding, at(2), 1), sent);
    // The call's deadline is a second after its arrival.
    server.handle_timeout(at(1_001));
    assert_eq!(again_at(&mut server, binding, at(1_001), 1), sent);
    server.handle_timeout(at(20_000));
    assert!(is_gone(&again_at(&mut server, binding, at(20_000), 1)));
    assert_eq!(server.packets(), 0);
    assert_eq!(server.counters().calls, 1);
}

#[test]
fn calls_that_follow_each_other_soon_have_the_packet_of_their_lane() {
    let (mut server, binding) = bound();
    call_at(&mut server, binding, at(1), 1);
    let sent = call_at(&mut server, binding, at(900), 2);
    assert!(lane(&mut server, binding).has_packet());
    assert_eq!(again_at(&mut server, binding, at(900), 2), sent);
    assert_eq!(server.packets(), 1);
}

#[test]
fn calls_that_follow_each_other_late_are_retained_as_copies() {
    let (mut server, binding) = bound();
    for number in 1..4 {
        let now = at(u64::from(number) * 1_001);
        let sent = call_at(&mut server, binding, now, number);
        assert!(!lane(&mut server, binding).has_packet());
        assert_eq!(again_at(&mut server, binding, now, number), sent);
        assert_eq!(server.packets(), 1);
        let mut reply = Vec::new();
        let before = packet(Kind::Call, binding, number - 1);
        assert!(matches!(server.handle_packet(now, &CALLER, &before, &mut reply), Effect::Nothing));
    }
    assert_eq!(server.counters().calls, 3);
}

#[test]
fn a_lane_that_is_not_used_any_more_gives_its_packet_back_and_has_its_answer() {
    let (mut server, binding) = bound();
    let call = |number| {
        let mut call = packet(Kind::Call, binding, number);
        // Its deadline is an hour after its arrival.
        call[28..32].copy_from_slice(&stoop_wire::left_of_nanos(3_600_000_000_000).to_le_bytes());
        call
    };
    for number in 1..3 {
        let assignment = run(&mut server, &call(number));
        finish(&mut server, assignment);
    }
    let mut sent = Vec::new();
    assert!(matches!(server.handle_packet(at(3), &CALLER, &call(2), &mut sent), Effect::Reply));
    assert!(lane(&mut server, binding).has_packet());
    server.handle_timeout(at(20_000));
    assert!(!lane(&mut server, binding).has_packet());
    assert_eq!(again_at(&mut server, binding, at(20_001), 2), sent);
    assert_eq!(server.packets(), 1);
}

#[test]
fn a_cancelled_copy_is_gone_for_good() {
    let (mut server, binding) = bound();
    call_at(&mut server, binding, at(1), 1);
    let mut reply = Vec::new();
    server.handle_packet(at(2), &CALLER, &packet(Kind::Cancel, binding, 1), &mut reply);
    assert!(is_gone(&reply) && is_gone(&again_at(&mut server, binding, at(3), 1)));
    assert_eq!(server.packets(), 0);
    call_at(&mut server, binding, at(4), 2);
    assert_eq!((server.packets(), server.counters().calls), (1, 2));
}

#[test]
fn a_refusal_that_is_retained_as_a_copy_stays_a_refusal() {
    let (mut server, binding) = bound();
    let mut assignment = run(&mut server, &packet(Kind::Call, binding, 1));
    assignment.refuse(RefusalCode::Overloaded, "why");
    server.finish(at(2), assignment);
    server.handle_timeout(at(20_000));
    let answer = again_at(&mut server, binding, at(20_000), 1);
    let (header, _) = Header::parse(&answer).unwrap();
    assert_eq!((header.kind, header.time), (Kind::Refusal, RefusalCode::Overloaded.code()));
    assert_eq!(server.packets(), 0);
}

#[test]
fn an_answer_is_retained_until_the_deadline_of_its_call_and_no_longer() {
    // The call of this number follows another one soon, or it does not.
    for number in [1, 2] {
        let (mut server, binding) = bound();
        let sweep = server.next_sweep;
        let at_deadline = Instant::from_nanos(sweep.as_nanos() - 1_000_000_000);
        for earlier in 1..number {
            call_at(&mut server, binding, at_deadline, earlier);
        }
        let sent = call_at(&mut server, binding, at_deadline, number);
        server.handle_timeout(sweep);
        assert_ne!(server.next_sweep, sweep, "it has looked for answers to release");
        assert_eq!(again_at(&mut server, binding, sweep, number), sent);
        let sweep = server.next_sweep;
        server.handle_timeout(sweep);
        assert!(is_gone(&again_at(&mut server, binding, sweep, number)));
    }
}
