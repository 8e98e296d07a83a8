//! The picture of one call: its steps one below the other, both processes on one time axis.

use super::report::About;
use super::steps::{Account, Place, Step};
use std::fmt::Write;

/// Columns of the bars in a terminal.
const COLUMNS: f64 = 64.0;

/// The picture for a terminal.
pub(super) fn text(account: &Account) -> String {
    let length_ns = length_ns(account);
    let mut text = format!("{:<9} 0 ns{:>width$.0} ns\n", "", length_ns, width = COLUMNS as usize - 7);
    for step in &account.steps {
        let begin = (step.begins_ns / length_ns * COLUMNS).round() as usize;
        let end = ((step.begins_ns + step.ns) / length_ns * COLUMNS).round() as usize;
        let bar = match end.saturating_sub(begin) {
            0 => "▏".into(),
            columns => letter(step.place).repeat(columns),
        };
        let name: String = step.name.chars().take(48).collect();
        let _ = writeln!(text, "{:>8.0}  {}{bar} {name}", step.ns, " ".repeat(begin));
    }
    text + "(█ caller   ░ between the processes   ▓ server)\n"
}

fn letter(place: Place) -> &'static str {
    match place {
        Place::Caller => "█",
        Place::Between => "░",
        Place::Server => "▓",
    }
}

/// Measures of the picture, in its own units.
const WIDTH: f64 = 1060.0;
const ROW: f64 = 22.0;
const TOP: f64 = 64.0;
const LEFT: f64 = 12.0;
const BARS: f64 = 620.0;
/// The width of a letter, at least: fonts differ.
const LETTER: f64 = 6.8;

/// The picture as a file that needs nothing else.
pub(super) fn svg(about: &About, account: &Account) -> String {
    let height = TOP + ROW * (account.steps.len() as f64 + 2.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"16\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"42\" fill=\"#555\">{:.0} ns without instruments; the steps add up to {:.0} ns; {}</text>\n",
        escaped(&about.title()),
        account.plain.median_ns,
        account.accounted.median_ns,
        escaped(&about.machine),
    );
    let scale = BARS / length_ns(account);
    for (row, step) in account.steps.iter().enumerate() {
        svg += &bar(step, TOP + ROW * row as f64, scale);
    }
    svg += &legend(TOP + ROW * (account.steps.len() as f64 + 0.5));
    svg + "</svg>\n"
}

fn bar(step: &Step, y: f64, scale: f64) -> String {
    let x = LEFT + step.begins_ns * scale;
    let width = (step.ns * scale).max(1.0);
    let (color, name) = (color(step.place), escaped(&step.name));
    // The tracepoint at the end of a step is in the title that a browser shows for a bar.
    let label = step.name.split(" (").next().unwrap_or_default();
    let (at, anchor) = beside(x, width, label.chars().count());
    let label = escaped(label);
    let middle = y + ROW * 0.65;
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{color}\"><title>{name}: {:.0} ns \
         ({:.0} to {:.0})</title></rect>\n<text x=\"{at:.1}\" y=\"{middle:.1}\" text-anchor=\"{anchor}\">{label} {:.0}</text>\n",
        ROW - 5.0,
        step.ns,
        step.low_ns,
        step.high_ns,
        step.ns,
    )
}

/// The place of a label of so many letters and a number: behind its bar, or before it where there is no room behind.
fn beside(x: f64, width: f64, letters: usize) -> (f64, &'static str) {
    let behind = x + width + 5.0;
    let text = (letters + " 1234".len()) as f64 * LETTER;
    if behind + text < WIDTH { (behind, "start") } else { (x - 5.0, "end") }
}

fn legend(y: f64) -> String {
    let places = [(Place::Caller, "caller"), (Place::Between, "between"), (Place::Server, "server")];
    let mut x = LEFT;
    let mut legend = String::new();
    for (place, name) in places {
        let _ = writeln!(
            legend,
            "<rect x=\"{x}\" y=\"{y}\" width=\"14\" height=\"14\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            color(place),
            x + 19.0,
            y + 11.0,
        );
        x += 100.0;
    }
    legend
}

fn color(place: Place) -> &'static str {
    match place {
        Place::Caller => "#4878a8",
        Place::Between => "#b0b0b0",
        Place::Server => "#d08040",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The end of the last step.
fn length_ns(account: &Account) -> f64 {
    account.steps.last().map_or(1.0, |step| step.begins_ns + step.ns).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lie_within_the_picture() {
        for (x, letters) in [(12.0, 63), (475.0, 63), (530.0, 63), (630.0, 63), (630.0, 31)] {
            let (at, anchor) = beside(x, 1.0, letters);
            let text = (letters + 5) as f64 * LETTER;
            let (from, to) = if anchor == "start" { (at, at + text) } else { (at - text, at) };
            assert!(from >= 0.0 && to <= WIDTH, "a label from {from} to {to}");
        }
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escaped("a<b> & c"), "a&lt;b&gt; &amp; c");
    }
}
