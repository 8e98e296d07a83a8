//! Network interfaces: their address, size of frames and state.

mod attributes;
mod changes;
mod route;

use crate::address::Mac;
use crate::error::OpenError;
use attributes::Attributes;
pub(crate) use changes::Changes;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::unix::fs::MetadataExt;

/// What the kernel says about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name in this network namespace.
    pub name: String,
    /// Its number in this network namespace.
    pub index: u32,
    /// Its hardware address.
    pub mac: Mac,
    /// Bytes of the longest frame, without the Ethernet header.
    pub mtu: usize,
    /// Whether it can send.
    pub state: State,
    /// The XDP program that is attached to it, if any.
    pub xdp: Option<XdpProgram>,
    /// The network namespace, as the inode of its file (namespaces(7)); 0 if `/proc` does not tell. Interfaces of different
    /// namespaces may agree in all else.
    pub namespace: u64,
}

/// Whether an interface can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Up,
    /// It is switched off.
    Down,
    /// It is switched on, but no cable or no other end is there.
    NoCarrier,
}

/// An XDP program at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpProgram {
    /// Its number.
    pub id: u32,
    /// It runs in the driver, not behind it.
    pub is_native: bool,
}

// <linux/rtnetlink.h>, <linux/if_link.h>, <linux/if.h>, <linux/if_arp.h>
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_XDP: u16 = 43;
const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const XDP_ATTACHED_DRV: u8 = 1;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
const ARPHRD_ETHER: u16 = 1;
/// Bytes of a name, including the zero byte at its end.
const IFNAMSIZ: usize = 16;
/// The same of an alternative name.
const ALTIFNAMSIZ: usize = 128;
/// Bytes of `nlmsghdr` and of `ifinfomsg`.
const HEADER_LEN: usize = 16;

impl Interface {
    /// Asks the kernel about the Ethernet interface `name` of this thread's network namespace (rtnetlink(7)), which may be one of its
    /// alternative names (`altname` in ip-link(8)). Needs no privilege.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoInterface`], [`OpenError::NotEthernet`]; [`OpenError::System`] if no descriptor is
    /// left.
    pub fn by_name(name: &str) -> Result<Self, OpenError> {
        if name.is_empty() || name.len() >= ALTIFNAMSIZ || name.contains('\0') {
            return Err(OpenError::NoInterface(name.to_owned()));
        }
        Self::of(name, &request(name))
    }

    fn of(name: &str, request: &[u8]) -> Result<Self, OpenError> {
        match ask(request, RTM_NEWLINK) {
            // Before Linux 5.5 interfaces have no alternative names.
            Err(Errno::NODEV | Errno::INVAL) => Err(OpenError::NoInterface(name.to_owned())),
            Err(error) => Err(OpenError::System { operation: "rtnetlink", error: error.into() }),
            Ok(answer) => Self::parse(&answer),
        }
    }

    fn parse(answer: &[u8]) -> Result<Self, OpenError> {
        let no_answer = || OpenError::System {
            operation: "rtnetlink",
            error: io::Error::new(io::ErrorKind::InvalidData, "the answer is none"),
        };
        let (header, rest) = answer.split_at_checked(2 * HEADER_LEN).ok_or_else(no_answer)?;
        let attributes = Attributes::of(rest);
        let name = attributes
            .find(IFLA_IFNAME)
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(no_answer)?;
        let name = name.trim_end_matches('\0').to_owned();
        let six = |bytes: &[u8]| <[u8; 6]>::try_from(bytes).ok();
        let mac = attributes.find(IFLA_ADDRESS).and_then(six).map(Mac);
        let (Some(mac), ARPHRD_ETHER) = (mac, u16_at(header, HEADER_LEN + 2)) else {
            return Err(OpenError::NotEthernet(name));
        };
        let flags = u32_at(header, HEADER_LEN + 8);
        let state = match (flags & IFF_UP != 0, flags & IFF_LOWER_UP != 0) {
            (true, true) => State::Up,
            (true, false) => State::NoCarrier,
            (false, _) => State::Down,
        };
        Ok(Self {
            name,
            index: u32_at(header, HEADER_LEN + 4),
            mac,
            mtu: attributes.find_u32(IFLA_MTU).ok_or_else(no_answer)? as usize,
            state,
            xdp: attributes.find(IFLA_XDP).and_then(XdpProgram::parse),
            namespace: own_namespace(),
        })
    }

