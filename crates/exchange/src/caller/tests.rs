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
fn a_call_packet_carries_procedure_length_and_the_time_that_is_left() {
    let (lane, packet) = calling();
    let (header, payload) = Header::parse(&packet).unwrap();
    assert_eq!((header.kind, header.procedure, header.number), (Kind::Call, 7, lane.number()));
    assert_eq!((header.time, payload.len()), (10_000_000, 5));
}

#[test]
fn one_packet_there_and_one_back_is_the_fast_path() {
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
fn an_unanswered_call_is_sent_again_ever_more_rarely_until_its_deadline() {
    let (mut lane, mut packet) = calling();
    let mut sent = Vec::new();
    let end = loop {
        let now = lane.next_timeout();
        match lane.handle_timeout(now, &mut packet) {
            Due::Retransmit => sent.push(now.as_nanos()),
            Due::GiveUp(why) => break (now, why),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end, (at(10_000), Lost::DeadlinePassed));
    assert!(sent[1] - sent[0] < sent[3] - sent[2], "{sent:?}");
    assert!((20..60).contains(&sent.len()), "{}", sent.len());
    assert_eq!(lane.abandon(at(10_000)).unwrap().transmissions as usize, sent.len() + 1);
}

#[test]
fn a_retransmission_says_how_little_time_is_left() {
    let (mut lane, mut packet) = calling();
    let first = packet.clone();
    assert_eq!(lane.handle_timeout(at(5_000), &mut packet), Due::Retransmit);
    let (header, _) = Header::parse(&packet).unwrap();
    assert_eq!(header.time, 5_000_000);
    assert_eq!(packet[..28], first[..28], "nothing else has changed");
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
fn a_server_that_fell_silent_is_noticed_within_its_limit() {
    let (mut lane, mut packet) = calling();
    lane.handle_packet(at(1), &from_server(Kind::Acknowledgement, lane.number()).to_bytes());
    let noticed = loop {
        let now = lane.next_timeout();
        if let Due::GiveUp(why) = lane.handle_timeout(now, &mut packet) {
            assert_eq!(why, Lost::ServerSilent);
            break now;
        }
    };
    assert!(noticed >= at(2_001) && noticed < at(2_200), "{noticed:?}");
    assert!(lane.counters().probes > 10);
}

#[test]
fn a_caller_that_was_stopped_asks_before_it_calls_a_server_silent() {
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
            Due::GiveUp(why) => break why,
            other => panic!("{other:?}"),
        }
        now = lane.next_timeout();
    };
    assert_eq!((why, asked), (Lost::ServerSilent, 5));
    assert!(now < at(9_700), "{now:?}");
}

#[test]
fn a_closed_port_ends_the_call_when_it_is_confirmed() {
    let (mut lane, mut packet) = calling();
    assert_eq!(lane.handle_unreachable(at(1)), Due::Nothing);
    assert_eq!(lane.handle_timeout(at(1), &mut packet), Due::Retransmit);
    assert_eq!(lane.handle_unreachable(at(2)), Due::GiveUp(Lost::PortClosed));
}

#[test]
fn a_call_has_come_back_when_each_of_its_transmissions_has() {
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
fn transmissions_of_a_call_whose_time_counts_in_milliseconds_are_told_apart() {
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
fn nothing_but_a_transmission_of_the_call_counts_as_one_that_came_back() {
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
fn a_call_of_many_packets_has_come_back_when_its_first_part_has() {
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
fn a_challenge_is_answered_by_its_cookie() {
    let (mut lane, _) = calling();
    let cookie = stoop_wire::Challenge(0xabcd_ef01_2345_6789);
    let challenge = from_server(Kind::Challenge, lane.number()).with_challenge(Kind::Challenge, cookie);
    let Heard::Prove(proof) = lane.handle_packet(at(1), &challenge.to_bytes()) else { panic!("no proof") };
    assert_eq!(Header::from_bytes(&proof).unwrap().challenge(), Some(cookie));
}

#[test]
fn a_storm_of_challenges_is_answered_once_between_two_timeouts() {
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
fn a_challenged_call_was_sent_twice_and_teaches_no_round_trip() {
    let (mut lane, _) = calling();
    let before = lane.path().timeout();
    let challenge = from_server(Kind::Challenge, lane.number());
    let challenge = challenge.with_challenge(Kind::Challenge, stoop_wire::Challenge(1)).to_bytes();
    lane.handle_packet(at(100), &challenge);
    lane.handle_packet(at(200), &from_server(Kind::Result, lane.number()).to_bytes());
    assert_eq!((lane.path().timeout(), lane.counters().fast, lane.last_transmissions()), (before, 0, 2));
}

#[test]
fn a_part_of_a_result_is_not_taken_for_the_whole() {
    let (mut lane, _) = calling();
    let part = Header { message_len: 10, offset: 5, ..from_server(Kind::Result, lane.number()) };
    let packet = [&part.to_bytes()[..], &[0; 5]].concat();
    assert_eq!(lane.handle_packet(at(1), &packet), Heard::Ignored);
}

#[test]
fn a_retransmitted_call_does_not_teach_a_round_trip() {
    let (mut lane, mut packet) = calling();
    let before = lane.path().timeout();
    let now = lane.next_timeout();
    lane.handle_timeout(now, &mut packet);
    lane.handle_packet(at(300), &from_server(Kind::Result, lane.number()).to_bytes());
    assert_eq!(lane.path().timeout(), before);
}

#[test]
fn a_long_result_in_one_packet_is_receipted_and_so_are_its_repetitions() {
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

/// As [`calling`], with the call begun in brief.
fn calling_in_brief() -> (Lane, CompactCall, Vec<u8>) {
    let (mut lane, mut packet) = calling();
    lane.abandon(at(0));
    let mut brief = lane.brief();
    brief.start(at(0), at(10_000), 7, &mut packet);
    (lane, brief, packet)
}

#[test]
fn a_call_begun_in_brief_has_the_packet_that_its_lane_would_have_sent() {
    let (mut lane, mut as_lane) = calling();
    lane.abandon(at(0));
    lane.start(at(0), at(10_000), 7, &mut as_lane);
    let (_, brief, packet) = calling_in_brief();
    assert_eq!((&packet, brief.number()), (&as_lane, lane.number()));
    assert_eq!(brief.next_timeout(&lane.path()), lane.next_timeout());
}

#[test]
fn a_call_in_brief_is_ended_by_its_result_and_by_nothing_else() {
    let (lane, mut brief, _) = calling_in_brief();
    let result = from_server(Kind::Result, brief.number());
    let others = [
        Header { lane: LaneId(4), ..result },
        Header { binding: BindingId(1), ..result },
        Header { number: lane.number(), ..result },
        Header { kind: Kind::Refusal, ..result },
        Header { kind: Kind::Acknowledgement, ..result },
        Header { message_len: 1, ..result },
    ];
    for other in others {
        assert!(brief.hear(&other.to_bytes()).is_none() && brief.is_out());
    }
    assert_eq!(brief.hear(&result.to_bytes()), Some((0, 0)));
    assert!(brief.hear(&result.to_bytes()).is_none(), "it comes again");
}

#[test]
fn a_lane_takes_a_call_up_as_if_it_had_begun_it() {
    let (mut lane, mut brief, mut packet) = calling_in_brief();
    let path = lane.path();
    assert!(lane.expand(&mut brief, path) && !brief.is_out());
    assert!(!lane.expand(&mut brief, path), "once");
    assert_eq!((lane.number(), lane.next_timeout()), (brief.number(), at(4)));
    assert_eq!(lane.handle_timeout(at(4), &mut packet), Due::Retransmit);
    let result = from_server(Kind::Result, brief.number()).to_bytes();
    assert!(brief.hear(&result).is_none());
    assert_eq!(lane.handle_packet(at(5), &result), Heard::Result { len: 0, at_server_ns: 0 });
}

#[test]
fn numbers_are_used_once_whoever_begins_the_calls() {
    let (mut lane, mut brief, mut packet) = calling_in_brief();
    let (first, path) = (brief.number(), lane.path());
    brief.hear(&from_server(Kind::Result, first).to_bytes()).unwrap();
    assert!(!lane.expand(&mut brief, path), "it has ended");
    lane.start(at(1), at(100), 7, &mut packet);
    assert_eq!(lane.number(), first.next());
    assert_eq!(lane.handle_packet(at(2), &from_server(Kind::Result, first).to_bytes()), Heard::Ignored);
    lane.abandon(at(3));
    lane.note_in(&mut brief);
    brief.start(at(4), at(100), 7, &mut packet);
    assert_eq!(brief.number(), first.next().next());
}

#[test]
fn a_lane_takes_a_call_up_however_many_went_well_before_it() {
    // As many as there are numbers, and as many as make one number seem to be before another.
    for many in [1, 1 << 31, u32::MAX, 0] {
        let (mut lane, mut brief, mut packet) = calling_in_brief();
        lane.number = CallNumber(brief.number().0.wrapping_sub(many));
        let path = lane.path();
        assert!(lane.expand(&mut brief, path) && !brief.is_out(), "after {many}");
        assert_eq!((lane.number(), lane.next_timeout()), (brief.number(), at(4)));
        assert_eq!(lane.handle_timeout(at(4), &mut packet), Due::Retransmit);
    }
    // The same when the last of them has ended: none of their numbers comes again.
    let (mut lane, mut brief, mut packet) = calling_in_brief();
    brief.hear(&from_server(Kind::Result, brief.number()).to_bytes()).unwrap();
    lane.number = CallNumber(brief.number().0.wrapping_sub(1 << 31));
    let path = lane.path();
    assert!(!lane.expand(&mut brief, path));
    lane.start(at(1), at(100), 7, &mut packet);
    assert_eq!(lane.number(), brief.number().next());
}

#[test]
fn a_server_that_speaks_another_version_does_not_know_the_binding() {
    let (mut lane, packet) = calling();
    let mut answer = packet[..HEADER_LEN].to_vec();
    (answer[1], answer[2]) = (2, Kind::Versions as u8);
    answer[24..].copy_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(lane.handle_packet(at(1), &answer), Heard::Ignored, "it speaks this one, too");
    answer[25] = 0;
    assert_eq!(lane.handle_packet(at(1), &answer), Heard::Unbound(Unbound::ANOTHER_VERSION));
}
