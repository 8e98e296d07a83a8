//! Long messages, through channels of two chunks.

use super::{World, call, explore, result};
use crate::layout::CHUNK;
use crate::{Answer, AnswerKind, Answers, Emptying, Filling, Progress, Request, RequestKind, Sending, Way};
use loom::thread;

/// Three chunks, the last one not full.
const LONG: usize = 3 * CHUNK - 1;

fn message(len: usize) -> Vec<u8> {
    (1..=len as u8).collect()
}

fn fill(world: &World, filling: &mut Filling, message: &[u8]) {
    let next = &message[filling.sent()..][..filling.next_len()];
    filling.fill(&world.segment, [next]);
}

/// The server sends a message, or goes on with it.
fn send(world: &World, filling: &mut Filling, message: &[u8]) {
    while !filling.is_done() {
        world.wait(|| filling.has_room(&world.segment).then_some(()));
        fill(world, filling, message);
    }
}

/// The caller sends one.
fn send_to_server(world: &World, filling: &mut Filling, message: &[u8]) {
    while !filling.is_done() {
        while !filling.has_room(&world.segment) {
            filling.sleep(&world.segment, u64::MAX);
        }
        fill(world, filling, message);
        world.ring();
    }
}

/// The caller receives a message, or the next chunks of it.
fn receive(world: &World, emptying: &mut Emptying, chunks: usize) -> Vec<u8> {
    let mut message = Vec::new();
    for _ in 0..chunks {
        while !emptying.has_more(&world.segment).unwrap() {
            emptying.sleep(&world.segment, u64::MAX);
        }
        emptying.take(&world.segment, &mut message);
        world.ring();
    }
    message
}

/// The server receives one.
fn receive_at_server(world: &World, emptying: &mut Emptying, chunks: usize) -> Vec<u8> {
    let mut message = Vec::new();
    for _ in 0..chunks {
        world.wait(|| emptying.has_more(&world.segment).unwrap().then_some(()));
        emptying.take(&world.segment, &mut message);
    }
    message
}

#[test]
fn a_long_result_arrives_though_its_caller_and_its_server_sleep() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || send(&world, &mut Filling::new(Way::Result, 0, 0, LONG), &message(LONG)))
        };
        let mut emptying = Emptying::new(Way::Result, 0, 0, LONG).unwrap();
        assert_eq!(receive(&world, &mut emptying, 3), message(LONG));
        assert!(emptying.is_done());
        server.join().unwrap();
    });
}

#[test]
fn a_long_call_arrives_though_its_caller_and_its_server_sleep() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                let mut emptying = Emptying::new(Way::Call, 0, 0, LONG).unwrap();
                assert_eq!(receive_at_server(&world, &mut emptying, 3), message(LONG));
            })
        };
        let mut filling = Filling::new(Way::Call, 0, 0, LONG);
        send_to_server(&world, &mut filling, &message(LONG));
        server.join().unwrap();
        assert!(filling.is_emptied(&world.segment));
    });
}

#[test]
fn a_caller_that_sleeps_for_room_is_told_that_there_will_be_none() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                let emptying = Emptying::new(Way::Call, 0, 0, LONG).unwrap();
                let refusal = Answer { kind: AnswerKind::Refusal, ..result(0) };
                Answers::publish(&world.segment, 0, 1, &refusal, &[]);
                emptying.decline(&world.segment);
            })
        };
        let mut filling = Filling::new(Way::Call, 0, 0, LONG);
        let is_answered = || Answers::is_there(&world.segment, 0, 1);
        while !is_answered() {
            if filling.has_room(&world.segment) {
                fill(&world, &mut filling, &message(LONG));
            } else {
                filling.sleep_unless(&world.segment, u64::MAX, is_answered);
            }
        }
        server.join().unwrap();
    });
}

