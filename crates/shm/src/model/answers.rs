//! A caller that goes to sleep, an answer, and the end of the server.

use super::{World, explore, result};
use crate::Answers;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

#[test]
fn no_answer_finds_its_caller_asleep_for_ever() {
    explore(|| {
        let world = World::new();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                for number in 1..=2 {
                    Answers::publish(&world.segment, 0, number, &result(0), &[]);
                }
            })
        };
        // A sleep that ends for no reason leaves its mark.
        Answers::sleep(&world.segment, 0, 1, 0);
        while !Answers::is_there(&world.segment, 0, 2) {
            Answers::sleep(&world.segment, 0, 2, u64::MAX);
        }
        server.join().unwrap();
    });
}

/// Waits for the first answer on a lane, or until the server is known to be lost. Returns whether the answer is there.
fn answer_or_end(world: &World, lost: &AtomicBool) -> bool {
    while !Answers::is_there(&world.segment, 0, 1) && !lost.load(Ordering::Acquire) {
        Answers::sleep(&world.segment, 0, 1, u64::MAX);
    }
    Answers::is_there(&world.segment, 0, 1)
}

fn lose(world: &World, lost: &AtomicBool) {
    lost.store(true, Ordering::Release);
    Answers::give_up(&world.segment, 0);
}

#[test]
fn no_caller_sleeps_for_a_lost_server() {
    explore(|| {
        let (world, lost) = (World::new(), Arc::new(AtomicBool::new(false)));
        let watcher = {
            let (world, lost) = (world.clone(), lost.clone());
            // As often as a thread notices the loss.
            thread::spawn(move || (0..2).for_each(|_| lose(&world, &lost)))
        };
        assert!(!answer_or_end(&world, &lost));
        watcher.join().unwrap();
    });
}

#[test]
fn an_answer_is_found_though_its_server_is_lost() {
    explore(|| {
        let (world, lost) = (World::new(), Arc::new(AtomicBool::new(false)));
        let server = {
            let (world, lost) = (world.clone(), lost.clone());
            thread::spawn(move || {
                Answers::publish(&world.segment, 0, 1, &result(0), &[]);
                lose(&world, &lost);
            })
        };
        assert!(answer_or_end(&world, &lost));
        server.join().unwrap();
    });
}
