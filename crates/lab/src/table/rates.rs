//! Lines about how much goes through: long messages, and many outstanding calls.

use super::{thousands, time, with};
use crate::args::name_of;
use crate::row::Row;
use crate::screen::Columns;

pub(super) fn columns() -> Columns {
    Columns::new(&[
        ("transport", -9),
        ("link", -7),
        ("procedure", -11),
        ("bytes", 8),
        ("in flight", 9),
        ("results", -8),
        ("callers", 7),
        ("clients", 7),
        ("waiting", -8),
        ("cpus", 4),
        ("with", -6),
        ("calls/s", 9),
        ("Mbit/s", 8),
        ("p50", 7),
        ("p99", 7),
        ("floor c/s", 9),
        ("Mbit/s", 8),
        ("rate", 6),
        ("(quartiles)", -11),
        ("of TCP", 6),
        ("CPU c+s", 11),
    ])
}

pub(super) fn line(row: &Row, width: usize) -> String {
    let disturbed = if row.is_disturbed() { "~" } else { "" };
    let texts = [
        name_of(row.transport),
        row.link_rate.map_or_else(|| "–".into(), |rate| rate.to_string()),
        name_of(row.procedure),
        row.bytes.to_string(),
        row.in_flight.to_string(),
        name_of(row.results),
        row.callers.to_string(),
        row.clients.to_string(),
        name_of(row.waiting),
        row.processors.number().to_string(),
        with(row),
        thousands(row.calls_per_second),
        some(row.mbits_per_second),
        time(row.p50_ns),
        time(row.p99_ns),
        thousands(row.floor_calls_per_second),
        some(row.floor_mbits_per_second),
        format!("{disturbed}{:.2}", row.rate_ratio),
        format!("({:.2}–{:.2})", row.rate_ratio_low, row.rate_ratio_high),
        row.tcp_rate_ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
        format!("{:.2} + {:.2}", row.caller_cpu, row.server_cpu),
    ];
    columns().row(width, &texts)
}

fn some(mbits_per_second: f64) -> String {
    if mbits_per_second > 0.0 { thousands(mbits_per_second) } else { "–".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{LinkRate, Procedure, Results};
    use crate::row::example;

    #[test]
    fn rates_are_laid_out_as_in_the_snapshot() {
        let bulk = Row {
            procedure: Procedure::BulkInOut,
            bytes: 16_777_216,
            callers: 1,
            calls_per_second: 164.2,
            mbits_per_second: 44_077.31,
            p50_ns: 6_034_000.0,
            p99_ns: 7_451_000.0,
            floor_calls_per_second: 208.0,
            floor_mbits_per_second: 55_834.57,
            rate_ratio: 0.7891,
            rate_ratio_low: 0.7712,
            rate_ratio_high: 0.8021,
            tcp_mbits_per_second: Some(25_000.0),
            tcp_rate_ratio: Some(1.7631),
            ..example()
        };
        let slow = Row { link_rate: Some(LinkRate { mbits: 100 }), calls_per_second: 24.6, ..bulk.clone() };
        let in_flight = Row {
            procedure: Procedure::Null,
            bytes: 0,
            in_flight: 256,
            results: Results::WaitAny,
            callers: 1,
            calls_per_second: 4_812_345.0,
            mbits_per_second: 0.0,
            floor_calls_per_second: 5_612_345.0,
            floor_mbits_per_second: 0.0,
            others_cpu: 0.4,
            ..example()
        };
        let table = |width| {
            let lines = [&bulk, &slow, &in_flight].map(|row| line(row, width));
            format!("{}\n{}", columns().head(width), lines.join("\n"))
        };
        assert_eq!(table(usize::MAX), include_str!("rates.txt").trim_end());
        assert!(table(80).lines().all(|line| line.chars().count() <= 80), "{}", table(80));
    }
}
