//! The address a datagram was sent to, told and asked for by control messages (IP_PKTINFO,
//! IPV6_PKTINFO; RFC 3542 §6).
//!
//! `rustix` has no safe form of these two (its ancillary messages are descriptors, credentials and
//! transmission times), hence `libc` and the only `unsafe` of this crate. The control bytes themselves
//! are written and parsed in safe code.

#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::addr::{SocketAddrArg, SocketAddrStorage};
use rustix::net::{RecvFlags, SocketAddrAny};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address of ours that a datagram was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Called {
    /// IPv4 on an IPv4 socket; on an IPv6 socket IPv6, mapped when IPv4 was used.
    pub(super) ip: IpAddr,
    /// The interface it came in by. Needed again only when `ip` is link-local.
    pub(super) interface: u32,
}

/// Has `socket` tell with every datagram which address was called.
pub(super) fn enable(socket: BorrowedFd<'_>, ipv6: bool) -> Result<(), Errno> {
    let (level, option) = match ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: c_int = 1;
    // SAFETY: the pointer is to a live `c_int` and the length is its size; the kernel copies it
    // before it returns.
    let result = unsafe {
        let value = (&raw const on).cast::<c_void>();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size_of::<c_int>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Receives a datagram, its sender and the address it was sent to. The length is that of the whole
/// datagram when `flags` has TRUNC; there is no sender when the socket was shut down.
#[inline]
#[allow(clippy::type_complexity, reason = "used once, in the next function up")]
pub(super) fn recv(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Option<(SocketAddrAny, Option<Called>)>), Errno> {
    let mut sender = MaybeUninit::<SocketAddrStorage>::uninit();
    let mut control = Control([0; CONTROL_LEN]);
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = empty_message();
    message.msg_name = sender.as_mut_ptr().cast();
    message.msg_namelen = size_of_val(&sender) as libc::socklen_t;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN;
    // SAFETY: every pointer in `message` is to memory borrowed or owned by this function, valid for
    // writes of the length beside it (`piece` for the one element counted), and outlives the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags.bits() as c_int) };
    let len = usize::try_from(received).map_err(|_| last_error())?;
    if message.msg_namelen == 0 {
        return Ok((len, None));
    }
    // SAFETY: the kernel wrote a socket address of `msg_namelen` bytes to `sender`, whose type is
    // rustix's own storage for one; `new` checks the length against the storage.
    let sender = unsafe { SocketAddrAny::new(sender, message.msg_namelen) };
    let control_len = message.msg_controllen.min(CONTROL_LEN);
    Ok((len, Some((sender, parse(&control.0[..control_len])))))
}

/// Sends a datagram to `addr`, from the address that `called` names.
#[inline]
pub(super) fn send(
    socket: BorrowedFd<'_>,
    datagram: &[u8],
    addr: &SocketAddr,
    called: &Called,
) -> Result<usize, Errno> {
    let receiver = addr.as_any();
    let (control, control_len) = build(called);
    let mut piece = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    let mut message = empty_message();
    message.msg_name = receiver.as_ptr().cast_mut().cast();
    message.msg_namelen = receiver.addr_len();
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_ptr().cast_mut().cast();
    message.msg_controllen = control_len;
    // SAFETY: every pointer in `message` is to memory borrowed or owned by this function, initialized
    // for the length beside it, and outlives the call; `sendmsg` only reads through them.
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

/// Room for one control message of either kind, aligned as the kernel's `struct cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

const CONTROL_LEN: usize = 64;
/// `struct cmsghdr`: a length (which counts the header), a level, a type.
const HEADER_LEN: usize = size_of::<usize>() + 2 * size_of::<c_int>();
/// `struct in_pktinfo`: interface, local address, destination of the header.
const IPV4_LEN: usize = 12;
/// `struct in6_pktinfo`: address, interface.
const IPV6_LEN: usize = 20;
const _: () =
    assert!(IPV4_LEN == size_of::<libc::in_pktinfo>() && IPV6_LEN == size_of::<libc::in6_pktinfo>());
const _: () = assert!(HEADER_LEN == size_of::<libc::cmsghdr>());

/// Finds the called address among control messages. `None` also when it cannot be the sender of an
/// answer, as a multicast group.
#[inline]
fn parse(mut control: &[u8]) -> Option<Called> {
    loop {
        let (len, rest) = control.split_first_chunk::<{ size_of::<usize>() }>()?;
        let len = usize::from_ne_bytes(*len);
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, _) = rest.split_first_chunk::<4>()?;
        let data = control.get(HEADER_LEN..len)?;
        match (c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind)) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => return parse_ipv4(data),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => return parse_ipv6(data),
            _ => control = control.get(len.next_multiple_of(size_of::<usize>())..)?,
        }
    }
}

