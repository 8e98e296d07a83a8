//! The kernel's reports that an interface has changed (rtnetlink(7)).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// Reports about all interfaces of a network namespace.
#[derive(Debug)]
pub(crate) struct Changes {
    socket: OwnedFd,
}

/// RTMGRP_LINK in <linux/rtnetlink.h>.
const LINKS: u32 = 1;

impl Changes {
    /// From now on, in this thread's network namespace. Needs no privilege.
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, LINKS))?;
        Ok(Self { socket })
    }

    /// The socket, to sleep on it.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Drops the reports that have come. Whether there were some, or the kernel had to drop some.
    pub(crate) fn take(&self) -> bool {
        let mut were_some = false;
        // A longer report is cut: only that it has come matters.
        while rustix::net::recv(&self.socket, &mut [0; 64][..], RecvFlags::empty()) != Err(Errno::AGAIN) {
            were_some = true;
        }
        were_some
    }
}
