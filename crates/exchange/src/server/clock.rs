//! The clock that a server tells in its bind replies.

use crate::Instant;
use stoop_wire::bind::ServerClock;

/// The clock that callers are told, and when the server began to receive.
#[derive(Debug)]
pub(super) struct Clock {
    /// By the driver's clock.
    begun: Instant,
    /// By the clock that callers are told.
    started: Instant,
    /// TimedLock the present moment of the driver's clock into that of the clock that callers are told.
    sleepless: fn(Instant) -> Instant,
}

impl Clock {
    /// That of a server which begins `now`. Callers are told the driver's own clock.
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, started: now, sleepless: |now| now }
    }

    /// From now on callers are told another clock.
    pub(super) fn replace(&mut self, sleepless: fn(Instant) -> Instant) {
        self.sleepless = sleepless;
        self.started = sleepless(self.begun);
    }

    /// Whole seconds since the server began, by the driver's clock: fewer than have passed, where that stood still.
    pub(super) fn up_s(&self, now: Instant) -> u16 {
        u16::try_from(now.since(self.begun).as_secs()).unwrap_or(u16::MAX)
    }

    /// What callers are told.
    pub(super) fn read(&self, now: Instant) -> ServerClock {
        let now = (self.sleepless)(now);
        ServerClock { now_ns: now.as_nanos(), up_ns: now.nanos_since(self.started) }
    }
}
