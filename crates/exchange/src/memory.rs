//! Memory for messages whose length a peer has announced.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

/// Memory that must remain for everything else, beside the message.
const MARGIN: usize = 1 << 20;

/// Returns `len` zeros, or `None` if the process has no memory or address space for them and a margin of 1 MiB.
///
/// The system gives fresh memory as zeros and commits a page only when it is written. No safe function of the standard
/// library asks for such memory and reports a failure instead of ending the process. Therefore this function first
/// reserves memory with any contents, and frees it again. Another thread can take the memory in between; the margin
/// makes that unlikely to matter.
pub fn zeroed(len: usize) -> Option<Vec<u8>> {
    let mut probe = Vec::<u8>::new();
    probe.try_reserve_exact(len.checked_add(MARGIN)?).ok()?;
    // Keeps the compiler from removing an allocation that nothing uses.
    black_box(probe.as_mut_ptr());
    drop(probe);
    Some(vec![0; len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_length_gives_none() {
        assert!(zeroed(isize::MAX as usize).is_none() && zeroed(usize::MAX).is_none());
        assert_eq!(zeroed(5).unwrap(), [0; 5]);
    }
}
