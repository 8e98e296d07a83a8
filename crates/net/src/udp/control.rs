//! Control messages: which address of ours a datagram was sent to (IP_PKTINFO, IPV6_PKTINFO; RFC 3542 §6), how
//! long each of several datagrams is that travel as one (UDP_SEGMENT, UDP_GRO), and what the network reports of one that
//! was sent (IP_RECVERR, IPV6_RECVERR).

use std::ffi::c_int;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of ours that a datagram was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Called {
    /// IPv4 on an IPv4 socket; on an IPv6 socket IPv6, mapped when IPv4 was used.
    pub(super) ip: IpAddr,
    /// The interface it came in by. Needed again only when `ip` is link-local.
    pub(super) interface: u32,
}

/// Room for control messages, aligned as the kernel's `struct cmsghdr`.
#[repr(C, align(8))]
#[derive(Debug)]
pub(super) struct Control {
    bytes: [u8; CONTROL_LEN],
    /// Bytes that have been built.
    len: usize,
}

/// Enough for a called address, a length and a time stamp, or for an error.
const CONTROL_LEN: usize = 96;
const _: () = assert!(
    CONTROL_LEN >= HEADER_LEN + size_of::<libc::sock_extended_err>() + size_of::<libc::sockaddr_in6>()
);
const _: () = assert!(
    CONTROL_LEN
        >= (HEADER_LEN + IPV6_LEN).next_multiple_of(8)
            + HEADER_LEN
            + 8
            + HEADER_LEN
            + size_of::<libc::timespec>()
);
/// `struct cmsghdr`: a length (which counts the header), a level, a type.
const HEADER_LEN: usize = size_of::<usize>() + 2 * size_of::<c_int>();
/// `struct in_pktinfo`: interface, local address, destination of the header.
const IPV4_LEN: usize = 12;
/// `struct in6_pktinfo`: address, interface.
const IPV6_LEN: usize = 20;
const _: () =
    assert!(IPV4_LEN == size_of::<libc::in_pktinfo>() && IPV6_LEN == size_of::<libc::in6_pktinfo>());
const _: () = assert!(HEADER_LEN == size_of::<libc::cmsghdr>());

impl Default for Control {
    #[inline]
    fn default() -> Self {
        Self { bytes: [0; CONTROL_LEN], len: 0 }
    }
}

impl Control {
    /// The bytes that a receive may fill.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The `len` bytes that a receive has filled.
    #[inline]
    pub(super) fn messages(&self, len: usize) -> Messages<'_> {
        Messages(&self.bytes[..len.min(CONTROL_LEN)])
    }

    /// The bytes that have been built.
    #[inline]
    pub(super) fn built(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Asks for `called` as the sender's address.
    #[inline]
    pub(super) fn leaving_from(mut self, called: &Called) -> Self {
        match called.ip {
            // The interface stays 0: routing decides by which one the answer leaves.
            IpAddr::V4(ip) => {
                let data = self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, IPV4_LEN);
                data[4..8].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                let data = self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, IPV6_LEN);
                data[..16].copy_from_slice(&ip.octets());
                if ip.is_unicast_link_local() {
                    data[16..20].copy_from_slice(&called.interface.to_ne_bytes());
                }
            }
        }
        self
    }

    /// Asks for the bytes to be cut into datagrams of `segment` bytes.
    #[inline]
    pub(super) fn in_segments(mut self, segment: u16) -> Self {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, 2).copy_from_slice(&segment.to_ne_bytes());
        self
    }

    /// Appends a message; its data, `data_len` bytes of zero, are to be filled in.
    #[inline]
    fn push(&mut self, level: c_int, kind: c_int, data_len: usize) -> &mut [u8] {
        let len = HEADER_LEN + data_len;
        let (header, data) = self.bytes[self.len..].split_at_mut(HEADER_LEN);
        header[..HEADER_LEN - 8].copy_from_slice(&len.to_ne_bytes());
        header[HEADER_LEN - 8..HEADER_LEN - 4].copy_from_slice(&level.to_ne_bytes());
        header[HEADER_LEN - 4..].copy_from_slice(&kind.to_ne_bytes());
        self.len += len.next_multiple_of(size_of::<usize>());
        &mut data[..data_len]
    }
}

