//! Which processors caller and server run on.
//!
//! Unpinned, the scheduler sometimes packs both processes on one processor and sometimes does not, and a benchmark of one
//! caller can be off by ten either way.

use crate::args::Processors;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The processors that a run uses: the first two that this process may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    first: usize,
    second: Option<usize>,
}

/// Where the two sides of one cell run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sides {
    pub(crate) caller: usize,
    pub(crate) server: usize,
}

impl Placement {
    /// The processors that the affinity of this thread allows. Ask before pinning anything.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let first = allowed.next().ok_or_else(|| io::Error::other("this process may run on no processor"))?;
        Ok(Placement { first, second: allowed.next() })
    }

    /// Where the sides go, or `None` when there is only one processor and two were asked for.
    pub(crate) fn sides(self, processors: Processors) -> Option<Sides> {
        match processors {
            Processors::Two => self.second.map(|second| Sides { caller: self.first, server: second }),
            Processors::One => {
                let shared = self.second.unwrap_or(self.first);
                Some(Sides { caller: shared, server: shared })
            }
        }
    }

    /// A sentence for the header of a table.
    pub(crate) fn describe(self) -> String {
        match self.second {
            Some(second) => format!(
                "on two processors the caller is pinned to {} and the server to {second}; on one both are on {second}",
                self.first
            ),
            None => format!("only processor {} may be used: nothing is measured on two", self.first),
        }
    }
}

/// Pins this thread, and with it the threads and processes that it makes from now on.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_the_second_when_there_are_two() {
        let placement = Placement { first: 4, second: Some(7) };
        assert_eq!(placement.sides(Processors::Two), Some(Sides { caller: 4, server: 7 }));
        assert_eq!(placement.sides(Processors::One), Some(Sides { caller: 7, server: 7 }));
    }

    #[test]
    fn a_machine_with_one_processor_has_no_cells_on_two() {
        let placement = Placement { first: 0, second: None };
        assert_eq!(placement.sides(Processors::Two), None);
        assert_eq!(placement.sides(Processors::One), Some(Sides { caller: 0, server: 0 }));
    }
}
