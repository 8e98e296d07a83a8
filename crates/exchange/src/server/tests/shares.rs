//! Hosts that take all that they can, and what is left for others.

use super::*;

const HOSTILE: Host = Host(66);
const VICTIM: Host = Host(2);

fn call_on(binding: BindingId, lane: u16, number: u32) -> Vec<u8> {
    let mut header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(number));
    header.time = 30_000_000;
    header.to_bytes().to_vec()
}

/// The part at `offset`, of `len` bytes, of the first call of a lane.
fn part(binding: BindingId, lane: u16, message_len: u32, offset: u32, len: u32) -> Vec<u8> {
    let template = Template::new(Kind::Call, binding, LaneId(lane));
    let mut packet = vec![0; HEADER_LEN + len as usize];
    let (time, number) = (if offset == 0 { 60_000_000 } else { 1 + offset / 1440 }, CallNumber(1));
    template.stamp_part(packet.first_chunk_mut().unwrap(), 0, number, message_len, (offset, len), time);
    packet
}

#[test]
fn a_host_with_all_bindings_that_it_can_get_keeps_no_other_out() {
    let (mut server, _) = bound_with(|limits| limits.bindings = 1024);
    let hoarded = (0..2000).filter(|nonce| bind_from(&mut server, HOSTILE, at(0), *nonce).is_some()).count();
    assert!((760..=768).contains(&hoarded), "{hoarded}");
    let victims = (0..100).filter(|nonce| bind_from(&mut server, VICTIM, at(1), *nonce).is_some()).count();
    assert_eq!(victims, 100);
    assert_eq!(server.counters().full, 2000 - hoarded as u64);
}

#[test]
fn a_binding_that_was_never_used_makes_room_for_a_host_below_its_fair_share() {
    let (mut server, used) = bound_with(|limits| limits.bindings = 64);
    // Twelve hosts, one after the other, take all but a few.
    for host in 10..22 {
        (0..64).for_each(|nonce| _ = bind_from(&mut server, Host(host), at(0), nonce));
    }
    let call = run(&mut server, &packet(Kind::Call, used, 1));
    finish(&mut server, call);
    assert_eq!(server.bindings(), 64);
    assert!(bind_from(&mut server, VICTIM, at(500), 7).is_none(), "callers of new bindings have a second");
    let made = (0..20).filter(|nonce| bind_from(&mut server, VICTIM, at(2_000), *nonce).is_some()).count();
    // Four hosts have the rest, and one the binding that is used.
    assert_eq!((made, server.bindings(), server.counters().reclaimed), (64 / 6, 64, 64 / 6));
    assert!(matches!(give(&mut server, &packet(Kind::Call, used, 2)), Made::Run(_)), "its caller has called");
}

#[test]
fn a_binding_on_which_a_call_has_arrived_is_not_taken_for_another_host() {
    let (mut server, _) = bound_with(|limits| limits.bindings = 16);
    let hosts = (10..20).map(Host);
    for host in hosts {
        for nonce in 0..16 {
            let Some(binding) = bind_from(&mut server, host, at(0), nonce) else { continue };
            let Made::Run(call) = give_from(&mut server, host, at(1), &call_on(binding, 0, 1)) else {
                panic!()
            };
            finish(&mut server, call);
        }
    }
    let bindings = server.bindings();
    (0..10).for_each(|nonce| assert!(bind_from(&mut server, VICTIM, at(60_000), nonce).is_none()));
    assert_eq!((server.bindings(), server.counters().reclaimed), (bindings, 0));
}

#[test]
fn a_host_that_binds_and_unbinds_all_the_time_keeps_no_other_out() {
    let (mut server, _) = bound();
    for nonce in 0..70_000 {
        if let Some(binding) = bind_from(&mut server, HOSTILE, at(1), nonce) {
            give_from(&mut server, HOSTILE, at(1), &packet(Kind::Unbind, binding, 0));
        }
    }
    assert_eq!(server.bindings(), 1);
    assert!(bind_from(&mut server, VICTIM, at(2), 7).is_some());
    // After the life of its cookies the host may bind again.
    assert!(bind_from(&mut server, HOSTILE, at(21_000), 99_999).is_some());
}

#[test]
fn cancels_for_many_lanes_of_many_bindings_take_bounded_memory() {
    let (mut server, _) = bound_with(|limits| limits.all_lanes = 10_000);
    let before = server.bytes_held();
    for nonce in 0..20 {
        let binding = bind_from(&mut server, HOSTILE, at(0), nonce).expect("there is room");
        for lane in (0..16_384).step_by(4) {
            let mut cancel = call_on(binding, lane, 1);
            cancel[2] = Kind::Cancel as u8;
            give_from(&mut server, HOSTILE, at(1), &cancel);
        }
    }
    assert!(server.bytes_held() - before < 2_000_000, "{}", server.bytes_held());
    assert!(server.counters().dropped > 50_000);
    let binding = bind_from(&mut server, VICTIM, at(2), 7).expect("there is room");
    assert!((0..64).all(|lane| {
        matches!(give_from(&mut server, VICTIM, at(3), &call_on(binding, lane, 1)), Made::Run(_))
    }));
}

