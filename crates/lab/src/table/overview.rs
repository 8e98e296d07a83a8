//! Rows of the overview: few columns, each with its unit, at most 100 characters wide where there is room.

use super::{thousands, time};
use crate::args::{format_bytes, name_of};
use crate::plan::Shape;
use crate::row::Row;
use crate::screen::Columns;

/// The columns of these rows.
pub(super) fn columns(shape: Shape) -> Columns {
    let times = [("p50", 9), ("p99", 9), ("floor p50", 10), ("of floor", 9)];
    match shape {
        Shape::TableOne => {
            let null = [("calls/s", 10), ("p50", 7), ("p99", 7), ("of floor", 8), ("CPUs", 5)];
            let result =
                [("calls/s", 9), ("Mbit/s", 6), ("p50", 7), ("p99", 7), ("of floor", 8), ("CPUs", 5)];
            Columns::new(&[("callers", 7)]).group(1, NULL, &null).group(3, RESULT, &result)
        }
        Shape::Transports => {
            Columns::new(&[("transport", -9)]).group(1, NULL, &times).group(4, RESULT, &times)
        }
        Shape::InFlight => Columns::new(&[
            ("transport", -9),
            ("in flight", 9),
            ("calls/s", 12),
            ("floor", 12),
            ("of floor", 9),
        ]),
        _ => {
            let rates = |title| [(title, 12), ("floor", 12), ("of floor", 9)];
            let columns = Columns::new(&[("transport", -9), ("size", 9)]);
            columns.group(1, "", &rates("in Mbit/s")).group(4, "", &rates("out Mbit/s"))
        }
    }
}

const NULL: &str = "Null()";
const RESULT: &str = "MaxResult(b), 1440 bytes";

/// One row; `None` when nothing of it could be measured.
pub(super) fn line(rows: &[Option<Row>], shape: Shape, width: usize) -> Option<String> {
    let first = rows.iter().flatten().next()?;
    let of = |index: usize| rows.get(index).and_then(Option::as_ref);
    let name = name_of(first.transport);
    let texts = match shape {
        Shape::TableOne => [vec![first.callers.to_string()], null(of(0)), result(of(1))].concat(),
        Shape::Transports => [vec![name], times(of(0)), times(of(1))].concat(),
        Shape::InFlight => vec![
            name,
            first.in_flight.to_string(),
            thousands(first.calls_per_second),
            thousands(first.floor_calls_per_second),
            of_floor(first),
        ],
        _ => [vec![name, format_bytes(first.bytes as u64)], rates(of(0)), rates(of(1))].concat(),
    };
    Some(columns(shape).row(width, &texts))
}

/// So many texts of a row, or as many dashes if it could not be measured.
fn texts<const N: usize>(row: Option<&Row>, of: impl Fn(&Row) -> [String; N]) -> Vec<String> {
    row.map_or_else(|| vec!["–".into(); N], |row| of(row).into())
}

fn null(row: Option<&Row>) -> Vec<String> {
    texts(row, |row| {
        [thousands(row.calls_per_second), time(row.p50_ns), time(row.p99_ns), of_floor(row), cpus(row)]
    })
}

fn result(row: Option<&Row>) -> Vec<String> {
    let mbits = |row: &Row| thousands(row.mbits_per_second);
    texts(row, |row| {
        let calls = thousands(row.calls_per_second);
        [calls, mbits(row), time(row.p50_ns), time(row.p99_ns), of_floor(row), cpus(row)]
    })
}

fn cpus(row: &Row) -> String {
    format!("{:.1}", row.caller_cpu + row.server_cpu)
}

fn times(row: Option<&Row>) -> Vec<String> {
    texts(row, |row| [time(row.p50_ns), time(row.p99_ns), time(row.floor_p50_ns), of_floor(row)])
}

fn rates(row: Option<&Row>) -> Vec<String> {
    texts(row, |row| [thousands(row.mbits_per_second), thousands(row.floor_mbits_per_second), of_floor(row)])
}

/// Our calls per second by those of the floor, with the marks that the notes explain.
fn of_floor(row: &Row) -> String {
    let void = if row.floor_void { "!" } else { "" };
    let disturbed = if row.is_disturbed() { "~" } else { "" };
    format!("{void}{disturbed}{:.0}%", row.rate_ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Procedure, Transport};
    use crate::row::example;

    const SHAPES: [Shape; 4] = [Shape::TableOne, Shape::Transports, Shape::InFlight, Shape::Bulk];

    #[test]
    fn overview_is_laid_out_as_in_the_snapshot() {
        let null = Row { procedure: Procedure::Null, mbits_per_second: 0.0, others_cpu: 0.4, ..example() };
        let disturbed = Row { transport: Transport::Local, floor_void: true, rate_ratio: 0.126, ..example() };
        let bulk = Row { bytes: 1 << 20, floor_mbits_per_second: 124_000.4, ..example() };
        let many = Row { in_flight: 256, calls_per_second: 14_812_345.0, ..null.clone() };
        let shown = |width| {
            let rows = [
                vec![Some(null.clone()), Some(example())],
                vec![Some(disturbed.clone()), None],
                vec![Some(many.clone())],
                vec![Some(bulk.clone()), Some(bulk.clone())],
            ];
            let table = |(shape, rows): (Shape, Vec<Option<Row>>)| {
                let line = line(&rows, shape, width).expect("something was measured");
                format!("{}\n{line}\n\n", columns(shape).head(width))
            };
            SHAPES.into_iter().zip(rows).map(table).collect::<String>()
        };
        for (width, snapshot) in [(100, include_str!("overview.txt")), (80, include_str!("overview_80.txt"))]
        {
            let shown = shown(width);
            assert_eq!(shown.trim_end(), snapshot.trim_end(), "it is now:\n{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= width));
        }
    }

    #[test]
    fn line_without_any_figure_is_not_shown() {
        assert!(SHAPES.iter().all(|shape| line(&[None, None], *shape, 80).is_none()));
    }
}
