//! The bars of each part: the ratio that is measured, and the value that it has to reach.

use crate::args::{DATA_LEN, Part, Procedure, Transport, Waiting, format_bytes, name_of};
use crate::plan::Cell;
use crate::row::Row;
use serde::Serialize;

/// Cells that are measured in turn, and the bars that compare them.
pub(super) struct Comparison {
    pub(super) cells: Vec<Cell>,
    pub(super) bars: Vec<Bar>,
}

/// One line of the result.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) figure: Figure,
    pub(super) wanted: Wanted,
}

/// A ratio, with the cells that it compares, by their places in the part's list.
#[derive(Clone, Copy)]
pub(super) enum Figure {
    /// The time of a call by that of the bare exchange.
    TimeByBare(usize),
    /// Calls by the second, by bare exchanges.
    RateByBare(usize),
    /// The time of a call of the first by that of a call of the second.
    TimeBy(usize, usize),
    /// The time of the first's bare exchange by that of the second's.
    BareTimeBy(usize, usize),
    /// Calls by the second of the first, by the second's.
    RateBy(usize, usize),
}

/// The bound that a figure has to keep.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wanted {
    AtMost(f64),
    AtLeast(f64),
    /// It explains another line.
    Nothing,
}

impl Wanted {
    pub(super) fn is_met(self, figure: f64) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(figure <= most),
            Self::AtLeast(least) => Some(figure >= least),
            Self::Nothing => None,
        }
    }
}

impl Figure {
    /// The figure of one round.
    pub(super) fn of(self, rows: &[Row]) -> f64 {
        match self {
            Self::TimeByBare(cell) => rows[cell].ratio,
            Self::RateByBare(cell) => rows[cell].rate_ratio,
            Self::TimeBy(one, other) => rows[one].p50_ns / rows[other].p50_ns,
            Self::BareTimeBy(one, other) => rows[one].floor_p50_ns / rows[other].floor_p50_ns,
            Self::RateBy(one, other) => rows[one].calls_per_second / rows[other].calls_per_second,
        }
    }

    /// Whether it depends on that cell.
    pub(super) fn uses(self, cell: usize) -> bool {
        match self {
            Self::TimeByBare(one) | Self::RateByBare(one) => one == cell,
            Self::TimeBy(one, other) | Self::BareTimeBy(one, other) | Self::RateBy(one, other) => {
                one == cell || other == cell
            }
        }
    }
}

/// The mechanisms of the kernel.
const BACKENDS: [Transport; 3] = [Transport::Ether, Transport::EtherXdp, Transport::EtherXdpGeneric];

fn bar(name: String, figure: Figure, wanted: Wanted) -> Bar {
    Bar { name, figure, wanted }
}

/// The comparison of a part.
pub(super) fn comparison(part: Part) -> Comparison {
    match part {
        Part::Null => null(),
        Part::MaxResult => max_result(),
        Part::Bulk => bulk(false),
        Part::BulkUnchecked => bulk(true),
        Part::InFlight => in_flight(),
        Part::Callers => callers(),
        Part::Lanes => lanes(),
    }
}

const SPINNING: Cell = Cell { waiting: Waiting::Spin, ..Cell::NULL };

fn null() -> Comparison {
    let over = |transport| Cell { transport, ..SPINNING };
    let cells = [Transport::Udp].into_iter().chain(BACKENDS).map(over).collect();
    let mut bars = Vec::new();
    for (place, backend) in (1..).zip(BACKENDS.map(name_of)) {
        let bare = Figure::TimeByBare(place);
        bars.push(bar(format!("Null() over {backend}, by bare frames"), bare, Wanted::AtMost(1.25)));
        let by_udp = Figure::TimeBy(0, place);
        bars.push(bar(format!("Null() over UDP, by {backend}"), by_udp, Wanted::AtLeast(1.9)));
        let bare_by_udp = Figure::BareTimeBy(0, place);
        bars.push(bar("    of these the bare exchanges".into(), bare_by_udp, Wanted::Nothing));
    }
    Comparison { cells, bars }
}

fn max_result() -> Comparison {
    let over = |transport| Cell { transport, procedure: Procedure::MaxResult, ..SPINNING };
    let named = |(place, backend)| {
        let name = format!("MaxResult({DATA_LEN}) over {backend}, by bare frames");
        bar(name, Figure::TimeByBare(place), Wanted::AtMost(1.25))
    };
    let bars = BACKENDS.map(name_of).into_iter().enumerate().map(named).collect();
    Comparison { cells: BACKENDS.map(over).into(), bars }
}

