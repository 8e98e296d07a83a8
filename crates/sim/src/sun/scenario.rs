//! A scenario: the choices that a seed makes about its world.

use crate::{Faults, Random};
use core::time::Duration;
use stoop_onc::Retransmission;
use stoop_onc::reply_cache::ReplyCacheLimits;

/// A world before its first event.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) faults: Faults,
    pub(super) callers: usize,
    /// Calls of each caller.
    pub(super) calls: u32,
    /// Most calls of a caller in flight.
    pub(super) in_flight: usize,
    pub(super) retransmission: Retransmission,
    pub(super) deadline: Duration,
    pub(super) limits: ReplyCacheLimits,
    /// How long a procedure takes.
    pub(super) work: (Duration, Duration),
    /// Time between two ends of the server, if it ends.
    pub(super) crashes: Option<(Duration, Duration)>,
    /// How long it is down.
    pub(super) down: (Duration, Duration),
    /// Chance in a thousand that a server that starts does not have the program.
    pub(super) without_program: u32,
    /// Chance in a thousand that a caller's process begins anew.
    pub(super) caller_restarts: u32,
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Scenario {
    pub(super) fn draw(random: &mut Random) -> Self {
        let retransmission = random.pick(&[
            Retransmission::Measured,
            Retransmission::Every(millis(100)),
            Retransmission::Never,
        ]);
        let entries_max = random.pick(&[4, 16, 4096]);
        let bytes_max = random.pick(&[400, 1 << 20]);
        let age_max = random.pick(&[millis(500), millis(120_000)]);
        Self {
            faults: faults(random),
            callers: 1 + random.below(4) as usize,
            calls: 20,
            in_flight: random.pick(&[1, 1, 8]),
            retransmission,
            deadline: random.pick(&[millis(300), millis(2_000), millis(10_000)]),
            limits: ReplyCacheLimits { entries_max, bytes_max, age_max },
            work: random.pick(&[(millis(0), millis(1)), (millis(0), millis(300))]),
            crashes: random.pick(&[None, Some((millis(50), millis(2_000)))]),
            down: (millis(1), millis(500)),
            without_program: random.pick(&[0, 300]),
            caller_restarts: random.pick(&[0, 100]),
        }
    }
}

fn faults(random: &mut Random) -> Faults {
    let delay = random.pick(&[(millis(1), millis(2)), (millis(0), millis(50))]);
    Faults {
        loss: random.pick(&[0, 20, 200]),
        duplicate: random.pick(&[0, 0, 100]),
        late_duplicate: random.pick(&[0, 0, 20]),
        how_late: (millis(100), millis(5_000)),
        delay,
        straggler: random.pick(&[0, 20]),
        partitions: random.pick(&[None, None, Some((millis(1_000), millis(200)))]),
        ..Faults::none()
    }
}
