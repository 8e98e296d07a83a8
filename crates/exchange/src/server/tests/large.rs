use super::*;
use crate::RoundTrip;
use crate::bulk::Path;
use crate::caller::{Due, Heard, Lane};
use stoop_wire::Template;
use world::{World, bytes};

mod in_place;
mod many_lanes;
mod world;

const KIB: usize = 1024;

#[test]
fn large_calls_and_results_arrive_complete() {
    let mut world = World::new(|_| false);
    for (arguments, result) in
        [(1441, 1), (2880, 2881), (48_000, 3), (300 * KIB, 500 * KIB), (1500, 1_500_000)]
    {
        world.call(arguments, result);
    }
    assert_eq!(world.path.in_flight(), 0);
    assert_eq!(world.server.incomplete_bytes(), 0);
    world.server.bytes_held();
}

#[test]
fn only_lost_parts_are_sent_again() {
    for lost in [|n| n % 10 == 3, |n| n % 3 == 1, |n| n % 7 < 2, |n| n == 1] {
        let mut world = World::new(lost);
        world.call(200 * KIB, 200 * KIB);
        assert_eq!(world.server.counters().calls, 1);
        assert!(world.sent < 1_500, "{} packets for 285", world.sent);
    }
}

#[test]
fn the_parts_of_a_call_that_are_sent_again_are_counted() {
    let again = |lost| {
        let mut world = World::new(lost);
        world.call(300 * KIB, 4);
        world.lane.counters().retransmissions
    };
    assert_eq!(again(|_| false), 0);
    assert_eq!(again(|n| n == 1), 1);
    assert_eq!(again(|n| matches!(n, 20 | 21 | 30)), 3);
}

#[test]
fn a_delivered_result_is_not_retained() {
    let mut world = World::new(|_| false);
    world.call(4, 100 * KIB);
    let again = packet(Kind::Call, world.lane_binding(), 1);
    let made = give(&mut world.server, &again);
    assert!(matches!(made, Made::Reply(Kind::Failure, 3)));
}

impl World {
    fn lane_binding(&self) -> BindingId {
        let framing = self.lane.framing(self.now);
        let mut header = [0; HEADER_LEN];
        framing.stamp(&mut header, (1440, 1), 0);
        Header::from_bytes(&header).unwrap().binding
    }

    fn fragment(&self, number: u32, message_len: u32, offset: u32, len: usize) -> Vec<u8> {
        let template = Template::new(Kind::Call, self.lane_binding(), LaneId(0));
        let time = if offset == 0 { 5_000_000 } else { 1 + offset / 1440 };
        let mut header = [0; HEADER_LEN];
        template.stamp_part(&mut header, 0, CallNumber(number), message_len, (offset, len as u32), time);
        [&header[..], &bytes(len, 3)].concat()
    }
}

#[test]
fn receipts_come_no_faster_towards_the_end_of_a_call() {
    let (part, parts, parts_in_window) = (1024, 256, 64);
    let (server, _) = bound_with(|limits| limits.window = (part * parts_in_window) as u32);
    let mut world = World { server, ..World::new(|_| false) };
    let mut receipts = Vec::new();
    for index in 0..parts {
        let packet = world.fragment(1, (part * parts) as u32, (part * index) as u32, part);
        match give(&mut world.server, &packet) {
            Made::Reply(Kind::Receipt, _) => receipts.push(index),
            Made::Run(_) => assert_eq!(index, parts - 1),
            _ => {}
        }
    }
    let shortest = receipts.windows(2).map(|pair| pair[1] - pair[0]).min();
    assert_eq!(shortest, Some(parts_in_window / 4), "receipts after the parts {receipts:?}");
}

#[test]
fn a_call_that_never_completes_is_refused_and_its_memory_freed() {
    let mut world = World::new(|_| false);
    let (first, last) = (world.fragment(1, 3000, 0, 1440), world.fragment(1, 3000, 1440, 1560));
    assert!(matches!(give(&mut world.server, &first), Made::Nothing));
    assert!(world.server.incomplete_bytes() >= 3000);
    world.server.handle_timeout(at(30_000));
    assert_eq!(world.server.incomplete_bytes(), 0);
    for part in [&last, &first] {
        assert!(matches!(give(&mut world.server, part), Made::Reply(Kind::Refusal, 11)));
    }
    assert_eq!(world.server.counters().incomplete, 1);
}

/// The first part of a call of 3000 bytes on a lane of a binding.
fn first_part(world: &World, binding: BindingId, lane: u16) -> Vec<u8> {
    let mut packet = world.fragment(1, 3000, 0, 1440);
    packet[4..6].copy_from_slice(&lane.to_le_bytes());
    packet[8..16].copy_from_slice(&binding.0.to_le_bytes());
    packet
}

