//! The picture of one call for documents (SVG): its steps one below the other on one time axis, in the parts of the call.

use super::report::About;
use super::steps::{Account, Place, Step};
use crate::screen::shortened;
use std::fmt::Write;

/// Where the parts of a picture lie, in its own units.
struct Layout {
    width: f64,
    /// The time axis begins here.
    axis: f64,
    row: f64,
    /// Each name is above its bar; otherwise it is to the left of the axis.
    names_above: bool,
}

/// For a page of a desk's width.
const WIDE: Layout = Layout { width: 1060.0, axis: 420.0, row: 19.0, names_above: false };
/// For a phone, which shows a unit as about a pixel.
const NARROW: Layout = Layout { width: 400.0, axis: MARGIN, row: 33.0, names_above: true };

const MARGIN: f64 = 16.0;
const HEADING: f64 = 26.0;
/// Behind the end of the longest call is room for a number.
const NUMBER: f64 = 70.0;
const LINE: f64 = 18.0;
const BAR: f64 = 14.0;
/// The width of a letter, at most: fonts differ.
const LETTER: f64 = 6.8;

impl Layout {
    fn axis_end(&self) -> f64 {
        self.width - NUMBER
    }

    /// Letters of a line.
    fn line_letters(&self) -> usize {
        ((self.width - 2.0 * MARGIN) / LETTER) as usize
    }

    /// Letters of a name that fit above its bar, or to the left of the axis.
    fn name_letters(&self) -> usize {
        match self.names_above {
            true => self.line_letters(),
            false => ((self.axis - 8.0 - 2.0 * MARGIN) / LETTER) as usize,
        }
    }

    /// The right end of the shares beside the headings.
    fn shares_end(&self) -> f64 {
        if self.names_above { self.width - MARGIN } else { self.axis - 8.0 }
    }
}

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
    drawn(about, account, &WIDE)
}

/// The same for a narrow screen.
pub(super) fn narrow_svg(about: &About, account: &Account) -> String {
    drawn(about, account, &NARROW)
}

fn drawn(about: &About, account: &Account, layout: &Layout) -> String {
    let parts = parts(about, &account.steps);
    let axis = Axis::of(layout, parts.iter().map(Part::ns).sum());
    let (head, mut y) = head(about, account, layout);
    let mut svg = head + &summary(&parts, y, layout);
    y += 82.0;
    let rows = account.steps.len() as f64 * layout.row + parts.len() as f64 * HEADING;
    svg += &axis.grid(y, y + rows);
    for part in &parts {
        svg += &heading(part, y, &axis);
        y += HEADING;
        for step in part.steps {
            svg += &bar(step, y, &axis);
            y += layout.row;
        }
    }
    for line in wrapped(&about.machine, layout) {
        y += LINE;
        svg += &text(MARGIN, y + 8.0, "fill=\"#666\"", &line);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"Helvetica, Arial, sans-serif\" \
         font-size=\"12\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{svg}</svg>\n",
        layout.width,
        y + 20.0
    )
}

/// Lines of words that fit into the width of the picture.
fn wrapped(words: &str, layout: &Layout) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split(' ') {
        let line = lines.last_mut().expect("one is there");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > layout.line_letters() {
            lines.push(word.into());
        } else {
            *line += &format!("{}{word}", if line.is_empty() { "" } else { " " });
        }
    }
    lines
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

/// The title and the facts below it, and where they end.
fn head(about: &About, account: &Account, layout: &Layout) -> (String, f64) {
    let ns = account.plain.ns;
    let spread = format!("{}–{}", grouped(account.plain.low_ns), grouped(account.plain.high_ns));
    let facts = format!(
        "{} ns without instruments (quartiles {spread}, {} calls); the steps below are {:.1} % of it",
        grouped(ns),
        grouped(account.plain.calls as f64),
        100.0 * account.ratio,
    );
    let title =
        if layout.names_above { "font-weight=\"bold\"" } else { "font-size=\"18\" font-weight=\"bold\"" };
    let mut y = 8.0;
    let mut head = String::new();
    let titles = wrapped(&about.title(), layout).into_iter().map(|line| (title, line));
    for (style, line) in titles.chain(wrapped(&facts, layout).into_iter().map(|line| ("fill=\"#666\"", line)))
    {
        y += LINE + 2.0;
        head += &text(MARGIN, y, style, &line);
    }
    (head, y + LINE)
}

