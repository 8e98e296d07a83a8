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
const WIDTH: f64 = 1000.0;
const ROW: f64 = 22.0;
const TOP: f64 = 64.0;
const LEFT: f64 = 12.0;
const BARS: f64 = 620.0;

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
    // Behind its bar, or before it where there is no room behind.
    let (at, anchor) = match x + width < WIDTH * 0.5 {
        true => (x + width + 5.0, "start"),
        false => (x - 5.0, "end"),
    };
    let middle = y + ROW * 0.65;
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{color}\"><title>{name}: {:.0} ns \
         ({:.0} to {:.0})</title></rect>\n<text x=\"{at:.1}\" y=\"{middle:.1}\" text-anchor=\"{anchor}\">{name} {:.0}</text>\n",
        ROW - 5.0,
        step.ns,
        step.low_ns,
        step.high_ns,
        step.ns,
    )
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
    fn names_cannot_break_the_picture() {
        assert_eq!(escaped("a<b> & c"), "a&lt;b&gt; &amp; c");
    }
}
