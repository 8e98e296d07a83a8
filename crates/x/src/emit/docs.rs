//! Comments of interface files as documentation.

use crate::model::Notes;
use proc_macro2::TokenStream;
use quote::quote;

/// The documentation of something: its comment, or else its declaration.
pub(super) fn of(notes: &Notes) -> TokenStream {
    if notes.comment.is_empty() { declaration(notes) } else { lines(&rendered(&notes.comment)) }
}

/// The same, with the declaration also where there is a comment, since it says more than the Rust type.
pub(super) fn with_declaration(notes: &Notes) -> TokenStream {
    let comment = if notes.comment.is_empty() { quote!() } else { lines(&rendered(&notes.comment)) };
    let blank = if notes.comment.is_empty() { quote!() } else { text("") };
    let declared = declaration(notes);
    quote!(#comment #blank #declared)
}

/// One line of documentation.
pub(super) fn text(line: &str) -> TokenStream {
    lines(&[line.to_owned()])
}

/// The declaration alone.
pub(super) fn declaration(notes: &Notes) -> TokenStream {
    text(&format!("`{}`", notes.declaration.trim_end_matches(';')))
}

fn lines(lines: &[String]) -> TokenStream {
    let lines = lines.iter().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// A comment as Markdown. One whose layout says something stays as it is.
fn rendered(comment: &[String]) -> Vec<String> {
    if comment.iter().enumerate().any(|(number, line)| has_layout(line, number)) {
        let quoted = comment.iter().map(|line| line.replace("```", "'''"));
        return ["```text".to_owned()].into_iter().chain(quoted).chain(["```".to_owned()]).collect();
    }
    comment.iter().map(|line| escaped(line.trim())).collect()
}

/// Whether a line is indented, part of a list or a table, or a rule.
fn has_layout(line: &str, number: usize) -> bool {
    let is_bullet = |word: &str| {
        matches!(word, "-" | "*" | "+" | "o")
            || word.strip_suffix(['.', ')']).is_some_and(|number| number.parse::<u32>().is_ok())
    };
    (number > 0 && line.starts_with(' '))
        || line.split(' ').next().is_some_and(is_bullet)
        || (line.trim().contains("   "))
        || (line.len() > 3 && line.chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | '#')))
}

/// A line in which Markdown finds nothing; but addresses are links.
fn escaped(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        if word.starts_with("http://") || word.starts_with("https://") {
            let end = word.trim_end_matches(['.', ',', ')', ';']).len();
            return format!("<{}>{}", &word[..end], &word[end..]);
        }
        let mut escaped = String::new();
        for c in word.chars() {
            if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        escaped
    });
    let line = words.collect::<Vec<_>>().join(" ");
    if line.starts_with(['#', '+', '-', '=', '|']) { format!("\\{line}") } else { line }
}