#[test]
fn a_call_that_is_answered_holds_no_channel() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                let mut emptying = Emptying::new(Way::Call, 0, 0, CHUNK).unwrap();
                receive_at_server(&world, &mut emptying, 1);
                Answers::publish(&world.segment, 0, 1, &result(0), &[]);
            })
        };
        let mut filling = Filling::new(Way::Call, 0, 0, CHUNK);
        fill(&world, &mut filling, &message(CHUNK));
        world.ring();
        let mut sending = Sending::through(0, filling);
        let mut freed = 0;
        loop {
            let Progress { is_answered, freed: channel } = sending.look(&world.segment, 0, 1);
            freed += usize::from(channel.is_some());
            if is_answered {
                break;
            }
            let is_over = || Answers::is_there(&world.segment, 0, 1) || sending.can_go_on(&world.segment);
            match sending.filling() {
                Some(filling) => filling.sleep_unless(&world.segment, u64::MAX, is_over),
                None => Answers::sleep(&world.segment, 0, 1, u64::MAX),
            }
        }
        assert!(freed == 1 && sending.take().is_none());
        server.join().unwrap();
    });
}

#[test]
fn a_long_call_follows_one_that_the_server_would_not_take() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                let mut refused = Emptying::new(Way::Call, 0, 0, LONG).unwrap();
                receive_at_server(&world, &mut refused, 1);
                let refusal = Answer { kind: AnswerKind::Refusal, ..result(0) };
                Answers::publish(&world.segment, 0, 1, &refusal, &[]);
                let request = world.take(0);
                let len = request.len as usize;
                let mut emptying = Emptying::new(Way::Call, request.channel, request.base, len).unwrap();
                assert_eq!(receive_at_server(&world, &mut emptying, 1), message(len));
            })
        };
        let mut first = Filling::new(Way::Call, 0, 0, LONG);
        for _ in 0..2 {
            fill(&world, &mut first, &message(LONG));
            world.ring();
        }
        assert_eq!(world.answer(0, 1).0.kind, AnswerKind::Refusal);
        first.forget(&world.segment);
        let mut second = Filling::new(Way::Call, 0, first.end(), CHUNK);
        world.request(&Request { base: second.base(), ..call(0, 2, CHUNK) }, &[]);
        send_to_server(&world, &mut second, &message(CHUNK));
        server.join().unwrap();
    });
}

#[test]
fn a_long_result_follows_one_that_its_caller_did_not_want() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                let mut first = Filling::new(Way::Result, 0, 0, LONG);
                for _ in 0..2 {
                    fill(&world, &mut first, &message(LONG));
                }
                assert_eq!(world.take(0).kind, RequestKind::Cancel);
                first.forget(&world.segment);
                let mut second = Filling::new(Way::Result, 0, first.end(), 2 * CHUNK);
                let answer = Answer { base: second.base(), ..result(2 * CHUNK) };
                Answers::publish(&world.segment, 1, 1, &answer, &[]);
                send(&world, &mut second, &message(2 * CHUNK));
            })
        };
        let mut unwanted = Emptying::new(Way::Result, 0, 0, LONG).unwrap();
        receive(&world, &mut unwanted, 1);
        world.request(&Request { kind: RequestKind::Cancel, ..call(0, 1, 0) }, &[]);
        while !Answers::is_there(&world.segment, 1, 1) {
            Answers::sleep(&world.segment, 1, 1, u64::MAX);
        }
        let answer = Answers::read(&world.segment, 1).unwrap();
        let mut emptying = Emptying::new(Way::Result, 0, answer.base, 2 * CHUNK).unwrap();
        assert_eq!(receive(&world, &mut emptying, 2), message(2 * CHUNK));
        server.join().unwrap();
    });
}

#[test]
fn a_result_waits_for_the_reader_of_the_last() {
    explore(|| {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let mut emptying = Emptying::new(Way::Result, 0, 0, 2 * CHUNK).unwrap();
                assert_eq!(receive(&world, &mut emptying, 2), message(2 * CHUNK));
            })
        };
        let mut first = Filling::new(Way::Result, 0, 0, 2 * CHUNK);
        send(&world, &mut first, &message(2 * CHUNK));
        let mut second = Filling::new(Way::Result, 0, first.end(), CHUNK);
        send(&world, &mut second, &message(CHUNK));
        reader.join().unwrap();
        let mut emptying = Emptying::new(Way::Result, 0, second.base(), CHUNK).unwrap();
        assert_eq!(receive(&world, &mut emptying, 1), message(CHUNK));
    });
}
