//! The background thread of a connection: receives for begun calls while no thread waits for them.

use crate::onc::caller::link::Link;
use std::io;
use std::sync::Weak;
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::poller::{Events, Interest, Poller, Waker};
use stoop_net::threads;

/// The background thread, as other threads see it.
pub(super) struct Background {
    poller: Poller,
    /// Ends its wait at the poller,
    waker: Waker,
    /// and its sleep.
    thread: Thread,
}

/// A connection with a background thread.
pub(super) trait Attended: Send + Sync + 'static {
    /// Receives, and ends calls, as far as that can be done now.
    fn look(&self) -> Look;
}

/// The background thread's next step after a look.
pub(super) enum Look {
    Again,
    Sleep,
    End,
}

/// The tokens of the background thread's poller.
const ARRIVED: u64 = 0;
const WOKEN: u64 = 1;

/// Time between two looks of the background thread without calls.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Background {
    /// Starts the thread. It ends with the connection, of which it holds a reference only during a look.
    pub(super) fn start<C: Attended>(link: &Link, connection: Weak<C>) -> io::Result<Self> {
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        link.watch(&poller, ARRIVED)?;
        poller.add(&waker, WOKEN, Interest::READ)?;
        let run = move || {
            while let Some(look) = connection.upgrade().map(|connection| connection.look()) {
                match look {
                    Look::Again => {}
                    Look::Sleep => thread::park_timeout(LOOK_EVERY),
                    Look::End => return,
                }
            }
        };
        let started = threads::start("stoop-onc", run)?;
        Ok(Self { poller, waker, thread: started.thread().clone() })
    }

    /// Ends the thread's wait or sleep.
    pub(super) fn wake(&self) {
        self.waker.wake();
        self.thread.unpark();
    }

    /// Waits until something arrives, the thread is woken or that time has passed.
    pub(super) fn wait(&self, limit: Duration) {
        let mut events = Events::with_capacity(2);
        let _ = self.poller.wait(&mut events, Some(limit));
        self.waker.drain();
    }
}
