//! The picture of one call for documents (SVG): its steps one below the other on one time axis, in the parts of the call.

use super::report::About;
use super::steps::{Account, Place, Step};
use std::fmt::Write;

/// Measures of the picture, in its own units.
const WIDTH: f64 = 1060.0;
const MARGIN: f64 = 16.0;
const ROW: f64 = 19.0;
const HEADING: f64 = 26.0;
/// Names are to the left of it, and the time axis begins here.
const AXIS: f64 = 420.0;
/// Where the longest call ends; behind it is room for a number.
const AXIS_END: f64 = WIDTH - 70.0;
const SUMMARY_TOP: f64 = 66.0;
const STEPS_TOP: f64 = 148.0;
/// The width of a letter, at most: fonts differ.
const LETTER: f64 = 6.8;
/// Letters of a name that fit to the left of the axis.
const NAME_MAX: usize = ((AXIS - 8.0 - 2.0 * MARGIN) / LETTER) as usize;

/// Steps that follow each other in one place.
struct Part<'a> {
    place: Place,
    name: String,
    steps: &'a [Step],
}

impl Part<'_> {
    fn begins_ns(&self) -> f64 {
        self.steps.first().map_or(0.0, |step| step.begins_ns)
    }

    fn ns(&self) -> f64 {
        self.steps.iter().map(|step| step.ns).sum()
    }
}

/// The picture as a file that needs nothing else.
pub(super) fn svg(about: &About, account: &Account) -> String {
    let parts = parts(about, &account.steps);
    let axis = Axis::of(parts.iter().map(Part::ns).sum());
    let rows = account.steps.len() as f64 * ROW + parts.len() as f64 * HEADING;
    let height = STEPS_TOP + rows + 3.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"Helvetica, Arial, sans-serif\" \
         font-size=\"12\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    svg += &head(about, account);
    svg += &summary(&parts);
    svg += &axis.grid(STEPS_TOP, STEPS_TOP + rows);
    let mut y = STEPS_TOP;
    for part in &parts {
        svg += &heading(part, y, &axis);
        y += HEADING;
        for step in part.steps {
            svg += &bar(step, y, &axis);
            y += ROW;
        }
    }
    svg += &text(MARGIN, height - 12.0, "fill=\"#666\"", &about.machine);
    svg + "</svg>\n"
}

/// The parts of the call, in the order of time.
fn parts<'a>(about: &About, steps: &'a [Step]) -> Vec<Part<'a>> {
    let medium = if about.transport == "shm" { "shared memory" } else { "kernel" };
    let mut ways = ["the way to the server", "the way back"].into_iter();
    let runs = steps.chunk_by(|one, other| one.place == other.place);
    let part = |steps: &'a [Step]| {
        let name = match steps[0].place {
            Place::Caller => "caller".into(),
            Place::Server => "server".into(),
            Place::Between => format!("{medium}: {}", ways.next().unwrap_or_default()),
        };
        Part { place: steps[0].place, name, steps }
    };
    runs.map(part).collect()
}

fn head(about: &About, account: &Account) -> String {
    let mut head = text(MARGIN, 28.0, "font-size=\"18\" font-weight=\"bold\"", &about.title());
    let ns = account.plain.median_ns;
    let spread = format!("{}–{}", grouped(account.plain.low_ns), grouped(account.plain.high_ns));
    let facts = format!(
        "{} ns without instruments (quartiles {spread}, {} calls); the steps below are {:.1} % of it",
        grouped(ns),
        grouped(account.plain.calls as f64),
        100.0 * account.ratio,
    );
    head += &text(MARGIN, 48.0, "fill=\"#666\"", &facts);
    head
}

