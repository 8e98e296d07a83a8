use super::*;
use crate::RoundTrip;
use crate::caller::pipe_state::OpenPipes;
use crate::caller::{Due, Heard, Lost};
use stoop_wire::HEADER_LEN;

/// Bytes of a call in a packet.
const CALL_LEN: usize = 6;

const BINDING: BindingId = BindingId(0xfeed);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// The call of lane `lane`, begun and acknowledged at `now`.
fn acknowledged(lane: u16, now: Instant) -> Lane {
    let mut waiting = Lane::new(BINDING, LaneId(lane), RoundTrip::default(), u64::from(lane));
    waiting.start(now, now + Duration::from_secs(600), 7, &mut [0; HEADER_LEN]);
    let acknowledgement = Header::bare(Kind::Acknowledgement, BINDING, LaneId(lane), waiting.number());
    // The second one cannot have come before it was asked for.
    (0..2).for_each(|_| assert_eq!(waiting.handle_packet(now, &acknowledgement.to_bytes()), Heard::Progress));
    waiting
}

/// So many calls, which are acknowledged at `from(call)` milliseconds.
fn many(calls: u16, from: impl Fn(u16) -> u64) -> (Waits, Vec<Lane>) {
    let mut waits = Waits::default();
    let lanes: Vec<Lane> = (0..calls).map(|call| acknowledged(call, at(from(call)))).collect();
    assert!(lanes.iter().zip(0..).all(|(lane, call)| waits.enter(call, lane)));
    (waits, lanes)
}

/// The packets that the caller sends at `now`.
fn asked(waits: &mut Waits, now: Instant) -> Vec<Vec<u8>> {
    let (mut packets, mut silent) = (Vec::new(), Vec::new());
    waits.ask(now, 64, |packet| packets.push(packet.to_vec()), &mut silent);
    assert_eq!(silent, []);
    packets
}

fn calls_in(packet: &[u8]) -> Vec<(LaneId, CallNumber)> {
    let (header, payload) = Header::parse(packet).unwrap();
    CallList::decode(&header, payload).unwrap().calls().collect()
}

/// The server's answer to probes, if it has the calls for which `has` is true.
fn answer(probes: &[u8], has: impl Fn(u16) -> bool) -> Vec<u8> {
    let ((header, payload), mut reply) = (Header::parse(probes).unwrap(), Vec::new());
    CallList::decode(&header, payload).unwrap().answer(&header, |lane, _| has(lane.0), &mut reply);
    reply
}

/// Handles a packet, and returns the calls that the server does not have.
fn hear(waits: &mut Waits, now: Instant, packet: &[u8]) -> Vec<u32> {
    let mut others = Vec::new();
    waits.handle_packet(now, packet, &mut others);
    others
}

#[test]
fn ten_thousand_calls_are_asked_about_in_forty_two_packets() {
    let (mut waits, _) = many(10_000, |_| 0);
    assert!(waits.next_timeout() >= at(500) && waits.next_timeout() <= at(625));
    let packets = asked(&mut waits, at(625));
    assert_eq!(packets.len(), 42);
    let calls: Vec<_> = packets.iter().flat_map(|packet| calls_in(packet)).collect();
    assert!(calls.iter().map(|(lane, _)| lane.0).eq(0..10_000));
    for packet in &packets {
        assert_eq!(hear(&mut waits, at(626), &answer(packet, |_| true)), []);
    }
    assert!(waits.next_timeout() >= at(1126), "nothing to do before the next round");
}

#[test]
fn a_round_has_no_more_packets_than_are_allowed() {
    let (mut waits, _) = many(10_000, |_| 0);
    let (mut packets, mut silent) = (0, Vec::new());
    for round in 0..3 {
        assert!(waits.next_timeout() <= at(625 + round));
        waits.ask(at(625 + round), 16, |_| packets += 1, &mut silent);
        assert_eq!(packets, 42.min(16 * (round + 1)));
        assert_eq!(waits.next_timeout() == at(626 + round), packets < 42, "the round goes on");
    }
    assert!(waits.next_timeout() > at(700));
}

#[test]
fn calls_that_began_at_different_times_are_soon_asked_about_together() {
    let (mut waits, _) = many(1000, |call| u64::from(call % 100) * 20);
    let mut heard = [at(0); 1000];
    let mut rounds = Vec::new();
    while waits.next_timeout() < at(10_000) {
        let now = waits.next_timeout();
        let packets = asked(&mut waits, now);
        if !packets.is_empty() {
            rounds.push(now);
        }
        for packet in packets {
            for (LaneId(lane), _) in calls_in(&packet) {
                let before = core::mem::replace(&mut heard[usize::from(lane)], now);
                assert!(
                    before == at(0) || now.since(before) <= Duration::from_millis(625),
                    "{lane} at {now:?}"
                );
            }
            hear(&mut waits, now, &answer(&packet, |_| true));
        }
    }
    let late = rounds.iter().filter(|round| **round >= at(5_000)).count();
    assert!(late <= 10, "{late} rounds in five seconds");
}

#[test]
fn a_call_that_the_server_does_not_have_is_asked_about_alone_at_once() {
    let (mut waits, mut lanes) = many(3, |_| 0);
    let packets = asked(&mut waits, at(625));
    assert_eq!(hear(&mut waits, at(630), &answer(&packets[0], |lane| lane != 1)), [1]);
    waits.leave_to_ask(at(630), &mut lanes[1]);
    let Due::Probe(probe) = lanes[1].handle_timeout(at(630), &mut []) else { panic!("no probe") };
    let header = Header::from_bytes(&probe).unwrap();
    assert_eq!((header.kind, header.lane, header.number), (Kind::Probe, LaneId(1), lanes[1].number()));
    assert!(waits.enter(1, &lanes[1]), "it may come back");
    assert_eq!(waits.len(), 3);
}

