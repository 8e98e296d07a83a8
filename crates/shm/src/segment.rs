//! The shared memory itself: a sealed file without a name, mapped by exactly two processes.

#![allow(unsafe_code)]

use crate::Arena;
use crate::layout::{ARENA, LEN};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::{bytes, futex};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory shared with another process, [`LEN`] bytes of it. The system frees it when both processes have unmapped it; it has no name
/// in the file system.
///
/// Only its words are given out by reference, as atomics; everything else is copied.
#[derive(Debug)]
pub struct Segment {
    start: NonNull<u8>,
    /// No thread of this end sleeps any more. Not kept in the shared memory, where the peer could set it.
    given_up: AtomicBool,
    /// Threads of this process that sleep until something happens ([`listening`](crate::listening)), or are about to.
    listeners: AtomicU32,
}

/// The file system of memory with huge pages (statfs(2)).
const HUGETLBFS_MAGIC: u64 = 0x958458f6;

// SAFETY: the mapping belongs to the value, is at the same place for all threads, and is used by atomics and by copies that may
// race with anything (`bytes`).
unsafe impl Send for Segment {}
// SAFETY: as above; all methods but `drop` take shared references and need no exclusion.
unsafe impl Sync for Segment {}

impl Segment {
    /// New memory without an arena, all zero, with the descriptor by which the other process can map it.
    ///
    /// It can be neither shrunk nor grown (sealed), so that neither side can make an access of the other fault.
    ///
    /// # Errors
    /// The system gives no descriptor, or no address space; `FileTooLarge` when this process may make no file of that length
    /// (RLIMIT_FSIZE).
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let (segment, _, file) = Self::create_with_arena(0)?;
        Ok((segment, file))
    }

    /// As [`create`](Self::create), with an arena of `arena_len` bytes, or somewhat more; none if that is 0.
    ///
    /// # Errors
    /// As `create`.
    pub fn create_with_arena(arena_len: usize) -> io::Result<(Self, Option<Arc<Arena>>, OwnedFd)> {
        let file = rustix::fs::memfd_create(c"stoop", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
        let arena_len = arena_len.checked_next_multiple_of(Arena::PAGE).ok_or_else(too_long)?;
        let len = if arena_len > 0 { ARENA.checked_add(arena_len).ok_or_else(too_long)? } else { LEN };
        // Beyond the limit the system would end this process by a signal (SIGXFSZ).
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < len as u64) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        rustix::fs::ftruncate(&file, len as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file)?, Arena::map(&file, arena_len)?, file))
    }

    /// Maps the memory that another process has made.
    ///
    /// # Errors
    /// `InvalidData` when it has huge pages, is smaller than a segment, or is not sealed against shrinking: then the server could take
    /// it away while it is used. Otherwise, the system gives no address space.
    pub fn attach(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::attach_with_arena(file)?.0)
    }

    /// As [`attach`](Self::attach), with its arena, if it has one.
    ///
    /// # Errors
    /// As `attach`.
    pub fn attach_with_arena(file: impl AsFd) -> io::Result<(Self, Option<Arc<Arena>>)> {
        // First: the kernel itself refuses this for a file that is no memory. It would ask the server of a file in FUSE for the others,
        // and that could keep this process waiting.
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        // A huge page that the system does not have ends the process that touches it, and the layout is of small pages.
        if rustix::fs::fstatfs(&file)?.f_type as u64 == HUGETLBFS_MAGIC {
            let why = "the shared memory has huge pages, which no version uses";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        // Read when it can no longer become less.
        let size = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if !seals.contains(SealFlags::SHRINK) || size < LEN {
            let why = "the shared memory is not sealed, or is of another size than this version uses";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let arena_len = size.saturating_sub(ARENA);
        Ok((Self::map(&file)?, Arena::map(&file, arena_len - arena_len % Arena::PAGE)?))
    }

    fn map(file: impl AsFd) -> io::Result<Self> {
        let (read_write, shared) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: with no address asked for, the kernel chooses one where nothing is mapped: no memory of anybody's changes.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), LEN, read_write, shared, file, 0)? };
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address zero unasked");
        Ok(Self { start, given_up: AtomicBool::new(false), listeners: AtomicU32::new(0) })
    }

    /// The word at byte `at`, by which others are published.
    ///
    /// # Panics
    /// When it is not inside the segment or not aligned: a mistake of this crate's, which no peer can cause.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(size_of::<u64>()) && at <= LEN - size_of::<u64>());
        // SAFETY: the mapping is `LEN` bytes long and lives as long as `self`, and so does the reference; `at` has just been
        // checked against both ends, and against the alignment, as mappings begin at pages. Any bits are a value. The peer
        // changes it by atomics or by instructions that no compiler relates to this reference; this process uses a place either
        // as a word, or as a half, or for copies, as `layout` says.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The half of a word at byte `at`, by which others are published.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    #[inline]
    pub(crate) fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(size_of::<u32>()) && at <= LEN - size_of::<u32>());
        // SAFETY: as for `word`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Stores a word that is published by another.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    #[inline]
    pub(crate) fn put_word(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Loads a word that has been published by another.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    #[inline]
    pub(crate) fn get_word(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// The caller is about to write at byte `at`: the processor may fetch that line meanwhile.
    ///
    /// # Panics
    /// When it is not inside the segment: as [`word`](Self::word).
    #[inline]
    pub(crate) fn will_write(&self, at: usize) {
        assert!(at < LEN);
        bytes::will_write(self.start.as_ptr().wrapping_add(at));
    }

    /// The caller is about to read at byte `at`: the processor may fetch that line meanwhile.
    ///
    /// # Panics
    /// When it is not inside the segment: as [`word`](Self::word).
    #[inline]
    pub(crate) fn will_read(&self, at: usize) {
        assert!(at < LEN);
        bytes::will_read(self.start.as_ptr().wrapping_add(at));
    }

    /// Sleeps while the half of a word at byte `at` is `value`, at most `limit_ns`, and perhaps less for no reason.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    pub(crate) fn wait(&self, at: usize, value: u32, limit_ns: u64) {
        futex::wait(self.half(at), value, limit_ns);
    }

    /// Wakes threads that sleep there, [`WOKEN_MAX`](futex::WOKEN_MAX) at most.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    pub(crate) fn wake(&self, at: usize) {
        futex::wake(self.half(at));
    }

    /// How many threads of this process sleep until something happens, or are about to.
    pub(crate) fn listeners(&self) -> &AtomicU32 {
        &self.listeners
    }

    /// No thread of this end may sleep any more.
    pub(crate) fn set_given_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// Whether that has been said. If so, what this process knew before it was said can be read from now on.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Copies `bytes` into the segment.
    ///
    /// # Panics
    /// When they reach beyond its end: a mistake of this crate's, which no peer can cause.
    #[inline]
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at <= LEN && bytes.len() <= LEN - at);
        // SAFETY: `bytes` is readable, and the mapping writable from `at` on for as many bytes, as has just been checked. They do
        // not overlap: nothing in the mapping is ever borrowed as a slice.
        unsafe { bytes::copy_in(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) }
    }

    /// Copies out of the segment into `bytes`.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    #[inline]
    pub(crate) fn get(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= LEN && bytes.len() <= LEN - at);
        // SAFETY: as for `put`, the other way.
        unsafe { bytes::copy_out(self.start.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Copies `len` bytes out of the segment to the end of `bytes`.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    #[inline]
    pub(crate) fn append(&self, at: usize, len: usize, bytes: &mut Vec<u8>) {
        assert!(at <= LEN && len <= LEN - at);
        bytes.reserve(len);
        let spare = bytes.spare_capacity_mut();
        // SAFETY: there is room for `len` bytes more, which has just been reserved and belongs to this thread, and the mapping is readable
        // from `at` on for as many, as has just been checked; the two are different allocations.
        unsafe { bytes::copy_out(self.start.as_ptr().add(at), spare.as_mut_ptr().cast(), len) };
        // SAFETY: the room was reserved, and the `len` bytes have just been written.
        unsafe { bytes.set_len(bytes.len() + len) };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and belongs to `self`, to which no reference is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), LEN) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_mappings_are_the_same_memory() {
        let (ours, file) = Segment::create().unwrap();
        let theirs = Segment::attach(&file).unwrap();
        ours.word(64).store(7, Relaxed);
        ours.put(4096, b"bytes");
        let mut bytes = vec![1];
        theirs.append(4096, 5, &mut bytes);
        assert_eq!((theirs.word(64).load(Relaxed), &bytes[..]), (7, &b"\x01bytes"[..]));
        assert_eq!(theirs.half(64).load(Relaxed), 7);
    }

    #[test]
    fn it_cannot_be_taken_away_while_it_is_used() {
        let (_segment, file) = Segment::create().unwrap();
        assert!(rustix::fs::ftruncate(&file, 0).is_err());
        assert!(rustix::fs::ftruncate(&file, 2 * LEN as u64).is_err());
    }

    #[test]
    fn memory_that_could_be_taken_away_is_not_attached() {
        let unsealed =
            rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&unsealed, LEN as u64).unwrap();
        assert_eq!(Segment::attach(&unsealed).unwrap_err().kind(), io::ErrorKind::InvalidData);
        rustix::fs::ftruncate(&unsealed, 4096).unwrap();
        rustix::fs::fcntl_add_seals(&unsealed, SealFlags::SHRINK).unwrap();
        assert_eq!(Segment::attach(&unsealed).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let pipe = io::pipe().unwrap();
        assert!(Segment::attach(&pipe.0).is_err());
    }

    #[test]
    fn memory_with_huge_pages_is_not_attached() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let huge = match rustix::fs::memfd_create(c"test", flags) {
            Ok(huge) => huge,
            Err(why) => return println!("SKIPPED: this kernel has no huge pages: {why}"),
        };
        rustix::fs::ftruncate(&huge, 1 << 30).unwrap();
        rustix::fs::fcntl_add_seals(&huge, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        let why = Segment::attach(&huge).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{why}");
    }

    #[test]
    fn nothing_beyond_its_end_is_touched() {
        let (segment, _file) = Segment::create().unwrap();
        let is_refused =
            |access: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(access)).is_err();
        for (at, len) in
            [(LEN - 4, 5), (LEN, 1), (LEN + 1, 0), (0, LEN + 1), (usize::MAX, 2), (1, usize::MAX)]
        {
            assert!(is_refused(&|| segment.append(at, len, &mut Vec::new())), "{len} bytes from {at} on");
            // There are no slices of such lengths.
            if len <= LEN + 1 {
                assert!(is_refused(&|| segment.put(at, &vec![0; len])), "{len} bytes from {at} on");
                assert!(is_refused(&|| segment.get(at, &mut vec![0; len])), "{len} bytes from {at} on");
            }
        }
        segment.append(LEN - 4, 4, &mut Vec::new());
        segment.append(LEN, 0, &mut Vec::new());
    }
}
