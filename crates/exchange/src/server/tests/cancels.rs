use super::*;

const CANCELLED: u32 = 10;

#[test]
fn a_call_whose_cancel_arrived_first_never_runs() {
    let (mut server, binding) = bound();
    let (call, cancel) = (packet(Kind::Call, binding, 1), packet(Kind::Cancel, binding, 1));
    for packet in [&cancel, &call, &cancel, &call] {
        assert!(matches!(give(&mut server, packet), Made::Reply(Kind::Refusal, CANCELLED)));
    }
    assert_eq!(server.counters().calls, 0);
    let next = run(&mut server, &packet(Kind::Call, binding, 2));
    finish(&mut server, next);
}

#[test]
fn the_driver_is_told_of_a_cancelled_call_that_runs() {
    let (mut server, binding) = bound();
    let running = run(&mut server, &packet(Kind::Call, binding, 1));
    let mut reply = Vec::new();
    let arrival = server.handle_packet(at(1), &CALLER, &packet(Kind::Cancel, binding, 1), &mut reply);
    let Effect::Cancelled(of, lane, number) = arrival else { panic!("{arrival:?}") };
    assert_eq!((of, lane, number), running.identity());
    assert_eq!(Header::parse(&reply).unwrap().0.kind, Kind::Acknowledgement);
    finish(&mut server, running);
    assert!(matches!(give(&mut server, &packet(Kind::Cancel, binding, 1)), Made::Reply(Kind::Failure, 3)));
}

#[test]
fn a_cancelled_call_that_waits_for_its_lane_never_runs() {
    let (mut server, binding) = bound();
    let running = run(&mut server, &packet(Kind::Call, binding, 1));
    assert!(matches!(
        give(&mut server, &packet(Kind::Call, binding, 2)),
        Made::Reply(Kind::Acknowledgement, _)
    ));
    assert!(matches!(
        give(&mut server, &packet(Kind::Cancel, binding, 2)),
        Made::Reply(Kind::Refusal, CANCELLED)
    ));
    assert!(matches!(
        give(&mut server, &packet(Kind::Call, binding, 2)),
        Made::Reply(Kind::Refusal, CANCELLED)
    ));
    assert!(matches!(finish(&mut server, running), Next::Nothing));
    for kind in [Kind::Call, Kind::Probe, Kind::Cancel] {
        assert!(matches!(
            give(&mut server, &packet(kind, binding, 2)),
            Made::Reply(Kind::Refusal, CANCELLED)
        ));
    }
}

#[test]
fn a_cancel_before_a_call_that_would_wait_refuses_it_at_once() {
    let (mut server, binding) = bound();
    let running = run(&mut server, &packet(Kind::Call, binding, 1));
    give(&mut server, &packet(Kind::Cancel, binding, 2));
    assert!(matches!(
        give(&mut server, &packet(Kind::Call, binding, 2)),
        Made::Reply(Kind::Refusal, CANCELLED)
    ));
    assert!(matches!(finish(&mut server, running), Next::Nothing));
    let next = run(&mut server, &packet(Kind::Call, binding, 3));
    finish(&mut server, next);
}

#[test]
fn a_cancel_releases_the_answer_of_its_call() {
    let (mut server, binding) = bound();
    let ended = run(&mut server, &packet(Kind::Call, binding, 1));
    finish(&mut server, ended);
    assert!(matches!(give(&mut server, &packet(Kind::Cancel, binding, 1)), Made::Reply(Kind::Failure, 3)));
    assert!(matches!(give(&mut server, &packet(Kind::Call, binding, 1)), Made::Reply(Kind::Failure, 3)));
    assert_eq!(server.counters().calls, 1);
}

#[test]
fn a_late_cancel_does_not_affect_the_next_call() {
    let (mut server, binding) = bound();
    let first = run(&mut server, &packet(Kind::Call, binding, 1));
    finish(&mut server, first);
    let second = run(&mut server, &packet(Kind::Call, binding, 2));
    assert!(matches!(give(&mut server, &packet(Kind::Cancel, binding, 1)), Made::Nothing));
    finish(&mut server, second);
    assert_eq!(server.counters().cancelled, 0);
}
