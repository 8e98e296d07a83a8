//! Accepts byte streams on a TCP port or a Unix socket.

use super::socket_file::{self, SocketFile};
use super::{Stream, StreamAddress, stream_socket};
use crate::{inherited, time_limit};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// A listening TCP or Unix socket. Any number of threads may accept at once.
#[derive(Debug)]
pub struct StreamListener {
    socket: OwnedFd,
    address: StreamAddress,
    /// The socket belongs to the process that started this one, too.
    is_inherited: bool,
    /// Removes the file when the listener is dropped.
    _file: Option<SocketFile>,
}

/// The outcome of [`StreamListener::accept`].
#[derive(Debug)]
pub enum Accepted {
    /// A new stream.
    Stream(Stream),
    /// No connection waits (only after [`StreamListener::set_nonblocking`]).
    Nothing,
    /// [`StreamListener::wake_acceptors`] was called.
    WokenUp,
}

/// How many connections may wait to be accepted: the usual `net.core.somaxconn`, to which the kernel lowers it. While so many wait, the
/// kernel drops attempts to connect, and each caller tries again after one second, then two, four and so on.
const BACKLOG: i32 = 4096;

impl StreamListener {
    /// Listens at `address`. TCP port 0 takes any free one, see [`local_addr`](Self::local_addr).
    ///
    /// An abstract name of a socket that listens no more, but which a child of its process still has open, is waited for up to a second.
    /// A Unix socket's file left behind by a dead server is replaced. The file is removed when the listener
    /// is dropped, if it is still its own.
    ///
    /// A socket that listens there already and was [inherited](crate::inherited) is used as it is.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when another server listens there or a file that is no socket has the name,
    /// `AddrNotAvailable`, `PermissionDenied`, `NotFound` (a directory that is not there), `InvalidInput`
    /// (a name that is empty), `InvalidFilename` (a name beyond 107 bytes).
    pub fn bind(address: &StreamAddress) -> io::Result<Self> {
        if let Some(socket) = inherited::take(SocketType::STREAM, &address.as_bound()?) {
            return Ok(Self { socket, address: address.clone(), is_inherited: true, _file: None });
        }
        let socket = stream_socket(address)?;
        let mut bound = address.clone();
        let mut file = None;
        match address {
            StreamAddress::Tcp(tcp) => {
                // Otherwise a restarted server would find the port taken by connections that linger (TIME_WAIT).
                sockopt::set_socket_reuseaddr(&socket, true)?;
                rustix::net::bind(&socket, tcp)?;
                rustix::net::listen(&socket, BACKLOG)?;
                bound = StreamAddress::Tcp(SocketAddr::try_from(rustix::net::getsockname(&socket)?)?);
            }
            StreamAddress::UnixPath(path) => {
                file = Some(socket_file::bind(&socket, path, &address.unix_addr()?, BACKLOG)?);
            }
            StreamAddress::UnixAbstract(_) => {
                bind_abstract(&socket, address)?;
                rustix::net::listen(&socket, BACKLOG)?;
            }
        }
        Ok(Self { socket, address: bound, is_inherited: false, _file: file })
    }

    /// The address listened at, with the port that was chosen.
    pub fn local_addr(&self) -> &StreamAddress {
        &self.address
    }

    /// Has [`accept`](Self::accept) return [`Accepted::Nothing`] instead of waiting, or wait again.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, nonblocking)?)
    }

    /// Waits for the next stream. A connection that broke before it was accepted is passed over.
    ///
    /// # Errors
    ///
    /// No descriptor or memory is left: accept again when some stream has been closed.
    pub fn accept(&self) -> io::Result<Accepted> {
        loop {
            match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Accepted::Stream(Stream::prepared(socket, self.address.is_tcp())?)),
                Err(Errno::AGAIN) => return Ok(Accepted::Nothing),
                Err(Errno::INVAL) => return Ok(Accepted::WokenUp),
                Err(error) if passes(error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a connection waits to be accepted. Of a listener without one, [`accept`](Self::accept) reports that no descriptor is
    /// left as well: the system takes the descriptor before it looks.
    pub fn has_waiting(&self) -> bool {
        time_limit::sleep_until(self.socket.as_fd(), PollFlags::IN, 0).unwrap_or(true)
    }

    /// Wakes every thread blocked in [`accept`](Self::accept), now and for good: from now on it returns
    /// [`Accepted::WokenUp`], and connections are refused. Does nothing to a socket that was [inherited](crate::inherited): its
    /// connections wait for the next process, and threads must not block at it.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn wake_acceptors(&self) -> io::Result<()> {
        if self.is_inherited {
            return Ok(());
        }
        match rustix::net::shutdown(&self.socket, Shutdown::Both) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for StreamListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds to an abstract name. A socket that listens no more keeps its name for as long as some process has it open: one that a thread
/// of the last server has just started, until it executes its program. That socket is waited for; the system has no other way to learn
/// that it has gone.
fn bind_abstract(socket: &OwnedFd, address: &StreamAddress) -> io::Result<()> {
    let begun = Instant::now();
    let name = address.unix_addr()?;
    loop {
        match rustix::net::bind(socket, &name) {
            Err(Errno::ADDRINUSE) if begun.elapsed() < LEFT_OPEN_MAX && !listens(address) => {
                thread::sleep(LOOK_AGAIN);
            }
            bound => return Ok(bound?),
        }
    }
}

/// Longest wait for a name that a socket has which listens no more.
const LEFT_OPEN_MAX: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Whether a server accepts connections there. It sees a connection that ends at once.
fn listens(address: &StreamAddress) -> bool {
    let connect = || {
        let probe = stream_socket(address)?;
        rustix::io::ioctl_fionbio(&probe, true)?;
        Ok::<_, io::Error>(rustix::net::connect(&probe, &address.unix_addr()?)?)
    };
    connect().err().is_none_or(|why| why.kind() != io::ErrorKind::ConnectionRefused)
}

/// Errors of one connection, not of the listener: Linux hands pending network errors of a new connection to
/// `accept` (accept(2), "Error handling").
fn passes(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
            | Errno::OPNOTSUPP
    )
}
