use super::*;

/// A call of that lane, whose caller has room for others or not.
fn call(binding: BindingId, lane: u16, number: u32, has_room: bool) -> Vec<u8> {
    let mut packet = [0; HEADER_LEN];
    let template = Template::new(Kind::Call, binding, LaneId(lane));
    template.stamp(&mut packet, 0, CallNumber(number), (0, 0), 1_000_000);
    if !has_room {
        Header::set_credit(&mut packet, None);
    }
    packet.to_vec()
}

/// The peer of packets that leave together, the length of each, and the lanes and numbers of the calls that they acknowledge.
type Sent = (Host, usize, Vec<(u16, u32)>);

/// What the server sends by itself at that time.
fn acknowledged(server: &mut Server<Host>, now: Instant) -> Vec<Sent> {
    server.handle_timeout(now);
    let mut sent = Vec::new();
    let mut room = Vec::new();
    while let Some(Transmission { peer, segment }) = server.next_transmission(now, 65_507, &mut room) {
        let call_of = |packet: &[u8]| {
            let (header, payload) = Header::parse(packet).unwrap();
            assert_eq!((header.kind, payload.len()), (Kind::Acknowledgement, 0));
            (header.lane.0, header.number.0)
        };
        sent.push((peer, segment, room.chunks(segment).map(call_of).collect()));
    }
    sent
}

fn lanes(sent: &[Sent]) -> Vec<u16> {
    let mut lanes: Vec<_> = sent.iter().flat_map(|(.., calls)| calls).map(|(lane, _)| *lane).collect();
    lanes.sort_unstable();
    lanes
}

#[test]
fn all_calls_of_a_caller_without_room_are_acknowledged_once_if_it_hears_nothing_for_a_millisecond() {
    let (mut server, binding) = bound();
    let other = bind(&mut server, 6).unwrap();
    let _others = run(&mut server, &call(other, 0, 1, true));
    let _first = run(&mut server, &call(binding, 0, 1, true));
    let second = run(&mut server, &call(binding, 9, 1, true));
    let _third = run(&mut server, &call(binding, 5, 7, false));
    finish(&mut server, second);
    assert_eq!(server.next_timeout(), at(2));
    assert_eq!(
        lanes(&acknowledged(&mut server, at(2))),
        [0, 5],
        "not the one that was answered, nor another caller's"
    );
    let _fourth = run(&mut server, &call(binding, 9, 2, false));
    assert_eq!(acknowledged(&mut server, at(10)), [(CALLER, HEADER_LEN, vec![(9, 2)])], "others have been");
    assert_eq!(server.next_timeout(), server.next_sweep);
}

#[test]
fn a_caller_whose_call_was_answered_in_time_or_that_has_room_hears_nothing_unasked() {
    let (mut server, binding) = bound();
    let _long = run(&mut server, &call(binding, 0, 1, true));
    assert_eq!(acknowledged(&mut server, at(9)), []);
    let short = run(&mut server, &call(binding, 1, 1, false));
    finish(&mut server, short);
    assert_eq!(acknowledged(&mut server, at(10)), []);
    let asked = run(&mut server, &call(binding, 2, 1, false));
    give(&mut server, &call(binding, 2, 1, false));
    assert_eq!(acknowledged(&mut server, at(11)), [], "it has been acknowledged when it came again");
    finish(&mut server, asked);
}

#[test]
fn thousands_of_acknowledgements_leave_together_and_then_it_takes_a_while_until_the_next() {
    let (mut server, binding) = bound();
    let _calls: Vec<_> =
        (0..4000).map(|lane| run(&mut server, &call(binding, lane, 1, lane < 3999))).collect();
    let sent = acknowledged(&mut server, at(2));
    assert_eq!(lanes(&sent), (0..4000).collect::<Vec<_>>());
    assert!(sent.iter().all(|(.., together)| together.len() <= 64), "as many as a driver sends together");
    let _next = run(&mut server, &call(binding, 4000, 1, false));
    assert!(server.next_timeout() >= at(6), "a microsecond for each lane");
    assert_eq!(lanes(&acknowledged(&mut server, at(7))), [4000]);
}
