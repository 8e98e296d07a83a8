//! Sleeps until frames arrive at a socket, or until another thread wakes the sleeper.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes the threads that sleep at one endpoint.
#[derive(Debug)]
pub(crate) struct Sleeper {
    woken: OwnedFd,
    is_for_good: AtomicBool,
}

impl Sleeper {
    pub(crate) fn new() -> Result<Self, Errno> {
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { woken, is_for_good: AtomicBool::new(false) })
    }

    /// Wakes all threads that sleep, now and for good.
    pub(crate) fn wake(&self) {
        // Before the event; pairs with the load in `take_notice`.
        self.is_for_good.store(true, Ordering::SeqCst);
        self.notify();
    }

    /// Wakes a thread that sleeps, or the next one to sleep.
    pub(crate) fn notify(&self) {
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
        if ends[0].revents().intersects(PollFlags::IN) {
            self.take_notice();
        }
        if ready == 0 || ends.iter().any(|end| end.revents().intersects(PollFlags::ERR)) {
            take_error(socket)?;
            other.map_or(Ok(()), take_error)?;
        }
        Ok(())
    }
}

impl Sleeper {
    /// Takes the event, so that the next thread sleeps, unless threads are to be woken for good.
    #[cold]
    fn take_notice(&self) {
        // Fails if another thread has taken it.
        let _ = rustix::io::read(&self.woken, &mut [0; 8]);
        if self.is_for_good.load(Ordering::SeqCst) {
            self.notify();
        }
    }
}

/// Takes the error that the kernel has noted at the socket.
#[cold]
pub(crate) fn take_error(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::socket_error(socket)??)
}
