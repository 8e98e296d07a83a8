//! Connects a stream within a time limit.

use super::{StreamAddress, stream_socket};
use crate::clock;
use crate::reserved_port;
use crate::time_limit::{shorter, sleep_until};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::thread;
use std::time::Duration;

/// Time between two attempts to connect to a Unix socket whose queue is full, near the end of the limit.
const RETRY_NS: u64 = 1_000_000;

/// A socket connected to `address`, within `limit`.
///
/// # Errors
/// As [`Stream::connect`](super::Stream::connect).
pub(super) fn connect(address: &StreamAddress, limit: Duration) -> io::Result<OwnedFd> {
    connect_socket(stream_socket(address)?, address, limit)
}

/// As [`connect`], from a port below 1024 over TCP. Connections that linger may have taken some of them, for this server.
pub(super) fn connect_reserved(address: &StreamAddress, limit: Duration) -> io::Result<OwnedFd> {
    let mut attempts_left = 16;
    loop {
        let socket = stream_socket(address)?;
        if let StreamAddress::Tcp(address) = address {
            reserved_port::bind(&socket, address.is_ipv6())?;
        }
        attempts_left -= 1;
        match connect_socket(socket, address, limit) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && attempts_left > 0 => {}
            connected => return connected,
        }
    }
}

fn connect_socket(socket: OwnedFd, address: &StreamAddress, limit: Duration) -> io::Result<OwnedFd> {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = clock::now_ns().saturating_add(limit_ns);
    let connected = match address {
        StreamAddress::Tcp(_) => connect_tcp(&socket, address, deadline_ns),
        _ => connect_unix(&socket, address, deadline_ns),
    };
    match connected {
        Ok(()) => Ok(socket),
        Err(Errno::INPROGRESS | Errno::AGAIN) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("{address} did not accept within {limit:?}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn attempt(socket: &OwnedFd, address: &StreamAddress) -> Result<(), Errno> {
    match address {
        StreamAddress::Tcp(address) => rustix::net::connect(socket, address),
        _ => rustix::net::connect(socket, &address.unix_addr()?),
    }
}

/// `INPROGRESS`: the peer has not answered in time.
fn connect_tcp(socket: &OwnedFd, address: &StreamAddress, deadline_ns: u64) -> Result<(), Errno> {
    ioctl_fionbio(socket, true)?;
    match attempt(socket, address) {
        Err(Errno::INPROGRESS | Errno::INTR) => await_handshake(socket, deadline_ns)?,
        connected => connected?,
    }
    ioctl_fionbio(socket, false)
}

fn await_handshake(socket: &OwnedFd, deadline_ns: u64) -> Result<(), Errno> {
    loop {
        let left_ns = deadline_ns.saturating_sub(clock::now_ns());
        sleep_until(socket.as_fd(), PollFlags::OUT, left_ns)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        sockopt::socket_error(socket)??;
        match rustix::net::getpeername(socket) {
            Ok(_) => return Ok(()),
            Err(Errno::NOTCONN) if left_ns == 0 => return Err(Errno::INPROGRESS),
            Err(Errno::NOTCONN) => {}
            Err(error) => return Err(error),
        }
    }
}

/// `AGAIN`: the server's queue stayed full. The kernel does not report when a full queue has space again, so this
/// sleeps in `connect`, with a timeout of the socket that never ends too late, and finally polls.
fn connect_unix(socket: &OwnedFd, address: &StreamAddress, deadline_ns: u64) -> Result<(), Errno> {
    loop {
        let left_ns = deadline_ns.saturating_sub(clock::now_ns());
        let limit_ns = shorter(left_ns);
        ioctl_fionbio(socket, limit_ns == 0)?;
        sockopt::set_socket_timeout(
            socket,
            Timeout::Send,
            (limit_ns > 0).then(|| Duration::from_nanos(limit_ns)),
        )?;
        match retry_on_intr(|| attempt(socket, address)) {
            Err(Errno::AGAIN) if left_ns == 0 => return Err(Errno::AGAIN),
            Err(Errno::AGAIN) if limit_ns > 0 => {}
            Err(Errno::AGAIN) => thread::sleep(Duration::from_nanos(left_ns.min(RETRY_NS))),
            connected => {
                connected?;
                sockopt::set_socket_timeout(socket, Timeout::Send, None)?;
                return ioctl_fionbio(socket, false);
            }
        }
    }
}
