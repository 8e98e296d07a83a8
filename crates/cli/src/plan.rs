//! Which cells are measured, in which order, and how much time each may take.

use crate::args::{BenchArgs, Procedure, Processors, Transport, Waiting};
use clap::ValueEnum;
use std::time::Duration;

/// One line of a table: what is called, how, and by how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) procedure: Procedure,
    pub(crate) callers: u16,
    pub(crate) waiting: Waiting,
    pub(crate) processors: Processors,
}

/// Cells with one title above them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) cells: Vec<Cell>,
}

/// The sections for what was asked: the default tables, or every combination of what was chosen.
pub(crate) fn sections(args: &BenchArgs) -> Vec<Section> {
    if args.any_choice() {
        return vec![Section { title: "What was chosen".into(), cells: chosen(args) }];
    }
    vec![
        Section {
            title: "Table I: calls by 1 to 8 caller threads, adaptive wait, caller and server on a processor each".into(),
            cells: chosen(args),
        },
        Section {
            title: "Waiting: Null() by one caller, the three ways to wait, on two processors and sharing one".into(),
            cells: chosen(&BenchArgs {
                transport: vec![Transport::Udp, Transport::Tcp, Transport::Unix],
                procedure: vec![Procedure::Null],
                callers: vec![1],
                waiting: Waiting::value_variants().to_vec(),
                processors: vec![Processors::Two, Processors::One],
                ..BenchArgs::default()
            }),
        },
    ]
}

/// Every combination, each choice left open being as in Table I. Cells that share a server stand together.
fn chosen(args: &BenchArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for transport in or(&args.transport, Transport::value_variants()) {
        for processors in or(&args.processors, &[Processors::Two]) {
            for waiting in or(&args.waiting, &[Waiting::Adaptive]) {
                for procedure in or(&args.procedure, Procedure::value_variants()) {
                    for callers in or(&args.callers, &[1, 2, 3, 4, 5, 6, 7, 8]) {
                        cells.push(Cell { transport, procedure, callers, waiting, processors });
                    }
                }
            }
        }
    }
    cells
}

/// What was given, once each and in the order given, or else `otherwise`.
fn or<T: Copy + PartialEq>(given: &[T], otherwise: &[T]) -> Vec<T> {
    let mut values = Vec::new();
    for &value in if given.is_empty() { otherwise } else { given } {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// How long a cell is measured: slices of ours and of the floor, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Slices of each kind.
    pub(crate) pairs: u32,
    /// Of one counted slice; a bound only, when `calls` is given.
    pub(crate) slice: Duration,
    /// Before each counted slice.
    pub(crate) warm_up: Duration,
    /// Calls in one slice, all callers together.
    pub(crate) calls: Option<u64>,
}

/// All cells together take about this long when nothing else is asked.
const WHOLE_RUN: Duration = Duration::from_secs(90);
const CELL_MIN: Duration = Duration::from_millis(750);
const CELL_MAX: Duration = Duration::from_secs(4);
const SLICE: Duration = Duration::from_millis(45);
const WARM_UP: Duration = Duration::from_millis(6);
const PAIRS_MAX: u32 = 35;

impl Effort {
    /// For each of `cells` cells, when `calls` are made in each or as many as there is time for.
    pub(crate) fn new(cells: usize, calls: Option<u64>) -> Self {
        match calls {
            Some(calls) => Effort::for_calls(calls),
            None => Effort::for_time(cells),
        }
    }

    fn for_time(cells: usize) -> Self {
        let cell = (WHOLE_RUN / cells.max(1) as u32).clamp(CELL_MIN, CELL_MAX);
        let pairs = (cell.as_millis() / (2 * (SLICE + WARM_UP)).as_millis()) as u32;
        Effort { pairs: pairs.min(PAIRS_MAX), slice: SLICE, warm_up: WARM_UP, calls: None }
    }

    /// At least fifty calls in a slice, so that its median means something.
    fn for_calls(calls: u64) -> Self {
        let pairs = (calls / 50).clamp(1, 21);
        Effort {
            pairs: pairs as u32,
            slice: Duration::from_secs(2),
            warm_up: WARM_UP,
            calls: Some(calls.div_ceil(pairs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_table_one_and_the_waiting_table() {
        let sections = sections(&BenchArgs::default());
        assert_eq!(sections[0].cells.len(), 4 * 3 * 8);
        assert_eq!(sections[1].cells.len(), 3 * 3 * 2);
    }

    #[test]
    fn the_default_run_takes_less_than_two_minutes() {
        let cells: usize = sections(&BenchArgs::default()).iter().map(|section| section.cells.len()).sum();
        let effort = Effort::new(cells, None);
        let cell = 2 * effort.pairs * (effort.slice + effort.warm_up);
        assert!(cell * cells as u32 <= Duration::from_secs(100), "{cell:?} for each of {cells}");
    }

    #[test]
    fn a_choice_is_multiplied_out_and_the_rest_is_as_in_table_one() {
        let args = BenchArgs {
            transport: vec![Transport::Udp, Transport::Udp],
            callers: vec![1, 4],
            waiting: vec![Waiting::Spin, Waiting::Block],
            ..BenchArgs::default()
        };
        let cells = &sections(&args)[0].cells;
        assert_eq!(cells.len(), 2 * 2 * 3);
        assert!(cells.iter().all(|cell| cell.processors == Processors::Two));
    }

    #[test]
    fn asked_calls_are_made_in_slices_of_fifty_or_more() {
        let effort = Effort::new(1, Some(200));
        assert_eq!((effort.pairs, effort.calls), (4, Some(50)));
        let effort = Effort::new(1, Some(100_000));
        assert_eq!((effort.pairs, effort.calls), (21, Some(4762)));
        assert_eq!(Effort::new(1, Some(3)).calls, Some(3));
    }
}
