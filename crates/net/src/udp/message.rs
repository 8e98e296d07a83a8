//! `sendmsg` and `recvmsg` with control messages, and the options by which a socket is asked for them.
//!
//! `rustix` has no safe form of these (its ancillary messages are descriptors, credentials and transmission times),
//! hence `libc` and `unsafe`. The control bytes themselves are written and parsed in safe code, see
//! [`control`](super::control).

#![allow(unsafe_code)]

use super::control::{Control, Messages};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::addr::{SocketAddrArg, SocketAddrStorage};
use rustix::net::{RecvFlags, SocketAddrAny};
use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::ptr;

/// Has `socket` tell with every datagram which address was called.
pub(super) fn tell_called(socket: BorrowedFd<'_>, ipv6: bool) -> Result<(), Errno> {
    match ipv6 {
        false => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        true => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Has `socket` give datagrams that came together as one, and tell how long each was, or stop doing so.
pub(super) fn set_gro(socket: BorrowedFd<'_>, on: bool) -> Result<(), Errno> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, c_int::from(on))
}

/// Has `socket` tell with every datagram when the kernel received it (SO_TIMESTAMPNS, `socket(7)`), or stop doing so.
pub(super) fn set_time_stamps(socket: BorrowedFd<'_>, on: bool) -> Result<(), Errno> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, c_int::from(on))
}

/// Has the kernel drop each datagram that a socket with that port sends to `socket`, at any address (SO_ATTACH_FILTER,
/// Documentation/networking/filter.rst).
#[cold]
pub(super) fn refuse_port(socket: BorrowedFd<'_>, port: u16) -> Result<(), Errno> {
    const LOAD_HALF: u16 = 0x28;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut steps = [
        // The sender's port is the first field of the UDP header.
        step(LOAD_HALF, 0, 0),
        step(JUMP_IF_EQUAL, 1, port.into()),
        step(RETURN, 0, 0),
        step(RETURN, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // The steps live until the kernel has copied them, too.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// When the kernel received the last datagram that was taken from `socket`, as seconds and nanoseconds of CLOCK_REALTIME (SIOCGSTAMPNS,
/// `socket(7)`). The first question makes the kernel note it from then on, and fails with ENOENT if nothing has been taken yet.
pub(super) fn last_arrival(socket: BorrowedFd<'_>) -> Result<(i64, i64), Errno> {
    /// The call for a `timespec` of two words, as 64-bit processors have it.
    const SIOCGSTAMPNS: u64 = 0x8907;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, to live memory of this type.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS as _, &raw mut time) };
    if result == 0 { Ok((time.tv_sec, time.tv_nsec)) } else { Err(last_error()) }
}

/// Has `socket` keep, with each error that the network reports, the beginning of the datagram that it is about (IP_RECVERR).
pub(super) fn keep_sent_back(socket: BorrowedFd<'_>, ipv6: bool) -> Result<(), Errno> {
    match ipv6 {
        false => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        true => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Bytes that the kernel counts for what waits in the receive buffer of `socket` (SO_MEMINFO; `sock_diag(7)` has the fields).
pub(super) fn waiting_bytes(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut counts = [0_u32; MEMINFO_LEN];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the pointers are to live memory; the kernel writes at most `len` bytes to `counts`, which is so long, and each pattern of
    // bits is a number.
    let result = unsafe {
        let counts = (&raw mut counts).cast::<c_void>();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, counts, &raw mut len)
    };
    if result == 0 { Ok(counts[MEMINFO_RMEM_ALLOC] as usize) } else { Err(last_error()) }
}

/// Fields of SO_MEMINFO, and the place of the received bytes among them (SK_MEMINFO_VARS and SK_MEMINFO_RMEM_ALLOC).
const MEMINFO_LEN: usize = 9;
const MEMINFO_RMEM_ALLOC: usize = 0;

fn set_option<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: T) -> Result<(), Errno> {
    // SAFETY: the pointer is to a live value and the length is its size; the kernel copies it before it returns, and that to which it
    // points, if it does.
    let result = unsafe {
        let value = (&raw const value).cast::<c_void>();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size_of::<T>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// The outcome of [`recv`].
pub(super) struct Received<T> {
    /// Bytes; those of the whole datagram, even if it did not fit, when the flags have TRUNC.
    pub(super) len: usize,
    /// None when the socket was shut down.
    pub(super) sender: Option<SocketAddrAny>,
    /// Reads the control messages.
    pub(super) told: T,
}

/// Receives a datagram, its sender and what `parse` makes of its control messages.
#[inline]
pub(super) fn recv<T>(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
    parse: impl FnOnce(Messages<'_>) -> T,
) -> Result<Received<T>, Errno> {
    recv_scattered(socket, &mut [IoSliceMut::new(buffer)], flags, parse)
}

/// The same, with the datagram's bytes into one piece of memory after the other.
#[inline]
pub(super) fn recv_scattered<T>(
    socket: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
    parse: impl FnOnce(Messages<'_>) -> T,
) -> Result<Received<T>, Errno> {
    let mut sender = MaybeUninit::<SocketAddrStorage>::uninit();
    let mut control = Control::default();
    let room = control.room();
    let mut message = empty_message();
    message.msg_name = sender.as_mut_ptr().cast();
    message.msg_namelen = size_of_val(&sender) as libc::socklen_t;
    message.msg_iov = pieces.as_mut_ptr().cast();
    message.msg_iovlen = pieces.len() as _;
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = room.len();
    // SAFETY: every pointer in `message` is to memory borrowed or owned by this function, valid for
    // writes of the length beside it, and outlives the call. An `IoSliceMut` lies in memory as an `iovec` does, and
    // borrows what it points to for writing; `pieces` has as many as are counted.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags.bits() as c_int) };
    let len = usize::try_from(received).map_err(|_| last_error())?;
    let told = parse(control.messages(message.msg_controllen));
    if message.msg_namelen == 0 {
        return Ok(Received { len, sender: None, told });
    }
    // SAFETY: the kernel wrote a socket address of `msg_namelen` bytes to `sender`, whose type is
    // rustix's own storage for one; `new` checks the length against the storage.
    let sender = unsafe { SocketAddrAny::new(sender, message.msg_namelen) };
    Ok(Received { len, sender: Some(sender), told })
}

/// Sends `bytes`, to `addr` unless the socket is connected, as `control` says.
#[inline]
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    addr: Option<&SocketAddr>,
    control: &Control,
) -> Result<usize, Errno> {
    send_gathered(socket, &[IoSlice::new(bytes)], addr, control)
}

/// The same, with bytes from one piece of memory after the other.
#[inline]
pub(super) fn send_gathered(
    socket: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    addr: Option<&SocketAddr>,
    control: &Control,
) -> Result<usize, Errno> {
    let receiver = addr.map(SocketAddrArg::as_any);
    let mut message = empty_message();
    if let Some(receiver) = &receiver {
        message.msg_name = receiver.as_ptr().cast_mut().cast();
        message.msg_namelen = receiver.addr_len();
    }
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    let control = control.built();
    message.msg_control =
        if control.is_empty() { ptr::null_mut() } else { control.as_ptr().cast_mut().cast() };
    message.msg_controllen = control.len();
    // SAFETY: every pointer in `message` is null with length zero, or to memory borrowed or owned by this function,
    // initialized for the length beside it, that outlives the call; `sendmsg` only reads through them. An `IoSlice` lies in
    // memory as an `iovec` does, and borrows what it points to; `pieces` has as many as are counted.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    usize::try_from(sent).map_err(|_| last_error())
}

fn empty_message() -> libc::msghdr {
    // SAFETY: all fields are integers and raw pointers, for which zero is a value. (Some C libraries
    // have private padding fields, so that it cannot be written out.)
    unsafe { std::mem::zeroed() }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).expect("the last error of the system has a number")
}
