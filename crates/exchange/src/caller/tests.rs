use super::*;
use alloc::vec;
use alloc::vec::Vec;

const BINDING: BindingId = BindingId(0xfeed);
const LANE: LaneId = LaneId(3);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A lane with one call begun at 0 ms, to end by 10 s, and its packet.
fn calling() -> (Lane, Vec<u8>) {
    let mut path = RoundTrip::default();
    (0..20).for_each(|_| path.sample(Duration::from_micros(50)));
    let mut lane = Lane::new(BINDING, LANE, path, 1);
    let mut packet = alloc::vec![0; HEADER_LEN + 5];
    lane.start(at(0), at(10_000), 7, &mut packet);
    (lane, packet)
}

fn from_server(kind: Kind, number: CallNumber) -> Header {
    Header::bare(kind, BINDING, LANE, number)
}

#[test]
fn a_call_packet_carries_procedure_length_and_remaining_time() {
    let (lane, packet) = calling();
    let (header, payload) = Header::parse(&packet).unwrap();
    assert_eq!((header.kind, header.procedure, header.number), (Kind::Call, 7, lane.number()));
    assert_eq!((header.time, payload.len()), (10_000_000, 5));
}

#[test]
fn one_packet_in_each_direction_counts_as_the_fast_path() {
    let (mut lane, _) = calling();
    let result = from_server(Kind::Result, lane.number());
    assert_eq!(lane.handle_packet(at(1), &result.to_bytes()), Heard::Result { len: 0, at_server_ns: 0 });
    assert_eq!(lane.counters(), Counters { calls: 1, fast: 1, ..Counters::default() });
    assert_eq!(lane.next_timeout(), Instant::NEVER);
}

#[test]
fn a_late_result_of_an_earlier_call_is_ignored() {
    let (mut lane, mut packet) = calling();
    let earlier = lane.number();
    lane.abandon(at(1));
    lane.start(at(2), at(100), 7, &mut packet);
    assert_eq!(lane.handle_packet(at(3), &from_server(Kind::Result, earlier).to_bytes()), Heard::Ignored);
    assert!(lane.effort(at(3)).is_some());
}

#[test]
fn a_result_of_another_lane_or_binding_is_ignored() {
    let (mut lane, _) = calling();
    let result = from_server(Kind::Result, lane.number());
    for foreign in [Header { lane: LaneId(4), ..result }, Header { binding: BindingId(1), ..result }] {
        assert_eq!(lane.handle_packet(at(1), &foreign.to_bytes()), Heard::Ignored);
    }
}

