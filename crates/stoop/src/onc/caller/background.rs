//! The background thread of a connection: receives for begun calls while no thread waits for them.

use crate::error::{CallError, SendError};
use crate::onc::caller::connection::Connection;
use crate::onc::caller::link::Arrival;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::clock;
use stoop_net::poller::{Events, Interest, Poller, Waker};

/// The background thread, as others see it.
pub(super) struct Background {
    poller: Poller,
    /// Ends its wait at the poller,
    waker: Waker,
    /// and its sleep.
    thread: OnceLock<Thread>,
}

/// The tokens of the background thread's poller.
const ARRIVED: u64 = 0;
const WOKEN: u64 = 1;

/// The background thread's next step after a look.
enum Look {
    Again,
    Sleep,
    End,
}

/// Time between two looks of the background thread without calls.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Connection {
    /// A thread has given the role back while begun calls are in flight.
    #[inline]
    pub(super) fn pass_to_background(&self) {
        if self.begun.load(Ordering::SeqCst) > 0
            && let Some(background) = self.background()
        {
            background.waker.wake();
            if let Some(thread) = background.thread.get() {
                thread.unpark();
            }
        }
    }

    /// Makes sure that the background thread runs, and that it knows of the latest call.
    pub(super) fn start_background(self: &Arc<Self>) -> Result<(), CallError> {
        if self.background.get().is_none() {
            self.start_thread().map_err(|why| CallError::NotSent(SendError::Io(why)))?;
        }
        self.pass_to_background();
        Ok(())
    }

    #[cold]
    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        self.link.watch(&poller, ARRIVED)?;
        poller.add(&waker, WOKEN, Interest::READ)?;
        let _ = self.background.set(Background { poller, waker, thread: OnceLock::new() });
        let connection = Arc::downgrade(self);
        let run = move || {
            // The connection ends with its last handle and client: this thread keeps it for a look only.
            while let Some(look) = connection.upgrade().map(|connection| connection.look()) {
                match look {
                    Look::Again => {}
                    Look::Sleep => thread::park_timeout(LOOK_EVERY),
                    Look::End => return,
                }
            }
        };
        let started = thread::Builder::new().name("stoop-onc".into()).spawn(run)?;
        let _ = self.background().map(|background| background.thread.set(started.thread().clone()));
        Ok(())
    }

    fn background(&self) -> Option<&Background> {
        self.background.get()
    }

    /// One look of the background thread.
    fn look(&self) -> Look {
        if self.is_lost.load(Ordering::Acquire) {
            self.end_all();
            return Look::End;
        }
        if self.begun.load(Ordering::SeqCst) == 0 {
            return Look::Sleep;
        }
        let (Some(background), Some(mut role)) = (self.background(), self.role.try_take()) else {
            // The thread that has the role wakes this one when it gives it back.
            return Look::Sleep;
        };
        let limit = Duration::from_nanos(self.next_timeout_ns().saturating_sub(clock::now_ns()));
        let mut events = Events::with_capacity(2);
        let _ = background.poller.wait(&mut events, Some(limit));
        background.waker.drain();
        match self.link.receive(&mut role.incoming, 0) {
            Ok(Arrival::Bytes(len)) => self.take_in(&mut role.incoming, len, clock::now_ns()),
            Ok(Arrival::Refused) => self.end_refused(),
            Ok(Arrival::Nothing) => {}
            Err(_) => self.lose(),
        }
        self.handle_timeouts();
        Look::Again
    }
}
