//! Lanes that call again and again: nothing is read before it is written, or written before it has been read.

use super::{World, call, explore};
use crate::Requests;
use loom::sync::Arc;
use loom::thread;

/// Calls on a lane, one after the other, each of so many bytes.
fn call_times(world: &World, lane: u16, calls: u32, len: usize) {
    for number in 1..=calls {
        let arguments = vec![lane as u8 * 16 + number as u8; len];
        world.request(&call(lane, number, len), &arguments);
        assert!(world.answer(lane, number).1 == arguments);
    }
}

fn echoing(world: &Arc<World>, calls: u64) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || {
        (0..calls).for_each(|ticket| {
            world.echo(ticket);
        })
    })
}

#[test]
fn two_calls_of_a_lane_use_its_slots_in_turn() {
    explore(|| {
        let world = World::new();
        let server = echoing(&world, 2);
        call_times(&world, 0, 2, 48);
        server.join().unwrap();
    });
}

#[test]
fn calls_of_a_lane_use_lines_in_turn() {
    explore(|| {
        let world = World::new();
        let server = echoing(&world, 2);
        call_times(&world, 0, 2, 24);
        server.join().unwrap();
    });
}

#[test]
fn requests_of_two_callers_are_taken_in_the_order_of_their_tickets() {
    explore(|| {
        let world = World::new();
        let callers = [0, 1].map(|lane| {
            let world = world.clone();
            thread::spawn(move || {
                let request = call(lane, 7 + u32::from(lane), 8);
                let ticket = world.requests.publish(&world.segment, &request, &[lane as u8; 8]);
                world.ring();
                ticket
            })
        });
        let lanes = [0, 1].map(|ticket| {
            let request = world.take(ticket);
            let mut message = Vec::new();
            Requests::message(&world.segment, ticket, &request, &mut message);
            assert_eq!((request.number, message), (7 + u32::from(request.lane), vec![request.lane as u8; 8]));
            request.lane
        });
        let tickets = callers.map(|caller| caller.join().unwrap());
        assert_eq!(lanes, if tickets[0] == 0 { [0, 1] } else { [1, 0] });
    });
}

#[test]
fn a_line_is_not_written_again_before_it_was_read() {
    explore(|| {
        let world = World::new();
        let publish = |world: &World, lane, number| {
            world.requests.publish(&world.segment, &call(lane, number, 8), &[number as u8; 8]);
        };
        publish(&world, 0, 1);
        let server = echoing(&world, 1);
        let other = {
            let world = world.clone();
            thread::spawn(move || publish(&world, 1, 1))
        };
        assert!(world.answer(0, 1).1 == [1; 8]);
        // This or the other is in the line of the first.
        publish(&world, 0, 2);
        server.join().unwrap();
        other.join().unwrap();
    });
}
