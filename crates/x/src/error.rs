//! Errors in an interface file, with their place.

use crate::source::{Sources, Span, line_of};
use std::fmt;

/// An error in an interface file.
///
/// It prints as the place, what is wrong, and the line with a mark below:
///
/// ```text
/// mount.x:12:5: expected `;` after the declaration of `x`, found `}`
///    12 | }
///       | ^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file's name as it was given or included.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
    /// The fault, and the text that was expected.
    pub message: String,
    /// How many characters of the line are marked.
    width: usize,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { file, line, column, text, message, width } = self;
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        // Tabs stay tabs, so that the mark is below its text however wide they are shown.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let indent: String = text.chars().take(column - 1).map(blank).collect();
        writeln!(f, "{line:>5} | {text}")?;
        write!(f, "{:>5} | {indent}{}", "", "^".repeat(*width))
    }
}

impl std::error::Error for Error {}

/// An error whose place is not yet looked up.
#[derive(Debug)]
pub(crate) struct Mistake {
    span: Span,
    message: String,
}

impl Mistake {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Mistake { span, message: message.into() }
    }

    /// Looks up the place.
    pub(crate) fn locate(self, sources: &Sources) -> Error {
        let file = sources.file(self.span.file);
        let (line, begin, end) = line_of(&file.text, self.span.start);
        let text = file.text[begin..end].trim_end().to_owned();
        let column = file.text[begin..self.span.start].chars().count() + 1;
        let marked = &file.text[self.span.start..self.span.end.clamp(self.span.start, end)];
        let width = marked.trim_end().chars().count().max(1);
        Error { file: file.name.clone(), line, column, text, message: self.message, width }
    }
}
