//! What the programs at both ends of a call do with its pipes, and the world in which they do it.

use crate::{Faults, Random, Span};
use core::time::Duration;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What happens to one pipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Bytes that its sender has.
    pub(super) len: u64,
    /// Bytes that the sender adds, and that the receiver takes, at a time.
    pub(super) chunk: u64,
    /// The sender aborts it behind its bytes.
    pub(super) aborts: bool,
    /// The sender adds nothing while there is room for so many bytes, or fewer.
    pub(super) margin: u64,
    /// The receiver takes no more after so many bytes.
    pub(super) stops_at: Option<u64>,
    /// Time between two steps of the program at each end.
    pub(super) pace: Span,
}

/// What both programs do during one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) to: Option<Way>,
    pub(super) from: Option<Way>,
    /// The procedure returns when it has sent its bytes, whatever comes from the caller.
    pub(super) is_early: bool,
    /// The caller reads only after the result has come.
    pub(super) reads_late: bool,
    /// The procedure fails.
    pub(super) fails: bool,
    pub(super) cancels_after: Option<Duration>,
}

/// A world before its first event.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) faults: Faults,
    pub(super) threads: usize,
    /// Calls of each thread.
    pub(super) calls: u32,
    /// Bytes of a pipe that the server takes before its first receipt.
    pub(super) window: u32,
    /// Bytes for which a caller has memory, and the most that this may become.
    pub(super) caller_window: (u32, u32),
    /// Bytes that all pipes of the server may have.
    pub(super) memory: usize,
    /// Time between two ends of the server, if it ends, and how long it is down.
    pub(super) crashes: Option<Span>,
    pub(super) down: Span,
    /// Time between two changes of the caller's address.
    pub(super) moves: Option<Span>,
    /// When the network and the server are well for good.
    pub(super) heals: Duration,
    /// The plan of every call, if it is always the same.
    pub(super) plan: Option<Plan>,
}

impl Scenario {
    pub(super) fn draw(random: &mut Random) -> Self {
        let window = random.pick(&[64, 1000, 16 << 10]);
        Self {
            faults: faults(random),
            threads: 1 + random.below(4) as usize,
            calls: 1 + random.below(4) as u32,
            window,
            caller_window: (random.pick(&[64, 1000, 16 << 10]), random.pick(&[16 << 10, 256 << 10])),
            memory: random.pick(&[100 << 10, 1 << 20, 1 << 20]),
            crashes: random.pick(&[None, None, Some((millis(20), millis(2_000)))]),
            down: (millis(1), millis(300)),
            moves: random.pick(&[None, None, Some((millis(50), millis(1_000)))]),
            heals: millis(10_000),
            plan: None,
        }
    }

    /// One call with two items of `item` bytes each way, and a window of one item.
    pub(super) fn small(item: u32) -> Self {
        let way = Way {
            len: 2 * u64::from(item),
            chunk: item.into(),
            margin: 0,
            aborts: false,
            stops_at: None,
            pace: (millis(1), millis(1)),
        };
        let plan = Plan {
            to: Some(way),
            from: Some(way),
            is_early: false,
            reads_late: false,
            fails: false,
            cancels_after: None,
        };
        let faults =
            Faults { loss: 1, late_duplicate: 1, how_late: (millis(70), millis(70)), ..Faults::none() };
        Self {
            faults,
            threads: 1,
            calls: 1,
            window: item,
            caller_window: (item, item),
            memory: 1 << 20,
            crashes: None,
            down: (millis(5), millis(5)),
            moves: None,
            heals: millis(10_000),
            plan: Some(plan),
        }
    }
}

fn faults(random: &mut Random) -> Faults {
    Faults {
        loss: random.pick(&[0, 10, 100, 300]),
        duplicate: random.pick(&[0, 0, 100]),
        late_duplicate: random.pick(&[0, 20]),
        how_late: (millis(10), millis(3_000)),
        delay: random.pick(&[(millis(0), millis(1)), (millis(1), millis(30))]),
        straggler: random.pick(&[0, 20]),
        partitions: random.pick(&[None, None, Some((millis(700), millis(200)))]),
        ..Faults::none()
    }
}

impl Plan {
    pub(super) fn draw(random: &mut Random, scenario: &Scenario) -> Self {
        if let Some(plan) = scenario.plan {
            return plan;
        }
        let to = random.chance(700).then(|| Way::draw(random, scenario.window));
        let from = if to.is_none() || random.chance(700) {
            Some(Way::draw(random, scenario.caller_window.0))
        } else {
            None
        };
        let reads_late = random.chance(150);
        // A caller that reads late has room for all.
        let from = from.map(|way| match reads_late {
            true => Way { len: way.len.min(scenario.caller_window.0.into()), aborts: false, ..way },
            false => Way { aborts: false, ..way },
        });
        Self {
            to,
            from,
            is_early: random.chance(200),
            reads_late,
            fails: random.chance(50),
            cancels_after: random.chance(100).then(|| random.between((millis(0), millis(500)))),
        }
    }
}

impl Way {
    fn draw(random: &mut Random, window: u32) -> Self {
        let len = match random.below(5) {
            0 => 0,
            1 => u64::from(window),
            _ => random.size((1, 3 * window as usize + 60_000)) as u64,
        };
        let paces = [(millis(0), millis(1)), (millis(0), millis(1)), (millis(0), millis(300))];
        Self {
            len,
            chunk: random.pick(&[64, 1000, 8192, 100_000]).max(len / 40),
            margin: random.pick(&[0, 16]),
            aborts: random.chance(150),
            stops_at: random.chance(150).then(|| random.below(len + 1)),
            pace: random.pick(&paces),
        }
    }
}