#[test]
fn memory_for_incomplete_calls_is_bounded_and_their_callers_wait() {
    let (server, _) = bound_with(|limits| limits.incomplete = 10_000);
    let mut world = World { server, ..World::new(|_| false) };
    for i in 0..20 {
        let binding = bind(&mut world.server, 100 + i).expect("there is room");
        let part = first_part(&world, binding, 0);
        let made = give(&mut world.server, &part);
        match i {
            // Three quarters, because all bindings are of one host.
            0..2 => assert!(matches!(made, Made::Nothing)),
            _ => assert!(matches!(made, Made::Reply(Kind::Receipt, 0))),
        }
    }
    assert!(world.server.incomplete_bytes() <= 7_500);
    assert_eq!(world.server.counters().waited, 18);
}

#[test]
fn one_binding_cannot_take_all_memory_for_incomplete_calls() {
    let (server, greedy) = bound_with(|limits| limits.incomplete = 100_000);
    let mut world = World { server, ..World::new(|_| false) };
    for lane in 0..40 {
        let part = first_part(&world, greedy, lane);
        let made = give(&mut world.server, &part);
        match lane {
            // Nine sixteenths, and no more however often it asks.
            0..18 => assert!(matches!(made, Made::Nothing)),
            _ => assert!(matches!(made, Made::Reply(Kind::Receipt, 0))),
        }
    }
    for nonce in 100..103 {
        let other = bind(&mut world.server, nonce).expect("there is room");
        let part = first_part(&world, other, 0);
        assert!(matches!(give(&mut world.server, &part), Made::Nothing));
    }
}

#[test]
fn a_newer_call_supersedes_the_parts_of_an_older_one() {
    let mut world = World::new(|_| false);
    let part = world.fragment(1, 3000, 0, 1440);
    give(&mut world.server, &part);
    let next = packet(Kind::Call, world.lane_binding(), 2);
    let running = run(&mut world.server, &next);
    assert_eq!(world.server.incomplete_bytes(), 0);
    let rest = world.fragment(1, 3000, 1440, 1560);
    assert!(matches!(give(&mut world.server, &rest), Made::Nothing));
    finish(&mut world.server, running);
}

#[test]
fn a_large_call_waits_for_the_one_that_runs_and_can_be_cancelled_there() {
    for cancelled in [false, true] {
        let mut world = World::new(|_| false);
        let call = packet(Kind::Call, world.lane_binding(), 1);
        let running = run(&mut world.server, &call);
        let parts = [world.fragment(2, 3000, 0, 1440), world.fragment(2, 3000, 1440, 1560)];
        assert!(matches!(give(&mut world.server, &parts[0]), Made::Nothing));
        assert!(matches!(give(&mut world.server, &parts[1]), Made::Reply(Kind::Acknowledgement, _)));
        if cancelled {
            let cancel = packet(Kind::Cancel, world.lane_binding(), 2);
            assert!(matches!(give(&mut world.server, &cancel), Made::Reply(Kind::Refusal, 10)));
        }
        match finish(&mut world.server, running) {
            Next::Run(mut next, packet) => {
                assert!(!cancelled && next.arguments_and_result(&packet).0.len() == 3000);
                finish(&mut world.server, next);
            }
            _ => assert!(cancelled),
        }
        assert_eq!(world.server.incomplete_bytes(), 0);
    }
}

#[test]
fn cancelling_an_incomplete_call_frees_its_memory() {
    let mut world = World::new(|_| false);
    let part = world.fragment(1, 3000, 0, 1440);
    give(&mut world.server, &part);
    let cancel = packet(Kind::Cancel, world.lane_binding(), 1);
    assert!(matches!(give(&mut world.server, &cancel), Made::Reply(Kind::Refusal, 10)));
    assert_eq!(world.server.incomplete_bytes(), 0);
    assert!(matches!(give(&mut world.server, &part), Made::Reply(Kind::Refusal, 10)));
}

#[test]
fn contradictory_fragments_are_ignored() {
    let mut world = World::new(|_| false);
    let part = world.fragment(1, 3000, 0, 1440);
    give(&mut world.server, &part);
    for (message_len, offset, len) in
        [(4000, 1440, 1440), (3000, 3000, 0), (u32::MAX, 0, 1440), (1500, 0, 1440)]
    {
        let lie = world.fragment(1, message_len, offset, len);
        assert!(!matches!(give(&mut world.server, &lie), Made::Run(_)));
    }
    let overlap = world.fragment(1, 3000, 1000, 1440);
    assert!(!matches!(give(&mut world.server, &overlap), Made::Run(_)));
    let rest = world.fragment(1, 3000, 2440, 560);
    assert!(matches!(give(&mut world.server, &rest), Made::Run(_)));
}

