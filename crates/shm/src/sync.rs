//! Atomics: the machine's, and loom's in models.

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// A full fence, for a thread that has just made a `SeqCst` exchange: which is one itself on the machines where that is cheaper
/// than any other.
#[inline]
pub(crate) fn fence_after_exchange() {
    #[cfg(any(not(target_arch = "x86_64"), all(test, loom)))]
    fence(Ordering::SeqCst);
}