fn bulk(no_checksum: bool) -> Comparison {
    let (share, how) = if no_checksum { (0.85, "without") } else { (0.75, "with") };
    let (mut cells, mut bars) = (Vec::new(), Vec::new());
    for transport in BACKENDS {
        for (procedure, way) in [(Procedure::BulkIn, "IN"), (Procedure::BulkOut, "OUT")] {
            for bytes in [48_000_u32, 1 << 20] {
                let (backend, size) = (name_of(transport), format_bytes(bytes.into()));
                let name = format!("{size} {way} over {backend}, {how} CRC, by bare frames");
                bars.push(bar(name, Figure::RateByBare(cells.len()), Wanted::AtLeast(share)));
                cells.push(Cell { transport, procedure, bytes, no_checksum, ..SPINNING });
            }
        }
    }
    Comparison { cells, bars }
}

fn in_flight() -> Comparison {
    let over = |transport| Cell { transport, in_flight: 32, ..SPINNING };
    let cells = [Transport::Udp].into_iter().chain(BACKENDS).map(over).collect();
    let named = |(place, backend)| {
        let name = format!("32 calls in flight over {backend}, by UDP");
        bar(name, Figure::RateBy(place, 0), Wanted::AtLeast(1.0))
    };
    Comparison { cells, bars: (1..).zip(BACKENDS.map(name_of)).map(named).collect() }
}

fn callers() -> Comparison {
    let (mut cells, mut bars) = (Vec::new(), Vec::new());
    for transport in BACKENDS {
        let name = format!("8 callers over {}, by one", name_of(transport));
        bars.push(bar(name, Figure::RateBy(cells.len() + 1, cells.len()), Wanted::AtLeast(0.9)));
        cells.extend([1, 8].map(|callers| Cell { transport, callers, ..Cell::NULL }));
    }
    Comparison { cells, bars }
}

fn lanes() -> Comparison {
    let cells = [1, 64].map(|clients| Cell { transport: Transport::Ether, clients, ..SPINNING });
    let name = "Null() over ether beside 63 idle clients, by alone".into();
    Comparison { cells: cells.into(), bars: vec![bar(name, Figure::TimeBy(1, 0), Wanted::AtMost(1.05))] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::example;
    use clap::ValueEnum;

    #[test]
    fn each_cell_is_used_by_a_bar_and_each_bar_uses_cells_that_are_measured() {
        for part in Part::value_variants() {
            let Comparison { cells, bars } = comparison(*part);
            for cell in 0..cells.len() {
                assert!(bars.iter().any(|bar| bar.figure.uses(cell)), "{part:?}: cell {cell}");
            }
            for bar in bars {
                assert!((0..cells.len()).any(|cell| bar.figure.uses(cell)), "{part:?}: {}", bar.name);
                assert!(!bar.figure.uses(cells.len()), "{part:?}: {}", bar.name);
            }
        }
    }

    #[test]
    fn figures_say_how_much_slower_or_faster_the_first_is() {
        let slow = Row { p50_ns: 4000.0, floor_p50_ns: 3000.0, calls_per_second: 1e5, ..example() };
        let fast = Row { p50_ns: 2000.0, floor_p50_ns: 1000.0, calls_per_second: 3e5, ..example() };
        let rows = [slow, fast];
        assert_eq!(Figure::TimeBy(0, 1).of(&rows), 2.0);
        assert_eq!(Figure::BareTimeBy(0, 1).of(&rows), 3.0);
        assert_eq!(Figure::RateBy(1, 0).of(&rows), 3.0);
        assert_eq!(Figure::TimeByBare(0).of(&rows), example().ratio);
        assert_eq!(Figure::RateByBare(0).of(&rows), example().rate_ratio);
    }

    #[test]
    fn bar_is_met_on_its_side_and_at_its_edge() {
        assert_eq!(Wanted::AtMost(1.25).is_met(1.25), Some(true));
        assert_eq!(Wanted::AtMost(1.25).is_met(1.26), Some(false));
        assert_eq!(Wanted::AtLeast(0.75).is_met(0.75), Some(true));
        assert_eq!(Wanted::AtLeast(0.75).is_met(0.74), Some(false));
        assert_eq!(Wanted::Nothing.is_met(7.0), None);
    }
}
