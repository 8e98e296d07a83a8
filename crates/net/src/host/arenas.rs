//! The address space that the C library's memory allocator reserves.

#![allow(unsafe_code)]

use super::granted_memory::address_space;
use std::env;
use std::sync::Once;

/// Address space that glibc reserves for each arena, of which there are up to eight for each processor.
const ARENA: u64 = 64 << 20;
/// The part of a limited address space that arenas may reserve.
const PART: u64 = 8;

/// If the address space of this process is limited (`ulimit -v`), has glibc reserve at most an eighth of it for arenas, and otherwise make
/// threads share them. Without that, a dozen threads reserve 400 MiB and use little of it, and the process ends for want of a few
/// bytes. Does nothing if `MALLOC_ARENA_MAX` is set, at a second call, and with another allocator.
pub fn reserve_few_arenas() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let is_set = env::var_os("MALLOC_ARENA_MAX").is_some();
        if let Some(bytes) = address_space().filter(|_| !is_set) {
            set_most((bytes / ARENA / PART).max(1));
        }
    });
}

#[cfg(target_env = "gnu")]
fn set_most(arenas: u64) {
    // SAFETY: the function takes two numbers and may be called at any time. It fails for no number of arenas.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas.try_into().unwrap_or(libc::c_int::MAX)) };
}

#[cfg(not(target_env = "gnu"))]
fn set_most(_: u64) {}
