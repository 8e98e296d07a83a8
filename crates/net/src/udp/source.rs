//! The address of this machine from which a connected socket sends, while addresses come and go.
//!
//! The kernel binds a connected socket to an address of this machine, for good. When the address goes (DHCP, a VPN, roaming, a temporary
//! address of IPv6: RFC 8981 §3.4), IPv4 refuses to send from it; IPv6 goes on sending from it, and no answer arrives.

use super::CallerSocket;
use crate::{address, clock};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Gives a socket that is connected to a server another address of this machine when its own leads there no more.
///
/// Several threads may use the socket meanwhile.
#[derive(Debug)]
pub struct Source {
    /// The lock is held while the socket is connected anew.
    server: Mutex<SocketAddr>,
    /// When the route was last looked at, in nanoseconds.
    looked_ns: AtomicU64,
}

/// Time between two looks at the route, at least: each takes four system calls.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Source {
    /// For sockets that are connected to `server`.
    pub fn of(server: SocketAddr) -> Self {
        Self { server: Mutex::new(server), looked_ns: AtomicU64::new(0) }
    }

    fn server(&self) -> MutexGuard<'_, SocketAddr> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects the socket to another server.
    ///
    /// # Errors
    ///
    /// As [`CallerSocket::connect`]. A later [`renew`](Self::renew) tries again.
    #[cold]
    pub fn redirect(&self, socket: &CallerSocket, server: SocketAddr) -> io::Result<()> {
        let mut present = self.server();
        *present = server;
        socket.reconnect(server)
    }

    /// `send` has failed with `error`. If the reason may be that the socket's address leads to the server no more, connects the socket
    /// anew and tries once more.
    ///
    /// # Errors
    ///
    /// `error`, or that of the second attempt.
    #[cold]
    pub fn renew<T>(
        &self,
        socket: &CallerSocket,
        error: io::Error,
        mut send: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        if !may_be_gone(&error) {
            return Err(error);
        }
        let server = self.server();
        // Another thread may have connected the socket meanwhile, or may just have been doing so.
        match send() {
            Err(again) if may_be_gone(&again) => {
                socket.reconnect(*server)?;
                send()
            }
            sent => sent,
        }
    }

    /// Whether the socket's address is not this machine's any more.
    #[cold]
    pub fn is_gone(&self, socket: &CallerSocket) -> bool {
        socket.local_addr().is_ok_and(|own| !address::is_assigned(own))
    }

    /// Nothing was heard from the server for longer than usual: connects the socket anew if datagrams to the server would now leave
    /// from another address of this machine.
    #[cold]
    pub fn follow_route(&self, socket: &CallerSocket) {
        let (now_ns, before) = (clock::now_ns(), self.looked_ns.load(Ordering::Relaxed));
        if now_ns < before.saturating_add(LOOK_EVERY.as_nanos() as u64) {
            return;
        }
        self.looked_ns.store(now_ns, Ordering::Relaxed);
        let server = self.server();
        if socket.leaves_from_elsewhere(*server).unwrap_or(false) {
            // If there is no route just now, the next send tries again.
            let _ = socket.reconnect(*server);
        }
    }
}

/// Whether a send that failed like this may succeed from another address of this machine.
fn may_be_gone(error: &io::Error) -> bool {
    let errors = [
        // IPv4: the socket's address is not this machine's.
        Errno::INVAL,
        Errno::ADDRNOTAVAIL,
        // There is no route, or none from that address.
        Errno::NETUNREACH,
        Errno::HOSTUNREACH,
        // Another thread connects the socket just now, or an attempt to do so has failed.
        Errno::DESTADDRREQ,
    ];
    error
        .raw_os_error()
        .is_some_and(|error_number| errors.iter().any(|errno| errno.raw_os_error() == error_number))
}
