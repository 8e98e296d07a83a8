//! Times at which one processor passed a tracepoint of the kernel: `perf_event_open(2)` and its ring.
//!
//! The kernel writes records while the event is enabled, and this process reads them when it is not: then nothing else
//! writes to the ring.

#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::{CString, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// A tracepoint of which one processor's passings are noted.
pub(super) struct Event {
    fd: OwnedFd,
    base: NonNull<u8>,
}

/// The head of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER4`), as `include/uapi/linux/perf_event.h` has it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config_1: u64,
    config_2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
}

const _: () = assert!(size_of::<Attributes>() == 104);

const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TIME: u64 = 1 << 2;
const FLAG_DISABLED: u64 = 1;
const FLAG_USE_CLOCK: u64 = 1 << 25;
/// CLOCK_MONOTONIC_RAW.
const CLOCK: i32 = 4;
const OPEN_CLOEXEC: u64 = 8;
const ENABLE: c_long = 0x2400;
const DISABLE: c_long = 0x2401;
const SET_FILTER: c_long = 0x4008_2406;

const PAGE: usize = 4096;
/// Bytes of records; a power of two.
const DATA_LEN: usize = 128 * PAGE;
/// `data_head` and `data_tail` in the ring's first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Types of records.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

impl Event {
    /// An event of tracepoint `id` on processor `cpu`, not enabled yet, for passings to which `filter` applies.
    pub(super) fn open(id: u64, cpu: usize, filter: Option<&str>) -> io::Result<Self> {
        let attributes = Attributes {
            kind: TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: id,
            sample_period: 1,
            sample_type: SAMPLE_TIME,
            flags: FLAG_DISABLED | FLAG_USE_CLOCK,
            clock: CLOCK,
            ..Attributes::default()
        };
        let fd = open(&attributes, cpu)?;
        let base = map(&fd)?;
        let event = Event { fd, base };
        if let Some(filter) = filter {
            event.set_filter(filter)?;
        }
        Ok(event)
    }

    fn set_filter(&self, filter: &str) -> io::Result<()> {
        let filter = CString::new(filter).map_err(io::Error::other)?;
        self.control(SET_FILTER, filter.as_ptr() as usize)
    }

    pub(super) fn enable(&self) -> io::Result<()> {
        self.control(ENABLE, 0)
    }

    /// Disables the event, and takes the times that it has noted, in nanoseconds of CLOCK_MONOTONIC_RAW, and how many were lost.
    pub(super) fn disable(&self) -> io::Result<(Vec<u64>, u64)> {
        self.control(DISABLE, 0)?;
        let (head, tail) = (self.word(HEAD).load(Ordering::Acquire), self.word(TAIL).load(Ordering::Relaxed));
        let records = self.copy(tail, head);
        self.word(TAIL).store(head, Ordering::Release);
        Ok(times(&records))
    }

    fn control(&self, request: c_long, argument: usize) -> io::Result<()> {
        // SAFETY: the requests are those of a perf event. The only one with a pointer reads a string that ends with a zero, which its
        // caller holds.
        let result = unsafe { libc::syscall(libc::SYS_ioctl, self.fd.as_raw_fd(), request, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset == HEAD || offset == TAIL);
        // SAFETY: in bounds and aligned, because both offsets are multiples of eight in the first page, which `self` keeps mapped. The
        // kernel and this process access these words atomically.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The bytes of the ring from `tail` to `head`, while the event is disabled.
    fn copy(&self, tail: u64, head: u64) -> Vec<u8> {
        let len = usize::try_from(head - tail).expect("a ring fits into memory").min(DATA_LEN);
        let start = (tail as usize) & (DATA_LEN - 1);
        let first = len.min(DATA_LEN - start);
        let mut bytes = vec![0; len];
        // SAFETY:
        // - In bounds: the mapping has DATA_LEN bytes behind its first page; `start + first` and `len - first` are at most that.
        // - No overlap: `bytes` is memory of this process alone.
        // - No race: the event is disabled, and `head` was loaded with Acquire.
        unsafe {
            let data = self.base.as_ptr().add(PAGE);
            ptr::copy_nonoverlapping(data.add(start), bytes.as_mut_ptr(), first);
            ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), len - first);
        }
        bytes
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, has this length, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), PAGE + DATA_LEN) };
    }
}

fn open(attributes: &Attributes, cpu: usize) -> io::Result<OwnedFd> {
    let (all_processes, no_group) = (-1, -1);
    // SAFETY: `attributes` is a `perf_event_attr` of the size that it names; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            ptr::from_ref(attributes),
            all_processes,
            cpu as c_long,
            no_group,
            OPEN_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn map(fd: &OwnedFd) -> io::Result<NonNull<u8>> {
    // SAFETY: nothing of ours is replaced, because the kernel chooses the address.
    let base = unsafe {
        mmap(ptr::null_mut(), PAGE + DATA_LEN, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)?
    };
    Ok(NonNull::new(base.cast()).expect("the kernel maps nothing at address zero unasked"))
}

/// The times in the records, and how many records were lost.
fn times(mut records: &[u8]) -> (Vec<u64>, u64) {
    let (mut times, mut lost) = (Vec::new(), 0);
    while let Some((header, _)) = records.split_first_chunk::<8>() {
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let len = usize::from(u16::from_ne_bytes([header[6], header[7]])).max(8);
        let word = |at: usize| {
            records.get(at..at + 8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        };
        match kind {
            SAMPLE => times.extend(word(8)),
            LOST => lost += word(16).unwrap_or(0),
            _ => {}
        }
        records = records.get(len..).unwrap_or_default();
    }
    (times, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_one_behind_the_other() {
        let mut records = Vec::new();
        let mut record = |kind: u32, words: &[u64]| {
            records.extend(kind.to_ne_bytes());
            records.extend(0_u16.to_ne_bytes());
            records.extend((8 + 8 * words.len() as u16).to_ne_bytes());
            words.iter().for_each(|word| records.extend(word.to_ne_bytes()));
        };
        record(SAMPLE, &[7]);
        record(LOST, &[1, 5]);
        record(99, &[]);
        record(SAMPLE, &[8]);
        assert_eq!(times(&records), (vec![7, 8], 5));
        assert_eq!(times(&records[..4]), (vec![], 0));
    }
}