#[test]
fn an_answer_about_another_call_of_the_lane_says_nothing() {
    let (mut waits, mut lanes) = many(2, |_| 0);
    let packets = asked(&mut waits, at(625));
    waits.leave(&mut lanes[1]);
    lanes[1].abandon(at(626));
    lanes[1].start(at(626), at(600_000), 7, &mut [0; HEADER_LEN]);
    let acknowledgement = Header::bare(Kind::Acknowledgement, BINDING, LaneId(1), lanes[1].number());
    lanes[1].handle_packet(at(627), &acknowledgement.to_bytes());
    assert!(waits.enter(1, &lanes[1]));
    assert_eq!(hear(&mut waits, at(1000), &answer(&packets[0], |_| false)), [0], "not the later call");
    let of_another = |change: fn(&mut Vec<u8>)| {
        let mut packet = answer(&packets[0], |_| false);
        change(&mut packet);
        packet
    };
    let changes: [fn(&mut Vec<u8>); 3] =
        [|packet| packet[8] ^= 1, |packet| packet[6] = 9, |packet| packet.truncate(HEADER_LEN)];
    for change in changes {
        assert_eq!(hear(&mut waits, at(1000), &of_another(change)), []);
    }
}

#[test]
fn a_silent_server_is_noticed_as_early_as_by_a_lane_alone() {
    let (mut waits, mut lanes) = many(500, |_| 0);
    let mut alone = acknowledged(0, at(0));
    let given_up_alone = loop {
        let now = alone.next_timeout();
        if let Due::Abandon(lost) = alone.handle_timeout(now, &mut []) {
            break (now, lost);
        }
    };
    assert_eq!(given_up_alone.1, Lost::ServerSilent);
    let mut silent = Vec::new();
    let mut lengths = Vec::new();
    let given_up = loop {
        let now = waits.next_timeout();
        waits.ask(now, 64, |packet| lengths.push(packet.len()), &mut silent);
        if !silent.is_empty() {
            break now;
        }
    };
    assert_eq!(silent.len(), 500, "all at once");
    assert!(given_up >= at(2000) && given_up <= at(2125), "{given_up:?}");
    assert!(given_up_alone.0 <= at(2125) && given_up_alone.0 >= at(2000), "{given_up_alone:?}");
    assert!(lengths[6..].iter().all(|len| *len <= HEADER_LEN + 64 * CALL_LEN), "{lengths:?}");
    for lane in &mut lanes {
        waits.leave(lane);
        assert_eq!(lane.handle_timeout(given_up, &mut []), Due::Abandon(Lost::ServerSilent));
    }
    assert_eq!(waits.next_timeout(), Instant::NEVER);
}

#[test]
fn a_server_that_pauses_loses_no_quiet_call_with_pipes() {
    let mut piped = acknowledged(0, at(0));
    piped.open_pipes(OpenPipes { to_server: None, from_server: Some((1 << 14, 1 << 17)) }, None);
    let mut waits = Waits::default();
    assert!(waits.enter(0, &piped));
    let pause = Duration::from_millis(1350);
    let first = waits.next_timeout();
    assert!(first >= at(2000));
    let mut last = Vec::new();
    while waits.next_timeout() < first + pause {
        let now = waits.next_timeout();
        last.extend(asked(&mut waits, now));
    }
    assert!(last.len() > 5, "{}", last.len());
    assert_eq!(hear(&mut waits, first + pause, &answer(last.last().unwrap(), |_| true)), []);

    // It never answers again.
    let heard = first + pause;
    let mut silent = Vec::new();
    let given_up = loop {
        let now = waits.next_timeout();
        waits.ask(now, 64, |_| (), &mut silent);
        if !silent.is_empty() {
            break now.since(heard);
        }
    };
    assert!(
        given_up >= Duration::from_millis(3500) && given_up <= Duration::from_millis(3625),
        "{given_up:?}"
    );
}

#[test]
fn a_call_that_left_is_as_its_lane_would_have_it() {
    let (mut waits, mut lanes) = many(3, |_| 0);
    lanes[0].handle_unreachable(at(10));
    let packets = asked(&mut waits, at(625));
    hear(&mut waits, at(630), &answer(&packets[0], |_| true));
    waits.leave(&mut lanes[0]);
    assert!(lanes[0].next_timeout() >= at(1130) && lanes[0].next_timeout() <= at(1255));
    assert_eq!(lanes[0].handle_unreachable(at(1000)), Due::Nothing, "the server was heard in between");
    assert_eq!(lanes[0].handle_unreachable(at(1001)), Due::Abandon(Lost::PortClosed));
    waits.leave(&mut lanes[0]);
    assert_eq!(waits.len(), 2);
}

#[test]
fn only_acknowledged_calls_of_one_binding_enter() {
    let (mut waits, lanes) = many(1, |_| 0);
    assert!(waits.enter(0, &lanes[0]), "it is there");
    assert_eq!(waits.len(), 1);
    let mut lane = Lane::new(BINDING, LaneId(1), RoundTrip::default(), 1);
    assert!(!waits.enter(1, &lane), "no call");
    lane.start(at(0), at(1000), 7, &mut [0; HEADER_LEN]);
    assert!(!waits.enter(1, &lane), "not acknowledged");
    let mut other = Lane::new(BindingId(0xbeef), LaneId(1), RoundTrip::default(), 1);
    other.start(at(0), at(1000), 7, &mut [0; HEADER_LEN]);
    let acknowledgement = Header::bare(Kind::Acknowledgement, BindingId(0xbeef), LaneId(1), other.number());
    other.handle_packet(at(1), &acknowledgement.to_bytes());
    assert!(!waits.enter(1, &other), "of another binding");
}
