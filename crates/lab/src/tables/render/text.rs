//! Tables for a terminal: a hundred columns, or as many as it has.

use super::number::{grouped, number, times};
use crate::screen;
use crate::table::headed;
use crate::tables::model::{Group, Line, Table};
use crate::tables::report::Report;
use std::fmt::Write;

/// The run: its conditions and whether it counts, then its tables.
pub(crate) fn run(report: &Report) -> String {
    let tables = report.tables.iter().map(table).collect::<Vec<_>>().join("\n\n");
    format!("{}\n\n{tables}", head(report))
}

/// The lines above all tables: date, machine, network, calibration, and whether the run is void.
fn head(report: &Report) -> String {
    let Report { version, date, machine, network, processors, rounds, before, after, .. } = report;
    let mut lines = vec![
        format!("stoop {version} tables, {date}, {rounds} round{}", if *rounds == 1 { "" } else { "s" }),
        headed("machine", machine),
        headed("network", network),
        headed("processors", processors),
        headed("before", &before.describe()),
    ];
    lines.extend(after.last().map(|after| headed("after", &after.describe())));
    lines.extend(report.judged().iter().map(|sentence| wrapped(sentence)));
    lines.join("\n")
}

/// One table as text.
pub(crate) fn table(table: &Table) -> String {
    let mut text = format!("{}   [{}]\n{}", table.title, table.name, wrapped(table.how));
    if let Some(why) = &table.why_not {
        let _ = write!(text, "\n{}", wrapped(&format!("Not reproduced here: {why}.")));
    }
    if let Some(why) = &table.void {
        let _ = write!(text, "\n{}", wrapped(&format!("VOID: {why}.")));
    }
    table.groups.iter().for_each(|group| text += &format!("\n\n{}", lines(group)));
    text
}

fn lines(group: &Group) -> String {
    let predicted = group.lines.iter().any(|line| line.predicted.is_some());
    let label = format!("{}, {}", group.title, group.unit);
    let last = if group.savings { "off" } else { "times" };
    let mut text = columns(&label, predicted, ["paper", "predicted", "today", "quartiles", "calls", last]);
    for line in &group.lines {
        let _ = write!(text, "\n{}", one(line, predicted, group));
        if let Some(remark) = &line.remark {
            let _ = write!(text, "\n{}", wrapped_by(&format!("^ {remark}"), 4));
        }
    }
    group.notes.iter().for_each(|note| text += &format!("\n{}", wrapped_by(note, 2)));
    text
}

fn one(line: &Line, predicted: bool, group: &Group) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let today = line.today.as_ref();
    let quartiles = today.map(|figure| format!("{}–{}", number(figure.low), number(figure.high)));
    let cells = [
        or_dash(line.paper.map(number)),
        or_dash(line.predicted.as_ref().map(|predicted| number(predicted.value))),
        or_dash(today.map(|figure| {
            format!("{}{}", if group.is_unsteady(figure) { "~" } else { "" }, number(figure.median))
        })),
        or_dash(quartiles),
        or_dash(today.map(|figure| grouped(figure.calls as f64))),
        or_dash(group.times_better(line).map(times).or_else(|| line.off())),
    ];
    columns(&format!("  {}", line.label), predicted, cells.each_ref().map(String::as_str))
}

fn columns(label: &str, with_predicted: bool, cells: [&str; 6]) -> String {
    let [paper, predicted, today, quartiles, calls, times] = cells;
    let predicted = if with_predicted { format!(" {predicted:>9}") } else { String::new() };
    let figures = format!(" {paper:>9}{predicted} {today:>9} {quartiles:>17} {calls:>10} {times:>6}");
    let taken = if with_predicted { 66 } else { 56 };
    let (above, label) = screen::label(label, screen::sentence().saturating_sub(taken));
    format!("{above}{label}{figures}").trim_end().to_owned()
}

fn wrapped(text: &str) -> String {
    wrapped_by(text, 0)
}

fn wrapped_by(text: &str, indent: usize) -> String {
    screen::filled(text, indent, screen::sentence())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::model::{Figure, InRound, Predicted};
    use crate::tables::savings::judged;

    fn example() -> Table {
        let figure = Figure::of(vec![4.9, 5.0, 5.2], 1234);
        let lines = vec![
            Line::new("1 caller").paper(2660.0).today(figure),
            Line::new("9 callers").remark("the machine has no so many"),
        ];
        let groups = vec![Group::new("Calls to Null()", "µs", lines)];
        Table {
            name: "firefly-1",
            title: "Firefly Table I",
            how: "As there.",
            groups,
            why_not: None,
            void: None,
        }
    }

    #[test]
    fn figures_stand_in_columns() {
        let text = table(&example());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Firefly Table I   [firefly-1]");
        assert!(lines[4].contains("2660") && lines[4].ends_with("532"), "{text}");
        assert!(lines[6].starts_with("    ^ the machine"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 102), "{text}");
    }

    #[test]
    fn figures_whose_rounds_differ_are_marked_and_void_tables_say_so() {
        let mut table = table_of_rounds(&[5.0, 6.0]);
        table.void = Some("its rounds differ".into());
        let text = super::table(&table);
        assert!(text.contains("~5.500") && text.contains("VOID: its rounds differ."), "{text}");
        assert!(!super::table(&table_of_rounds(&[5.0, 5.1])).contains('~'));
    }

    fn table_of_rounds(values: &[f64]) -> Table {
        let rounds: Vec<Figure> = values.iter().map(|value| Figure::of(vec![*value], 1)).collect();
        let mut table = example();
        table.groups[0].lines[0].today = Some(Figure::of_rounds(&rounds));
        table
    }

    #[test]
    fn savings_show_prediction_difference_and_the_names_of_those_that_were_off() {
        let line = |name: &str, predicted, saved: &[f64]| {
            let round = InRound { value: predicted, fixed_s: 1.0, measured_s: Some(2.0) };
            let line = Line::new(name).predicted(Predicted::once(round, "the wire waits"));
            line.today(Figure::of(saved.to_vec(), 10))
        };
        let lines = vec![line("faster", 2.0, &[3.9, 4.0, 4.1]), line("other", 0.0, &[-0.1, 0.0, 0.1])];
        let mut table = example();
        table.groups = vec![judged(Group::savings("saved", "µs", lines))];
        let text = super::table(&table);
        assert!(
            text.contains("off\n") && text.contains(" -50 %\n") && text.contains("^ no saving beyond"),
            "{text}"
        );
        assert!(text.ends_with("  faster: the wire waits"), "{text}");
    }
}
