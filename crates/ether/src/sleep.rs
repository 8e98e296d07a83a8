//! Sleeps until frames arrive at a socket, or until another thread wakes the sleeper.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Wakes the threads that sleep at one endpoint.
#[derive(Debug)]
pub(crate) struct Sleeper {
    woken: OwnedFd,
}

impl Sleeper {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { woken: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes all threads that sleep, now and for good.
    pub(crate) fn wake(&self) {
        // Fails only when 2⁶⁴ − 2 wake-ups are there already.
        let _ = rustix::io::write(&self.woken, &1u64.to_ne_bytes());
    }

    /// Sleeps until the socket, or the `other` one, has something to read, but at most `limit_ns` (`None`: without a
    /// limit). Returns early when a signal arrives or the sleeper is woken.
    ///
    /// # Errors
    ///
    /// The error that the kernel has noted at a socket: the interface is down or gone. It is reported once.
    /// Not every kind of socket wakes a sleeper for it; then it is found when the limit has passed.
    pub(crate) fn sleep(
        &self,
        socket: BorrowedFd<'_>,
        other: Option<BorrowedFd<'_>>,
        limit_ns: Option<u64>,
    ) -> io::Result<()> {
        let limit = limit_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed() as _,
        });
        let readable = |socket| PollFd::from_borrowed_fd(socket, PollFlags::IN);
        let mut ends = [readable(self.woken.as_fd()), readable(socket), readable(other.unwrap_or(socket))];
        let count = if other.is_some() { 3 } else { 2 };
        let ready = match poll(&mut ends[..count], limit.as_ref()) {
            Err(Errno::INTR) => return Ok(()),
            polled => polled?,
        };
        if ready == 0 || ends.iter().any(|end| end.revents().intersects(PollFlags::ERR)) {
            take_error(socket)?;
            other.map_or(Ok(()), take_error)?;
        }
        Ok(())
    }
}

/// Takes the error that the kernel has noted at the socket.
#[cold]
pub(crate) fn take_error(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::socket_error(socket)??)
}
