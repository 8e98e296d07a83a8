//! System calls of packet sockets (packet(7)), which `rustix` lacks.

#![allow(unsafe_code)]

use crate::frame::EtherType;
use crate::interface::Interface;
use libc::{c_int, c_uint, sock_filter};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::mem::{size_of, zeroed};
use std::ptr;
use stoop_net::packets::MAX_SEGMENTS;

/// A socket for whole frames. It receives nothing before it is [bound](bind).
pub(crate) fn open() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
}

/// Sends and receives frames of this type at the interface of this number.
pub(crate) fn bind(socket: BorrowedFd<'_>, ether_type: EtherType, index: u32) -> Result<(), Errno> {
    bind_to(socket, ether_type.number(), index)
}

/// Index 0: at all interfaces.
fn bind_to(socket: BorrowedFd<'_>, protocol: u16, index: u32) -> Result<(), Errno> {
    // SAFETY: zeros are a value of this struct of numbers.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    let len = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the pointer is to a live address of the length that is given; the kernel copies it.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Whether the interface to which the socket was bound is gone, or has been in another network namespace: the kernel does not bind the
/// socket again when it comes back.
pub(crate) fn has_lost_its_interface(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: zeros are a value of this struct of numbers.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the pointers are to a live address and its length, beyond which the kernel does not write.
    let result = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    // `packet_notifier` in net/packet/af_packet.c
    result == 0 && address.sll_ifindex == -1
}

/// A socket without a ring, for the frames of this type at the interface that the filter takes.
pub(crate) fn open_plain(
    interface: &Interface,
    ether_type: EtherType,
    filter: &[sock_filter],
) -> Result<OwnedFd, Errno> {
    let socket = open()?;
    set_filter(socket.as_fd(), filter)?;
    bind(socket.as_fd(), ether_type, interface.index)?;
    Ok(socket)
}

fn set<T: Copy>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as u32;
    // SAFETY: the pointer is to a live value of the length that is given; the kernel copies it. Where the
    // value has a pointer itself, the callers below keep alive to what it points.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len) })
}

/// Receives into a ring of frames, version 2: `tp_status` of each frame says whose it is.
pub(crate) fn set_ring(socket: BorrowedFd<'_>, request: &libc::tpacket_req) -> Result<(), Errno> {
    const TPACKET_V2: c_int = 1;
    set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)
}

/// Hands frames to the driver directly, not by the interface's queueing discipline (PACKET_QDISC_BYPASS).
pub(crate) fn bypass_queue(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
}

/// From now on the socket receives what this program takes.
pub(crate) fn set_filter(socket: BorrowedFd<'_>, program: &[sock_filter]) -> Result<(), Errno> {
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &of_program(program))
}

fn of_program(program: &[sock_filter]) -> libc::sock_fprog {
    libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() }
}

/// Joins the fan-out group of this number, whose program chooses the member for each frame; `None`: makes a
/// new group. Returns the group's number.
pub(crate) fn join_group(socket: BorrowedFd<'_>, group: Option<u16>) -> Result<u16, Errno> {
    let flags = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let value: c_uint = (libc::PACKET_FANOUT_CBPF | flags) << 16 | c_uint::from(group.unwrap_or(0));
    set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
    let value: c_uint = get(socket, libc::PACKET_FANOUT, 0)?;
    Ok(value as u16)
}

/// A fan-out group of sockets at all interfaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// In its network namespace.
    pub(crate) number: u16,
    /// What its sockets receive.
    pub(crate) protocol: u16,
    /// How it chooses a socket for a frame.
    pub(crate) kind: u8,
}

/// A socket in that group, which the kernel makes with room for so many sockets (`None`: 256) if there is none of its number.
///
/// # Errors
///
/// [`Errno::NOSPC`]: the group is full. [`Errno::INVAL`]: the group of this number has another kind, protocol or room; or before
/// Linux 5.11.
pub(crate) fn join_first(group: Group, room: Option<u32>) -> Result<OwnedFd, Errno> {
    /// `struct fanout_args` of <linux/if_packet.h>.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Arguments {
        number: u16,
        kind_and_flags: u16,
        room: u32,
    }
    let socket = open()?;
    bind_to(socket.as_fd(), group.protocol, 0)?;
    let arguments =
        Arguments { number: group.number, kind_and_flags: group.kind.into(), room: room.unwrap_or(0) };
    set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, &arguments)?;
    Ok(socket)
}

/// Sets the program of the socket's fan-out group.
pub(crate) fn set_group_program(socket: BorrowedFd<'_>, program: &[sock_filter]) -> Result<(), Errno> {
    set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &of_program(program))
}

fn get<T: Copy>(socket: BorrowedFd<'_>, option: c_int, mut value: T) -> Result<T, Errno> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the pointer is to a live value of the length that is given, of plain numbers, and the kernel
    // writes no more than that.
    done(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw mut value).cast(), &raw mut len)
    })?;
    Ok(value)
}

/// Frames that the socket had no room for since the last time that this was asked.
pub(crate) fn take_drops(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    get(socket, libc::PACKET_STATISTICS, libc::tpacket_stats { tp_packets: 0, tp_drops: 0 })
        .map(|stats| stats.tp_drops)
}

/// Sends frames by one system call. Returns how many have left; an error is about the first one.
pub(crate) fn send_frames(socket: BorrowedFd<'_>, frames: &[&[u8]]) -> Result<usize, Errno> {
    // SAFETY: zeros are a value of these structs of numbers and null pointers.
    let (mut parts, mut messages): ([libc::iovec; MAX_SEGMENTS], [libc::mmsghdr; MAX_SEGMENTS]) =
        unsafe { (zeroed(), zeroed()) };
    let count = frames.len().min(MAX_SEGMENTS);
    for ((frame, part), message) in frames.iter().zip(&mut parts).zip(&mut messages) {
        part.iov_base = frame.as_ptr().cast_mut().cast();
        part.iov_len = frame.len();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: `count` messages, each with one part, which is a live slice that the kernel only reads; all of
    // them outlive the call.
    let sent =
        unsafe { libc::sendmmsg(socket.as_fd().as_raw_fd(), messages.as_mut_ptr(), count as c_uint, 0) };
    done(sent).map(|()| sent as usize)
}

/// Has the descriptor `old` stand for the socket `new` from now on, for all threads that use it. The socket for which it stood is
/// closed when no system call and no mapping uses it any more.
pub(crate) fn replace(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: both descriptors are open, and differ; `old` stays open, and its owner closes it as before.
    done(unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) })
}

fn done(result: c_int) -> Result<(), Errno> {
    if result >= 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    let number = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(number.expect("the last error of the system has a number"))
}
