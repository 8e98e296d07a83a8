//! The lines of a group as a picture: the paper's value and today's of each line on a logarithmic axis.

use super::number::number;
use super::xml::escaped;
use crate::screen::shortened;
use crate::tables::model::{Figure, Group, Line};
use std::fmt::Write;

/// In units of the picture; a narrow phone shows one as a pixel.
const WIDTH: f64 = 340.0;
const MARGIN: f64 = 14.0;
const LINE_HEIGHT: f64 = 27.0;
const HEAD: f64 = 20.0;
const FOOT: f64 = 22.0;

/// The picture, or nothing if there are not two lines with a figure.
pub(super) fn svg(group: &Group) -> String {
    if group.savings {
        // Some are negative, and the paper's are a thousand times as large as today's.
        return String::new();
    }
    let lines: Vec<&Line> = group.lines.iter().filter(|line| !values(line).is_empty()).collect();
    let Some(axis) = Axis::of(lines.iter().flat_map(|line| values(line))).filter(|_| lines.len() > 1) else {
        return String::new();
    };
    let height = HEAD + LINE_HEIGHT * lines.len() as f64 + FOOT;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">{}",
        escaped(&group.title),
        legend(&lines)
    );
    svg += &axis.ticks(group.unit, height);
    for (at, line) in lines.iter().enumerate() {
        svg += &drawn(line, &axis, HEAD + LINE_HEIGHT * at as f64);
    }
    svg + "</svg>"
}

/// The values of a line that a logarithmic axis can show.
fn values(line: &Line) -> Vec<f64> {
    let today = line.today.as_ref().map(|figure| figure.median);
    [line.paper, today].into_iter().flatten().filter(|value| *value > 0.0).collect()
}

fn legend(lines: &[&Line]) -> String {
    let has = |of: fn(&Line) -> bool| lines.iter().any(|line| of(line));
    let kinds = [
        ("paper", "paper", has(|line| line.paper.is_some())),
        ("today", "today", has(|line| line.today.is_some())),
    ];
    let mut x = MARGIN;
    let mut legend = String::new();
    for (class, name, _) in kinds.into_iter().filter(|kind| kind.2) {
        let _ = write!(
            legend,
            "{}<text x=\"{}\" y=\"11\" class=\"soft\">{name}</text>",
            dot(class, x, 8.0),
            x + 8.0
        );
        x += 24.0 + 6.0 * name.len() as f64;
    }
    legend
}

/// Letters of the longest label.
const LETTERS: usize = 56;

fn drawn(line: &Line, axis: &Axis, y: f64) -> String {
    let track = y + 18.0;
    let mut drawn = format!(
        "<text x=\"{MARGIN}\" y=\"{}\">{}</text><line class=\"track\" x1=\"{MARGIN}\" x2=\"{}\" y1=\"{track}\" y2=\"{track}\"/>",
        y + 10.0,
        escaped(&shortened(&line.label, LETTERS)),
        WIDTH - MARGIN
    );
    let mut put = |class, value: Option<f64>| {
        let place = value.filter(|value| *value > 0.0).map(|value| axis.place(value));
        drawn.extend(place.map(|x| dot(class, x, track)));
    };
    put("paper", line.paper);
    put("today", line.today.as_ref().map(|figure| figure.median));
    if let Some(Figure { low, high, .. }) = line.today.as_ref().filter(|figure| figure.low > 0.0) {
        let (from, to) = (axis.place(*low), axis.place(*high));
        let _ = write!(
            drawn,
            "<line class=\"today\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{track}\" y2=\"{track}\"/>"
        );
    }
    drawn
}

fn dot(class: &str, x: f64, y: f64) -> String {
    format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y}\" r=\"4\"/>")
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (high > 0.0).then(|| {
            // At least a factor of ten, so that nearly equal values do not look far apart.
            let (low, high) = (low.log10(), high.log10());
            let more = (0.5 - (high - low) / 2.0).max(0.05);
            Self { low: low - more, high: high + more }
        })
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.log10() - self.low) / (self.high - self.low);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    fn ticks(&self, unit: &str, height: f64) -> String {
        let mut ticks = format!(
            "<text x=\"{}\" y=\"11\" text-anchor=\"end\" class=\"soft\">{}</text>",
            WIDTH - MARGIN,
            escaped(unit)
        );
        for power in self.low.ceil() as i32..=self.high.floor() as i32 {
            let value = 10_f64.powi(power);
            let x = self.place(value);
            let _ = write!(
                ticks,
                "<line class=\"track\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{HEAD}\" y2=\"{}\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" class=\"soft\">{}</text>",
                height - FOOT + 4.0,
                height - 7.0,
                tick(value)
            );
        }
        ticks
    }
}

fn tick(value: f64) -> String {
    if value >= 1.0 {
        number(value).split('.').next().unwrap_or_default().to_owned()
    } else {
        format!("{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(values: &[(f64, f64)]) -> Group {
        let line =
            |&(paper, today): &(f64, f64)| Line::new("a < b").paper(paper).today(Figure::of(vec![today], 1));
        Group::new("Calls", "µs", values.iter().map(line).collect())
    }

    #[test]
    fn better_values_stand_to_the_left_of_the_papers() {
        let axis = Axis::of([1.0, 1000.0].into_iter()).expect("there are values");
        assert!(axis.place(1.0) < axis.place(1000.0));
        assert!(axis.place(1.0) >= MARGIN && axis.place(1000.0) <= WIDTH - MARGIN);
        let picture = svg(&group(&[(2660.0, 5.0), (6350.0, 6.0)]));
        assert_eq!(picture.matches("class=\"today\" cx").count(), 3, "two lines and the legend: {picture}");
        assert!(picture.contains("a &lt; b"));
    }

    #[test]
    fn one_figure_needs_no_picture() {
        assert_eq!(svg(&group(&[(1.0, 1.0)])), "");
        assert_eq!(svg(&group(&[(0.0, 0.0), (0.0, -1.0)])), "");
    }
}
