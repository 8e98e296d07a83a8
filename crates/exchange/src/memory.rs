//! Memory for messages whose length a peer has announced.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

/// What is left beside a message, for everything else that needs memory.
const MARGIN: usize = 1 << 20;

/// `len` zeros; `None` where the process has no memory, or no address space, for them and somewhat more.
///
/// Memory comes from the system as zeros that take none before something is written. No safe function of the standard library asks for
/// such memory and reports a failure instead of ending the process; so this asks first for memory with any contents, and gives it back.
/// Another thread can take what is left in between, if that is more than a margin.
pub fn zeroed(len: usize) -> Option<Vec<u8>> {
    let mut probe = Vec::<u8>::new();
    probe.try_reserve_exact(len.checked_add(MARGIN)?).ok()?;
    // Or the compiler would leave out an allocation that nothing uses.
    black_box(probe.as_mut_ptr());
    drop(probe);
    Some(vec![0; len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_there_cannot_be_is_not_asked_for() {
        assert!(zeroed(isize::MAX as usize).is_none() && zeroed(usize::MAX).is_none());
        assert_eq!(zeroed(5).unwrap(), [0; 5]);
    }
}