#[test]
fn a_call_for_which_there_is_no_lane_is_not_refused_and_runs_when_it_comes_again() {
    let (mut server, binding) = bound_with(|limits| limits.all_lanes = 4);
    let Made::Run(first) = give(&mut server, &call_on(binding, 0, 1)) else {
        panic!("it is one of the first")
    };
    finish(&mut server, first);
    let other = bind_from(&mut server, VICTIM, at(0), 9).expect("there is room");
    // The pool grants four lanes to no binding, because none may have more than three quarters.
    assert!(matches!(give_from(&mut server, VICTIM, at(1), &call_on(other, 100, 1)), Made::Nothing));
    assert_eq!((server.counters().dropped, server.counters().refused_lanes), (1, 0));
}

#[test]
fn announced_calls_hold_little_memory_until_their_parts_arrive() {
    let (mut server, _) = bound();
    let binding = bind_from(&mut server, HOSTILE, at(0), 1).expect("there is room");
    for lane in 0..200 {
        give_from(&mut server, HOSTILE, at(1), &part(binding, lane, 64 << 20, 0, 1));
    }
    assert!(server.incomplete_bytes() < 52 << 20, "{}", server.incomplete_bytes());
    let victim = bind_from(&mut server, VICTIM, at(0), 2).expect("there is room");
    give_from(&mut server, VICTIM, at(1), &part(victim, 0, 1 << 20, 0, 1440));
    let before = server.counters().waited;
    (1..728).for_each(|i| {
        give_from(&mut server, VICTIM, at(1), &part(victim, 0, 1 << 20, i * 1440, 1440));
    });
    let last = part(victim, 0, 1 << 20, 728 * 1440, (1 << 20) - 728 * 1440);
    assert!(matches!(give_from(&mut server, VICTIM, at(1), &last), Made::Run(_)));
    assert_eq!(server.counters().waited, before, "it has waited for no memory");
}

#[test]
fn memory_of_a_long_call_grows_with_the_parts_that_arrive() {
    let (mut server, binding) = bound_with(|limits| limits.incomplete = 4 << 20);
    let (len, mut offset) = (1 << 20, 0);
    let mut held = Vec::new();
    let call = loop {
        let size = 1440.min(len - offset);
        let packet = part(binding, 0, len, offset, size);
        match give(&mut server, &packet) {
            Made::Run(call) => break call,
            Made::Reply(..) | Made::Nothing => {}
        }
        offset += size;
        if held.last() != Some(&server.incomplete_bytes()) {
            held.push(server.incomplete_bytes());
        }
        assert!(server.incomplete_bytes() <= (33 * offset as usize).max(16 << 10) + 4096);
    };
    assert!(held.len() >= 3 && held.is_sorted(), "{held:?}");
    let mut call = call;
    assert_eq!(call.arguments_and_result(&[]).0.len(), len as usize);
    finish(&mut server, call);
    assert_eq!(server.incomplete_bytes(), 0);
    server.bytes_held();
}

#[test]
fn state_of_long_calls_is_freed_when_they_are_cancelled() {
    let (mut server, _) = bound();
    let binding = bind_from(&mut server, HOSTILE, at(0), 1).expect("there is room");
    // The lanes themselves stay.
    (0..4000).for_each(|lane| {
        let Made::Run(call) = give_from(&mut server, HOSTILE, at(1), &call_on(binding, lane, 1)) else {
            panic!()
        };
        let unbound = packet(Kind::Probe, binding, 1);
        drop((call, unbound));
    });
    let before = server.bytes_held();
    for lane in 0..4000 {
        let mut announced = part(binding, lane, 3000, 0, 1);
        announced[16] = 2;
        give_from(&mut server, HOSTILE, at(1), &announced);
        let mut cancel = call_on(binding, lane, 2);
        cancel[2] = Kind::Cancel as u8;
        give_from(&mut server, HOSTILE, at(1), &cancel);
    }
    server.drained();
    server.handle_timeout(at(15_000));
    assert!(server.bytes_held() < before + 4000 * 200, "{} after {before}", server.bytes_held());
}

#[test]
fn small_answers_of_one_host_leave_room_for_the_answers_of_another() {
    let (mut server, _) = bound_with(|limits| limits.packets = 1024);
    for nonce in 0..4 {
        let binding = bind_from(&mut server, HOSTILE, at(0), nonce).expect("there is room");
        for lane in 0..1000 {
            if let Made::Run(call) = give_from(&mut server, HOSTILE, at(1), &call_on(binding, lane, 1)) {
                finish(&mut server, call);
            }
        }
    }
    assert!((700..=768).contains(&server.packets()), "{}", server.packets());
    let victim = bind_from(&mut server, VICTIM, at(0), 9).expect("there is room");
    let Made::Run(mut call) = give_from(&mut server, VICTIM, at(1), &call_on(victim, 0, 1)) else { panic!() };
    call.packet_mut().resize(HEADER_LEN + 1_000_000, 0);
    call.complete(at(2), 1_000_000);
    let dropped = server.counters().dropped;
    server.finish(at(2), call);
    assert_eq!((server.counters().dropped, server.retained_bytes() > 900_000), (dropped, true));
}

#[test]
fn the_memory_of_a_call_that_runs_is_counted_after_its_binding_was_released() {
    let (mut server, binding) = bound();
    give(&mut server, &part(binding, 0, 3000, 0, 1440));
    let Made::Run(call) = give(&mut server, &part(binding, 0, 3000, 1440, 1560)) else {
        panic!("it is complete")
    };
    give(&mut server, &packet(Kind::Unbind, binding, 0));
    assert_eq!((server.bindings(), server.incomplete_bytes() >= 3000), (0, true));
    finish(&mut server, call);
    assert_eq!(server.incomplete_bytes(), 0);
    server.bytes_held();
}
