use super::*;
use stoop_wire::CallList;

/// Probes for these calls: lanes and numbers.
fn probes(binding: BindingId, calls: &[(u16, u32)]) -> Vec<u8> {
    let mut packet = vec![0; MAX_DATAGRAM];
    let calls = calls.iter().map(|&(lane, number)| (LaneId(lane), CallNumber(number)));
    let len = CallList::put_probes(binding, calls, &mut packet);
    packet.truncate(len);
    packet
}

type Called = Vec<(u16, u32)>;

/// The header of the answer; the calls that it acknowledges, and the others.
fn ask(server: &mut Server<Host>, packet: &[u8]) -> (Header, Called, Called) {
    let mut reply = Vec::new();
    assert!(matches!(server.handle_packet(at(2), &CALLER, packet, &mut reply), Effect::Reply));
    assert_eq!(reply.len(), packet.len(), "an answer is as long as the packet that asks");
    let (header, payload) = Header::parse(&reply).unwrap();
    let list = CallList::decode(&header, payload).unwrap();
    let acknowledged = list.acknowledged(&header).unwrap();
    let mut calls: Vec<_> = list.calls().map(|(lane, number)| (lane.0, number.0)).collect();
    let others = calls.split_off(acknowledged);
    (header, calls, others)
}

#[test]
fn calls_that_run_or_wait_are_acknowledged_together_and_the_others_are_named() {
    let (mut server, binding) = bound();
    let first = run(&mut server, &packet(Kind::Call, binding, 1));
    finish(&mut server, first);
    let _second = run(&mut server, &packet(Kind::Call, binding, 2));
    give(&mut server, &packet(Kind::Call, binding, 3));
    let of_lane = |lane| Template::new(Kind::Call, binding, LaneId(lane));
    let mut call = [0; HEADER_LEN];
    of_lane(9).stamp(&mut call, 0, CallNumber(7), (0, 0), 1_000_000);
    let ended = run(&mut server, &call);
    finish(&mut server, ended);

    let all = [(9, 7), (0, 2), (0, 1), (0, 3), (0, 4), (1, 1), (500, 1), (65_535, u32::MAX)];
    let (header, here, others) = ask(&mut server, &probes(binding, &all));
    assert_eq!((header.kind, header.lane, header.number), (Kind::Acknowledgements, LaneId(9), CallNumber(7)));
    assert_eq!(here, [(0, 2), (0, 3)]);
    assert_eq!(others, [(9, 7), (0, 1), (0, 4), (1, 1), (500, 1), (65_535, u32::MAX)]);
    assert_eq!(server.counters().calls, 3, "probes begin no call");
}

#[test]
fn a_call_that_was_cancelled_before_it_began_is_not_acknowledged() {
    let (mut server, binding) = bound();
    let _running = run(&mut server, &packet(Kind::Call, binding, 1));
    give(&mut server, &packet(Kind::Call, binding, 2));
    assert_eq!(ask(&mut server, &probes(binding, &[(0, 1), (0, 2)])).1.len(), 2);
    give(&mut server, &packet(Kind::Cancel, binding, 2));
    assert_eq!(ask(&mut server, &probes(binding, &[(0, 1), (0, 2)])).1, [(0, 1)]);
}

#[test]
fn probes_keep_a_binding_from_being_quiet() {
    let (mut server, binding) = bound();
    let _running = run(&mut server, &packet(Kind::Call, binding, 1));
    let mut reply = Vec::new();
    server.handle_packet(at(9_000), &CALLER, &probes(binding, &[(0, 1)]), &mut reply);
    assert!(!server.is_quiet(at(10_000), binding, at(0)));
    assert!(server.is_quiet(at(20_000), binding, at(0)));
}

#[test]
fn probes_of_an_unknown_binding_or_from_another_host_have_a_short_answer_about_the_first_call() {
    let (mut server, binding) = bound();
    let asked = probes(binding, &[(3, 4), (5, 6)]);
    let stranger = give_from(&mut server, Host(9), at(1), &asked);
    assert!(matches!(stranger, Made::Reply(Kind::Challenge, _)));
    let mut reply = Vec::new();
    let unknown = probes(BindingId(binding.0 ^ 1 << 40), &[(3, 4), (5, 6)]);
    server.handle_packet(at(1), &CALLER, &unknown, &mut reply);
    let (header, _) = Header::parse(&reply).unwrap();
    assert!(header.incarnation().is_some() && reply.len() <= unknown.len());
    assert_eq!((header.lane, header.number), (LaneId(3), CallNumber(4)));
}

#[test]
fn a_list_that_is_none_is_dropped_and_counted() {
    let (mut server, binding) = bound();
    let whole = probes(binding, &[(3, 4), (5, 6)]);
    for len in [0, 1, 5, 7, 11] {
        let mut packet = whole.clone();
        packet[20] = len;
        assert!(matches!(give(&mut server, &packet), Made::Nothing), "{len}");
    }
    let mut answer = whole;
    answer[2] = Kind::Acknowledgements as u8;
    assert!(matches!(give(&mut server, &answer), Made::Nothing));
    assert_eq!(server.counters().malformed, 6);
}

#[test]
fn probes_for_lanes_that_rest_take_no_memory() {
    let (mut server, binding) = bound_with(|limits| limits.all_lanes = 1 << 12);
    let calls: Vec<(u16, u32)> = (0..200).map(|lane| (lane, 1)).collect();
    let before = server.bytes_held();
    assert_eq!(ask(&mut server, &probes(binding, &calls)).2.len(), 200);
    assert_eq!(server.bytes_held(), before);
}
