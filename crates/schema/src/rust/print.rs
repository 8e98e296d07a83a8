//! Names and documentation as Rust text.

use crate::json::is_harmless;
use crate::rust::COLUMNS;
use std::fmt::Write;

/// Keywords of Rust, with those that are reserved.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// A name as an identifier.
pub(super) fn ident(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("r#{name}") } else { name.to_owned() }
}

/// A text as documentation behind so many spaces, without characters that a terminal would obey. Paragraphs with lines that are too long are
/// filled anew.
pub(super) fn documented(docs: &str, indent: usize) -> String {
    let mut text = String::new();
    if docs.is_empty() {
        return text;
    }
    let harmless: String =
        docs.chars().map(|each| if is_harmless(each) || each == '\n' { each } else { '\u{fffd}' }).collect();
    let columns = COLUMNS - indent - 4;
    let is_long = harmless.lines().any(|line| line.chars().count() > columns);
    let lines: Vec<String> = match is_long {
        true => filled(&harmless, columns),
        false => harmless.split('\n').map(|line| line.trim_end().to_owned()).collect(),
    };
    for line in lines {
        let space = if line.is_empty() || line.starts_with(' ') { "" } else { " " };
        writeln!(text, "{:indent$}///{space}{line}", "").expect("a String takes any text");
    }
    text
}

/// The words of a text in lines of so many characters.
fn filled(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > columns {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is one");
        line.push_str(if used > 0 { " " } else { "" });
        line.push_str(word);
        used += len + usize::from(used > 0);
    }
    lines
}
