//! Which processors caller and server run on.
//!
//! Unpinned, the scheduler sometimes packs both processes on one processor and sometimes does not, and a benchmark of one
//! caller can be off by ten either way.

use crate::args::Processors;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The processors that this process may use. A run with one for each side uses the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    allowed: CpuSet,
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
        Self::of(sched_getaffinity(None)?)
            .ok_or_else(|| io::Error::other("this process may run on no processor"))
    }

    fn of(allowed: CpuSet) -> Option<Self> {
        let mut each = each_of(&allowed);
        Some(Placement { allowed, first: each.next()?, second: each.next() })
    }

    /// All processors that may be used.
    pub(crate) fn all(self) -> Vec<usize> {
        each_of(&self.allowed).collect()
    }

    /// So many processors for the caller, and others for the server; `None` when there are too few.
    pub(crate) fn apart(self, caller: usize, server: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        let mut callers = self.all();
        (callers.len() >= caller + server).then(|| {
            let servers = callers.split_off(caller).into_iter().take(server).collect();
            (callers, servers)
        })
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

fn each_of(allowed: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu))
}

/// Pins this thread, and with it the threads and processes that it makes from now on.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    pin_to(&[cpu])
}

/// As [`pin`], to several processors.
pub(crate) fn pin_to(cpus: &[usize]) -> io::Result<()> {
    let mut only = CpuSet::new();
    cpus.iter().for_each(|&cpu| only.set(cpu));
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: &[usize]) -> Placement {
        let mut allowed = CpuSet::new();
        cpus.iter().for_each(|&cpu| allowed.set(cpu));
        Placement::of(allowed).expect("there is a processor")
    }

    #[test]
    fn sides_of_several_processors_share_none() {
        let placement = of(&[1, 2, 5, 6]);
        assert_eq!(placement.apart(1, 2), Some((vec![1], vec![2, 5])));
        assert_eq!(placement.apart(2, 3), None);
        assert_eq!(placement.all(), [1, 2, 5, 6]);
    }

    #[test]
    fn one_processor_is_the_second_when_there_are_two() {
        let placement = of(&[4, 7]);
        assert_eq!(placement.sides(Processors::Two), Some(Sides { caller: 4, server: 7 }));
        assert_eq!(placement.sides(Processors::One), Some(Sides { caller: 7, server: 7 }));
    }

    #[test]
    fn a_machine_with_one_processor_has_no_cells_on_two() {
        let placement = of(&[0]);
        assert_eq!(placement.sides(Processors::Two), None);
        assert_eq!(placement.sides(Processors::One), Some(Sides { caller: 0, server: 0 }));
    }
}
