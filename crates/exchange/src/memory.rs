//! Memory for messages whose length a peer or a result decides.

use alloc::vec::Vec;
use core::hint::black_box;
use zerocopy::FromZeros;

/// Memory that must remain for everything else, beside a message.
const MARGIN: usize = 1 << 20;
/// A message of at most so many bytes is taken without a look at what remains.
const SHORT: usize = 64 << 10;

/// Returns `len` zeros, or `None` if the process has no memory or address space for them and a margin of 1 MiB.
///
/// The system gives fresh memory as zeros and commits a page only when it is written.
pub fn zeroed(len: usize) -> Option<Vec<u8>> {
    let memory = u8::new_vec_zeroed(len).ok()?;
    leaves_margin(len).then_some(memory)
}

/// Makes `memory` `len` bytes long, with zeros behind its present bytes. `false`, and it is unchanged, if the process has no memory
/// or address space for them and a margin of 1 MiB. Does nothing if it is that long already.
pub fn lengthen(memory: &mut Vec<u8>, len: usize) -> bool {
    let has_room = len <= memory.len() || reserve(memory, len - memory.len());
    if has_room && len > memory.len() {
        memory.resize(len, 0);
    }
    has_room
}

/// Makes room for `more` bytes behind those of `memory`. `false` if the process has no memory or address space for them and a margin
/// of 1 MiB.
#[inline]
pub fn reserve(memory: &mut Vec<u8>, more: usize) -> bool {
    memory.capacity() - memory.len() >= more || grow(memory, more)
}

#[cold]
fn grow(memory: &mut Vec<u8>, more: usize) -> bool {
    memory.try_reserve_exact(more).is_ok() && leaves_margin(more)
}

/// Whether a margin remains, after `len` bytes have been taken.
fn leaves_margin(len: usize) -> bool {
    len <= SHORT || has_margin()
}

/// Whether the process has 1 MiB for everything else: an allocation that cannot report a failure would end it.
pub fn has_margin() -> bool {
    let mut margin = Vec::<u8>::new();
    let is_there = margin.try_reserve_exact(MARGIN).is_ok();
    // Keeps the compiler from removing an allocation that nothing uses.
    black_box(margin.as_mut_ptr());
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_length_gives_none() {
        // The compiler may take memory that nothing uses for granted.
        let is_none = |len| black_box(zeroed(len)).is_none();
        assert!(is_none(isize::MAX as usize) && is_none(usize::MAX));
        assert_eq!(zeroed(5).unwrap(), [0; 5]);
    }

    #[test]
    fn memory_that_cannot_be_lengthened_is_unchanged() {
        let mut memory = black_box(alloc::vec![7; 3]);
        assert!(!lengthen(&mut memory, isize::MAX as usize) && !reserve(&mut memory, usize::MAX));
        assert_eq!(memory, [7; 3]);
        assert!(lengthen(&mut memory, 5) && lengthen(&mut memory, 2));
        assert_eq!(memory, [7, 7, 7, 0, 0]);
    }
}
