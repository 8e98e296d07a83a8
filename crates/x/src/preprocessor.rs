//! The preprocessor: conditions, macros and included files.
//!
//! rpcgen runs `cpp` over an interface file first, so files use it. What they use is here: object-like and function-like
//! macros (without `#` and `##`), conditions, and inclusion. Names that a C compiler would define are not defined.

mod conditions;
mod macros;

use crate::error::Mistake;
use crate::expression::Expression;
use crate::lexer::{Kind, Lexed, Lexer, Token};
use crate::source::{Sources, Span};
use conditions::Conditions;
use macros::Macros;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// How deeply files may include each other.
const INCLUDE_DEPTH_MAX: usize = 64;

/// Finds the text of an included file.
///
/// It is given the name as written, and the name of the file that includes it; it returns the name under which errors
/// mention the file, and its text.
pub type Include<'a> = dyn FnMut(&str, &str) -> Result<(String, String), String> + 'a;

/// The tokens of a file and of all that it includes.
pub(crate) struct Preprocessor<'a> {
    pub(crate) sources: Sources,
    pub(crate) tokens: Vec<Token>,
    /// Numbers that C text defines as macros.
    pub(crate) c_constants: HashMap<String, Expression>,
    /// Headers that C text includes: the names of the interface files that would be beside them, and of the files that include them.
    headers: VecDeque<(String, String)>,
    macros: Macros,
    include: &'a mut Include<'a>,
    depth: usize,
}

impl<'a> Preprocessor<'a> {
    pub(crate) fn new(include: &'a mut Include<'a>) -> Self {
        Preprocessor {
            sources: Sources::default(),
            tokens: Vec::new(),
            c_constants: HashMap::new(),
            headers: VecDeque::new(),
            macros: Macros::default(),
            include,
            depth: 0,
        }
    }

    /// Defines a macro, as `#define NAME VALUE` would.
    pub(crate) fn define(&mut self, name: &str, value: &str) -> Result<(), Mistake> {
        let text: Rc<str> = format!("{name} {value}").into();
        let file = self.sources.add("the options", &text);
        let line = Lexer::new(file, &text).tokens()?;
        self.macros.define(&line, Span { file, start: 0, end: name.len() })
    }

    /// A mistake in a text of the options.
    pub(crate) fn refuse(&mut self, text: &str, why: &str) -> Mistake {
        let file = self.sources.add("the options", text);
        Mistake::new(Span { file, start: 0, end: text.len() }, why)
    }

    /// Reads a file, and gives its position.
    pub(crate) fn read(&mut self, name: &str, text: &str) -> Result<usize, Mistake> {
        let file = self.sources.add(name, text);
        let text = Rc::clone(&self.sources.file(file).text);
        let mut lexer = Lexer::new(file, &text);
        let read = self.read_with(&mut lexer, &text);
        for span in std::mem::take(&mut lexer.c_directives) {
            self.c_constants.extend(c_constant(&text, span));
            self.headers
                .extend(c_header(&text[span.start..span.end]).map(|header| (header, name.to_owned())));
        }
        self.sources.set_comments(file, lexer.comments);
        read.map(|()| file)
    }

    /// Reads the next interface file beside a header that C text includes, and gives its position; `None` if there is no other. Each
    /// is read once, so files that include each other end.
    pub(crate) fn read_header(&mut self) -> Result<Option<usize>, Mistake> {
        while let Some((name, from)) = self.headers.pop_front() {
            // Most headers have no interface file.
            let Ok((name, text)) = (self.include)(&name, &from) else { continue };
            if !self.sources.has(&text) {
                return self.read(&name, &text).map(Some);
            }
        }
        Ok(None)
    }

