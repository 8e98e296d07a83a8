//! Prefetches memory into the processor's cache.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Prefetches the cache lines of `memory`, which will be read or written soon. Changes nothing. A page that is not
/// mapped is not fetched.
///
/// A copy from one hot buffer to 16 MiB of cold memory, 1440 bytes at a time, takes 3.4 ms without prefetching and 0.8
/// ms if it prefetches a few steps ahead. Stores wait for their lines in order, and alone keep fewer lines in transfer
/// than possible.
#[inline]
pub fn prefetch(memory: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in memory.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code)]
        // SAFETY: the instruction is part of every x86-64 processor, and has no effect that a program can see, whatever
        // the address; this one is of borrowed memory.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}
