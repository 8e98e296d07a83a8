//! What the kernel tells of a TCP connection. rustix has no TCP_INFO, hence `libc` and `unsafe`.

#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// How long ago the connection received data (`tcpi_last_data_recv`, TCP_INFO in `tcp(7)`), by the kernel's ticks: up to one more than it
/// is. `None` if `socket` is no TCP socket.
pub(super) fn since_last_data(socket: BorrowedFd<'_>) -> Option<Duration> {
    // SAFETY: it consists of numbers, for each of which any pattern of bits is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the pointers are to live memory; the kernel writes at most `len` bytes to `info`, which is so long.
    let result = unsafe {
        let info = (&raw mut info).cast::<libc::c_void>();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info, &raw mut len)
    };
    (result == 0).then(|| Duration::from_millis(info.tcpi_last_data_recv.into()))
}
