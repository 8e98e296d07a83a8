//! A socket at a server's port, to which nothing comes any more once its owner has dropped it.

use crate::udp::local_addr;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process;

/// The socket.
#[derive(Debug)]
pub(super) struct BoundSocket {
    socket: OwnedFd,
    /// The process that has bound it; `None`: it was inherited, and stays as it is for the next process.
    bound_by: Option<u32>,
}

impl BoundSocket {
    pub(super) fn new(socket: OwnedFd, is_inherited: bool) -> Self {
        Self { socket, bound_by: (!is_inherited).then(process::id) }
    }
}

impl AsFd for BoundSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for BoundSocket {
    /// A child that another thread starts has a copy until it executes its program (fork(2)), and would take what callers send. Connected
    /// to itself, the socket matches nothing that arrives, and callers are told that the port is closed.
    fn drop(&mut self) {
        if self.bound_by == Some(process::id())
            && let Ok(own) = local_addr(&self.socket)
        {
            let _ = rustix::net::connect(&self.socket, &own);
        }
    }
}