#[inline]
fn parse_ipv4(data: &[u8]) -> Option<Called> {
    let (interface, rest) = data.split_first_chunk()?;
    // The local address, which differs from the destination when that is a broadcast.
    let (ip, _) = rest.split_first_chunk::<4>()?;
    Some(Called { ip: Ipv4Addr::from(*ip).into(), interface: u32::from_ne_bytes(*interface) })
}

#[inline]
fn parse_ipv6(data: &[u8]) -> Option<Called> {
    let (ip, rest) = data.split_first_chunk::<16>()?;
    let (interface, _) = rest.split_first_chunk()?;
    let ip = Ipv6Addr::from(*ip);
    (!ip.is_multicast()).then_some(Called { ip: ip.into(), interface: u32::from_ne_bytes(*interface) })
}

/// The control message that asks for `called` as the sender's address, and its length.
#[inline]
fn build(called: &Called) -> (Control, usize) {
    let mut control = Control([0; CONTROL_LEN]);
    let (level, kind, data_len) = match called.ip {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, IPV4_LEN),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, IPV6_LEN),
    };
    let len = HEADER_LEN + data_len;
    let (header, data) = control.0.split_at_mut(HEADER_LEN);
    header[..HEADER_LEN - 8].copy_from_slice(&len.to_ne_bytes());
    header[HEADER_LEN - 8..HEADER_LEN - 4].copy_from_slice(&level.to_ne_bytes());
    header[HEADER_LEN - 4..].copy_from_slice(&kind.to_ne_bytes());
    match called.ip {
        // The interface stays 0: routing decides by which one the answer leaves.
        IpAddr::V4(ip) => data[4..8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => {
            data[..16].copy_from_slice(&ip.octets());
            if ip.is_unicast_link_local() {
                data[16..20].copy_from_slice(&called.interface.to_ne_bytes());
            }
        }
    }
    (control, len.next_multiple_of(size_of::<usize>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(called: Called) -> Option<Called> {
        let (control, len) = build(&called);
        parse(&control.0[..len])
    }

    #[test]
    fn control_message_says_what_was_built() {
        let called = Called { ip: Ipv4Addr::new(127, 0, 0, 2).into(), interface: 0 };
        assert_eq!(round_trip(called), Some(called));
        let called = Called { ip: Ipv6Addr::LOCALHOST.into(), interface: 0 };
        assert_eq!(round_trip(called), Some(called));
    }

    #[test]
    fn interface_is_named_only_for_a_link_local_address() {
        let link_local = Called { ip: "fe80::1".parse().unwrap(), interface: 3 };
        assert_eq!(round_trip(link_local), Some(link_local));
        let global = Called { ip: "2001:db8::1".parse().unwrap(), interface: 3 };
        assert_eq!(round_trip(global).unwrap().interface, 0);
    }

    #[test]
    fn multicast_group_is_no_sender() {
        assert_eq!(round_trip(Called { ip: "ff02::1".parse().unwrap(), interface: 3 }), None);
    }

    #[test]
    fn cut_off_and_foreign_control_bytes_name_nobody() {
        let (control, len) = build(&Called { ip: Ipv4Addr::LOCALHOST.into(), interface: 0 });
        for shorter in 0..HEADER_LEN + IPV4_LEN {
            assert_eq!(parse(&control.0[..shorter]), None, "{shorter} of {len} bytes");
        }
        assert_eq!(parse(&[0; CONTROL_LEN]), None);
        assert_eq!(parse(&[0xff; CONTROL_LEN]), None);
    }
}
