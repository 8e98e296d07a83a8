//! The clock of a simulated machine: it drifts, and it stands still while the machine is saved.
//!
//! Processes read their machine's clock; only the network goes by the time of the world.

use core::time::Duration;
use stoop_exchange::Instant;

/// The rate of a clock that goes as fast as the world.
pub(crate) const EXACT: u64 = 1024;

/// A clock, and whether its machine runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// A moment of the world, and what the clock showed then.
    set: (Instant, Instant),
    /// Steps of the clock in [`EXACT`] of the world.
    rate: u64,
    /// The machine is saved or asleep, and goes on at this moment of the world.
    stopped_until: Instant,
    /// Until when it stands still, and what it shows until then.
    stands_still: (Instant, Instant),
    /// Its readings when the machine last fell asleep, and when it woke up.
    leapt: (Instant, Instant),
}

impl Clock {
    /// A clock that shows the time of the world at `now`.
    pub(crate) fn new(now: Instant, rate: u64) -> Self {
        Self { set: (now, now), rate, stopped_until: now, stands_still: (now, now), leapt: (now, now) }
    }

    /// Its reading at a moment of the world.
    pub(crate) fn at(&self, world: Instant) -> Instant {
        let (until, shown) = self.stands_still;
        if world < until { shown } else { self.runs_at(world) }
    }

    fn runs_at(&self, world: Instant) -> Instant {
        let (world_then, shown) = self.set;
        let passed = u128::from(world.nanos_since(world_then)) * u128::from(self.rate);
        shown.after_nanos((passed / u128::from(EXACT)) as u64)
    }

    /// The first moment of the world at which it shows `local`, if the machine is not stopped before.
    pub(crate) fn shows(&self, local: Instant) -> Instant {
        if local == Instant::NEVER {
            return local;
        }
        let (world_then, shown) = self.set;
        let steps = u128::from(local.nanos_since(shown)) * u128::from(EXACT);
        world_then.after_nanos(steps.div_ceil(u128::from(self.rate)) as u64)
    }

    /// From `from` on it shows the same for so long, and then goes on.
    fn stand_still(&mut self, from: Instant, lasts: Duration) {
        self.stands_still = (from + lasts, self.at(from));
        self.set.0 = self.set.0 + lasts;
    }

    /// The time of this clock by which a process is judged at a moment of the world. A machine that has just woken up is
    /// judged by the time at which it fell asleep: its processes could do nothing meanwhile.
    pub(crate) fn judged_at(&self, world: Instant) -> Instant {
        let (falls_asleep, wakes_up) = self.leapt;
        match self.at(world) {
            now if now == wakes_up => falls_asleep,
            // It leaps over some of its nanoseconds.
            now if self.rate > EXACT => Instant::from_nanos(now.as_nanos() - 1),
            now => now,
        }
    }

    /// Whether the machine is saved or asleep at a moment of the world.
    pub(crate) fn is_stopped(&self, world: Instant) -> bool {
        self.stopped_until > world
    }

    /// Stops the machine at the moment `now` of the world.
    pub(crate) fn stop(&mut self, now: Instant, stop: Stop, lasts: Duration) {
        self.stopped_until = now + lasts;
        match stop {
            Stop::Saved => self.stand_still(now, lasts),
            Stop::Asleep => {
                let falls_asleep = self.at(now);
                let begun = if self.leapt.1 == falls_asleep { self.leapt.0 } else { falls_asleep };
                self.leapt = (begun, self.at(now + lasts));
            }
        }
    }
}

/// The way in which a machine stops for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A virtual machine is saved and resumed: its clocks have stood still.
    Saved,
    /// The machine sleeps: its clock has gone on, and leaps ahead for its processes.
    Asleep,
}

/// The machine of the server; those of the callers follow, unless they run on this one.
pub(crate) const SERVERS: usize = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_timer_is_never_planned_before_its_clock_shows_its_time() {
        for rate in [EXACT * 7 / 8, EXACT - 1, EXACT, EXACT + 1, EXACT * 9 / 8] {
            let mut clock = Clock::new(at(1_000), rate);
            clock.stand_still(at(5_000), Duration::from_nanos(4_999));
            assert_eq!(
                (clock.at(at(5_001)), clock.at(at(9_999))),
                (clock.at(at(5_000)), clock.at(at(5_000)))
            );
            for local in (clock.at(at(9_999)).as_nanos()..).step_by(77).take(1_000).map(at) {
                let world = clock.shows(local);
                assert!(clock.at(world) >= local, "{rate}");
                assert!(world == at(9_999) || clock.at(at(world.as_nanos() - 1)) < local, "{rate}");
            }
        }
    }
}
