//! Lines of the overview: few columns, each with its unit, at most 100 characters wide.

use super::{thousands, time};
use crate::args::{format_bytes, name_of};
use crate::plan::Shape;
use crate::row::Row;

/// The two lines above the figures.
pub(super) fn head(shape: Shape) -> String {
    match shape {
        Shape::TableOne => [
            format!("{:11} {:<43}   {}", "", "Null()", "MaxResult(b), 1440 bytes"),
            columns(
                ["callers", "calls/s", "p50", "p99", "of floor", "CPUs"],
                ["calls/s", "Mbit/s", "p50", "p99", "of floor", "CPUs"],
            ),
        ]
        .map(|line| line.trim_end().to_owned())
        .join("\n"),
        Shape::Transports => [
            format!("{:16} {:<37}   {}", "", "Null()", "MaxResult(b), 1440 bytes"),
            transport(
                "transport",
                ["p50", "p99", "floor p50", "of floor"].map(String::from),
                ["p50", "p99", "floor p50", "of floor"].map(String::from),
            ),
        ]
        .map(|line| line.trim_end().to_owned())
        .join("\n"),
        Shape::InFlight => in_flight(["transport", "in flight", "calls/s", "floor", "of floor"]),
        _ => {
            bulk("transport", "size", ["in Mbit/s", "floor", "of floor"], ["out Mbit/s", "floor", "of floor"])
        }
    }
}

/// One line; `None` when nothing of it could be measured.
pub(super) fn line(rows: &[Option<Row>], shape: Shape) -> Option<String> {
    let first = rows.iter().flatten().next()?;
    let of = |index: usize| rows.get(index).and_then(Option::as_ref);
    Some(match shape {
        Shape::TableOne => table_one(first, of(0), of(1)),
        Shape::Transports => transport(&name_of(first.transport), times(of(0)), times(of(1))),
        Shape::InFlight => in_flight([
            &name_of(first.transport),
            &first.in_flight.to_string(),
            &thousands(first.calls_per_second),
            &thousands(first.floor_calls_per_second),
            &of_floor(first),
        ]),
        _ => {
            let size = format_bytes(first.bytes as u64);
            let [input, output] = [rates(of(0)), rates(of(1))];
            bulk(
                &name_of(first.transport),
                &size,
                input.each_ref().map(|s| &**s),
                output.each_ref().map(|s| &**s),
            )
        }
    })
}

/// Stands where something could not be measured.
const NONE: &str = "–";

fn table_one(first: &Row, null: Option<&Row>, max_result: Option<&Row>) -> String {
    let cpus = |row: &Row| format!("{:.1}", row.caller_cpu + row.server_cpu);
    let mut null = null.map_or([NONE; 5].map(String::from), |row| {
        [thousands(row.calls_per_second), time(row.p50_ns), time(row.p99_ns), of_floor(row), cpus(row)]
    });
    let mut result = max_result.map_or([NONE; 6].map(String::from), |row| {
        [
            thousands(row.calls_per_second),
            thousands(row.mbits_per_second),
            time(row.p50_ns),
            time(row.p99_ns),
            of_floor(row),
            cpus(row),
        ]
    });
    let callers = first.callers.to_string();
    let [a, b, c, d, e] = null.each_mut().map(|text| text.as_str());
    columns([&callers, a, b, c, d, e], result.each_mut().map(|text| text.as_str()))
}

fn columns([callers, a, b, c, d, e]: [&str; 6], [f, g, h, i, j, k]: [&str; 6]) -> String {
    format!("{callers:>7}  {a:>9} {b:>7} {c:>7} {d:>8} {e:>5}   {f:>9} {g:>6} {h:>7} {i:>7} {j:>8} {k:>5}")
}

fn transport(name: &str, [a, b, c, d]: [String; 4], [e, f, g, h]: [String; 4]) -> String {
    format!("{name:<9} {a:>9} {b:>9} {c:>10} {d:>9}    {e:>9} {f:>9} {g:>10} {h:>9}")
}

fn times(row: Option<&Row>) -> [String; 4] {
    row.map_or([NONE; 4].map(String::from), |row| {
        [time(row.p50_ns), time(row.p99_ns), time(row.floor_p50_ns), of_floor(row)]
    })
}

fn in_flight([name, window, rate, floor, share]: [&str; 5]) -> String {
    format!("{name:<9} {window:>9} {rate:>12} {floor:>12} {share:>9}")
}

fn bulk(name: &str, size: &str, [a, b, c]: [&str; 3], [d, e, f]: [&str; 3]) -> String {
    format!("{name:<9} {size:>9} {a:>12} {b:>12} {c:>9}    {d:>12} {e:>12} {f:>9}")
}

fn rates(row: Option<&Row>) -> [String; 3] {
    row.map_or([NONE; 3].map(String::from), |row| {
        [thousands(row.mbits_per_second), thousands(row.floor_mbits_per_second), of_floor(row)]
    })
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
        let mut shown = String::new();
        for (shape, rows) in SHAPES.into_iter().zip([
            vec![Some(null.clone()), Some(example())],
            vec![Some(disturbed), None],
            vec![Some(many)],
            vec![Some(bulk.clone()), Some(bulk)],
        ]) {
            let line = line(&rows, shape).expect("something was measured");
            shown += &format!("{}\n{line}\n\n", head(shape));
        }
        assert_eq!(shown.trim_end(), include_str!("overview.txt").trim_end(), "it is now:\n{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn line_without_any_figure_is_not_shown() {
        assert!(SHAPES.iter().all(|shape| line(&[None, None], *shape).is_none()));
    }
}
