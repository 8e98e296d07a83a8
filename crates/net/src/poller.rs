//! Waits for many descriptors at once (epoll), and wakes the threads that wait (eventfd).

use crate::time_limit::sleep_until_any;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::time::Timespec;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::time::Duration;

/// A set of descriptors to wait for. Any number of threads may wait at once.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// Events to wait for on a descriptor. A hang-up or pending error is always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(EventFlags);

impl Interest {
    /// Something can be received or accepted.
    pub const READ: Self = Self(EventFlags::IN.union(EventFlags::RDHUP));
    /// There is space to send.
    pub const WRITE: Self = Self(EventFlags::OUT);
    /// Both.
    pub const READ_WRITE: Self = Self(Self::READ.0.union(Self::WRITE.0));
    /// No event: the descriptor stays in the set for later.
    pub const NONE: Self = Self(EventFlags::empty());

    /// Reported to one waiter, once; then not again until [`Poller::modify`].
    #[must_use]
    pub const fn once(self) -> Self {
        Self(self.0.union(EventFlags::ONESHOT))
    }

    /// Reported only when the state changes, not while it lasts.
    #[must_use]
    pub const fn edge(self) -> Self {
        Self(self.0.union(EventFlags::ET))
    }
}

/// An event on a descriptor of a [`Poller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token that was given when the descriptor was added.
    pub token: u64,
    /// Something can be received or accepted, or an end or error can be seen by receiving.
    pub readable: bool,
    /// There is space to send, or an error can be seen by sending.
    pub writable: bool,
    /// The peer has closed its side, or the connection is broken.
    pub closed: bool,
}

/// Memory for the events of [`Poller::wait`].
pub struct Events {
    events: Vec<epoll::Event>,
}

// SAFETY: the kernel's union of an event's data could hold a pointer; here it always holds a token, which is a number.
#[expect(unsafe_code)]
unsafe impl Send for Events {}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Events {
    /// Memory for `capacity` events at a time (at least one).
    pub fn with_capacity(capacity: usize) -> Self {
        Self { events: Vec::with_capacity(capacity.max(1)) }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Ready> + '_ {
        self.events.iter().map(|event| {
            let flags = event.flags;
            let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            Ready {
                token: event.data.u64(),
                readable: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: broken || flags.contains(EventFlags::OUT),
                closed: broken || flags.contains(EventFlags::RDHUP),
            }
        })
    }

