//! Which comments belong to a declaration, and their text.

use crate::source::{Comment, SourceFile, Span};

/// The text of the comments on a declaration: those directly above it, and the one after it on its last line.
pub(crate) fn around(file: &SourceFile, declaration: Span) -> Vec<String> {
    let mut lines = above(file, declaration.start);
    if let Some(comment) = behind(file, declaration.end) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(lines_of(&file.text[comment.start..comment.end]));
    }
    lines
}

/// The comments with which a file begins: its title, and its licence.
pub(crate) fn heading(file: &SourceFile) -> Vec<String> {
    let mut lines = Vec::new();
    let mut end = 0;
    for comment in &file.comments {
        if !file.text[end..comment.start]
            .trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
            .is_empty()
        {
            break;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(lines_of(&file.text[comment.start..comment.end]));
        end = comment.end;
    }
    lines
}

fn above(file: &SourceFile, start: usize) -> Vec<String> {
    let count = file.comments.partition_point(|comment| comment.end <= start);
    let mut begin = start;
    let mut first = count;
    // Comments that begin their line, without an empty line between them and what they are about.
    for (position, comment) in file.comments[..count].iter().enumerate().rev() {
        let between = &file.text[comment.end..begin];
        let is_adjacent = between.trim().is_empty() && between.matches('\n').count() <= 1;
        if !is_adjacent || !begins_line(file, comment) {
            break;
        }
        (first, begin) = (position, comment.start);
    }
    let comments = &file.comments[first..count];
    // A licence is about the file, not about its first definition.
    if comments.iter().any(|comment| is_licence(&file.text[comment.start..comment.end])) {
        return Vec::new();
    }
    comments.iter().flat_map(|comment| lines_of(&file.text[comment.start..comment.end])).collect()
}

fn begins_line(file: &SourceFile, comment: &Comment) -> bool {
    let before = &file.text[..comment.start];
    before[before.rfind('\n').map_or(0, |newline| newline + 1)..].trim().is_empty()
}

fn is_licence(text: &str) -> bool {
    ["Copyright", "COPYRIGHT", "copyright", "(c)", "SPDX"].iter().any(|word| text.contains(word))
}

/// The comment after a declaration, on the line of its end.
fn behind(file: &SourceFile, end: usize) -> Option<&Comment> {
    let next = file.comments.partition_point(|comment| comment.start < end);
    let comment = file.comments.get(next)?;
    let between = &file.text[end..comment.start];
    let is_near = between.chars().all(|c| matches!(c, ' ' | '\t' | ';' | ','));
    is_near.then_some(comment)
}

/// The lines of a comment without its marks, without indentation that all share, and without empty lines at both ends.
fn lines_of(comment: &str) -> Vec<String> {
    let inner = comment.strip_prefix("//").unwrap_or_else(|| {
        let inner = comment.strip_prefix("/*").unwrap_or(comment);
        inner.strip_suffix("*/").unwrap_or(inner)
    });
    let unmarked = |line: &str| line.trim_start_matches([' ', '\t', '*', '/', '!', '<']).len();
    let mut lines: Vec<String> = Vec::new();
    for (number, line) in inner.lines().enumerate() {
        let line = line.trim_end().replace('\t', "    ");
        let stripped = line.trim_start();
        // The marks of the comment: `**` at its beginning, `*` before a line.
        let text = match stripped.strip_prefix('*') {
            Some(_) if unmarked(&line) == 0 => "",
            Some(text) => text,
            None if number == 0 => stripped.trim_start_matches(['/', '!', '<']),
            None => line.as_str(),
        };
        lines.push(text.trim_end_matches('*').trim_end().to_owned());
    }
    trimmed(lines)
}

fn trimmed(mut lines: Vec<String>) -> Vec<String> {
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.trim().is_empty()).count();
    lines.drain(..blank);
    // The first line stands after the mark, so its indentation says nothing.
    let indentation = |line: &String| line.len() - line.trim_start_matches(' ').len();
    let others = lines.iter().skip(1).filter(|line| !line.is_empty());
    let common = others.map(indentation).min().unwrap_or(0);
    for (number, line) in lines.iter_mut().enumerate() {
        let remove = if number == 0 { indentation(line) } else { common.min(indentation(line)) };
        line.drain(..remove);
    }
    lines
}