/// Control messages one after the other; ends with the first that makes no sense. One for which the room did not suffice (MSG_CTRUNC in
/// recvmsg(2)) is shorter than its kind is, and tells nothing.
pub(super) struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    /// Level, kind and data.
    type Item = (c_int, c_int, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.0.split_first_chunk::<{ size_of::<usize>() }>()?;
        let len = usize::from_ne_bytes(*len);
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, _) = rest.split_first_chunk::<4>()?;
        let data = self.0.get(HEADER_LEN..len)?;
        self.0 = self.0.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        Some((c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind), data))
    }
}

impl Messages<'_> {
    /// Finds the called address. `None` also when it cannot be the sender of an answer, as a multicast group.
    #[inline]
    pub(super) fn called(mut self) -> Option<Called> {
        self.find_map(called)?
    }

    /// Finds the called address, as [`called`](Self::called) does, and the length of each of several datagrams.
    #[inline]
    pub(super) fn called_and_segment(self) -> (Option<Called>, Option<usize>) {
        let mut told = (None, None);
        for message in self {
            match message {
                (libc::SOL_UDP, libc::UDP_GRO, data) => told.1 = segment(data),
                message => told.0 = told.0.or_else(|| called(message)?),
            }
        }
        told
    }
}

impl Messages<'_> {
    /// Finds when the kernel received the datagram, in nanoseconds since 1970 (SCM_TIMESTAMPNS), and what
    /// [`called_and_segment`](Self::called_and_segment) finds.
    pub(super) fn stamp_called_and_segment(mut self) -> (Option<u64>, (Option<Called>, Option<usize>)) {
        let others = Messages(self.0).called_and_segment();
        (self.find_map(stamp), others)
    }

    /// Whether they report that the port of the receiver is closed: an ICMP error of the peer's machine (RFC 792, RFC 4443
    /// §3.1).
    pub(super) fn port_is_closed(mut self) -> bool {
        let closed = libc::ECONNREFUSED.to_ne_bytes();
        self.any(|(level, kind, data)| {
            let origin = match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_RECVERR) => libc::SO_EE_ORIGIN_ICMP,
                (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => libc::SO_EE_ORIGIN_ICMP6,
                _ => return false,
            };
            // `struct sock_extended_err`: the error's number, and where it comes from.
            data.len() >= size_of::<libc::sock_extended_err>()
                && data.starts_with(&closed)
                && data[4] == origin
        })
    }
}

/// The called address in a control message, if it can be a sender's.
#[inline]
fn called((level, kind, data): (c_int, c_int, &[u8])) -> Option<Option<Called>> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => Some(called_ipv4(data)),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => Some(called_ipv6(data)),
        _ => None,
    }
}