    /// Whether the last wait reported nothing.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds `source`, whose events are reported with `token`. It leaves the set by [`remove`](Self::remove), or when it
    /// is closed.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when it is in the set.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), interest.0)?)
    }

    /// Changes the events to wait for on `source`, and its token.
    ///
    /// # Errors
    ///
    /// `NotFound` when it is not in the set.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token), interest.0)?)
    }

    /// Takes `source` out of the set.
    ///
    /// # Errors
    ///
    /// `NotFound` when it is not in the set.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until an event occurs or `limit` has passed (`None`: for ever; zero: not at all) and puts the events into
    /// `events`, which is empty if there were none or a signal came.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn wait(&self, events: &mut Events, limit: Option<Duration>) -> io::Result<()> {
        events.events.clear();
        // A limit beyond the kernel's milliseconds (24 days) wakes once too early, which does no harm.
        let limit = limit.map(|limit| {
            let limit = limit.min(Duration::from_secs(1_000_000));
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() }
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut events.events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Wakes threads that wait for it in a [`Poller`].
#[derive(Debug)]
pub struct Waker {
    eventfd: OwnedFd,
}

impl Waker {
    /// A waker that has not been used.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { eventfd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Becomes readable, until [`drain`](Self::drain). Several wakes before a drain count as one.
    pub fn wake(&self) {
        // The only failure is a full counter, which is readable too.
        let _ = retry_on_intr(|| rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes()));
    }

    /// Clears earlier wakes; returns whether there were any. Drain before looking for work; otherwise a wake between
    /// the two is lost.
    pub fn drain(&self) -> bool {
        retry_on_intr(|| rustix::io::read(&self.eventfd, &mut [0; 8])).is_ok()
    }

    /// Sleeps until something can be received from `source`, or an end or error can be seen there, or this is woken; for `limit_ns`
    /// nanoseconds at most. A signal ends the sleep early. Returns whether a receive from `source` would not wait.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn sleep_beside(&self, source: impl AsFd, limit_ns: u64) -> io::Result<bool> {
        let mut both = [PollFd::new(&source, PollFlags::IN), PollFd::new(&self.eventfd, PollFlags::IN)];
        Ok(sleep_until_any(&mut both, limit_ns)? && !both[0].revents().is_empty())
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// Rings in the [`Poller`] of another process, which has received the descriptor. The waiting side waits for the
/// [edge](Interest::edge) of both [directions](Interest::READ_WRITE).
///
/// Neither side can block the other, whatever it does with the shared descriptor. Ringing subtracts one from a count
/// that is never used up, and the waiting side is told that there is space for one more. A read can be told not to
/// block even if the peer has made the descriptor blocking (RWF_NOWAIT). A write, even of zero, blocks while the kernel
/// has counted to the very end for the peer (io_submit(2), IOCB_FLAG_RESFD).
#[derive(Debug)]
pub struct Bell {
    eventfd: OwnedFd,
}

impl Bell {
    /// Number of times that it can ring: enough for thousands of years.
    const RINGS: u64 = 1 << 62;

    /// Makes a bell.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        let eventfd = eventfd(0, flags)?;
        rustix::io::write(&eventfd, &Self::RINGS.to_ne_bytes())?;
        Ok(Self { eventfd })
    }

    /// Makes a bell from a descriptor that another process has handed over.
    ///
    /// # Errors
    ///
    /// `InvalidData` if it is no eventfd: a read from a descriptor of the peer's choice (a pipe, a file of its own file
    /// system) could block for ever. Otherwise, no descriptor is left.
    pub fn from_descriptor(eventfd: OwnedFd) -> io::Result<Self> {
        // All descriptors without a file share one inode, and none of them blocks in a read that is told not to.
        let (ours, theirs) = (rustix::fs::fstat(Self::new()?.eventfd)?, rustix::fs::fstat(&eventfd)?);
        if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what should be a bell is none"));
        }
        Ok(Self { eventfd })
    }

    /// Notifies the waiting side.
    pub fn ring(&self) {
        // Fails only if the peer has made it something else, which makes no difference to this side.
        let _ = retry_on_intr(|| {
            let taken = &mut [0; 8];
            // Without an offset of its own, which it does not have.
            rustix::io::preadv2(
                &self.eventfd,
                &mut [IoSliceMut::new(taken)],
                u64::MAX,
                ReadWriteFlags::NOWAIT,
            )
        });
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;
    use std::io::IoSlice;

    fn told(poller: &Poller, limit: Option<Duration>) -> Vec<Ready> {
        let mut events = Events::with_capacity(8);
        poller.wait(&mut events, limit).unwrap();
        events.iter().collect()
    }

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn a_wake_is_reported_until_it_is_drained() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add(&waker, 7, Interest::READ).unwrap();
        assert!(told(&poller, NOW).is_empty());
        waker.wake();
        waker.wake();
        assert_eq!(told(&poller, None), [Ready { token: 7, readable: true, writable: false, closed: false }]);
        assert!(waker.drain());
        assert!(!waker.drain());
        assert!(told(&poller, NOW).is_empty());
    }

    #[test]
    fn a_wake_reaches_a_thread_that_sleeps_without_limit() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add(&waker, 7, Interest::READ).unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| told(&poller, None));
            waker.wake();
            assert_eq!(sleeper.join().unwrap().len(), 1);
        });
    }

    #[test]
    fn a_sleep_beside_a_stream_ends_by_an_arrival_a_wake_or_its_limit_and_tells_the_arrival() {
        let (waker, (ours, theirs)) = (Waker::new().unwrap(), Stream::pair().unwrap());
        assert!(!waker.sleep_beside(&ours, 1).unwrap());
        waker.wake();
        assert!(!waker.sleep_beside(&ours, u64::MAX).unwrap());
        theirs.try_send(&[IoSlice::new(b"x")]).unwrap();
        assert!(waker.sleep_beside(&ours, u64::MAX).unwrap());
        assert!(waker.drain());
        assert!(waker.sleep_beside(&ours, u64::MAX).unwrap());
        let (ours, theirs) = Stream::pair().unwrap();
        drop(theirs);
        assert!(waker.sleep_beside(&ours, u64::MAX).unwrap());
    }

    #[test]
    fn the_limit_ends_a_wait_without_events() {
        let poller = Poller::new().unwrap();
        assert!(told(&poller, Some(Duration::from_nanos(1))).is_empty());
        assert!(told(&poller, Some(Duration::from_millis(1))).is_empty());
    }

    #[test]
    fn a_stream_reports_the_events_asked_for() {
        let poller = Poller::new().unwrap();
        let (ours, theirs) = Stream::pair().unwrap();
        poller.add(&ours, 1, Interest::READ).unwrap();
        assert!(told(&poller, NOW).is_empty());
        theirs.try_send(&[IoSlice::new(b"x")]).unwrap();
        assert_eq!(told(&poller, None), [Ready { token: 1, readable: true, writable: false, closed: false }]);
        poller.modify(&ours, 2, Interest::WRITE).unwrap();
        assert_eq!(told(&poller, None), [Ready { token: 2, readable: false, writable: true, closed: false }]);
        poller.modify(&ours, 3, Interest::READ).unwrap();
        drop(theirs);
        assert_eq!(told(&poller, None), [Ready { token: 3, readable: true, writable: true, closed: true }]);
        poller.remove(&ours).unwrap();
        assert!(told(&poller, NOW).is_empty());
        assert_eq!(poller.remove(&ours).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn once_is_reported_once_and_edge_at_each_change() {
        let poller = Poller::new().unwrap();
        let (ours, _theirs) = Stream::pair().unwrap();
        poller.add(&ours, 1, Interest::WRITE.once()).unwrap();
        assert_eq!(told(&poller, NOW).len(), 1);
        assert!(told(&poller, NOW).is_empty());
        poller.modify(&ours, 1, Interest::WRITE.edge()).unwrap();
        assert_eq!(told(&poller, NOW).len(), 1);
        assert!(told(&poller, NOW).is_empty());
    }

    #[test]
    fn each_ring_of_a_bell_is_reported() {
        let (poller, bell) = (Poller::new().unwrap(), Bell::new().unwrap());
        poller.add(&bell, 7, Interest::READ_WRITE.edge()).unwrap();
        told(&poller, NOW);
        for _ in 0..3 {
            assert!(told(&poller, NOW).is_empty());
            bell.ring();
            bell.ring();
            assert_eq!(told(&poller, NOW).len(), 1);
        }
    }

    #[test]
    fn a_bell_that_the_peer_has_filled_and_made_blocking_blocks_no_thread() {
        let bell = Bell::new().unwrap();
        let theirs = bell.as_fd().try_clone_to_owned().unwrap();
        rustix::io::write(&theirs, &(u64::MAX - 1 - Bell::RINGS).to_ne_bytes()).unwrap();
        rustix::fs::fcntl_setfl(&theirs, rustix::fs::OFlags::empty()).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&bell, 7, Interest::READ_WRITE.edge()).unwrap();
        told(&poller, NOW);
        bell.ring();
        assert_eq!(told(&poller, NOW).len(), 1);
    }

    #[test]
    fn only_an_eventfd_is_a_bell() {
        let theirs = Bell::new().unwrap().eventfd;
        Bell::from_descriptor(theirs).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        assert_eq!(Bell::from_descriptor(writer.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
