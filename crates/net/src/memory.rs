//! Memory of the process: how much it has, and how freed memory goes back to the system.
//!
//! The allocator of glibc keeps much of what was freed. It raises the size from which it maps memory by itself (and
//! unmaps it when it is freed) up to 32 MiB as soon as memory of that size is freed (`mallopt(3)`, `M_MMAP_THRESHOLD`),
//! and each of its arenas keeps up to twice that at its end (`M_TRIM_THRESHOLD`), and everything below the last block in
//! use. After much traffic of long messages, hundreds of megabytes stay. Changing these settings would change them for
//! the whole program. `malloc_trim(3)` gives back all whole pages that are free, in all arenas.

#![allow(unsafe_code)]

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of memory after the last time that freed memory was given back.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Growth since then for which it is worth while to look for freed memory.
const WORTH: usize = 8 << 20;

/// Gives freed memory back to the system, if the process has at least 8 MiB more than after the last time. It takes
/// microseconds if not, and else up to milliseconds, in which other threads wait when they allocate: for times without
/// work. Does nothing with an allocator other than glibc's.
pub fn give_back_freed() {
    let Some(before) = resident() else { return };
    if before >= LEFT.load(Ordering::Relaxed) + WORTH {
        trim();
        LEFT.store(resident().unwrap_or(before), Ordering::Relaxed);
    } else {
        LEFT.fetch_min(before, Ordering::Relaxed);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn freed_memory_between_blocks_in_use_is_given_back() {
        let before = resident().unwrap();
        // Too short to be mapped each by itself; every second one stays.
        let blocks: Vec<Vec<u8>> = (0..1024).map(|_| vec![1; 100_000]).collect();
        let kept: Vec<Vec<u8>> =
            blocks.into_iter().enumerate().filter(|(i, _)| i % 16 == 0).map(|it| it.1).collect();
        give_back_freed();
        let after = resident().unwrap();
        assert!(after < before + (40 << 20), "{before} bytes became {after}");
        assert_eq!(kept.len(), 64);
    }
}