    fn read_with(&mut self, lexer: &mut Lexer<'_>, text: &str) -> Result<(), Mistake> {
        let mut conditions = Conditions::default();
        // Tokens since the last directive. Macros are replaced in all of them at once, since a use can span lines.
        let mut pending = Vec::new();
        loop {
            let directive = if conditions.hold() {
                match lexer.next()? {
                    Lexed::Token(token) if token.kind == Kind::End => None,
                    Lexed::Token(token) => {
                        pending.push(token);
                        continue;
                    }
                    Lexed::Directive(span) => Some(span),
                }
            } else {
                lexer.next_directive()?
            };
            self.macros.expand(&std::mem::take(&mut pending), &mut self.tokens)?;
            match directive {
                Some(span) => self.directive(&mut conditions, text, span)?,
                None => return conditions.finish(),
            }
        }
    }

    fn directive(&mut self, conditions: &mut Conditions, text: &str, span: Span) -> Result<(), Mistake> {
        let line = &text[span.start..span.end];
        let name = line.trim_start();
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
        let start = span.start + line.len() - line.trim_start().len();
        let place = Span { start, end: (start + name.len()).max(start), ..span };
        let operands = Span { start: place.end, ..span };
        if conditions.directive(name, place, text, operands, &self.macros)? || !conditions.hold() {
            return Ok(());
        }
        match name {
            "define" => self.macros.define(&Lexer::of_directive(text, operands).tokens()?, place),
            "undef" => self.macros.undefine(&Lexer::of_directive(text, operands).tokens()?, place),
            "include" => self.include(text, operands),
            "error" => Err(Mistake::new(place, format!("#error {}", text[operands.start..span.end].trim()))),
            // A line that `cpp` writes (`# 12 "mount.x"`) says where the next one comes from.
            "" | "line" | "pragma" | "ident" | "warning" => Ok(()),
            _ if name.starts_with(|c: char| c.is_ascii_digit()) => Ok(()),
            _ => Err(Mistake::new(place, format!("the preprocessor has no directive `#{name}`"))),
        }
    }

    fn include(&mut self, text: &str, operands: Span) -> Result<(), Mistake> {
        let written = text[operands.start..operands.end].trim_start();
        let start = operands.end - written.len();
        let (open, rest) = written.split_at(written.chars().next().map_or(0, char::len_utf8));
        let close = if open == "<" { '>' } else { '"' };
        let length = rest.find(close).filter(|_| open == "<" || open == "\"");
        let Some(length) = length else {
            let place = Span { start, end: start + open.len(), ..operands };
            return Err(Mistake::new(place, "expected `\"FILE\"` or `<FILE>` after `#include`"));
        };
        if open == "<" && rest[..length].ends_with(".h") {
            // A header of the system is C, and no part of the interface.
            return Ok(());
        }
        let place = Span { start, end: start + length + 2, ..operands };
        if self.depth == INCLUDE_DEPTH_MAX {
            let advice = format!("files include each other more than {INCLUDE_DEPTH_MAX} deep");
            return Err(Mistake::new(place, advice));
        }
        let from = self.sources.file(operands.file).name.clone();
        let included = (self.include)(&rest[..length], &from);
        let (name, text) = included.map_err(|why| Mistake::new(place, why))?;
        self.depth += 1;
        let read = self.read(&name, &text);
        self.depth -= 1;
        read.map(|_| ())
    }
}

/// The name of a macro that C text defines, if that is a number.
fn c_constant(text: &str, span: Span) -> Option<(String, Expression)> {
    let line = Lexer::of_directive(text, span).tokens().ok()?;
    let (name, value) = line.split_first().filter(|(define, _)| define.is("define"))?.1.split_first()?;
    let (expression, used) = Expression::parse_prefix(value, span).ok()?;
    (name.kind == Kind::Word && used == value.len()).then(|| (name.text.clone(), expression))
}

/// The name of the interface file for a header that C text includes in quotes: rpcgen makes `nis.h` of `nis.x`.
fn c_header(directive: &str) -> Option<String> {
    let operand = directive.trim_start().strip_prefix("include")?.trim_start().strip_prefix('"')?;
    let (name, _) = operand.split_once('"')?;
    let stem = name.strip_suffix(".h").or_else(|| name.strip_suffix(".x"))?;
    Some(format!("{stem}.x"))
}
