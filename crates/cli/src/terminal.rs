//! The terminal that standard output may be: its width, its colours, and what may be written to it.

use std::io::{IsTerminal, stdout};
use stoop_schema::json::{Json, is_harmless};

/// Columns of a terminal that does not tell how many it has.
const USUAL: usize = 80;

/// The columns of the terminal; `None` if standard output is none, so that lines may have any length. `COLUMNS` goes before.
pub(crate) fn columns() -> Option<usize> {
    let asked_for = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    asked_for.or_else(|| {
        let size = stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(stdout()).ok())?;
        Some(size.map(|size| size.ws_col.into()).filter(|columns| *columns > 0).unwrap_or(USUAL))
    })
}

/// Whether colours are shown: only on a terminal, and not if `NO_COLOR` is set or the terminal is a dumb one.
fn has_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn styled(text: &str, style: &str) -> String {
    if has_colours() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.into() }
}

/// The text of a heading.
pub(crate) fn heading(text: &str) -> String {
    styled(text, "1")
}

/// The text of what has failed.
pub(crate) fn failure(text: &str) -> String {
    styled(text, "31")
}

/// Parts with a comma and a space between them, in lines of at most so many columns, if a part is not longer.
pub(crate) fn wrapped(parts: &[String], columns: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for part in parts {
        let len = part.chars().count();
        let separator = match used {
            0 => "",
            // The comma behind it has room, too.
            _ if used + 2 + len < columns => ", ",
            _ => ",\n",
        };
        used = if separator.ends_with('\n') { len } else { used + separator.len() + len };
        text += separator;
        text += part;
    }
    text
}

/// JSON on several lines for a person, on one for a program.
pub(crate) fn shown(json: &Json) -> String {
    if stdout().is_terminal() { json.pretty(80) } else { json.to_string() }
}

/// A text without characters that a terminal would obey, but for ends of lines and tabs.
pub(crate) fn harmless(text: &str) -> String {
    let stays = |each| is_harmless(each) || matches!(each, '\n' | '\t');
    text.chars().map(|each| if stays(each) { each } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_wrapped_where_a_line_would_be_too_long() {
        let parts = ["one", "two", "three"].map(String::from);
        assert_eq!(wrapped(&parts, 80), "one, two, three");
        assert_eq!(wrapped(&parts, 10), "one, two,\nthree");
        assert_eq!(wrapped(&parts, 3), "one,\ntwo,\nthree");
    }
    #[test]
    fn texts_keep_their_tabs_and_lines_and_no_character_that_a_terminal_obeys() {
        assert_eq!(harmless("a\tb\nc\x1b[2J\r"), "a\tb\nc\u{fffd}[2J\u{fffd}");
    }
}
