//! Batches of calls.

use super::*;

/// The server and a binding; lanes 0 to 2 have each answered their calls 1 and 2, and keep the packets of their answers.
fn with_lanes() -> (Server<Host>, BindingId) {
    let (mut server, binding) = bound();
    for (lane, number) in (0..=2).flat_map(|lane| [(lane, 1), (lane, 2)]) {
        let call = run(&mut server, &on(lane, binding, number));
        assert!(matches!(finish(&mut server, call), Next::Nothing));
    }
    (server, binding)
}

/// A call of a lane.
fn on(lane: u16, binding: BindingId, number: u32) -> Vec<u8> {
    let mut header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(number));
    header.time = 1_000_000;
    header.to_bytes().to_vec()
}

/// Passes datagrams to `take_calls`; returns the calls with their offsets, and how many bytes were taken.
fn take(
    server: &mut Server<Host>,
    from: Host,
    packets: &[Vec<u8>],
) -> (Vec<(Assignment<Host>, usize)>, usize) {
    let mut calls = Vec::new();
    let run = |assignment, at| calls.push((assignment, at));
    let bytes = server.take_calls(at(3), &from, &packets.concat(), HEADER_LEN, run);
    (calls, bytes)
}

#[test]
fn a_batch_of_calls_is_answered_as_if_they_came_one_by_one() {
    let (mut server, binding) = with_lanes();
    let packets = [on(0, binding, 3), on(1, binding, 3), on(2, binding, 3)];
    let (calls, bytes) = take(&mut server, CALLER, &packets);
    assert_eq!(bytes, 3 * HEADER_LEN);
    assert!(calls.iter().map(|(_, at)| *at).eq([0, HEADER_LEN, 2 * HEADER_LEN]));
    assert_eq!((server.running(), server.counters().calls), (3, 9));
    for packet in &packets {
        assert!(matches!(give(&mut server, packet), Made::Reply(Kind::Acknowledgement, _)));
    }
    let calls = calls.into_iter().map(|(mut call, _)| {
        call.complete(at(4), 3);
        call
    });
    server.finish_all(at(4), calls, |_| panic!("nothing has waited"));
    assert_eq!(server.running(), 0);
    for packet in &packets {
        assert!(matches!(give(&mut server, packet), Made::Reply(Kind::Result, _)));
    }
    assert!(server.bytes_held() > 0, "and what is held is counted right");
}

#[test]
fn batch_path_stops_at_the_first_packet_it_cannot_decide() {
    for left in [
        |binding| on(0, binding, 3),                             // of a call that runs
        |binding| on(1, binding, 2),                             // of one that is answered
        |binding| on(3, binding, 1),                             // the first of its lane
        |binding| packet(Kind::Probe, binding, 1),               // no call
        |binding: BindingId| on(1, BindingId(binding.0 ^ 1), 3), // of another binding
        |binding| {
            let mut call = on(1, binding, 3);
            call[6..8].copy_from_slice(&u16::MAX.to_le_bytes()); // of no procedure
            call
        },
    ] {
        let (mut server, binding) = with_lanes();
        let packets = [on(0, binding, 3), left(binding), on(2, binding, 3)];
        let (calls, bytes) = take(&mut server, CALLER, &packets);
        assert_eq!((calls.len(), bytes), (1, HEADER_LEN));
        assert_eq!((server.running(), server.counters().calls), (1, 7));
        let (mut others, bytes) = take(&mut server, CALLER, &packets[1..]);
        assert_eq!((others.len(), bytes), (0, 0));
        others.extend(calls);
        server.finish_all(at(4), others.into_iter().map(|(call, _)| call), |_| panic!("nothing has waited"));
    }
}

#[test]
fn batch_path_takes_nothing_from_another_host_or_during_shutdown() {
    let (mut server, binding) = with_lanes();
    let packets = [on(0, binding, 3), on(1, binding, 3)];
    assert_eq!(take(&mut server, Host(2), &packets).1, 0);
    assert_eq!(take(&mut server, CALLER, &[vec![0; HEADER_LEN]]).1, 0);
    server.shut_down();
    assert_eq!(take(&mut server, CALLER, &packets).1, 0);
}

#[test]
fn a_parked_call_starts_when_its_batch_is_finished() {
    let (mut server, binding) = with_lanes();
    let (calls, _) = take(&mut server, CALLER, &[on(0, binding, 3), on(1, binding, 3), on(2, binding, 3)]);
    assert!(matches!(give(&mut server, &on(1, binding, 4)), Made::Nothing | Made::Reply(..)));
    let mut waited = Vec::new();
    server.finish_all(at(4), calls.into_iter().map(|(call, _)| call), |next| waited.push(next));
    let [Next::Run(call, _)] = <[_; 1]>::try_from(waited).unwrap() else { panic!("it has waited") };
    assert_eq!(call.identity().2, CallNumber(4));
    assert_eq!(server.running(), 1);
    assert!(matches!(finish(&mut server, call), Next::Nothing));
}

#[test]
fn answers_of_a_batch_beyond_the_limit_are_not_retained() {
    let (mut server, binding) = bound_with(|limits| limits.packets = 1);
    let packets = [on(0, binding, 2), on(1, binding, 2), on(2, binding, 2)];
    let calls: Vec<_> = packets
        .iter()
        .map(|packet| {
            let mut call = run(&mut server, packet);
            call.complete(at(4), 0);
            call
        })
        .collect();
    server.finish_all(at(4), calls, |_| panic!("nothing has waited"));
    assert_eq!((server.running(), server.packets(), server.counters().dropped), (0, 1, 2));
    assert!(matches!(give(&mut server, &packets[0]), Made::Reply(Kind::Result, _)));
    assert!(matches!(give(&mut server, &packets[1]), Made::Reply(Kind::Failure, _)));
}