#[test]
fn waits_between_retransmissions_grow_until_the_deadline() {
    let (mut lane, mut packet) = calling();
    let mut sent = Vec::new();
    let end = loop {
        let now = lane.next_timeout();
        match lane.handle_timeout(now, &mut packet) {
            Due::Retransmit => sent.push(now.as_nanos()),
            Due::Abandon(why) => break (now, why),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end, (at(10_000), Lost::DeadlinePassed));
    assert!(sent[1] - sent[0] < sent[3] - sent[2], "{sent:?}");
    assert!((20..60).contains(&sent.len()), "{}", sent.len());
    assert_eq!(lane.abandon(at(10_000)).unwrap().transmissions as usize, sent.len() + 1);
}

#[test]
fn a_retransmission_carries_the_time_left_when_it_is_sent() {
    let (mut lane, mut packet) = calling();
    let first = packet.clone();
    assert_eq!(lane.handle_timeout(at(5_000), &mut packet), Due::Retransmit);
    let (header, _) = Header::parse(&packet).unwrap();
    assert_eq!(header.time, 5_000_000);
    assert_eq!(packet[..28], first[..28], "nothing else has changed");
}

#[test]
fn a_call_that_is_acknowledged_unasked_is_asked_about_when_it_would_have_come_again() {
    let (mut lane, mut packet) = calling();
    let again = lane.next_timeout();
    let acknowledgement = from_server(Kind::Acknowledgement, lane.number()).to_bytes();
    assert_eq!(lane.handle_packet(at(1), &acknowledgement), Heard::Progress);
    let mut waits = Waits::default();
    assert!(waits.enter(0, &lane) && waits.next_timeout() == again, "its result may be lost soon");
    waits.leave(&mut lane);
    assert!(matches!(lane.handle_timeout(again, &mut packet), Due::Probe(_)));
    assert_eq!(lane.handle_packet(again, &acknowledgement), Heard::Progress);
    assert!(lane.next_timeout() >= again + PROBE_INTERVAL);
}

#[test]
fn an_acknowledged_call_is_probed_and_not_sent_again() {
    let (mut lane, mut packet) = calling();
    let acknowledgement = from_server(Kind::Acknowledgement, lane.number()).to_bytes();
    let mut now = at(1);
    for _ in 0..10 {
        assert_eq!(lane.handle_packet(now, &acknowledgement), Heard::Progress);
        now = lane.next_timeout();
        let Due::Probe(probe) = lane.handle_timeout(now, &mut packet) else { panic!("no probe") };
        assert_eq!(Header::from_bytes(&probe).unwrap().kind, Kind::Probe);
    }
    assert_eq!(lane.counters().retransmissions, 0);
}

#[test]
fn a_silent_server_is_noticed_within_the_silence_limit() {
    let (mut lane, mut packet) = calling();
    lane.handle_packet(at(1), &from_server(Kind::Acknowledgement, lane.number()).to_bytes());
    let noticed = loop {
        let now = lane.next_timeout();
        if let Due::Abandon(why) = lane.handle_timeout(now, &mut packet) {
            assert_eq!(why, Lost::ServerSilent);
            break now;
        }
    };
    assert!(noticed >= at(2_001) && noticed < at(2_200), "{noticed:?}");
    assert!(lane.counters().probes > 10);
}

#[test]
fn a_caller_that_was_stopped_probes_before_it_declares_the_server_silent() {
    let (mut lane, mut packet) = calling();
    let acknowledgement = from_server(Kind::Acknowledgement, lane.number()).to_bytes();
    lane.handle_packet(at(1), &acknowledgement);
    // Twice: the server answers when it is asked, and then no more.
    for stopped_until in [3_000, 6_000] {
        assert!(matches!(lane.handle_timeout(at(stopped_until), &mut packet), Due::Probe(_)));
        assert_eq!(lane.handle_packet(at(stopped_until + 1), &acknowledgement), Heard::Progress);
    }
    let mut asked = 0;
    let mut now = at(9_000);
    let why = loop {
        match lane.handle_timeout(now, &mut packet) {
            Due::Probe(_) => asked += 1,
            Due::Abandon(why) => break why,
            other => panic!("{other:?}"),
        }
        now = lane.next_timeout();
    };
    assert_eq!((why, asked), (Lost::ServerSilent, 5));
    assert!(now < at(9_700), "{now:?}");
}

#[test]
fn the_second_report_of_a_closed_port_ends_the_call() {
    let (mut lane, mut packet) = calling();
    assert_eq!(lane.handle_unreachable(at(1)), Due::Nothing);
    assert_eq!(lane.handle_timeout(at(1), &mut packet), Due::Retransmit);
    assert_eq!(lane.handle_unreachable(at(2)), Due::Abandon(Lost::PortClosed));
}

#[test]
fn a_call_of_which_one_transmission_is_on_its_way_back_waits_for_it() {
    let (mut lane, mut packet) = calling();
    let first = packet.clone();
    assert_eq!(lane.handle_unreachable(at(1)), Due::Nothing);
    assert_eq!(lane.handle_timeout(at(1), &mut packet), Due::Retransmit);
    let second = packet.clone();
    assert_eq!(lane.handle_timeout(lane.next_timeout(), &mut packet), Due::Retransmit);
    lane.handle_sent_back(&first);
    lane.handle_sent_back(&second);
    assert_eq!(lane.handle_unreachable(at(50)), Due::Nothing);
    lane.handle_sent_back(&packet);
    assert_eq!(lane.handle_unreachable(at(51)), Due::Abandon(Lost::PortClosed));
    assert!(lane.last_came_back());
}

#[test]
fn a_call_does_not_wait_for_a_transmission_that_never_comes_back() {
    let (mut lane, mut packet) = calling();
    lane.handle_sent_back(&packet);
    assert_eq!(lane.handle_unreachable(at(1)), Due::Nothing);
    let mut now = at(1);
    let reports = 2..100;
    let ended = reports.map(|_| {
        assert_eq!(lane.handle_timeout(now, &mut packet), Due::Retransmit);
        now = lane.next_timeout();
        lane.handle_unreachable(now)
    });
    let waited = ended.take_while(|due| *due == Due::Nothing).count();
    assert_eq!(waited, 2);
    assert!(!lane.last_came_back());
}

#[test]
fn a_call_came_back_only_if_each_of_its_transmissions_did() {
    let (mut lane, mut packet) = calling();
    assert!(!lane.last_came_back());
    let first = packet.clone();
    lane.handle_sent_back(&first);
    assert!(lane.last_came_back());
    assert_eq!(lane.handle_unreachable(at(1)), Due::Nothing);
    assert_eq!(lane.handle_timeout(at(1), &mut packet), Due::Retransmit);
    assert!(!lane.last_came_back(), "the second is on its way");
    lane.handle_sent_back(&first);
    assert!(!lane.last_came_back(), "that was the first again");
    lane.handle_sent_back(&packet);
    assert!(lane.last_came_back());
    lane.handle_packet(at(2), &from_server(Kind::Acknowledgement, lane.number()).to_bytes());
    assert!(!lane.last_came_back(), "the server has it");

    lane.abandon(at(3));
    lane.start(at(4), at(100), 7, &mut packet);
    assert!(!lane.last_came_back(), "another call");
}

#[test]
fn transmissions_within_one_unit_of_the_time_word_are_distinguished() {
    let mut lane = Lane::new(BINDING, LANE, RoundTrip::default(), 1);
    let mut packet = alloc::vec![0; HEADER_LEN];
    let hour = at(3_600_000).after_nanos(500_000);
    lane.start(at(0), hour, 7, &mut packet);
    for micros in 1..5 {
        lane.handle_sent_back(&packet);
        assert!(lane.last_came_back(), "all that were sent by {micros} µs");
        let now = Instant::from_nanos(1000 * micros);
        lane.handle_unreachable(now);
        assert_eq!(lane.handle_timeout(now, &mut packet), Due::Retransmit);
        lane.outstanding.as_mut().unwrap().unreachable = 0;
    }
}

#[test]
fn only_transmissions_of_the_call_itself_count_as_come_back() {
    let (mut lane, packet) = calling();
    let call = Header::from_bytes(packet.first_chunk().unwrap()).unwrap();
    for other in [
        Header { kind: Kind::Probe, ..call },
        Header { lane: LaneId(4), ..call },
        Header { binding: BindingId(1), ..call },
        Header { number: call.number.next(), ..call },
        Header { offset: 1440, ..call },
    ] {
        lane.handle_sent_back(&other.to_bytes());
    }
    lane.handle_sent_back(&packet[..HEADER_LEN - 1]);
    assert!(!lane.last_came_back());
    lane.handle_sent_back(&packet[..HEADER_LEN]);
    assert!(lane.last_came_back());
}

#[test]
fn a_call_of_many_packets_came_back_if_its_first_part_did() {
    let (mut lane, _) = calling();
    let mut path = crate::bulk::Path::new(1440, RoundTrip::default(), 1);
    lane.abandon(at(1));
    lane.start_large(at(1), at(100), 7, 4000, 64_000);
    let run = lane.next_run(at(1), &mut path, 64_000).unwrap();
    assert_eq!((run.offset, run.fragment), (0, 1440));
    let mut part = [0; HEADER_LEN];
    lane.framing(at(1)).stamp(&mut part, (1440, 1440), 1);
    lane.handle_sent_back(&part);
    assert!(!lane.last_came_back(), "another part");
    lane.framing(at(1)).stamp(&mut part, (0, 1440), 0);
    lane.handle_sent_back(&part);
    assert!(lane.last_came_back());
    lane.settle(&mut path);
}

#[test]
fn a_challenge_is_answered_with_its_cookie() {
    let (mut lane, _) = calling();
    let cookie = stoop_wire::Challenge(0xabcd_ef01_2345_6789);
    let challenge = from_server(Kind::Challenge, lane.number()).with_challenge(Kind::Challenge, cookie);
    let Heard::Prove(proof) = lane.handle_packet(at(1), &challenge.to_bytes()) else { panic!("no proof") };
    assert_eq!(Header::from_bytes(&proof).unwrap().challenge(), Some(cookie));
}

#[test]
fn repeated_challenges_are_answered_once_between_two_timeouts() {
    let (mut lane, mut packet) = calling();
    let challenge = from_server(Kind::Challenge, lane.number())
        .with_challenge(Kind::Challenge, stoop_wire::Challenge(1))
        .to_bytes();
    for _ in 0..3 {
        assert!(matches!(lane.handle_packet(at(1), &challenge), Heard::Prove(_)));
        for _ in 0..10 {
            assert_eq!(lane.handle_packet(at(1), &challenge), Heard::Ignored);
        }
        assert_eq!(lane.handle_timeout(lane.next_timeout(), &mut packet), Due::Retransmit);
    }
}

#[test]
fn a_challenged_call_gives_no_round_trip_sample() {
    let (mut lane, _) = calling();
    let before = lane.path().measured_nanos();
    let challenge = from_server(Kind::Challenge, lane.number());
    let challenge = challenge.with_challenge(Kind::Challenge, stoop_wire::Challenge(1)).to_bytes();
    lane.handle_packet(at(100), &challenge);
    lane.handle_packet(at(200), &from_server(Kind::Result, lane.number()).to_bytes());
    let path = lane.path().measured_nanos();
    assert_eq!((path, lane.counters().fast, lane.last_transmissions()), (before, 0, 2));
}

#[test]
fn a_part_of_a_result_does_not_end_the_call() {
    let (mut lane, _) = calling();
    let part = Header { message_len: 10, offset: 5, ..from_server(Kind::Result, lane.number()) };
    let packet = [&part.to_bytes()[..], &[0; 5]].concat();
    assert_eq!(lane.handle_packet(at(1), &packet), Heard::Ignored);
}

#[test]
fn a_retransmitted_call_gives_no_round_trip_sample() {
    let (mut lane, mut packet) = calling();
    let before = lane.path().measured_nanos();
    let now = lane.next_timeout();
    lane.handle_timeout(now, &mut packet);
    lane.handle_packet(at(300), &from_server(Kind::Result, lane.number()).to_bytes());
    assert_eq!(lane.path().measured_nanos(), before);
}

#[test]
fn a_long_result_in_one_packet_gets_a_receipt_and_so_do_its_repetitions() {
    let (mut lane, _) = calling();
    let mut packet = vec![7; HEADER_LEN + 5000];
    let template = Template::new(Kind::Result, BINDING, LANE);
    template.stamp_part(packet.first_chunk_mut().unwrap(), 0, lane.number(), 5000, (0, 5000), 0);
    let Heard::Part(part) = lane.handle_packet(at(1), &packet) else { panic!("no part") };
    assert_eq!((part.offset, part.len, part.message_len, part.complete), (0, 5000, 5000, true));
    for _ in 0..2 {
        assert!(lane.owes_receipt(true));
        let mut receipt = [0; stoop_wire::Receipt::MAX_PACKET];
        let len = lane.receipt(at(2), 0, &mut receipt);
        let (header, payload) = Header::parse(&receipt[..len]).unwrap();
        assert_eq!(header.kind, Kind::Receipt);
        assert_eq!(stoop_wire::Receipt::decode(payload).unwrap().up_to, 5000);
        assert_eq!(lane.handle_packet(at(3), &packet), Heard::Progress);
    }
}

/// As [`calling`], with the call begun in the compact record.
fn calling_compactly() -> (Lane, CompactCall, Vec<u8>) {
    let (mut lane, mut packet) = calling();
    lane.abandon(at(0));
    let mut compact = lane.compact_call();
    compact.start(at(0), at(10_000), 7, &mut packet);
    (lane, compact, packet)
}

#[test]
fn a_compact_call_has_the_same_packet_as_its_lane_would_send() {
    let (mut lane, mut as_lane) = calling();
    lane.abandon(at(0));
    lane.start(at(0), at(10_000), 7, &mut as_lane);
    let (_, compact, packet) = calling_compactly();
    assert_eq!((&packet, compact.number()), (&as_lane, lane.number()));
    assert_eq!(compact.next_timeout(&lane.path()), lane.next_timeout());
}

#[test]
fn only_its_result_ends_a_compact_call() {
    let (lane, mut compact, _) = calling_compactly();
    let result = from_server(Kind::Result, compact.number());
    let others = [
        Header { lane: LaneId(4), ..result },
        Header { binding: BindingId(1), ..result },
        Header { number: lane.number(), ..result },
        Header { kind: Kind::Refusal, ..result },
        Header { kind: Kind::Acknowledgement, ..result },
        Header { message_len: 1, ..result },
    ];
    for other in others {
        assert!(compact.take_result(&other.to_bytes()).is_none() && compact.is_outstanding());
    }
    assert_eq!(compact.take_result(&result.to_bytes()), Some((0, 0)));
    assert!(compact.take_result(&result.to_bytes()).is_none(), "it comes again");
}

#[test]
fn an_expanded_call_equals_one_begun_by_the_lane() {
    let (mut lane, mut compact, mut packet) = calling_compactly();
    let path = lane.path();
    assert!(lane.expand(&mut compact, path) && !compact.is_outstanding());
    assert!(!lane.expand(&mut compact, path), "once");
    assert_eq!((lane.number(), lane.next_timeout()), (compact.number(), at(4)));
    assert_eq!(lane.handle_timeout(at(4), &mut packet), Due::Retransmit);
    let result = from_server(Kind::Result, compact.number()).to_bytes();
    assert!(compact.take_result(&result).is_none());
    assert_eq!(lane.handle_packet(at(5), &result), Heard::Result { len: 0, at_server_ns: 0 });
}

#[test]
fn lane_and_compact_record_never_use_a_number_twice() {
    let (mut lane, mut compact, mut packet) = calling_compactly();
    let (first, path) = (compact.number(), lane.path());
    compact.take_result(&from_server(Kind::Result, first).to_bytes()).unwrap();
    assert!(!lane.expand(&mut compact, path), "it has ended");
    lane.start(at(1), at(100), 7, &mut packet);
    assert_eq!(lane.number(), first.next());
    assert_eq!(lane.handle_packet(at(2), &from_server(Kind::Result, first).to_bytes()), Heard::Ignored);
    lane.abandon(at(3));
    lane.update_compact(&mut compact);
    compact.start(at(4), at(100), 7, &mut packet);
    assert_eq!(compact.number(), first.next().next());
}

#[test]
fn a_call_expands_after_any_number_of_compact_calls() {
    // As many as there are numbers, and as many as make one number seem to be before another.
    for many in [1, 1 << 31, u32::MAX, 0] {
        let (mut lane, mut compact, mut packet) = calling_compactly();
        lane.number = CallNumber(compact.number().0.wrapping_sub(many));
        let path = lane.path();
        assert!(lane.expand(&mut compact, path) && !compact.is_outstanding(), "after {many}");
        assert_eq!((lane.number(), lane.next_timeout()), (compact.number(), at(4)));
        assert_eq!(lane.handle_timeout(at(4), &mut packet), Due::Retransmit);
    }
    // The same when the last of them has ended: none of their numbers comes again.
    let (mut lane, mut compact, mut packet) = calling_compactly();
    compact.take_result(&from_server(Kind::Result, compact.number()).to_bytes()).unwrap();
    lane.number = CallNumber(compact.number().0.wrapping_sub(1 << 31));
    let path = lane.path();
    assert!(!lane.expand(&mut compact, path));
    lane.start(at(1), at(100), 7, &mut packet);
    assert_eq!(lane.number(), compact.number().next());
}

#[test]
fn a_refusal_of_the_version_counts_as_an_unknown_binding() {
    let (mut lane, packet) = calling();
    let mut answer = packet[..HEADER_LEN].to_vec();
    (answer[1], answer[2]) = (2, Kind::Versions as u8);
    answer[24..].copy_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(lane.handle_packet(at(1), &answer), Heard::Ignored, "it speaks this one, too");
    answer[25] = 0;
    assert_eq!(lane.handle_packet(at(1), &answer), Heard::Unbound(Unbound::ANOTHER_VERSION));
}
