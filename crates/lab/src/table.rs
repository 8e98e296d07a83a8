//! The lines of a run for people: columns of fixed width, so that each line can be shown as soon as it is known.
//!
//! On a narrow terminal a line is broken between columns.

mod overview;
mod rates;

use crate::args::name_of;
use crate::floor::figures::VOID_ABOVE;
use crate::others::DISTURBED_ABOVE;
use crate::plan::Shape;
use crate::row::Row;
use crate::screen::{self, Columns};

/// The names of the columns, in lines of at most `width` characters.
pub(crate) fn head(shape: Shape, width: usize) -> String {
    match shape {
        Shape::Times => times().head(width),
        Shape::Rates => rates::columns().head(width),
        overview => overview::columns(overview).head(width),
    }
}

/// A row of the table, from the cells that were measured; `None` if no cell was.
pub(crate) fn line(rows: &[Option<Row>], shape: Shape, width: usize) -> Option<String> {
    let row = rows.iter().flatten().next()?;
    match shape {
        Shape::Times => Some(line_of_times(row, width)),
        Shape::Rates => Some(rates::line(row, width)),
        overview => overview::line(rows, overview, width),
    }
}

fn times() -> Columns {
    Columns::new(&[
        ("transport", -9),
        ("procedure", -10),
        ("callers", 7),
        ("clients", 7),
        ("waiting", -8),
        ("cpus", 4),
        ("with", -6),
        ("calls/s", 11),
        ("Mbit/s", 8),
        ("p50", 7),
        ("p99", 7),
        ("p99.9", 7),
        ("floor p50", 9),
        ("ratio", 6),
        ("(quartiles)", -11),
        ("fast", 5),
        ("CPU c+s", 11),
        ("least", 5),
    ])
}

fn line_of_times(row: &Row, width: usize) -> String {
    let void = if row.floor_void { "!" } else { "" };
    let disturbed = if row.is_disturbed() { "~" } else { "" };
    let texts = [
        name_of(row.transport),
        name_of(row.procedure),
        row.callers.to_string(),
        row.clients.to_string(),
        name_of(row.waiting),
        row.processors.number().to_string(),
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
    ];
    times().row(width, &texts)
}

/// The further condition: silence before each call, or a busy process on the same processor.
fn with(row: &Row) -> String {
    match (row.silence, row.busy) {
        (None, false) => "–".into(),
        (None, true) => "busy".into(),
        (Some(silence), false) => silence.to_string(),
        (Some(silence), true) => format!("{silence}, busy"),
    }
}

/// The notes that explain the columns of tables of these shapes.
pub(crate) fn legend(shapes: impl Iterator<Item = Shape>) -> String {
    let shapes: Vec<Shape> = shapes.collect();
    let mut lines = vec![LEGEND_OF_FLOOR];
    if shapes.iter().any(|shape| shape.is_overview()) {
        lines.push(LEGEND_OF_OVERVIEW);
    }
    if shapes.contains(&Shape::Times) {
        lines.push(LEGEND_OF_TIMES);
    }
    if shapes.contains(&Shape::Rates) {
        lines.push(LEGEND_OF_RATES);
    }
    if shapes.iter().any(|shape| !shape.is_overview()) {
        lines.push(LEGEND_OF_BOTH);
    }
    lines.join("\n")
}

const LEGEND_OF_FLOOR: &str = "\
floor        the same bytes over the same mechanism with no protocol, measured in turn with ours";

const LEGEND_OF_OVERVIEW: &str = "\
of floor     our calls per second as a share of the floor's: the median over pairs of slices
p50, p99     the time of one call that half of all calls, and 99% of them, do not exceed
CPUs         processors in use by caller and server together";

const LEGEND_OF_TIMES: &str = "\
ratio        our p50 divided by the floor's: the median over pairs, with quartiles
fast         calls on the fast path: one packet there, one back, taken by the thread that waits
least        calls of the caller that got the fewest, divided by the mean of all callers";

const LEGEND_OF_RATES: &str = "\
results      how callers take the results of their outstanding calls
rate         our calls per second divided by the floor's: the median over pairs, with quartiles
of TCP       our calls per second divided by those of a bare TCP exchange of as many bytes";

const LEGEND_OF_BOTH: &str = "\
CPU c+s      processor seconds per second of the caller's process and of the server's
with         a silence before each call, or a busy process on the callers' processor";

/// A heading and its text, broken into lines.
pub(crate) fn headed(heading: &str, text: &str) -> String {
    screen::fitted(&format!("{heading:<11} {text}"), screen::sentence())
}

/// The note below for calls that took `times` those through a vtable of `ns` nanoseconds.
pub(crate) fn note_of_vtable(times: f64, ns: f64) -> String {
    format!(
        "Null() over shared memory took {times:.0} times a call through a vtable in one address space ({}). On one machine, Firefly \
         RPC took about 60 times a local procedure call, and LRPC 20 (Firefly §1).",
        time(ns),
    )
}

/// The note below when lines were marked.
pub(crate) fn notes(void: usize, disturbed: usize, cells: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if void > 0 {
        notes.push(format!(
            "! void       {void} of {cells} floors took over {VOID_ABOVE} times as long as on the reference machine; measure again"
        ));
    }
    if disturbed > 0 {
        notes.push(format!(
            "~ disturbed  beside {disturbed} of {cells} figures other programs used over {DISTURBED_ABOVE} processors; measure again"
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
        let table = |width| {
            [times().head(width), line_of_times(&example(), width), line_of_times(&local, width)].join("\n")
        };
        assert_eq!(table(usize::MAX), include_str!("table/snapshot.txt").trim_end());
        assert!(table(80).lines().all(|line| line.chars().count() <= 80), "{}", table(80));
        assert_eq!(table(80).lines().count(), 6);
    }

    #[test]
    fn legend_explains_the_columns_that_are_shown_in_lines_of_at_most_100_characters() {
        let overview = legend([Shape::TableOne, Shape::Bulk].into_iter());
        assert!(overview.contains("of floor  ") && !overview.contains("ratio  "), "{overview}");
        let all = legend([Shape::Times, Shape::Rates].into_iter());
        assert!(all.contains("ratio  ") && all.contains("of TCP  ") && !all.contains("of floor  "), "{all}");
        assert!(overview.lines().chain(all.lines()).all(|line| line.chars().count() <= 100), "{all}");
    }

    #[test]
    fn long_heading_is_broken_into_lines() {
        let shown = headed("network", &["word"; 40].join(" "));
        assert_eq!(shown.lines().count(), 3);
        assert!(shown.starts_with("network     word word") && shown.lines().all(|line| line.len() <= 100));
        assert!(shown.lines().skip(1).all(|line| line.starts_with("            word")), "{shown}");
    }

    #[test]
    fn only_what_was_marked_is_explained() {
        assert!(notes(0, 0, 114).is_empty());
        let notes = notes(2, 1, 114);
        assert!(notes[0].starts_with("! void       2 of 114 floors"), "{}", notes[0]);
        assert!(notes.iter().flat_map(|note| note.lines()).all(|line| line.chars().count() <= 100));
        assert!(notes[1].starts_with("~ disturbed  beside 1 of 114 figures"), "{}", notes[1]);
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
