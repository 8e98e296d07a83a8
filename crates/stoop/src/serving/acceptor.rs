//! A listening socket in a poller, and the wakers that end a thread's sleep in that poller.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoop_net::clock;
use stoop_net::poller::{Interest, Poller, Waker};
use stoop_net::stream::{Accepted, Stream, StreamListener};

/// Accepts connections. It pauses while the system has no descriptor left.
pub(crate) struct Acceptor {
    pub(crate) poller: Poller,
    listener: StreamListener,
    /// When accepting goes on; 0 while it goes on.
    paused_until_ns: AtomicU64,
    /// Ends one sleep.
    pub(crate) notifier: Waker,
    /// Ends all sleeps.
    pub(crate) end: Waker,
}

/// The poller's token of the listener.
pub(crate) const LISTENER: u64 = 0;
/// The token of the waker that ends all sleeps.
pub(crate) const END: u64 = 1;
/// The token of the waker that ends one sleep.
pub(crate) const NOTIFIED: u64 = 2;
/// Tokens from here on are free.
pub(crate) const FIRST_TOKEN: u64 = 4;

/// Connections accepted before the others are looked at again.
pub(crate) const ACCEPTED_AT_ONCE: usize = 16;
/// Time before accepting again after the system had no descriptor or memory left.
const PAUSE: Duration = Duration::from_millis(100);

impl Acceptor {
    pub(crate) fn new(listener: StreamListener) -> io::Result<Self> {
        let (poller, notifier, end) = (Poller::new()?, Waker::new()?, Waker::new()?);
        listener.set_nonblocking(true)?;
        poller.add(&listener, LISTENER, Interest::READ)?;
        poller.add(&notifier, NOTIFIED, Interest::READ)?;
        poller.add(&end, END, Interest::READ)?;
        Ok(Self { poller, listener, paused_until_ns: AtomicU64::new(0), notifier, end })
    }

    /// Accepts a connection; `None` if none waits.
    ///
    /// # Errors
    /// A connection waits, and the system has no descriptor or memory left.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        match self.listener.accept() {
            Ok(Accepted::Stream(stream)) => Ok(Some(stream)),
            Ok(Accepted::Nothing | Accepted::WokenUp) => Ok(None),
            Err(why) if self.listener.has_waiting() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// Accepts nothing for a while: the system has no descriptor left.
    pub(crate) fn pause(&self) {
        self.pause_until(clock::now_ns() + PAUSE.as_nanos() as u64);
    }

    /// Accepts nothing until that time, or until it is [resumed](Self::resume) if that is `u64::MAX`.
    pub(crate) fn pause_until(&self, until_ns: u64) {
        self.paused_until_ns.store(until_ns, Ordering::SeqCst);
        let _ = self.poller.modify(&self.listener, LISTENER, Interest::NONE);
        // Another thread may sleep already, without a limit, and no event of the listener would end its sleep.
        self.notifier.wake();
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until_ns.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn resume(&self) {
        self.paused_until_ns.store(0, Ordering::SeqCst);
        // It is no longer there when the server shuts down.
        let _ = self.poller.modify(&self.listener, LISTENER, Interest::READ);
    }

    /// Longest sleep; `None`: until something happens. Ends a pause that is over.
    #[inline]
    pub(crate) fn sleep_limit(&self) -> Option<Duration> {
        match self.paused_until_ns.load(Ordering::Relaxed) {
            0 | u64::MAX => None,
            until_ns => match until_ns.saturating_sub(clock::now_ns()) {
                0 => {
                    self.resume();
                    None
                }
                left_ns => Some(Duration::from_nanos(left_ns)),
            },
        }
    }

    /// Accepts no more.
    pub(crate) fn shut_down(&self) {
        let _ = self.poller.remove(&self.listener);
        // A listening socket can always be shut down.
        let _ = self.listener.wake_acceptors();
    }
}
