//! The arena: memory behind a segment for arguments that both processes use where they lie.
//!
//! Only the caller knows which parts are in use: a hostile server can change the bytes in the buffers, not where they
//! are. Each call tells the server an offset and a length, which it checks and forgets.

#![allow(unsafe_code)]

mod ranges;

use crate::{Number, layout};
use ranges::Ranges;
use rustix::fd::AsFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory behind a segment, in one of the processes that share it. It lives as long as this process uses a part of it.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
    len: usize,
    /// The process that has mapped it. A child that it forks has the mapping and a copy of the fields below, and may change neither.
    process: u32,
    /// At the caller's end.
    used: Mutex<Used>,
}

#[derive(Debug)]
struct Used {
    ranges: Ranges,
    /// Bytes that were given back, and whose pages the system may still hold.
    unreturned: usize,
}

/// A part of an arena that belongs to one buffer; given back when it is dropped.
#[derive(Debug)]
pub struct Range {
    arena: Arc<Arena>,
    at: usize,
    len: usize,
}

/// An arena has no part that is free and long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes asked for.
    pub wanted: usize,
    /// Bytes that are free, in all.
    pub free: usize,
    /// Bytes of the longest part that is free.
    pub longest: usize,
    /// Bytes of the arena.
    pub len: usize,
}

/// Free bytes whose pages are kept, for a caller that needs a buffer again and again.
const UNRETURNED_MAX: usize = 4 << 20;

// SAFETY: the mapping belongs to the value and is at the same place for all threads; nothing here reads or writes it.
unsafe impl Send for Arena {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Arena {}

impl Arena {
    /// Unit of an arena's size; a multiple of the size of pages, where those are of at most 64 KiB.
    pub const PAGE: usize = 64 * 1024;

    /// Maps the arena at the end of a segment's file, which has `len` bytes more than [`layout::ARENA`] and is sealed against
    /// shrinking; `None` for none.
    pub(crate) fn map(file: impl AsFd, len: usize) -> io::Result<Option<Arc<Self>>> {
        if len == 0 {
            return Ok(None);
        }
        let (read_write, shared) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        let at = layout::ARENA as u64;
        // SAFETY: with no address asked for, the kernel chooses one where nothing is mapped: no memory of anybody's changes.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, read_write, shared, file, at)? };
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address zero unasked");
        let used = Mutex::new(Used { ranges: Ranges::new(len), unreturned: 0 });
        Ok(Some(Arc::new(Self { start, len, process: std::process::id(), used })))
    }

    /// Bytes of it.
    #[expect(clippy::len_without_is_empty, reason = "an empty one is none")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of it that are free, as this end has given them out.
    pub fn free(&self) -> usize {
        self.used().ranges.free().map(|(_, len)| len).sum()
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller's end: takes a part of at least `wanted` bytes, aligned for every number.
    ///
    /// # Errors
    /// When no part that is free is long enough.
    pub(crate) fn take(self: &Arc<Self>, wanted: usize) -> Result<Range, Full> {
        let mut used = self.used();
        let Some((at, len)) = used.ranges.take(wanted) else {
            let free = || used.ranges.free().map(|(_, len)| len);
            let (free, longest) = (free().sum(), free().max().unwrap_or(0));
            return Err(Full { wanted, free, longest, len: self.len });
        };
        drop(used);
        Ok(Range { arena: Arc::clone(self), at, len })
    }

    /// The address of `len` numbers at byte `at`, which the other process may have chosen: within the mapping, and aligned.
    /// `None` when they are not.
    pub(crate) fn numbers<T: Number>(&self, at: u64, len: usize) -> Option<NonNull<T>> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(len.checked_mul(size_of::<T>())?)?;
        if end > self.len || !at.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: `at` is at most the length of the mapping, and so within it or at its end. The mapping begins at a page, so that
        // an offset that is aligned gives an address that is aligned.
        Some(unsafe { self.start.add(at) }.cast())
    }

    /// The offset of an address in the arena.
    pub(crate) fn offset_of(&self, address: NonNull<u8>) -> usize {
        address.addr().get() - self.start.addr().get()
    }

    fn give_back(&self, at: usize, len: usize) {
        if std::process::id() != self.process {
            // The parent still uses it, and may have allocated parts that this copy says are free.
            return;
        }
        let mut used = self.used();
        used.ranges.give_back(at, len);
        used.unreturned += len;
        if used.unreturned > UNRETURNED_MAX {
            used.unreturned = 0;
            // The lock is held, so no thread gets a part of them meanwhile.
            used.ranges.free().for_each(|(at, len)| self.release_pages(at, len));
        }
    }

    /// Gives the whole pages of a part back to the system. A reader finds zeros there.
    fn release_pages(&self, at: usize, len: usize) {
        let (begin, end) = (at.next_multiple_of(Self::PAGE), (at + len) / Self::PAGE * Self::PAGE);
        if begin >= end {
            return;
        }
        // SAFETY: the part is within the mapping, which begins at a page, as the part does; it stays mapped, and no buffer of this
        // process is in it. The pages go from the file, which is as if the peer wrote zeros.
        let removed = unsafe {
            let start = self.start.add(begin).as_ptr().cast::<c_void>();
            rustix::mm::madvise(start, end - begin, Advice::LinuxRemove)
        };
        // If the system cannot do that, the pages stay until the arena is unmapped.
        let _ = removed;
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and belongs to `self`; every buffer in it holds an `Arc` of it.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be given back");
    }
}

impl Range {
    /// Its first byte in the arena.
    pub(crate) fn start(&self) -> u64 {
        self.at as u64
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        self.arena.give_back(self.at, self.len);
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, free, longest, len } = self;
        write!(
            f,
            "{wanted} bytes are wanted, and of the {len} that are shared for buffers {free} are free, at most {longest} of them contiguous"
        )
    }
}

impl std::error::Error for Full {}

#[cfg(test)]
mod tests;
