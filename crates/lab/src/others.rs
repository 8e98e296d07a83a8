//! The time that other programs, and the host under a virtual machine, took of the processors that are measured on.
//!
//! A line that was measured beside another user's compiler is not wrong, but says less than its quartiles pretend.

use crate::placement::Sides;
use std::fs;
use std::time::Instant;

/// A line is disturbed when others took more than this, in processor seconds per second.
pub(crate) const DISTURBED_ABOVE: f64 = 0.1;

/// Ticks in a second, as the kernel shows them to programs on every configuration.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time at one moment, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    at: Instant,
    processors: u64,
    ours: u64,
}

impl Snapshot {
    /// Of the processors of `sides`, and of the processes that are ours.
    pub(crate) fn take(sides: Sides, ours: &[u32]) -> Self {
        let statistics = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut processors = busy_ticks(&statistics, sides.caller);
        if sides.server != sides.caller {
            processors += busy_ticks(&statistics, sides.server);
        }
        let of_process = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ours = ours.iter().map(|pid| process_ticks(&of_process(pid))).sum();
        Snapshot { at: Instant::now(), processors, ours }
    }

    /// The time that others took since `before`, in processor seconds per second: never less than 0.
    pub(crate) fn others_since(self, before: Snapshot) -> f64 {
        let all = self.processors.saturating_sub(before.processors);
        let others = all.saturating_sub(self.ours.saturating_sub(before.ours));
        others as f64 / TICKS_PER_SECOND / (self.at - before.at).as_secs_f64().max(1e-3)
    }
}

/// The time that programs and the host used of a processor. Interrupts are left out: most of them carry our own packets.
fn busy_ticks(statistics: &str, cpu: usize) -> u64 {
    const USER: usize = 0;
    const NICE: usize = 1;
    const SYSTEM: usize = 2;
    const STOLEN: usize = 7;
    let name = format!("cpu{cpu}");
    let line = statistics.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
    let fields: Vec<u64> =
        line.unwrap_or_default().split_whitespace().map_while(|field| field.parse().ok()).collect();
    [USER, NICE, SYSTEM, STOLEN].into_iter().filter_map(|field| fields.get(field)).sum()
}

/// User and system time of a process. Its name, in parentheses, may contain anything.
fn process_ticks(statistics: &str) -> u64 {
    const USER: usize = 11;
    let after_name = statistics.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(USER).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const STATISTICS: &str =
        "cpu  300 0 0 0 0 0 0 0 0 0\ncpu1 100 1 50 900 3 7 9 20 0 0\ncpu10 1 1 1 1 1 1 1 1 0 0\n";

    #[test]
    fn idle_time_and_interrupts_are_not_taken_by_others() {
        assert_eq!(busy_ticks(STATISTICS, 1), 171);
        assert_eq!(busy_ticks(STATISTICS, 10), 4);
        assert_eq!(busy_ticks(STATISTICS, 7), 0);
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let statistics = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 17 25 0 0 20 0 1 0";
        assert_eq!(process_ticks(statistics), 42);
        assert_eq!(process_ticks(""), 0);
    }

    #[test]
    fn our_own_time_is_not_that_of_others() {
        let at = Instant::now();
        let before = Snapshot { at, processors: 1000, ours: 500 };
        let busy = Snapshot { at: at + Duration::from_secs(1), processors: 1180, ours: 640 };
        assert_eq!(busy.others_since(before), 0.4);
        let rounded_up = Snapshot { at: at + Duration::from_secs(1), processors: 1010, ours: 511 };
        assert_eq!(rounded_up.others_since(before), 0.0);
    }
}
