//! A run as one page of HTML that refers to no other file: it has no script, and its pictures are within it.

use super::number::{grouped, number, times};
use super::plot;
use super::xml::escaped;
use crate::tables::model::{Figure, Group, Line, Table};
use crate::tables::report::Report;
use std::fmt::Write;

/// The page, which is also well-formed XML.
pub(crate) fn page(report: &Report) -> String {
    let mut contents = String::new();
    for Table { name, title, .. } in &report.tables {
        let _ = write!(contents, "<li><a href=\"#{name}\">{}</a></li>", escaped(title));
    }
    let tables: String = report.tables.iter().map(section).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>Three papers, measured again</title><style>{STYLE}</style></head>\n<body>\n{}\n\
         <nav><details><summary>{} table{}</summary><ul>{contents}</ul></details></nav>\n{tables}</body></html>\n",
        header(report),
        report.tables.len(),
        if report.tables.len() == 1 { "" } else { "s" },
    )
}

const STYLE: &str = include_str!("page.css");

fn header(report: &Report) -> String {
    let Report { version, date, machine, network, processors, rounds, before, after, void, .. } = report;
    let class = if void.is_some() { " class=\"void\"" } else { "" };
    let judged: String =
        report.judged().iter().map(|sentence| format!("<p{class}>{}</p>", escaped(sentence))).collect();
    let after = after.last().map(|after| ("After", after.describe()));
    let facts = [
        (
            "Measured",
            format!("{date}, stoop {version}, {rounds} round{}", if *rounds == 1 { "" } else { "s" }),
        ),
        ("Machine", machine.clone()),
        ("Network", network.clone()),
        ("Processors", processors.clone()),
        ("Before", before.describe()),
    ];
    let facts = facts.into_iter().chain(after);
    let facts: String =
        facts.map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>", escaped(&fact))).collect();
    format!(
        "<header><h1>Three papers, measured again</h1><p>The tables of Firefly RPC (1990), of Elliott and Nutt on \
         Sun RPC (1989) and of Peregrine (1991), and the same quantities measured on one machine of today. Each \
         figure of today is a median over slices of time and over rounds; below it are the quartiles and the number of \
         calls.</p>\
         <dl>{facts}</dl>{judged}</header>"
    )
}

fn section(table: &Table) -> String {
    let why_not = table.why_not.as_ref().map_or_else(String::new, |why| {
        format!("<p class=\"void\">Not reproduced here: {}.</p>", escaped(why))
    });
    let void = table.void.as_ref().map_or_else(String::new, |why| {
        format!("<p class=\"void\"><strong>Void:</strong> {}.</p>", escaped(why))
    });
    let groups: String = table.groups.iter().map(group).collect();
    format!(
        "<section id=\"{}\"><h2>{}</h2><p>{}</p>{why_not}{void}{groups}</section>\n",
        table.name,
        escaped(table.title),
        escaped(table.how)
    )
}

fn group(group: &Group) -> String {
    let predicted = group.lines.iter().any(|line| line.predicted.is_some());
    let (class, head) = if predicted { (" class=\"guessed\"", "<th>predicted</th>") } else { ("", "") };
    let last = if group.savings { "off" } else { "times" };
    let notes: String = group.notes.iter().map(|note| format!("<p>{}</p>", escaped(note))).collect();
    let lines: String = group.lines.iter().map(|line| row(line, predicted, group)).collect();
    format!(
        "<div class=\"group\"><table{class}><caption>{}, {}</caption><thead><tr><th></th><th>paper</th>{head}\
         <th>today</th><th>{last}</th></tr></thead><tbody>{lines}</tbody></table>{}{notes}</div>",
        escaped(&group.title),
        escaped(group.unit),
        plot::svg(group)
    )
}

fn row(line: &Line, predicted: bool, group: &Group) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let cell = |text: String| format!("<td>{text}</td>");
    let remark = line.remark.as_ref();
    let remark = remark.map_or_else(String::new, |note| format!("<small>{}</small>", escaped(note)));
    format!(
        "<tr><th scope=\"row\">{}{remark}</th>{}{}{}{}</tr>",
        escaped(&line.label),
        cell(or_dash(line.paper.map(number))),
        if predicted {
            cell(or_dash(line.predicted.as_ref().map(|predicted| number(predicted.value))))
        } else {
            String::new()
        },
        cell(or_dash(line.today.as_ref().map(|figure| with_spread(figure, group)))),
        cell(or_dash(group.times_better(line).map(times).or_else(|| line.off()))),
    )
}

fn with_spread(figure: &Figure, group: &Group) -> String {
    let Figure { median, low, high, calls, .. } = figure;
    format!(
        "<b>{}{}</b><small>{}–{}, {}</small>",
        if group.is_unsteady(figure) { "~" } else { "" },
        number(*median),
        number(*low),
        number(*high),
        grouped(*calls as f64)
    )
}

#[cfg(test)]
mod tests;
