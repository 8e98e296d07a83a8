//! What a process gives back of the memory that it has freed: tests of the whole process, and so in one of their own.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::hint::black_box;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use stoop_net::memory::{begin_thread, give_back_end_of_arena, give_back_freed, resident};

/// Held while a test looks at the memory of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn freed_memory_between_blocks_in_use_is_given_back() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident().unwrap();
    // Too short to be mapped each by itself; every sixteenth one stays.
    let blocks: Vec<Vec<u8>> = (0..1024).map(|_| vec![1; 100_000]).collect();
    let kept: Vec<Vec<u8>> =
        blocks.into_iter().enumerate().filter(|(i, _)| i % 16 == 0).map(|it| it.1).collect();
    give_back_freed();
    let after = resident().unwrap();
    assert!(after < before + (40 << 20), "{before} bytes became {after}");
    assert_eq!(kept.len(), 64);
}

#[test]
fn free_memory_at_the_end_of_a_threads_arena_is_given_back() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident().unwrap();
    let (have_freed, is_found) = (Barrier::new(4), Barrier::new(4));
    let frees = || {
        begin_thread();
        // After the first has been freed, the others are not mapped by themselves.
        (0..3).for_each(|_| drop(black_box(vec![1_u8; 24 << 20])));
        let has_grown = have_freed.wait().is_leader().then(give_back_freed);
        is_found.wait();
        give_back_end_of_arena();
        assert_ne!(has_grown, Some(false), "the process has grown by 96 MiB");
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(frees))));
    let after = resident().unwrap();
    assert!(after < before + (40 << 20), "{before} bytes became {after}");
}
