//! The largest allocation of the process so far. It shows that no memory was taken for a length that a peer only announced.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Noting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is handed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `memory` and `layout` is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static NOTING: Noting = Noting;

/// Fails if one allocation was larger than any that these tests need.
pub(crate) fn check() {
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest < 64 << 20, "{largest} bytes were allocated at once");
}
