//! Memory of the process: how much it has, and how freed memory goes back to the system.
//!
//! The allocator of glibc keeps much of what was freed. It raises the size from which it maps memory by itself (and
//! unmaps it when it is freed) up to 32 MiB as soon as memory of that size is freed (`mallopt(3)`, `M_MMAP_THRESHOLD`),
//! and each of its arenas keeps up to twice that at its end (`M_TRIM_THRESHOLD`), and everything below the last block in
//! use. After much traffic of long messages, hundreds of megabytes stay. Changing these settings would change them for
//! the whole program. `malloc_trim(3)` gives back the whole pages of all blocks that are free, in all arenas, and the free
//! memory at the end of the main arena, but not at the end of another: an arena of a thread that has freed its last block
//! keeps up to 64 MiB there. So each thread that has freed long messages gives back the end of its own arena, by a block
//! that it takes behind it for the time of the trimming.

#![allow(unsafe_code)]

use rustix::process::{Resource, getrlimit};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bytes of memory after the last time that freed memory was given back.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Growth since then for which it is worth while to look for freed memory.
const WORTH: usize = 8 << 20;

/// How often the process has been found grown.
static GROWTHS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How often it had been when this thread last gave back the end of its arena, or began.
    static GROWTHS_SEEN: Cell<u32> = const { Cell::new(0) };
}

/// Bytes of a block that is taken from the end of an arena: below the least size that is mapped by itself, 128 KiB.
const BLOCK: usize = 96 << 10;
/// Most bytes at the end of an arena: the size of its heaps.
const END_MAX: usize = 64 << 20;

/// Gives freed memory back to the system, if the process has at least 8 MiB more than after the last time. It takes
/// microseconds if not, and else up to milliseconds, in which other threads wait when they allocate: for times without
/// work. Does nothing with an allocator other than glibc's.
///
/// Returns whether the process had grown so much. Then each other thread has to call [`give_back_end_of_arena`]: this function does
/// not reach the free memory at the ends of their arenas.
pub fn give_back_freed() -> bool {
    let Some(before) = resident() else { return false };
    let has_grown = before >= LEFT.load(Ordering::Relaxed) + WORTH;
    if has_grown {
        LEFT.store(before, Ordering::Relaxed);
        GROWTHS.fetch_add(1, Ordering::Relaxed);
        give_back_end_of_arena();
    } else {
        LEFT.fetch_min(before, Ordering::Relaxed);
    }
    has_grown
}

/// The calling thread begins: until the process is found grown again, it has nothing to give back.
pub fn begin_thread() {
    GROWTHS_SEEN.set(GROWTHS.load(Ordering::Relaxed));
}

/// Gives back the end of the arena from which the calling thread allocates, if the process has been
/// [found grown](give_back_freed) since this thread last did so. It then takes a few milliseconds.
pub fn give_back_end_of_arena() {
    let growths = GROWTHS.load(Ordering::Relaxed);
    if GROWTHS_SEEN.replace(growths) != growths {
        trim_with_end_of_arena();
    }
}

/// Gives back the end of the calling thread's arena, if the process has 8 MiB more than after the last time that freed
/// memory was given back. For a thread that leaves: no other reaches its arena.
pub fn give_back_before_leaving() {
    if resident().is_some_and(|bytes| bytes >= LEFT.load(Ordering::Relaxed) + WORTH) {
        trim_with_end_of_arena();
    } else {
        give_back_end_of_arena();
    }
}

/// Trims all arenas while a block at the end of this thread's arena is in use, so that the free memory before it is a block like
/// others. Nothing is written to the blocks that are taken: they cost address space, and little memory.
fn trim_with_end_of_arena() {
    trim_behind_blocks();
    LEFT.fetch_min(resident().unwrap_or(usize::MAX), Ordering::Relaxed);
}

fn trim_behind_blocks() {
    if getrlimit(Resource::As).current.is_some() {
        // Other threads may need the address space.
        return trim();
    }
    let mut blocks = Vec::with_capacity(END_MAX / BLOCK);
    while blocks.len() < blocks.capacity() {
        let mut block = Vec::<u8>::new();
        if block.try_reserve_exact(BLOCK).is_err() {
            break;
        }
        blocks.push(black_box(block));
    }
    let last = blocks.pop();
    drop(blocks);
    trim();
    drop(last);
}

/// Bytes of memory that the process has; `None` if the system does not say.
pub fn resident() -> Option<usize> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: the function may be called at any time, by any thread. It takes the locks of the allocator itself, and
    // touches only memory that is free.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
