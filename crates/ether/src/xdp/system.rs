//! System calls that `rustix` lacks: bpf(2) and options of busy polling.

#![allow(unsafe_code)]

use libc::{c_int, c_long};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::mem::size_of_val;
use std::ptr;

// Commands and constants of <linux/bpf.h> and <linux/if_link.h>.
const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_LINK_CREATE: c_int = 28;
const BPF_LINK_DETACH: c_int = 34;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
/// The program reads only the beginning of a frame, so frames in several parts may pass
/// (BPF_F_XDP_HAS_FRAGS). Without it a driver refuses large MTUs.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// Where the program runs: behind the driver (XDP_FLAGS_SKB_MODE), or in it (XDP_FLAGS_DRV_MODE).
pub(super) const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
pub(super) const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// bpf(2) with an attribute made of words. The kernel takes words beyond the end for zeros.
///
/// # Safety
///
/// Pointers among the words are to live memory that the command may use: only read, for the commands of this
/// file.
unsafe fn bpf(command: c_int, attribute: &[u64]) -> Result<c_long, Errno> {
    // SAFETY: the attribute is live and as long as is said; the caller vouches for pointers in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attribute.as_ptr(), size_of_val(attribute)) };
    if result >= 0 { Ok(result) } else { Err(last_error()) }
}

/// As [`bpf`], for commands that return a descriptor.
///
/// # Safety
///
/// As of [`bpf`].
unsafe fn bpf_descriptor(command: c_int, attribute: &[u64]) -> Result<OwnedFd, Errno> {
    // SAFETY: as the caller vouches.
    let descriptor = unsafe { bpf(command, attribute) }?;
    // SAFETY: the kernel has made this descriptor just now, for this caller; it closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as c_int) })
}

/// Two words of 32 bits as they lie in memory.
fn words(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// An array of 65,536 values of eight bytes.
pub(super) fn create_array() -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers: type and key size, value size and count.
    unsafe { bpf_descriptor(BPF_MAP_CREATE, &[words(BPF_MAP_TYPE_ARRAY, 4), words(8, 1 << 16)]) }
}

/// A map from receive queues, up to this number, to sockets of AF_XDP.
pub(super) fn create_socket_map(queues: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: as above.
    unsafe { bpf_descriptor(BPF_MAP_CREATE, &[words(BPF_MAP_TYPE_XSKMAP, 4), words(4, queues)]) }
}

fn update<V>(map: BorrowedFd<'_>, key: u32, value: &V) -> Result<(), Errno> {
    let (key, value) = ((&raw const key) as u64, ptr::from_ref(value) as u64);
    // SAFETY: both pointers are to live numbers of the sizes with which the callers below have made the map.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &[words(map.as_raw_fd() as u32, 0), key, value, 0]) }.map(|_| ())
}

/// Sets a value of a map made by [`create_array`].
pub(super) fn set_value(array: BorrowedFd<'_>, key: u32, value: u64) -> Result<(), Errno> {
    update(array, key, &value)
}

/// Sets the socket of a receive queue in a map made by [`create_socket_map`].
pub(super) fn set_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    update(map, queue, &(socket.as_raw_fd() as u32))
}

/// Loads an XDP program. The kernel verifies it.
pub(super) fn load(program: &[u64]) -> Result<OwnedFd, Errno> {
    // The project's. The kernel wants a GPL-compatible one only of programs that call functions reserved for these: this one calls none.
    let license = c"MIT OR Apache-2.0";
    let mut name = [0; 16];
    name[..11].copy_from_slice(b"stoop_ether");
    let name: [u64; 2] = [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|byte| name[at + byte])));
    let attribute = [
        words(BPF_PROG_TYPE_XDP, program.len() as u32),
        program.as_ptr() as u64,
        license.as_ptr() as u64,
        // No log.
        0,
        0,
        words(0, BPF_F_XDP_HAS_FRAGS),
        name[0],
        name[1],
        words(0, BPF_XDP),
    ];
    // SAFETY: the pointers are to the live program, of the length that is given, and to a string with a zero
    // byte at its end.
    unsafe { bpf_descriptor(BPF_PROG_LOAD, &attribute) }
}

/// Attaches a program to an interface. It is detached when the descriptor is closed, however the process
/// ends.
pub(super) fn attach(program: BorrowedFd<'_>, index: u32, flags: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers: program and interface, type of the attachment and flags.
    unsafe {
        bpf_descriptor(BPF_LINK_CREATE, &[words(program.as_raw_fd() as u32, index), words(BPF_XDP, flags)])
    }
}

/// Detaches the program of the link from its interface, also if other processes have descriptors of the link.
pub(super) fn detach(link: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: no pointers: the link alone.
    unsafe { bpf(BPF_LINK_DETACH, &[words(link.as_raw_fd() as u32, 0)]) }.map(drop)
}

/// Has the socket's receive calls run the driver's poll function, and interrupts deferred meanwhile
/// (Documentation/networking/napi.rst, "Busy polling").
pub(super) fn set_busy_poll(socket: impl AsFd) -> Result<(), Errno> {
    const SO_PREFER_BUSY_POLL: c_int = 69;
    const SO_BUSY_POLL_BUDGET: c_int = 70;
    const MICROSECONDS: c_int = 20;
    const FRAMES: c_int = 64;
    for (option, value) in
        [(SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, MICROSECONDS), (SO_BUSY_POLL_BUDGET, FRAMES)]
    {
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: the pointer is to a live number of the length that is given; the kernel copies it.
        let result = unsafe {
            libc::setsockopt(
                descriptor,
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as u32,
            )
        };
        if result < 0 {
            return Err(last_error());
        }
    }
    Ok(())
}

fn last_error() -> Errno {
    let number = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(number.expect("the last error of the system has a number"))
}
