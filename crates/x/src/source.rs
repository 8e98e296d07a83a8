//! The files of a compilation, and places in them.

use std::rc::Rc;

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Position of the file in [`Sources`].
    pub(crate) file: usize,
    /// Offset of its first byte.
    pub(crate) start: usize,
    /// Offset of the byte after it.
    pub(crate) end: usize,
}

impl Span {
    /// From the beginning of this piece to the end of a later one of the same file; this piece if `last` is elsewhere.
    pub(crate) fn to(self, last: Span) -> Span {
        if last.file == self.file && last.end > self.start { Span { end: last.end, ..self } } else { self }
    }
}

/// A comment of a file, with its marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A file that the compiler reads.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: Rc<str>,
    /// In the order of the text.
    pub(crate) comments: Vec<Comment>,
}

/// Every file that was read, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file, and gives its position.
    pub(crate) fn add(&mut self, name: &str, text: &str) -> usize {
        self.files.push(SourceFile { name: name.to_owned(), text: text.into(), comments: Vec::new() });
        self.files.len() - 1
    }

    pub(crate) fn file(&self, file: usize) -> &SourceFile {
        &self.files[file]
    }

    /// Whether a file with this text was read.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.files.iter().any(|file| *file.text == *text)
    }

    pub(crate) fn set_comments(&mut self, file: usize, comments: Vec<Comment>) {
        self.files[file].comments = comments;
    }

    /// The names of all files that were read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }
}

/// The line that contains the byte at `offset`: its number from 1, and where it begins and ends.
pub(crate) fn line_of(text: &str, offset: usize) -> (usize, usize, usize) {
    let before = &text.as_bytes()[..offset];
    let number = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let end = text[begin..].find('\n').map_or(text.len(), |length| begin + length);
    (number, begin, end)
}

/// The text of the lines that begin with `///`, each in its place, if there are such lines: RFC 7531 §2 marks the lines of its
/// interface file so, among others.
pub(crate) fn behind_slashes(text: &str) -> Option<String> {
    let mut is_marked = false;
    let lines = text.split_inclusive('\n').map(|line| {
        let blanks = line.len() - line.trim_start().len();
        match line[blanks..].strip_prefix("///") {
            Some(rest) => {
                is_marked = true;
                format!("{}   {rest}", &line[..blanks])
            }
            None => String::from(if line.ends_with('\n') { "\n" } else { "" }),
        }
    });
    let marked = lines.collect();
    is_marked.then_some(marked)
}