#[test]
fn results_beyond_the_bound_of_retained_bytes_are_reported_gone() {
    let (server, _) = bound_with(|limits| limits.retained = 10_000);
    let mut world = World { server, ..World::new(|_| false) };
    world.begin(4);
    let running = world.until_run();
    world.answer(running, 20_000);
    assert!(matches!(world.until_ended(), Heard::Failed(FailureCode::ResultGone)));
    assert_eq!(world.server.retained_bytes(), 0);
}

#[test]
fn receipts_for_unsent_bytes_are_ignored() {
    let mut world = World::new(|_| false);
    let mut packet = [0; stoop_wire::Receipt::MAX_PACKET];
    let receipt = stoop_wire::Receipt::new(9, 9, u32::MAX, u32::MAX);
    let header = Header::bare(Kind::Receipt, world.lane_binding(), LaneId(0), CallNumber(1));
    let len = crate::bulk::put_receipt(&receipt, header, 1, &mut packet);
    assert!(matches!(give(&mut world.server, &packet[..len]), Made::Nothing));
    world.call(4, 50 * KIB);
    assert!(matches!(give(&mut world.server, &packet[..len]), Made::Nothing));
}

#[test]
fn consecutive_parts_are_taken_as_one_span() {
    let mut world = World::new(|_| false);
    let parts: Vec<Vec<u8>> = (0..10).map(|i| world.fragment(1, 14_400, i * 1440, 1440)).collect();
    let [first, rest @ ..] = &parts[..] else { panic!("ten parts") };
    let together = rest.concat();
    let segment = HEADER_LEN + 1440;
    assert_eq!(
        world.server.take_parts(at(1), CALLER, &together, segment, |_| {}),
        0,
        "nothing is known of it"
    );
    assert!(matches!(give(&mut world.server, first), Made::Nothing));
    assert_eq!(world.server.take_parts(at(1), Host(2), &together, segment, |_| {}), 0, "another host");
    let mut foreign = together.clone();
    foreign[2 * segment + 16] ^= 1;
    assert_eq!(
        world.server.take_parts(at(1), CALLER, &foreign, segment, |_| {}),
        2 * segment,
        "another call's part"
    );
    assert_eq!(
        world.server.take_parts(at(1), CALLER, &together[2 * segment..], segment, |_| {}),
        6 * segment,
        "all but the last"
    );
    assert!(world.server.drained(), "a receipt is owed");
    let Made::Run(mut running) = give(&mut world.server, &parts[9]) else { panic!("not run") };
    let expected: Vec<u8> = (0..10).flat_map(|_| bytes(1440, 3)).collect();
    assert!(running.arguments_and_result(&[]).0 == expected);
    finish(&mut world.server, running);
}

#[test]
fn each_part_of_a_datagram_is_copied_to_its_place() {
    let mut world = World::new(|_| false);
    let (whole, number) = (bytes(2000, 7), 1);
    let template = Template::new(Kind::Call, world.lane_binding(), LaneId(0));
    let part = |from: usize, to: usize| {
        let (mut header, place) = ([0; HEADER_LEN], (from as u32, (to - from) as u32));
        template.stamp_part(&mut header, 0, CallNumber(number), 2000, place, 1_000_000);
        [&header[..], &whole[from..to]].concat()
    };
    world.give_server(&[part(0, 700), part(700, 1000), vec![0xd7; 50]].concat());
    assert!(world.running.is_none());
    world.give_server(&[part(1000, 1500), part(1500, 2000)].concat());
    let mut running = world.running.take().expect("all of it is there");
    assert!(running.arguments_and_result(&[]).0 == whole);
}

#[test]
fn a_call_whose_first_part_comes_last_is_the_same_call() {
    let mut world = World::new(|_| false);
    let (whole, number) = (bytes(3000, 9), 1);
    let interfaces = core::mem::take(&mut world.server.interfaces);
    world.server.interfaces = interfaces.returning_in_place(0, 1, 8);
    let template = Template::new(Kind::Call, world.lane_binding(), LaneId(0));
    for (from, to) in [(1000, 2000), (2000, 3000), (0, 1000)] {
        let (mut header, place) = ([0; HEADER_LEN], (from as u32, (to - from) as u32));
        template.stamp_part(&mut header, 1, CallNumber(number), 3000, place, 1_000_000);
        world.give_server(&[&header[..], &whole[from..to]].concat());
    }
    let mut running = world.running.take().expect("all of it is there");
    assert_eq!(running.procedure, 1);
    let (before, len, result) = running.argument_as_result().expect("it comes back in place");
    assert_eq!((&before[..8], len), (&whole[..8], 2992));
    assert!(result[HEADER_LEN..HEADER_LEN + len] == whole[8..]);
}
