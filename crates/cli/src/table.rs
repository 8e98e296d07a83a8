//! The lines of a run for people: columns of fixed width, so that each line can be shown as soon as it is known.

mod rates;

use crate::args::name_of;
use crate::floor::figures::VOID_ABOVE;
use crate::others::DISTURBED_ABOVE;
use crate::plan::Shape;
use crate::row::Row;

/// The names of the columns.
pub(crate) fn head(shape: Shape) -> String {
    match shape {
        Shape::Times => head_of_times(),
        Shape::Rates => rates::head(),
    }
}

/// One line.
pub(crate) fn line(row: &Row, shape: Shape) -> String {
    match shape {
        Shape::Times => line_of_times(row),
        Shape::Rates => rates::line(row),
    }
}

fn head_of_times() -> String {
    format!(
        "{:<9} {:<10} {:>7} {:>7} {:<8} {:>4} {:<6} {:>11} {:>8} {:>7} {:>7} {:>7} {:>9} {:>6} {:<11} {:>5} {:>11} {:>5}",
        "transport",
        "procedure",
        "callers",
        "clients",
        "waiting",
        "cpus",
        "with",
        "calls/s",
        "Mbit/s",
        "p50",
        "p99",
        "p99.9",
        "floor p50",
        "ratio",
        "(quartiles)",
        "fast",
        "CPU c+s",
        "least",
    )
}

fn line_of_times(row: &Row) -> String {
    let void = if row.floor_void { "!" } else { "" };
    let disturbed = if row.is_disturbed() { "~" } else { "" };
    format!(
        "{:<9} {:<10} {:>7} {:>7} {:<8} {:>4} {:<6} {:>11} {:>8} {:>7} {:>7} {:>7} {:>9} {:>6} {:<11} {:>5} {:>11} {:>5}",
        name_of(row.transport),
        name_of(row.procedure),
        row.callers,
        row.clients,
        name_of(row.waiting),
        row.processors.number(),
        with(row),
        thousands(row.calls_per_second),
        if row.mbits_per_second > 0.0 { thousands(row.mbits_per_second) } else { "–".into() },
        time(row.p50_ns),
        time(row.p99_ns),
        time(row.p999_ns),
        format!("{void}{}", time(row.floor_p50_ns)),
        format!("{disturbed}{:.2}", row.ratio),
        format!("({:.2}–{:.2})", row.ratio_low, row.ratio_high),
        share(row.fast_path_share),
        format!("{:.2} + {:.2}", row.caller_cpu, row.server_cpu),
        if row.callers > 1 { format!("{:.2}", row.fairness) } else { "–".into() },
    )
}

/// What else there was: silence before each call, or somebody busy on the same processor.
fn with(row: &Row) -> String {
    match (row.silence, row.busy) {
        (None, false) => "–".into(),
        (None, true) => "busy".into(),
        (Some(silence), false) => silence.to_string(),
        (Some(silence), true) => format!("{silence}, busy"),
    }
}

/// What a reader must know to read the columns.
pub(crate) const LEGEND: &str = "\
ratio      ours by the bare exchange of the same bytes (floor), the median over pairs of slices measured in turn, with quartiles
fast       share of calls that took the fast path: one packet there, one back, found by the thread that wanted it
CPU c+s    processor seconds per second of the caller's process and of the server's
with       a silence before each call, or somebody busy on the callers' processor
least      calls of the caller that got least, by the mean of all callers
rate       calls by the second of ours by those of the floor, likewise; of TCP, by those of a bare TCP exchange of as many bytes";

/// What to say below of calls that took `times` those through a vtable of `ns` nanoseconds.
pub(crate) fn note_of_vtable(times: f64, ns: f64) -> String {
    format!(
        "Null() over shared memory took {times:.0} times a call through a vtable in one address space ({}). On one machine, Firefly \
         RPC took about 60 times a local procedure call, and LRPC 20 (Firefly §1).",
        time(ns),
    )
}

/// What to say below when lines were marked.
pub(crate) fn notes(void: usize, disturbed: usize, cells: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if void > 0 {
        notes.push(format!(
            "! void: in {void} of {cells} lines the floor itself took more than {VOID_ABOVE} times what it takes on the reference \
             machine, so that this machine is slower, or was just then; such a line says little, and is worth measuring again."
        ));
    }
    if disturbed > 0 {
        notes.push(format!(
            "~ disturbed: in {disturbed} of {cells} lines other programs, or the host, took more than {DISTURBED_ABOVE} of a processor \
             from what was measured; calls/s and the tails suffer most. Measure again when the machine is quiet."
        ));
    }
    notes
}

/// Nanoseconds in the unit that leaves three digits.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 100.0 => format!("{ns:.1} ns"),
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e4 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e5 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// A share in per cent: whole only when it is all of them or none.
fn share(share: f64) -> String {
    match share {
        1.0 => "100%".into(),
        share if share > 0.999 => ">99.9".into(),
        share => format!("{:.1}%", share * 100.0),
    }
}

/// A whole number with its thousands apart.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut apart = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Procedure, Transport};
    use crate::row::example;

    #[test]
    fn a_table_is_laid_out_as_in_the_snapshot() {
        let local = Row {
            transport: Transport::Local,
            procedure: Procedure::Null,
            callers: 1,
            calls_per_second: 187_654_321.0,
            mbits_per_second: 0.0,
            p50_ns: 5.3,
            p99_ns: 5.61,
            p999_ns: 31.2,
            floor_p50_ns: 2.1,
            floor_void: true,
            ratio: 2.52,
            fast_path_share: 1.0,
            server_cpu: 0.0,
            others_cpu: 0.34,
            ..example()
        };
        let table = [head_of_times(), line_of_times(&example()), line_of_times(&local)].join("\n");
        assert_eq!(table, include_str!("table/snapshot.txt").trim_end());
    }

    #[test]
    fn only_what_was_marked_is_explained() {
        assert!(notes(0, 0, 114).is_empty());
        let notes = notes(2, 1, 114);
        assert!(notes[0].starts_with("! void: in 2 of 114 lines"), "{}", notes[0]);
        assert!(notes[1].starts_with("~ disturbed: in 1 of 114 lines"), "{}", notes[1]);
    }

    #[test]
    fn a_call_between_address_spaces_stands_beside_those_of_the_papers() {
        let note = note_of_vtable(213.6, 1.52);
        assert!(note.contains("214 times") && note.contains("(1.5 ns)"), "{note}");
    }

    #[test]
    fn times_keep_three_digits() {
        let shown: Vec<String> =
            [1.53, 102.4, 4_321.0, 75_250.0, 600_600.0, 8_000_000.0].into_iter().map(time).collect();
        assert_eq!(shown, ["1.5 ns", "102 ns", "4.32 µs", "75.2 µs", "601 µs", "8.00 ms"]);
    }

    #[test]
    fn almost_all_is_not_all() {
        assert_eq!(
            [share(1.0), share(0.99995), share(0.9987), share(0.0)],
            ["100%", ">99.9", "99.9%", "0.0%"]
        );
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([thousands(7.0), thousands(999.6), thousands(1_234_567.0)], ["7", "1,000", "1,234,567"]);
    }
}
