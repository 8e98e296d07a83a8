//! Text that fits the terminal: tables whose lines are broken between columns, and sentences.

use std::sync::OnceLock;

/// The terminal's columns; `None` where lines may have any length, as in a pipe.
static COLUMNS: OnceLock<Option<usize>> = OnceLock::new();

/// Characters of a line of sentences where there is more room.
const SENTENCE: usize = 100;

/// Makes everything that is printed fit a terminal of so many columns. The first call counts.
pub(crate) fn set_columns(columns: Option<usize>) {
    let _ = COLUMNS.set(columns);
}

/// Characters of the longest line of a table.
pub(crate) fn width() -> usize {
    COLUMNS.get().copied().flatten().unwrap_or(usize::MAX)
}

/// Characters of the longest line of a sentence.
pub(crate) fn sentence() -> usize {
    width().min(SENTENCE)
}

/// Prints text whose longer lines are broken between words.
pub(crate) fn print(text: &str) {
    println!("{}", fitted(text, width()));
}

/// A text of one line as far as it fits.
pub(crate) fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters - 1).chain(['…']).collect(),
        false => text.into(),
    }
}

/// Breaks lines that are longer than `width` between words. Each goes on below its first word, or below the first word behind its key.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    let one = |line: &str| match line.chars().count() > width {
        true => {
            let (before, sentence) = line.split_at(key(line));
            let indent = before.chars().count();
            let filled = filled(sentence, indent, width);
            format!("{before}{}", &filled[indent..])
        }
        false => line.to_owned(),
    };
    text.split('\n').map(one).collect::<Vec<_>>().join("\n")
}

/// Bytes of a line up to its sentence: spaces, or a key with two spaces or more behind it.
fn key(line: &str) -> usize {
    let spaces = |text: &str| text.len() - text.trim_start().len();
    let begins = spaces(line);
    let gap = line[begins..].find("  ").map(|at| begins + at).filter(|at| *at <= KEY);
    gap.map_or(begins, |gap| gap + spaces(&line[gap..]))
}

/// Bytes of the longest key.
const KEY: usize = 12;

/// A sentence in lines of at most `width` characters, if no word is longer, each indented.
pub(crate) fn filled(sentence: &str, indent: usize, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in sentence.split_whitespace() {
        let line = lines.last_mut().expect("one is there");
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            let space = if line.is_empty() { "" } else { " " };
            *line += &format!("{space}{word}");
        }
    }
    let margin = " ".repeat(indent);
    lines.iter().map(|line| format!("{margin}{line}")).collect::<Vec<_>>().join("\n")
}

/// A label in front of figures. One that is too long has lines of its own above them.
pub(crate) fn label(text: &str, width: usize) -> (String, String) {
    match text.chars().count() > width {
        true => (fitted(text, self::width()) + "\n", " ".repeat(width)),
        false => (String::new(), format!("{text:<width$}")),
    }
}

/// The columns of a table: all in one line, or in several where the terminal is too narrow.
pub(crate) struct Columns(Vec<Column>);

struct Column {
    title: &'static str,
    width: usize,
    is_left: bool,
    /// Spaces before it.
    gap: usize,
    /// The heading over this column and those behind it, up to the next that has one.
    group: Option<&'static str>,
}

impl Columns {
    /// Columns with these titles and widths; a negative width puts texts to the left.
    pub(crate) fn new(columns: &[(&'static str, i16)]) -> Self {
        Self(Vec::new()).and(0, None, columns)
    }

    /// Further columns, behind so many spaces, under a heading if it is not empty. They begin a line if they do not fit on it together.
    pub(crate) fn group(self, gap: usize, heading: &'static str, columns: &[(&'static str, i16)]) -> Self {
        self.and(gap, Some(heading), columns)
    }

