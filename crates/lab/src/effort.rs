//! How much time a cell may take, and how it is divided.

use crate::args::{LinkRate, Silence};
use crate::plan::Cell;
use std::time::Duration;

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
    /// Before each call.
    pub(crate) silence: Option<Silence>,
}

/// All cells together take about this long when nothing else is asked.
const WHOLE_RUN: Duration = Duration::from_secs(90);
/// The overview with everything around its slices takes less than a minute.
const OVERVIEW: Duration = Duration::from_secs(36);
const CELL_MIN: Duration = Duration::from_millis(510);
const CELL_MAX: Duration = Duration::from_secs(4);
const SLICE: Duration = Duration::from_millis(45);
const WARM_UP: Duration = Duration::from_millis(6);
const PAIRS_MAX: u32 = 35;
const SHORT_SLICE: Duration = Duration::from_micros(300);
const SHORT_WARM_UP: Duration = Duration::from_micros(30);
const BUSY_SLICE: Duration = Duration::from_millis(180);
const LINK_SLICE_MAX: Duration = Duration::from_millis(1200);

/// How long each of `cells` is measured.
pub(crate) fn share_of(cells: usize, is_overview: bool) -> Duration {
    let all = if is_overview { OVERVIEW } else { WHOLE_RUN };
    (all / cells.max(1) as u32).clamp(CELL_MIN, CELL_MAX)
}

impl Effort {
    /// For `cell`, when `calls` are made, or as many as fit into its `share` of the time.
    pub(crate) fn new(cell: &Cell, share: Duration, calls: Option<u64>) -> Self {
        let effort = match (calls, cell.link_rate, cell.silence) {
            (Some(calls), ..) => Effort::for_calls(calls),
            (None, Some(rate), _) => Effort::for_link(cell, rate),
            (None, None, Some(silence)) => Effort::for_silence(silence),
            (None, None, None) if cell.busy => Effort::beside_busy(),
            (None, None, None) => Effort::for_time(share),
        };
        Effort { silence: cell.silence, ..effort }
    }

    /// Many short slices: what a wake-up costs after a silence changes from one second to the next.
    fn for_silence(silence: Silence) -> Self {
        let call = silence.duration();
        Effort { pairs: 17, slice: (20 * call).max(SLICE), warm_up: (2 * call).max(WARM_UP), ..Effort::EMPTY }
    }

    /// Slices in which the scheduler gives the processor away and back many times.
    fn beside_busy() -> Self {
        Effort { pairs: 9, slice: BUSY_SLICE, warm_up: WARM_UP, ..Effort::EMPTY }
    }

    const EMPTY: Effort =
        Effort { pairs: 0, slice: Duration::ZERO, warm_up: Duration::ZERO, calls: None, silence: None };

    /// Slices of some twenty-five calls. The warm-up is longer than a call, too: it spends what the link had saved, and leaves
    /// nothing of a call half counted.
    fn for_link(cell: &Cell, rate: LinkRate) -> Self {
        let seconds = cell.data_len() as f64 * 8.0 / (f64::from(rate.mbits) * 1e6);
        let call = Duration::from_secs_f64(seconds);
        Effort {
            pairs: 5,
            slice: (25 * call).clamp(SLICE, LINK_SLICE_MAX),
            warm_up: (3 * call).clamp(WARM_UP, LINK_SLICE_MAX),
            ..Effort::EMPTY
        }
    }

    fn for_time(share: Duration) -> Self {
        let pairs = (share.as_millis() / (2 * (SLICE + WARM_UP)).as_millis()) as u32;
        Effort { pairs: pairs.min(PAIRS_MAX), slice: SLICE, warm_up: WARM_UP, ..Effort::EMPTY }
    }

    /// Many short slices: for differences of a few nanoseconds, where neighbours must be near in time.
    pub(crate) fn short(share: Duration, calls: Option<u64>) -> Self {
        let pairs = (share.as_micros() / (2 * (SHORT_SLICE + SHORT_WARM_UP)).as_micros()) as u32;
        let by_time = Effort { pairs, slice: SHORT_SLICE, warm_up: SHORT_WARM_UP, ..Effort::EMPTY };
        calls.map_or(by_time, Effort::for_calls)
    }

    /// At least fifty calls in a slice, so that its median means something.
    pub(crate) fn for_calls(calls: u64) -> Self {
        let pairs = (calls / 50).clamp(1, 21);
        Effort {
            pairs: pairs as u32,
            slice: Duration::from_secs(2),
            warm_up: WARM_UP,
            calls: Some(calls.div_ceil(pairs)),
            silence: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BenchArgs;
    use crate::cell::{stands_beside_a_local_call, stands_beside_tcp};
    use crate::plan::{Section, sections};

    /// Time of the slices of a run without choices.
    fn time_of_slices(full: bool) -> Duration {
        let sections = sections(&BenchArgs { full, ..BenchArgs::default() });
        let cells: Vec<&Cell> = sections.iter().flat_map(Section::cells).collect();
        let time = |cell: &Cell| {
            let effort = Effort::new(cell, share_of(cells.len(), !full), None);
            let besides = [stands_beside_tcp(cell), stands_beside_a_local_call(cell)];
            let sides = 2 + besides.into_iter().map(u32::from).sum::<u32>();
            sides * effort.pairs * (effort.slice + effort.warm_up)
        };
        cells.iter().map(|cell| time(cell)).sum()
    }

    #[test]
    fn slices_of_the_overview_take_less_than_a_minute_and_those_of_a_full_run_less_than_two() {
        assert!(time_of_slices(false) <= Duration::from_secs(45), "{:?}", time_of_slices(false));
        assert!(time_of_slices(true) <= Duration::from_secs(100), "{:?}", time_of_slices(true));
    }

    #[test]
    fn slices_on_a_slow_link_have_room_for_many_calls() {
        let args =
            BenchArgs { rate: vec![LinkRate { mbits: 10 }, LinkRate { mbits: 100 }], ..BenchArgs::default() };
        let section = &sections(&args)[0];
        let slices: Vec<_> = section.cells().map(|cell| Effort::new(cell, CELL_MAX, None).slice).collect();
        assert_eq!(slices, [Duration::from_millis(960), Duration::from_millis(96)]);
    }

    #[test]
    fn asked_calls_are_made_in_slices_of_fifty_or_more() {
        let effort = Effort::for_calls(200);
        assert_eq!((effort.pairs, effort.calls), (4, Some(50)));
        let effort = Effort::for_calls(100_000);
        assert_eq!((effort.pairs, effort.calls), (21, Some(4762)));
        assert_eq!(Effort::for_calls(3).calls, Some(3));
    }
}
