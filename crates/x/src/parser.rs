//! Tokens to definitions.
//!
//! The language is that of RFC 4506 §6 and RFC 5531 §12, with all that rpcgen accepts, and the extensions in use: nested types
//! without a name, labels in any order, several arguments, namespaces, expressions for constants.

mod declaration;
mod definition;
mod program;

use crate::ast::{Body, Definition, Name, Notes};
use crate::comments;
use crate::error::Mistake;
use crate::expression::Expression;
use crate::lexer::{Kind, Token};
use crate::source::{Sources, Span};
use std::collections::HashSet;

/// How deeply types and namespaces may nest.
const DEPTH_MAX: usize = 64;

/// Words that cannot be names. Others that the language uses are names wherever one is expected.
const RESERVED: [&str; 22] = [
    "bool",
    "case",
    "char",
    "const",
    "default",
    "double",
    "enum",
    "float",
    "hyper",
    "int",
    "long",
    "opaque",
    "quadruple",
    "short",
    "string",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "namespace",
];

/// Parses the tokens of a file and of all that it includes. `end` is the end of the file, for errors there.
pub(crate) fn parse(tokens: &[Token], sources: &Sources, end: Span) -> Result<Vec<Definition>, Mistake> {
    let end = Token { kind: Kind::End, text: String::new(), span: end };
    let mut parser = Parser { tokens, sources, end, at: 0, depth: 0, definitions: Vec::new() };
    parser.definitions_until_end()?;
    Ok(without_repetitions(parser.definitions))
}

struct Parser<'a> {
    tokens: &'a [Token],
    sources: &'a Sources,
    end: Token,
    at: usize,
    depth: usize,
    definitions: Vec<Definition>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&self.end)
    }

    fn peek_is(&self, text: &str) -> bool {
        self.peek().is(text)
    }

    fn take(&mut self, text: &str) -> bool {
        let is_next = self.peek_is(text);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes all of these tokens, or none.
    fn take_all(&mut self, texts: &[&str]) -> bool {
        let next = self.tokens[self.at..].iter().map(|token| token.text.as_str()).take(texts.len());
        let are_next = next.eq(texts.iter().copied());
        self.at += if are_next { texts.len() } else { 0 };
        are_next
    }

    /// The error that something else was expected here.
    fn expected(&self, what: &str) -> Mistake {
        Mistake::new(self.peek().span, format!("expected {what}, found {}", self.peek().quoted()))
    }

    /// Takes a symbol or keyword; `place` says where it is missing (`after the name`), or is empty.
    fn expect(&mut self, text: &str, place: &str) -> Result<Span, Mistake> {
        let span = self.peek().span;
        if self.take(text) {
            return Ok(span);
        }
        let blank = if place.is_empty() { "" } else { " " };
        Err(self.expected(&format!("`{text}`{blank}{place}")))
    }

    /// Takes a name; `what` it names.
    fn name(&mut self, what: &str) -> Result<Name, Mistake> {
        let token = self.peek();
        if token.kind != Kind::Word {
            return Err(self.expected(&format!("the name of {what}")));
        }
        if RESERVED.contains(&token.text.as_str()) {
            let advice =
                format!("expected the name of {what}, but `{}` is a word of the language", token.text);
            return Err(Mistake::new(token.span, advice));
        }
        let name = Name { text: token.text.clone(), span: token.span };
        self.at += 1;
        Ok(name)
    }

    fn number(&mut self) -> Result<Expression, Mistake> {
        let (expression, used) = Expression::parse_prefix(&self.tokens[self.at..], self.end.span)?;
        self.at += used;
        Ok(expression)
    }

    /// Parses something that can contain itself.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Mistake>) -> Result<T, Mistake> {
        if self.depth == DEPTH_MAX {
            return Err(Mistake::new(self.peek().span, format!("this nests more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// The comments on a declaration that begins with token `first` and ends before token `after`, and its text up to
    /// token `declared`.
    fn notes(&self, first: usize, declared: usize, behind: usize) -> Notes {
        let span = self.tokens[first].span;
        let last = self.tokens[first..behind].last().map_or(span, |token| token.span);
        let comment = comments::around(self.sources.file(span.file), span.to(last));
        Notes { comment, declaration: text_of(&self.tokens[first..declared]) }
    }
}

/// Leaves out a constant or a typedef that was there before in the same words: files that include each other repeat them.
fn without_repetitions(definitions: Vec<Definition>) -> Vec<Definition> {
    let mut seen = HashSet::new();
    let mut is_new = |definition: &Definition| {
        let is_line = matches!(definition.body, Body::Number(_) | Body::Text(_) | Body::Typedef(_));
        !is_line || seen.insert(definition.notes.declaration.clone())
    };
    definitions.into_iter().filter(|definition| is_new(definition)).collect()
}

/// Tokens as text, spaced as a person would.
fn text_of(tokens: &[Token]) -> String {
    let mut text = String::new();
    let mut before = "";
    for token in tokens {
        let is_glued = matches!(token.text.as_str(), "<" | ">" | "[" | "]" | ";" | "," | "(" | ")" | ":")
            || matches!(before, "" | "<" | "[" | "(" | "*" | "-");
        if !is_glued || matches!((before, token.text.as_str()), ("switch" | "=", "(")) {
            text.push(' ');
        }
        text.push_str(&token.text);
        before = &token.text;
    }
    text
}
