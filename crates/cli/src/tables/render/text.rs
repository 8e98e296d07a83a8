//! Tables for a terminal of a hundred columns.

use super::number::{grouped, number, times};
use crate::table::headed;
use crate::tables::model::{Group, Line, Table};
use crate::tables::report::Report;
use std::fmt::Write;

const WIDTH: usize = 100;

/// The lines above all tables: date, machine, network, calibration.
pub(crate) fn head(report: &Report) -> String {
    let lines = [
        format!("stoop {} tables, {}", report.version, report.date),
        headed("machine", &report.machine),
        headed("network", &report.network),
        headed("processors", &report.processors),
        headed("before", &report.before.describe()),
    ];
    lines.join("\n")
}

/// The lines below all tables: whether the run is void.
pub(crate) fn tail(report: &Report) -> String {
    let after = report.after.as_ref().map_or_else(String::new, |after| headed("after", &after.describe()));
    let judged = match &report.void {
        Some(why) => format!("VOID: {why}. Measure again when the machine is quiet."),
        None => "The machine was as fast after the tables as before them, within 5 %.".into(),
    };
    format!("\n{after}\n{judged}")
}

/// One table as text.
pub(crate) fn table(table: &Table) -> String {
    let mut text = format!("{}   [{}]\n{}", table.title, table.name, wrapped(table.how));
    if let Some(why) = &table.why_not {
        let _ = write!(text, "\n{}", wrapped(&format!("Not reproduced here: {why}.")));
    }
    table.groups.iter().for_each(|group| text += &format!("\n\n{}", lines(group)));
    text
}

fn lines(group: &Group) -> String {
    let predicted = group.lines.iter().any(|line| line.predicted.is_some());
    let label = format!("{}, {}", group.title, group.unit);
    let mut text = columns(&label, predicted, ["paper", "predicted", "today", "quartiles", "calls", "times"]);
    for line in &group.lines {
        let _ = write!(text, "\n{}", one(line, predicted, group));
        if let Some(remark) = &line.remark {
            let _ = write!(text, "\n{}", wrapped_by(&format!("^ {remark}"), 4));
        }
    }
    text
}

fn one(line: &Line, predicted: bool, group: &Group) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let today = line.today.as_ref();
    let quartiles = today.map(|figure| format!("{}–{}", number(figure.low), number(figure.high)));
    let cells = [
        or_dash(line.paper.map(number)),
        or_dash(line.predicted.map(number)),
        or_dash(today.map(|figure| number(figure.median))),
        or_dash(quartiles),
        or_dash(today.map(|figure| grouped(figure.calls as f64))),
        or_dash(group.times_better(line).map(times)),
    ];
    columns(&format!("  {}", line.label), predicted, cells.each_ref().map(String::as_str))
}

fn columns(label: &str, with_predicted: bool, cells: [&str; 6]) -> String {
    let [paper, predicted, today, quartiles, calls, times] = cells;
    let label_width = if with_predicted { 34 } else { 44 };
    let predicted = if with_predicted { format!(" {predicted:>9}") } else { String::new() };
    // A label that is too long has a line of its own.
    let (above, label) = match label.chars().count() > label_width {
        true => (format!("{label}\n"), ""),
        false => (String::new(), label),
    };
    let line = format!(
        "{above}{label:<label_width$} {paper:>9}{predicted} {today:>9} {quartiles:>17} {calls:>10} {times:>6}"
    );
    line.trim_end().to_owned()
}

fn wrapped(text: &str) -> String {
    wrapped_by(text, 0)
}

/// Lines of at most [`WIDTH`], each indented.
fn wrapped_by(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one is there");
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            let space = if line.is_empty() { "" } else { " " };
            *line += &format!("{space}{word}");
        }
    }
    let margin = " ".repeat(indent);
    lines.iter().map(|line| format!("{margin}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::model::Figure;

    fn example() -> Table {
        let figure = Figure::of(vec![4.9, 5.0, 5.2], 1234);
        let lines = vec![
            Line::new("1 caller").paper(2660.0).today(figure),
            Line::new("9 callers").remark("the machine has no so many"),
        ];
        let groups = vec![Group::new("Calls to Null()", "µs", lines)];
        Table { name: "firefly-1", title: "Firefly Table I", how: "As there.", groups, why_not: None }
    }

    #[test]
    fn figures_stand_in_columns() {
        let text = table(&example());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Firefly Table I   [firefly-1]");
        assert!(lines[4].contains("2660") && lines[4].ends_with("532"), "{text}");
        assert!(lines[6].starts_with("    ^ the machine"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH + 2), "{text}");
    }

    #[test]
    fn long_sentences_are_wrapped() {
        let text = wrapped(&"word ".repeat(60));
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }
}
