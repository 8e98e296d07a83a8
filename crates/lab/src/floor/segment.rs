//! Memory that two processes share, for the floors of `shm:`.
//!
//! Everything `unsafe` of these floors is here. Both processes are this program, so that what one of them writes is what the
//! other expects; [`words`](Segment::word) that both processes count up say which process may write where.

#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

/// A mapping of a memfd, with all of its pages there.
#[derive(Debug)]
pub(super) struct Segment {
    base: NonNull<u8>,
    len: usize,
}

/// A file without a name that two processes can map.
pub(super) fn memory() -> io::Result<OwnedFd> {
    Ok(memfd_create(c"stoop-bench", MemfdFlags::CLOEXEC)?)
}

impl Segment {
    /// Maps `len` bytes of `memory`, which the first process to map it makes that long.
    pub(super) fn map(memory: impl AsFd, len: usize) -> io::Result<Self> {
        ftruncate(&memory, len as u64)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY:
        // - Nothing of ours is replaced: the address is left to the kernel.
        // - The bytes can be read: the memfd is `len` bytes long, and both ends make it so and never shorter.
        let base = unsafe { mmap(ptr::null_mut(), len, prot, flags, memory, 0)? };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero unasked");
        Ok(Segment { base, len })
    }

    /// The word at `offset` bytes.
    #[inline(always)]
    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len, "a word lies within the segment");
        // SAFETY:
        // - In bounds and aligned: asserted, and a mapping begins at a page.
        // - Valid as long as `self`: only `drop` unmaps it.
        // - Shared: both processes reach words only through here, as atomics; `copy_in` and `copy_out` are for other bytes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Copies `bytes` to `offset`. No other thread may access these bytes meanwhile: a word says which end may.
    #[inline(always)]
    pub(super) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset, "a copy stays within the segment");
        // SAFETY:
        // - In bounds: asserted.
        // - No overlap: `bytes` is memory of this process alone; nothing hands out slices of the segment.
        // - No race: it is our turn, by a word loaded with Acquire that the other end stored with Release.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(offset), bytes.len()) }
    }

    /// Copies what lies at `offset` to `bytes`. No other thread may write there meanwhile.
    #[inline(always)]
    pub(super) fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset, "a copy stays within the segment");
        // SAFETY: as in `copy_in`, the other way; every byte value is valid.
        unsafe { ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len()) }
    }
}

// SAFETY: a mapping belongs to the process and to no thread of it.
unsafe impl Send for Segment {}

impl Drop for Segment {
    fn drop(&mut self) {
        let base: *mut c_void = self.base.as_ptr().cast();
        // SAFETY: the mapping is ours, whole, and nothing borrowed from it outlives `self`.
        let unmapped = unsafe { munmap(base, self.len) };
        unmapped.expect("a whole mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_has_the_other_has_too() {
        let memory = memory().expect("a memfd");
        let [one, other] = [(); 2].map(|()| Segment::map(&memory, 8192).expect("mapped"));
        one.word(64).store(7, Ordering::Release);
        one.copy_in(8190, &[1, 2]);
        let mut bytes = [0; 2];
        other.copy_out(8190, &mut bytes);
        assert_eq!((other.word(64).load(Ordering::Acquire), bytes), (7, [1, 2]));
    }

    #[test]
    #[should_panic(expected = "stays within the segment")]
    fn a_copy_beyond_the_end_is_refused() {
        Segment::map(memory().expect("a memfd"), 4096).expect("mapped").copy_in(4095, &[1, 2]);
    }
}
