//! The tokens of one file.
//!
//! Lines that begin with `%` are C text for rpcgen's output; they are skipped, but directives of the preprocessor in them are noted.
//! A line that begins with `#` is handed out as one piece, for the preprocessor.

use crate::error::Mistake;
use crate::source::{Comment, Span};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or a name.
    Word,
    Number,
    /// A string constant, with its quotes.
    Text,
    /// A character constant, with its quotes.
    Character,
    Symbol,
    /// Behind the last token of a file.
    End,
}

/// A token, and where it is; one that comes from a macro is where the macro was used.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Symbol) && self.text == text
    }

    /// The token as an error names it.
    pub(crate) fn quoted(&self) -> String {
        match self.kind {
            Kind::End => "the end of the file".to_owned(),
            _ => format!("`{}`", self.text),
        }
    }
}

/// The next piece of a file.
#[derive(Debug)]
pub(crate) enum Lexed {
    Token(Token),
    /// A line of the preprocessor: what follows the `#`.
    Directive(Span),
}

/// Symbols of two characters. The preprocessor's conditions and constant expressions use them.
const PAIRS: [&str; 9] = ["<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "::"];
const SYMBOLS: &str = ":;,=*[]{}()<>-+/%!~&|^?.";

/// Reads the tokens of a piece of a file.
pub(crate) struct Lexer<'a> {
    file: usize,
    /// The whole file up to the end of the piece, so that offsets are those of the file.
    text: &'a str,
    at: usize,
    /// Whether only white space and comments precede on the line.
    is_line_start: bool,
    pub(crate) comments: Vec<Comment>,
    /// The text behind each `#` that begins a line of C text.
    pub(crate) c_directives: Vec<Span>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(file: usize, text: &'a str) -> Self {
        Lexer { file, text, at: 0, is_line_start: true, comments: Vec::new(), c_directives: Vec::new() }
    }

    /// Reads what follows `#` on a line of the preprocessor.
    pub(crate) fn of_directive(text: &'a str, span: Span) -> Self {
        let text = &text[..span.end];
        Lexer {
            file: span.file,
            text,
            at: span.start,
            is_line_start: false,
            comments: Vec::new(),
            c_directives: Vec::new(),
        }
    }

    /// Everything up to the end.
    pub(crate) fn tokens(mut self) -> Result<Vec<Token>, Mistake> {
        let mut tokens = Vec::new();
        while let Lexed::Token(token) = self.next()? {
            if token.kind == Kind::End {
                break;
            }
            tokens.push(token);
        }
        Ok(tokens)
    }

    /// The next token or directive; [`Kind::End`] at the end.
    pub(crate) fn next(&mut self) -> Result<Lexed, Mistake> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(Lexed::Token(self.token(Kind::End, start)));
        };
        if first == '#' && self.is_line_start {
            return Ok(Lexed::Directive(self.directive()?));
        }
        self.is_line_start = false;
        let kind = self.advance(first)?;
        Ok(Lexed::Token(self.token(kind, start)))
    }

    /// Skips to the next directive, without looking at what is between; `None` at the end. For the part of a file that a
    /// condition excludes, which need not consist of tokens.
    pub(crate) fn next_directive(&mut self) -> Result<Option<Span>, Mistake> {
        loop {
            self.skip_blanks()?;
            match self.rest().chars().next() {
                None => return Ok(None),
                Some('#') if self.is_line_start => return Ok(Some(self.directive()?)),
                Some(first) => {
                    self.is_line_start = false;
                    self.at += first.len_utf8();
                }
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start, end: self.at }
    }

    fn token(&self, kind: Kind, start: usize) -> Token {
        Token { kind, text: self.text[start..self.at].to_owned(), span: self.span(start) }
    }

    /// Skips white space, comments, and lines of C text.
    fn skip_blanks(&mut self) -> Result<(), Mistake> {
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return Ok(()) };
            match first {
                '\n' => {
                    self.at += 1;
                    self.is_line_start = true;
                }
                // A line that continues on the next.
                '\\' if splice(rest) > 0 => self.at += splice(rest),
                _ if first.is_whitespace() || first == '\u{feff}' => self.at += first.len_utf8(),
                '%' if self.is_line_start => self.skip_c_text(),
                '/' if rest.starts_with("/*") || rest.starts_with("//") => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_c_text(&mut self) {
        let line = &self.rest()[..line_length(self.rest())];
        self.at += line.len();
        if let Some(directive) = line[1..].trim_start().strip_prefix('#') {
            self.c_directives.push(self.span(self.at - directive.len()));
        }
    }

    fn skip_comment(&mut self) -> Result<(), Mistake> {
        let (start, rest) = (self.at, self.rest());
        let length = if rest.starts_with("//") {
            line_length(rest)
        } else {
            let close = rest[2..].find("*/").ok_or_else(|| {
                self.at += 2;
                Mistake::new(self.span(start), "this comment is not closed: expected `*/`")
            })?;
            close + 4
        };
        self.at += length;
        self.comments.push(Comment { start, end: self.at });
        Ok(())
    }

    /// Takes a line of the preprocessor, with the comments on it.
    fn directive(&mut self) -> Result<Span, Mistake> {
        self.at += 1;
        let start = self.at;
        loop {
            let rest = self.rest();
            if rest.is_empty() || rest.starts_with('\n') {
                return Ok(self.span(start));
            } else if rest.starts_with("/*") || rest.starts_with("//") {
                self.skip_comment()?;
                // It is no comment on a declaration.
                self.comments.pop();
            } else {
                self.at += splice(rest).max(rest.chars().next().map_or(0, char::len_utf8));
            }
        }
    }

    /// Takes the token that begins with `first`.
    fn advance(&mut self, first: char) -> Result<Kind, Mistake> {
        let rest = self.rest();
        let word_length = || rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (kind, length) = match first {
            '"' => (Kind::Text, self.quoted_length('"')?),
            '\'' => (Kind::Character, self.quoted_length('\'')?),
            _ if first.is_ascii_digit() => (Kind::Number, word_length()),
            _ if is_word(first) => (Kind::Word, word_length()),
            _ if PAIRS.iter().any(|pair| rest.starts_with(pair)) => (Kind::Symbol, 2),
            _ if SYMBOLS.contains(first) => (Kind::Symbol, 1),
            _ => {
                let start = self.at;
                self.at += first.len_utf8();
                return Err(Mistake::new(self.span(start), format!("unexpected character `{first}`")));
            }
        };
        self.at += length;
        Ok(kind)
    }

    /// The length of a constant in quotes, which ends on its line.
    fn quoted_length(&mut self, quote: char) -> Result<usize, Mistake> {
        let (start, rest) = (self.at, self.rest());
        let mut is_escaped = false;
        for (offset, c) in rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                _ if c == quote => return Ok(offset + 1),
                _ => {}
            }
        }
        self.at += line_length(rest);
        Err(Mistake::new(self.span(start), format!("this constant is not closed: expected `{quote}`")))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The length of a backslash and the line break after it; zero if there is none.
fn splice(text: &str) -> usize {
    if text.starts_with("\\\n") {
        2
    } else if text.starts_with("\\\r\n") {
        3
    } else {
        0
    }
}

/// The length of the rest of a line, and of the lines on which it continues, without the last line break.
fn line_length(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        match rest.find(['\n', '\\']) {
            None => return text.len(),
            Some(stop) if rest[stop..].starts_with('\n') => return at + stop,
            Some(stop) => at += stop + splice(&rest[stop..]).max(1),
        }
    }
}