    /// The same interface as it is now, or the one that has its name if it is gone: an interface may be removed and made again.
    ///
    /// # Errors
    ///
    /// As [`by_name`](Self::by_name).
    pub fn now(&self) -> Result<Self, OpenError> {
        by_index(self.index).or_else(|_| Self::by_name(&self.name))
    }

    /// Fails unless the interface can send.
    pub(crate) fn must_be_up(&self) -> Result<(), OpenError> {
        match self.state {
            State::Up => Ok(()),
            State::Down | State::NoCarrier => Err(OpenError::Down(self.name.clone())),
        }
    }
}

impl XdpProgram {
    fn parse(attribute: &[u8]) -> Option<Self> {
        let attributes = Attributes::of(attribute);
        let id = attributes.find_u32(IFLA_XDP_PROG_ID)?;
        let mode = *attributes.find(IFLA_XDP_ATTACHED)?.first()?;
        Some(Self { id, is_native: mode == XDP_ATTACHED_DRV })
    }
}

/// The network namespace of this thread.
fn own_namespace() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino())
}

/// The interface of this number.
fn by_index(index: u32) -> Result<Interface, OpenError> {
    let mut request = request("");
    request[HEADER_LEN + 4..HEADER_LEN + 8].copy_from_slice(&index.to_ne_bytes());
    request.truncate(2 * HEADER_LEN);
    request[0..4].copy_from_slice(&(2 * HEADER_LEN as u32).to_ne_bytes());
    Interface::of(&format!("number {index}"), &request)
}

/// The answer to a request of rtnetlink, with its header.
fn ask(request: &[u8], wanted: u16) -> Result<Vec<u8>, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let answer = receive(&socket)?;
    match (answer.len(), u16_at(&answer, 4)) {
        (HEADER_LEN.., NLMSG_ERROR) => Err(Errno::from_raw_os_error(-i32_at(&answer, HEADER_LEN))),
        (HEADER_LEN.., kind) if kind == wanted => Ok(answer),
        _ => Err(Errno::BADMSG),
    }
}

fn receive(socket: &OwnedFd) -> Result<Vec<u8>, Errno> {
    // An answer has about 2 KiB, and more where the interface has virtual functions.
    let mut answer = vec![0; 1 << 16];
    let (_, len) =
        rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut answer[..], RecvFlags::empty()))?;
    answer.truncate(len);
    Ok(answer)
}

fn request(name: &str) -> Vec<u8> {
    let attribute_len = 4 + name.len() + 1;
    let len = 2 * HEADER_LEN + attribute_len.next_multiple_of(4);
    let mut request = vec![0; len];
    request[0..4].copy_from_slice(&(len as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let attribute = &mut request[2 * HEADER_LEN..];
    attribute[0..2].copy_from_slice(&(attribute_len as u16).to_ne_bytes());
    // The kernel finds short alternative names by the first attribute, too.
    let kind = if name.len() < IFNAMSIZ { IFLA_IFNAME } else { IFLA_ALT_IFNAME };
    attribute[2..4].copy_from_slice(&kind.to_ne_bytes());
    attribute[4..4 + name.len()].copy_from_slice(name.as_bytes());
    request
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_ne_bytes(bytes.try_into().expect("two bytes")))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    u32_at(bytes, at).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_other_kinds_of_interfaces_are_told_apart() {
        for unknown in ["", "no-such-thing", "a name that is longer than most", &"n".repeat(128)] {
            assert!(matches!(Interface::by_name(unknown), Err(OpenError::NoInterface(_))), "{unknown}");
        }
        assert!(matches!(Interface::by_name("lo"), Err(OpenError::NotEthernet(_))));
    }
}