/// The whole call as one bar, in which each part has its share.
fn summary(parts: &[Part<'_>]) -> String {
    let whole_ns: f64 = parts.iter().map(Part::ns).sum();
    let scale = (WIDTH - 2.0 * MARGIN) / whole_ns;
    let mut summary = String::new();
    for part in parts {
        let (x, width) = (MARGIN + part.begins_ns() * scale, part.ns() * scale);
        let color = color(part.place);
        let _ = writeln!(
            summary,
            "<rect x=\"{x:.1}\" y=\"{SUMMARY_TOP}\" width=\"{:.1}\" height=\"30\" fill=\"{color}\"><title>{}: {} ns</title></rect>",
            (width - 1.0).max(1.0),
            escaped(&part.name),
            grouped(part.ns()),
        );
        let label = format!("{} {} ns, {:.0} %", part.name, grouped(part.ns()), 100.0 * part.ns() / whole_ns);
        if label.chars().count() as f64 * LETTER < width {
            let style = "fill=\"white\" text-anchor=\"middle\" font-weight=\"bold\"";
            summary += &text(x + width / 2.0, SUMMARY_TOP + 19.5, style, &label);
        }
    }
    summary
}

fn heading(part: &Part<'_>, y: f64, axis: &Axis) -> String {
    let (color, base) = (color(part.place), y + HEADING - 8.0);
    let style = format!("font-weight=\"bold\" fill=\"{color}\"");
    let share = format!("{} ns, {:.0} %", grouped(part.ns()), 100.0 * part.ns() / axis.whole_ns);
    let band = format!(
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\" opacity=\"0.10\"/>\n",
        axis.x(part.begins_ns()),
        y + HEADING - 3.0,
        (part.ns() * axis.scale).max(1.0),
        part.steps.len() as f64 * ROW,
    );
    band + &text(MARGIN, base, &style, &part.name)
        + &text(AXIS - 8.0, base, &format!("{style} text-anchor=\"end\""), &share)
}

fn bar(step: &Step, y: f64, axis: &Axis) -> String {
    // A step that takes less than its stamps are uncertain by has no length, not a negative one.
    let ns = step.ns.max(0.0);
    let (x, width) = (axis.x(step.begins_ns), (ns * axis.scale).max(1.5));
    // The tracepoint at the end of a step is in the title that a browser shows for a bar.
    let name = step.name.split(" (").next().unwrap_or_default();
    let title = format!("{}: {ns:.0} ns ({:.0} to {:.0})", step.name, step.low_ns, step.high_ns);
    let mut bar = format!(
        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}</title></rect>\n",
        y,
        ROW - 5.0,
        color(step.place),
        escaped(&title),
    );
    let middle = y + ROW * 0.6;
    bar += &text(AXIS - 8.0, middle, "text-anchor=\"end\"", &shortened(name));
    bar + &text(x + width + 5.0, middle, "fill=\"#444\"", &grouped(ns))
}

/// A name as far as it fits to the left of the axis.
fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        false => name.into(),
    }
}

/// The time axis.
struct Axis {
    whole_ns: f64,
    /// Units of the picture for a nanosecond.
    scale: f64,
}

impl Axis {
    fn of(whole_ns: f64) -> Self {
        let whole_ns = whole_ns.max(1.0);
        Self { whole_ns, scale: (AXIS_END - AXIS) / whole_ns }
    }

    fn x(&self, ns: f64) -> f64 {
        AXIS + ns.max(0.0) * self.scale
    }

    /// Nanoseconds between two lines of the grid: 1, 2 or 5 times a power of ten, so that there are four to nine lines.
    fn step_ns(&self) -> f64 {
        let power = 10_f64.powf((self.whole_ns / 9.0).log10().floor());
        let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| self.whole_ns / (times * power) <= 9.0);
        times.unwrap_or(10.0) * power
    }

    fn grid(&self, top: f64, bottom: f64) -> String {
        let step_ns = self.step_ns();
        let lines = (self.whole_ns / step_ns) as u32;
        let mut grid =
            text(AXIS - 8.0, top - 12.0, "fill=\"#666\" text-anchor=\"end\"", "time since the call began");
        for line in 0..=lines {
            let ns = f64::from(line) * step_ns;
            let x = self.x(ns);
            let _ = writeln!(grid, "<path d=\"M{x:.1} {:.1}V{bottom:.1}\" stroke=\"#e2e2e2\"/>", top - 6.0);
            let unit = if line == lines { " ns" } else { "" };
            grid += &text(x, top - 12.0, "fill=\"#666\" text-anchor=\"middle\"", &(grouped(ns) + unit));
        }
        grid
    }
}

fn text(x: f64, y: f64, style: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>\n", escaped(text))
}

/// Dark enough for white letters on it.
fn color(place: Place) -> &'static str {
    match place {
        Place::Caller => "#2f6690",
        Place::Between => "#767676",
        Place::Server => "#b3541e",
    }
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::kernel::TRACEPOINTS;
    use stoop_probe::Point;

    #[test]
    fn names_of_all_steps_fit_beside_the_axis() {
        let names = Point::ALL.map(Point::step).into_iter().chain(TRACEPOINTS.iter().map(|point| point.step));
        for name in names {
            assert_eq!(shortened(name), name);
        }
        assert_eq!(shortened(&"x".repeat(200)).chars().count(), NAME_MAX);
    }

    #[test]
    fn the_axis_has_four_to_nine_lines() {
        for whole_ns in [90.0, 101.0, 347.0, 999.0, 1001.0, 5063.0, 8600.0, 41_234.0] {
            let lines = (whole_ns / Axis::of(whole_ns).step_ns()) as u32;
            assert!((3..=9).contains(&lines), "{whole_ns} ns: {lines} lines");
        }
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escaped("a<b> & c"), "a&lt;b&gt; &amp; c");
    }

    #[test]
    fn thousands_stand_apart_and_no_time_is_negative() {
        assert_eq!([0.4, 999.6, 1234.0, -3.0].map(grouped), ["0", "1,000", "1,234", "0"]);
    }
}