    fn and(mut self, gap: usize, group: Option<&'static str>, columns: &[(&'static str, i16)]) -> Self {
        self.0.extend(columns.iter().enumerate().map(|(index, &(title, width))| Column {
            title,
            width: width.unsigned_abs().into(),
            is_left: width < 0,
            gap: if index == 0 { gap } else { 1 },
            group: group.filter(|_| index == 0),
        }));
        self
    }

    /// The titles, in as many lines as a row has, with a line above for the headings of groups.
    pub(crate) fn head(&self, width: usize) -> String {
        let titles: Vec<&str> = self.0.iter().map(|column| column.title).collect();
        let mut lines = Vec::new();
        for range in self.lines(width) {
            let mut headings = String::new();
            let mut end = range.indent;
            for column in &self.0[range.columns.clone()] {
                end += if end == range.indent { 0 } else { column.gap };
                if let Some(heading) = column.group {
                    let at =
                        end + if column.is_left { 0 } else { column.width - column.title.chars().count() };
                    headings += &format!("{}{heading}", " ".repeat(at - headings.chars().count()));
                }
                end += column.width;
            }
            lines.extend((!headings.trim().is_empty()).then_some(headings));
            lines.push(self.line(&range, &titles));
        }
        lines.join("\n")
    }

    /// A row of the table: a text for each column.
    pub(crate) fn row<T: AsRef<str>>(&self, width: usize, texts: &[T]) -> String {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let lines = self.lines(width).into_iter().map(|range| self.line(&range, &texts));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn line(&self, range: &Range, texts: &[&str]) -> String {
        let mut line = " ".repeat(range.indent);
        for (index, (column, text)) in self.0.iter().zip(texts).enumerate() {
            if !range.columns.contains(&index) {
                continue;
            }
            if index > range.columns.start {
                line += &" ".repeat(column.gap);
            }
            let width = column.width;
            line += &if column.is_left { format!("{text:<width$}") } else { format!("{text:>width$}") };
        }
        line.trim_end().to_owned()
    }

    /// Which columns stand on which line of a row.
    fn lines(&self, width: usize) -> Vec<Range> {
        let before_groups = self.0.iter().take_while(|column| column.group.is_none());
        let before_groups: usize = before_groups.map(|column| column.gap + column.width).sum();
        let has_groups = self.0.iter().any(|column| column.group.is_some());
        let indent = if has_groups { before_groups + 1 } else { 2 };
        let mut lines = vec![Range { indent: 0, columns: 0..0 }];
        let mut used = 0;
        for (index, column) in self.0.iter().enumerate() {
            let needed = match column.group {
                Some(_) => self.of_group(index),
                None => column.gap + column.width,
            };
            if index > 0 && used + needed > width {
                lines.push(Range { indent, columns: index..index });
                used = indent + column.width;
            } else {
                used += column.gap + column.width;
            }
            lines.last_mut().expect("one is there").columns.end = index + 1;
        }
        lines
    }

    /// Characters of a group that begins with this column.
    fn of_group(&self, first: usize) -> usize {
        let others = self.0[first + 1..].iter().take_while(|column| column.group.is_none());
        self.0[first..=first].iter().chain(others).map(|column| column.gap + column.width).sum()
    }
}

struct Range {
    indent: usize,
    columns: std::ops::Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_within(text: &str, width: usize) -> bool {
        text.lines().all(|line| line.chars().count() <= width)
    }

    #[test]
    fn a_row_is_broken_between_the_same_columns_as_the_titles() {
        let columns = Columns::new(&[("name", -8), ("first", 6), ("second", 6)]);
        assert_eq!(columns.head(80), "name      first second");
        assert_eq!(columns.row(80, &["a", "1", "2"]), "a             1      2");
        assert_eq!(columns.head(20), "name      first\n  second");
        assert_eq!(columns.row(20, &["a", "1", "2"]), "a             1\n       2");
    }

    #[test]
    fn a_group_that_does_not_fit_has_a_line_with_its_heading_above() {
        let figures = [("p50", 5), ("p99", 5)];
        let columns = Columns::new(&[("name", -6)]).group(2, "Null()", &figures).group(3, "Max()", &figures);
        assert_eq!(columns.head(80), "          Null()        Max()\nname      p50   p99     p50   p99");
        let narrow = columns.head(24);
        assert_eq!(narrow, "          Null()\nname      p50   p99\n         Max()\n         p50   p99");
        assert!(is_within(&columns.row(24, &["a", "1", "2", "3", "4"]), 24));
    }

    #[test]
    fn long_sentences_are_broken_and_go_on_below_their_first_word() {
        let words = "word ".repeat(40);
        let text = format!("short\n  {words}\nµ key   {words}");
        let shown = fitted(&text, 80);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(is_within(&shown, 80) && lines.len() == 7, "{shown}");
        assert!(lines[1..4].iter().all(|line| line.starts_with("  word")), "{shown}");
        assert!(lines[4].starts_with("µ key   word") && lines[5].starts_with("        word"), "{shown}");
        assert_eq!(fitted(&text, usize::MAX), text);
    }

    #[test]
    fn a_label_that_is_too_long_stands_above_the_figures() {
        assert_eq!(label("name", 6), (String::new(), "name  ".into()));
        assert_eq!(label("long name", 6), ("long name\n".into(), "      ".into()));
    }
}
