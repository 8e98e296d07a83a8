//! JSON as text. It has no character that a terminal would obey.

use crate::json::Json;
use std::fmt::{self, Write};

/// On one line, with a space behind `:` and `,`.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, f, None)
    }
}

impl Json {
    /// On several lines, for people: what fits into so many columns stays on one.
    pub fn pretty(&self, columns: usize) -> String {
        let mut text = String::new();
        write(self, &mut text, Some((0, columns))).expect("a String takes any text");
        text
    }
}

/// `lines`: the columns before it, and those of the paper.
fn write(json: &Json, out: &mut dyn Write, lines: Option<(usize, usize)>) -> fmt::Result {
    let lines = lines.filter(|(indent, columns)| !fits(json, columns.saturating_sub(*indent)));
    match json {
        Json::Null => out.write_str("null"),
        Json::Bool(value) => write!(out, "{value}"),
        Json::Number(text) => out.write_str(text),
        Json::Text(text) => string(text, out),
        Json::Array(values) => {
            list(out, ('[', ']'), values, lines, |value, out, lines| write(value, out, lines))
        }
        Json::Object(members) => list(out, ('{', '}'), members, lines, |(name, value), out, lines| {
            string(name, out)?;
            out.write_str(": ")?;
            write(value, out, lines)
        }),
    }
}

fn list<T>(
    out: &mut dyn Write,
    (begin, end): (char, char),
    all: &[T],
    lines: Option<(usize, usize)>,
    put: impl Fn(&T, &mut dyn Write, Option<(usize, usize)>) -> fmt::Result,
) -> fmt::Result {
    out.write_char(begin)?;
    let inner = lines.map(|(indent, columns)| (indent + 2, columns));
    for (place, each) in all.iter().enumerate() {
        match inner {
            Some((indent, _)) => write!(out, "{}\n{:indent$}", if place == 0 { "" } else { "," }, "")?,
            None => out.write_str(if place == 0 { "" } else { ", " })?,
        }
        put(each, out, inner)?;
    }
    if let (Some((indent, _)), false) = (lines, all.is_empty()) {
        write!(out, "\n{:indent$}", "")?;
    }
    out.write_char(end)
}

/// Whether the text on one line has at most so many characters.
fn fits(json: &Json, columns: usize) -> bool {
    struct Room(usize);
    impl Write for Room {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(text.chars().count()).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    write(json, &mut Room(columns), None).is_ok()
}

fn string(text: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_char('"')?;
    for each in text.chars() {
        match each {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            each if is_harmless(each) => out.write_char(each)?,
            each => {
                for unit in each.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
    }
    out.write_char('"')
}

/// Whether a character neither controls a terminal nor changes the direction or the place of others.
pub fn is_harmless(each: char) -> bool {
    !each.is_control()
        && !matches!(each, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
