//! The clock that a server tells in its bind replies.

use crate::Instant;
use stoop_wire::bind::ServerClock;

/// The clock that callers are told, and when the server began to receive.
#[derive(Debug)]
pub(super) struct Clock {
    /// Start of the server by the driver's clock.
    begun: Instant,
    /// Start of the server by the clock that callers are told.
    started: Instant,
    /// Converts the present moment from the driver's clock to the clock that callers are told.
    sleepless: fn(Instant) -> Instant,
}

impl Clock {
    /// The clock of a server that begins at `now`. Callers are told the driver's own clock.
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, started: now, sleepless: |now| now }
    }

    /// Tells callers another clock from now on.
    pub(super) fn replace(&mut self, sleepless: fn(Instant) -> Instant) {
        self.sleepless = sleepless;
        self.started = sleepless(self.begun);
    }

    /// Whole seconds since the server began, by the driver's clock. Time in which that clock stood still is missing.
    pub(super) fn up_s(&self, now: Instant) -> u16 {
        u16::try_from(now.since(self.begun).as_secs()).unwrap_or(u16::MAX)
    }

    /// The reading that callers are told.
    pub(super) fn read(&self, now: Instant) -> ServerClock {
        let now = (self.sleepless)(now);
        ServerClock { now_ns: now.as_nanos(), up_ns: now.nanos_since(self.started) }
    }
}
