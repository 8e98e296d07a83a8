//! Names and documentation as Rust text.

use crate::json::is_harmless;
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

/// A text as documentation behind so many spaces, without characters that a terminal would obey.
pub(super) fn documented(docs: &str, indent: usize) -> String {
    let mut text = String::new();
    if docs.is_empty() {
        return text;
    }
    for line in docs.split('\n') {
        let line: String =
            line.trim_end().chars().map(|each| if is_harmless(each) { each } else { '\u{fffd}' }).collect();
        let space = if line.is_empty() || line.starts_with(' ') { "" } else { " " };
        writeln!(text, "{:indent$}///{space}{line}", "").expect("a String takes any text");
    }
    text
}
