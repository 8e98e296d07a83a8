//! The background of the calls in flight: who receives, sends again and wakes tasks when no thread waits for a call.
//!
//! One for each binding that begins calls, because it sleeps in the kernel on that binding's socket. While nothing is in
//! flight it sleeps for good.

use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::receiver::{AFTER_THE_RECEIVER, BUFFER, Wakeups};
use crate::transport::packet::begun::{PacketCalls, now};
use std::io;
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How it is woken.
#[derive(Default)]
pub(crate) struct Background {
    thread: OnceLock<Thread>,
}

/// What the background does now, as the lock around the calls knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// It sleeps until it is woken.
    #[default]
    Asleep,
    /// It looks now and then whether anybody receives.
    Watching,
    /// It receives.
    Attending,
}

/// While calls are in flight: between two looks whether anybody receives.
const WATCH_EVERY: Duration = Duration::from_millis(5);

/// So many looks with nothing in flight before it goes to sleep.
const IDLE_LOOKS: u32 = 200;

impl Background {
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl State {
    /// Calls leave: whether it has to be woken for them.
    pub(crate) fn is_wanted(&mut self) -> bool {
        std::mem::replace(self, if *self == Self::Asleep { Self::Watching } else { *self }) == Self::Asleep
    }

    /// The receive role is given back: whether it has to take it at once.
    pub(crate) fn is_missed(self, calls: &Calls) -> bool {
        self != Self::Attending && (calls.wakers > 0 || calls.needs_binding())
    }
}

/// Starts the background of `flight`.
pub(crate) fn start(flight: &Arc<PacketCalls>) -> io::Result<()> {
    let weak = Arc::downgrade(flight);
    let thread = thread::Builder::new().name("stoop-calls".into()).spawn(move || keep(&weak))?;
    let _ = flight.background.thread.set(thread.thread().clone());
    Ok(())
}

fn keep(flight: &Weak<PacketCalls>) {
    let mut watch = Watch::default();
    let mut pause = None;
    loop {
        match pause {
            Some(pause) => thread::park_timeout(pause),
            None => thread::park(),
        }
        let Some(flight) = flight.upgrade() else { return };
        pause = flight.run_background(&mut watch);
    }
}

/// What it saw when it looked last.
#[derive(Default)]
struct Watch {
    receptions: u64,
    idle: u32,
}

impl PacketCalls {
    /// Does what is to be done, and tells when to look again.
    fn run_background(self: &Arc<Self>, watch: &mut Watch) -> Option<Duration> {
        loop {
            let mut calls = self.calls();
            if calls.needs_binding() {
                calls.is_binding = true;
                drop(calls);
                self.start_binding();
                continue;
            }
            calls.background = State::Watching;
            if calls.outstanding == 0 {
                watch.idle += 1;
                if watch.idle <= IDLE_LOOKS {
                    return Some(WATCH_EVERY);
                }
                watch.idle = 0;
                calls.background = State::Asleep;
                return None;
            }
            watch.idle = 0;
            let unattended = std::mem::replace(&mut watch.receptions, calls.receptions) == calls.receptions;
            match calls.reception.take() {
                Some(reception) if calls.wakers > 0 || unattended => {
                    calls.background = State::Attending;
                    calls.receptions += 1;
                    drop(calls);
                    self.attend(reception);
                }
                reception => {
                    calls.reception = reception;
                    return Some(self.look_late(calls));
                }
            }
        }
    }

    /// Ends calls whose deadlines have passed though another thread receives, which may not have known of them when it fell
    /// asleep. Tells when to look again.
    fn look_late(&self, mut calls: MutexGuard<'_, Calls>) -> Duration {
        let clock = now();
        let late = calls.next().deadline() + AFTER_THE_RECEIVER;
        if clock < late {
            return late.since(clock).min(WATCH_EVERY);
        }
        let mut news = Wakeups::default();
        self.take_what_is_there(&mut calls, &mut vec![0; BUFFER], clock, &mut news);
        calls.look(clock, &self.binding, &self.socket, &mut news);
        let sends = calls.has_more_to_send();
        drop(calls);
        news.tell();
        if sends {
            self.pump();
        }
        AFTER_THE_RECEIVER
    }

    /// Has a thread bind again: it may take as long as any call that waits for it, and others end before.
    #[cold]
    fn start_binding(self: &Arc<Self>) {
        let flight = Arc::clone(self);
        let binder = move || {
            flight.bind_again();
            // More calls may have been refused since, or wait for somebody to receive.
            flight.background.wake();
        };
        if thread::Builder::new().name("stoop-bind".into()).spawn(binder).is_err() {
            // Late is better than not at all.
            self.bind_again();
        }
    }

    /// Binds again for the calls that the server has refused because it does not know the binding.
    fn bind_again(&self) {
        let mut news = Wakeups::default();
        let lost = self.calls().lost();
        let bound = lost.map(|(lost, refusal, deadline)| {
            (self.binding.rebind(&lost, refusal, deadline).ok(), lost, deadline)
        });
        let mut calls = self.calls();
        calls.is_binding = false;
        if let Some((session, lost, deadline)) = bound {
            calls.rebound(&self.binding, (&lost, deadline), session.as_ref(), &self.socket, &mut news);
        }
        drop(calls);
        news.tell();
    }
}
