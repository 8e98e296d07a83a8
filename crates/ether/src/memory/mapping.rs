//! A range of memory that the kernel and this process share.

#![allow(unsafe_code)]

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

/// The range. All of it is readable and writable, and has been touched.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the methods that give references demand from their callers what makes them sound on any thread; the
// mapping is dropped by the last owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The memory of a socket: which of its rings is meant, is said by `offset`.
    pub(crate) fn of_socket(socket: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses the address, so the mapping replaces no other.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, socket, offset) }?;
        Self::new(start, len)
    }

    /// Memory of this process, which it gives to the kernel later.
    pub(crate) fn of_process(len: usize) -> Result<Self, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: as in `of_socket`.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, flags) }?;
        Self::new(start, len)
    }

    fn new(start: *mut std::ffi::c_void, len: usize) -> Result<Self, Errno> {
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, len })
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number at byte `at`, which the kernel may change at any time.
    ///
    /// # Panics
    ///
    /// If it is not aligned or not inside.
    #[inline]
    pub(crate) fn number(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at < self.len && self.len - at >= 4,
            "a number inside of the mapping"
        );
        // SAFETY: four bytes inside of the mapping, which lives as long as the reference; aligned, because a
        // mapping begins at a page; the kernel and this process use them by atomic instructions only.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The bytes from `at` on.
    ///
    /// # Safety
    ///
    /// While the slice lives, neither the kernel nor another thread writes to these bytes.
    ///
    /// # Panics
    ///
    /// If they are not all inside.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len && self.len - at >= len, "bytes inside of the mapping");
        // SAFETY: inside of the mapping, which lives as long as the slice; the caller vouches that nothing
        // writes there.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) }
    }

    /// The bytes from `at` on, to be written.
    ///
    /// # Safety
    ///
    /// While the slice lives, neither the kernel nor another reference reads or writes these bytes.
    ///
    /// # Panics
    ///
    /// If they are not all inside.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that the slice is the only reference")]
    #[inline]
    pub(crate) unsafe fn bytes_mut(&self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.len && self.len - at >= len, "bytes inside of the mapping");
        // SAFETY: inside of the mapping, which lives as long as the slice; the caller vouches that it is the
        // only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `new`'s callers and is unmapped once; references into it have
        // ended, because they borrow from `self`. It cannot fail for such a range.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