fn stamp((level, kind, data): (c_int, c_int, &[u8])) -> Option<u64> {
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // `struct timespec`: two numbers of a word each.
    const WORD: usize = size_of::<libc::c_long>();
    let (seconds, nanos) = (data.get(..WORD)?, data.get(WORD..2 * WORD)?);
    let number = |bytes: &[u8]| bytes.try_into().map(libc::c_long::from_ne_bytes).ok();
    let (seconds, nanos) = (u64::try_from(number(seconds)?).ok()?, u64::try_from(number(nanos)?).ok()?);
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[inline]
fn called_ipv4(data: &[u8]) -> Option<Called> {
    let data: &[u8; IPV4_LEN] = data.try_into().ok()?;
    let &[i0, i1, i2, i3, a, b, c, d, ..] = data;
    // The local address, which differs from the destination when that is a broadcast.
    let ip = Ipv4Addr::new(a, b, c, d).into();
    Some(Called { ip, interface: u32::from_ne_bytes([i0, i1, i2, i3]) })
}

#[inline]
fn called_ipv6(data: &[u8]) -> Option<Called> {
    let (ip, rest) = data.split_first_chunk::<16>()?;
    let (interface, _) = rest.split_first_chunk()?;
    let ip = Ipv6Addr::from(*ip);
    (!ip.is_multicast()).then_some(Called { ip: ip.into(), interface: u32::from_ne_bytes(*interface) })
}

#[inline]
fn segment(data: &[u8]) -> Option<usize> {
    let len = c_int::from_ne_bytes(*data.first_chunk()?);
    usize::try_from(len).ok().filter(|len| *len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(called: Called) -> Option<Called> {
        Messages(Control::default().leaving_from(&called).built()).called()
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
    fn closed_port_is_what_the_peers_machine_says_and_nothing_else() {
        let report = |level, kind, error: c_int, origin| {
            let mut control = Control::default();
            let data = control.push(level, kind, 16);
            data[..4].copy_from_slice(&error.to_ne_bytes());
            data[4] = origin;
            Messages(control.built()).port_is_closed()
        };
        let (v4, v6) = (libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6);
        assert!(report(libc::IPPROTO_IP, libc::IP_RECVERR, libc::ECONNREFUSED, v4));
        assert!(report(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, libc::ECONNREFUSED, v6));
        assert!(!report(libc::IPPROTO_IP, libc::IP_RECVERR, libc::EHOSTUNREACH, v4));
        assert!(!report(libc::IPPROTO_IP, libc::IP_RECVERR, libc::ECONNREFUSED, libc::SO_EE_ORIGIN_LOCAL));
        assert!(!report(libc::IPPROTO_IP, libc::IP_PKTINFO, libc::ECONNREFUSED, v4));
        assert!(!Messages(&[]).port_is_closed());
    }

    #[test]
    fn two_messages_are_both_found_in_either_order() {
        let called = Called { ip: Ipv6Addr::LOCALHOST.into(), interface: 0 };
        let mut first = Control::default();
        first.push(libc::SOL_UDP, libc::UDP_GRO, 4).copy_from_slice(&72_i32.to_ne_bytes());
        let first = first.leaving_from(&called);
        let mut second = Control::default().leaving_from(&called);
        second.push(libc::SOL_UDP, libc::UDP_GRO, 4).copy_from_slice(&72_i32.to_ne_bytes());
        for control in [first, second] {
            assert_eq!(Messages(control.built()).called_and_segment(), (Some(called), Some(72)));
        }
        let sent = Control::default().leaving_from(&called).in_segments(1472);
        let last = Messages(sent.built()).last().unwrap();
        assert_eq!(last, (libc::SOL_UDP, libc::UDP_SEGMENT, &1472_u16.to_ne_bytes()[..]));
    }

    /// The kernel gives such a message the length that has fitted.
    #[test]
    fn message_that_did_not_fit_into_the_room_tells_nothing() {
        let told = |level, kind, whole: &[u8]| -> Vec<_> {
            let message = |len: usize| {
                let mut control = Control::default();
                control.push(level, kind, len).copy_from_slice(&whole[..len]);
                let messages = || Messages(control.built());
                let (stamp, (called, segment)) = messages().stamp_called_and_segment();
                [stamp.is_some(), called.is_some(), segment.is_some(), messages().port_is_closed()]
            };
            (0..=whole.len()).map(message).collect()
        };
        let mut closed = [0; size_of::<libc::sock_extended_err>()];
        closed[..4].copy_from_slice(&libc::ECONNREFUSED.to_ne_bytes());
        closed[4] = libc::SO_EE_ORIGIN_ICMP;
        for (number, told) in [
            told(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &[1; size_of::<libc::timespec>()]),
            told(libc::IPPROTO_IP, libc::IP_PKTINFO, &[1; IPV4_LEN]),
            told(libc::SOL_UDP, libc::UDP_GRO, &[1; 4]),
            told(libc::IPPROTO_IP, libc::IP_RECVERR, &closed),
        ]
        .into_iter()
        .enumerate()
        {
            let (whole, cut) = told.split_last().unwrap();
            assert!(whole[number], "{number}: {whole:?}");
            assert!(cut.iter().all(|told| *told == [false; 4]), "{number}: {cut:?}");
        }
        let v6 = told(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[1; IPV6_LEN]);
        assert!(v6.iter().enumerate().all(|(len, told)| told[1] == (len == IPV6_LEN)), "{v6:?}");
    }

    #[test]
    fn cut_off_and_foreign_control_bytes_name_no_address() {
        let control =
            Control::default().leaving_from(&Called { ip: Ipv4Addr::LOCALHOST.into(), interface: 0 });
        for shorter in 0..HEADER_LEN + IPV4_LEN {
            let cut_off = Messages(&control.bytes[..shorter]);
            assert_eq!(cut_off.called_and_segment(), (None, None), "{shorter} of {} bytes", control.len);
        }
        for foreign in [[0; CONTROL_LEN], [0xff; CONTROL_LEN]] {
            assert_eq!(Messages(&foreign).called_and_segment(), (None, None));
            assert_eq!(Messages(&foreign).called(), None);
        }
    }
}