/// The whole call as one bar, in which each part has its share.
fn summary(parts: &[Part<'_>], top: f64, layout: &Layout) -> String {
    let whole_ns: f64 = parts.iter().map(Part::ns).sum();
    let scale = (layout.width - 2.0 * MARGIN) / whole_ns;
    let mut summary = String::new();
    for part in parts {
        let (x, width) = (MARGIN + part.begins_ns() * scale, part.ns() * scale);
        let color = color(part.place);
        let _ = writeln!(
            summary,
            "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"30\" fill=\"{color}\"><title>{}: {} ns</title></rect>",
            (width - 1.0).max(1.0),
            escaped(&part.name),
            grouped(part.ns()),
        );
        let share = format!("{} ns, {:.0} %", grouped(part.ns()), 100.0 * part.ns() / whole_ns);
        let labels = [format!("{} {share}", part.name), share];
        if let Some(label) = labels.iter().find(|label| label.chars().count() as f64 * LETTER < width) {
            let style = "fill=\"white\" text-anchor=\"middle\" font-weight=\"bold\"";
            summary += &text(x + width / 2.0, top + 19.5, style, label);
        }
    }
    summary
}

fn heading(part: &Part<'_>, y: f64, axis: &Axis<'_>) -> String {
    let layout = axis.layout;
    let (color, base) = (color(part.place), y + HEADING - 8.0);
    let style = format!("font-weight=\"bold\" fill=\"{color}\"");
    let share = format!("{} ns, {:.0} %", grouped(part.ns()), 100.0 * part.ns() / axis.whole_ns);
    let band = format!(
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\" opacity=\"0.10\"/>\n",
        axis.x(part.begins_ns()),
        y + HEADING - 3.0,
        (part.ns() * axis.scale).max(1.0),
        part.steps.len() as f64 * layout.row,
    );
    band + &text(MARGIN, base, &style, &part.name)
        + &text(layout.shares_end(), base, &format!("{style} text-anchor=\"end\""), &share)
}

fn bar(step: &Step, y: f64, axis: &Axis<'_>) -> String {
    let layout = axis.layout;
    // A step that takes less than its stamps are uncertain by has no length, not a negative one.
    let ns = step.ns.max(0.0);
    let (x, width) = (axis.x(step.begins_ns), (ns * axis.scale).max(1.5));
    // The tracepoint at the end of a step is in the title that a browser shows for a bar.
    let name = shortened(step.name.split(" (").next().unwrap_or_default(), layout.name_letters());
    let title = format!("{}: {ns:.0} ns ({:.0} to {:.0})", step.name, step.low_ns, step.high_ns);
    let top = if layout.names_above { y + layout.row - BAR - 4.0 } else { y };
    let middle = top + 11.4;
    let name = match layout.names_above {
        true => text(MARGIN, top - 4.0, "", &name),
        false => text(layout.axis - 8.0, middle, "text-anchor=\"end\"", &name),
    };
    let bar = format!(
        "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{}\"><title>{}</title></rect>\n",
        color(step.place),
        escaped(&title),
    );
    bar + &name + &text(x + width + 5.0, middle, "fill=\"#444\"", &grouped(ns))
}

/// The time axis.
struct Axis<'a> {
    layout: &'a Layout,
    whole_ns: f64,
    /// Units of the picture for a nanosecond.
    scale: f64,
}

impl<'a> Axis<'a> {
    fn of(layout: &'a Layout, whole_ns: f64) -> Self {
        let whole_ns = whole_ns.max(1.0);
        Self { layout, whole_ns, scale: (layout.axis_end() - layout.axis) / whole_ns }
    }

    fn x(&self, ns: f64) -> f64 {
        self.layout.axis + ns.max(0.0) * self.scale
    }

    /// Nanoseconds between two lines of the grid: 1, 2 or 5 times a power of ten, so that there are four to nine lines (on a narrow
    /// screen two to five).
    fn step_ns(&self) -> f64 {
        let most = if self.layout.names_above { 5.0 } else { 9.0 };
        let power = 10_f64.powf((self.whole_ns / most).log10().floor());
        let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| self.whole_ns / (times * power) <= most);
        times.unwrap_or(10.0) * power
    }

    fn grid(&self, top: f64, bottom: f64) -> String {
        let step_ns = self.step_ns();
        let lines = (self.whole_ns / step_ns) as u32;
        let mut grid = String::new();
        if !self.layout.names_above {
            let style = "fill=\"#666\" text-anchor=\"end\"";
            grid += &text(self.layout.axis - 8.0, top - 12.0, style, "time since the call began");
        }
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
    use crate::account::steps::REST;
    use stoop_probe::Point;

    #[test]
    fn names_of_all_steps_fit_beside_the_axis() {
        let names = Point::ALL.map(Point::step).into_iter().chain(TRACEPOINTS.iter().map(|point| point.step));
        let names = names.chain([REST]);
        for name in names {
            for layout in [&WIDE, &NARROW] {
                assert_eq!(shortened(name, layout.name_letters()), name);
            }
        }
        assert_eq!(shortened(&"x".repeat(200), 40).chars().count(), 40);
    }

    #[test]
    fn the_axis_has_four_to_nine_lines() {
        for whole_ns in [90.0, 101.0, 347.0, 999.0, 1001.0, 5063.0, 8600.0, 41_234.0] {
            let lines = (whole_ns / Axis::of(&WIDE, whole_ns).step_ns()) as u32;
            assert!((3..=9).contains(&lines), "{whole_ns} ns: {lines} lines");
            let lines = (whole_ns / Axis::of(&NARROW, whole_ns).step_ns()) as u32;
            assert!((2..=5).contains(&lines), "{whole_ns} ns: {lines} lines on a narrow screen");
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
