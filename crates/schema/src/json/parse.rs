//! The parser of JSON (RFC 8259).

use crate::json::Json;
use crate::limits::DEPTH_MAX;
use std::collections::HashSet;
use std::fmt;

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The line of the fault, from 1 on.
    pub line: usize,
    /// The character in that line, from 1 on.
    pub column: usize,
    /// The fault.
    pub why: &'static str,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {} of the JSON: {}", self.line, self.column, self.why)
    }
}

impl std::error::Error for JsonError {}

impl Json {
    /// The tree of a text.
    ///
    /// # Errors
    /// It is no JSON, or nested too deeply; or an object has two members of one name.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let mut parser = Parser { text, at: 0 };
        let parsed = parser.value(0).and_then(|value| {
            parser.skip_space();
            if parser.at < text.len() { Err("nothing may follow the value") } else { Ok(value) }
        });
        parsed.map_err(|why| {
            let before = &text[..parser.at];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|each| *each != '\n').count() + 1;
            JsonError { line, column, why }
        })
    }
}

/// Reads one value after the other from a text that may have several.
pub(crate) struct Parser<'t> {
    text: &'t str,
    at: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.text[self.at..].starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    fn value(&mut self, depth: usize) -> Parsed<Json> {
        if depth > 2 * DEPTH_MAX {
            return Err("it is nested too deeply");
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            None => Err("it ends before its value"),
            Some(_) => Err("a value was expected: an object, array, string or number, true, false or null"),
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<Json> {
        self.at += 1;
        let mut values = Vec::new();
        self.skip_space();
        if self.take("]") {
            return Ok(Json::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take("]") {
                return Ok(Json::Array(values));
            }
            if !self.take(",") {
                return Err("`,` or `]` was expected");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Json> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.take("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err("a name in quotation marks was expected");
            }
            let name = self.string()?;
            self.skip_space();
            if !self.take(":") {
                return Err("`:` was expected behind the name");
            }
            members.push((name, self.value(depth + 1)?));
            self.skip_space();
            if self.take("}") {
                break;
            }
            if !self.take(",") {
                return Err("`,` or `}` was expected");
            }
        }
        let names: HashSet<_> = members.iter().map(|(name, _)| name).collect();
        if names.len() < members.len() {
            Err("the object has a name twice")
        } else {
            Ok(Json::Object(members))
        }
    }

    fn number(&mut self) -> Parsed<Json> {
        let begin = self.at;
        self.take("-");
        if !self.take("0") {
            self.digits()?;
        }
        if self.take(".") {
            self.digits()?;
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            self.digits()?;
        }
        Ok(Json::Number(self.text[begin..self.at].to_owned()))
    }

    fn digits(&mut self) -> Parsed<()> {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == begin { Err("a digit was expected") } else { Ok(()) }
    }

    fn string(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.find(|each: char| each == '"' || each == '\\' || each < ' ');
            let end = end.ok_or("a string does not end")?;
            text.push_str(&rest[..end]);
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err("a control character has to be written as \\u…"),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        self.at += 1;
        let Some(kind) = self.peek() else { return Err("a string does not end") };
        if !kind.is_ascii() {
            return Err("no such escape");
        }
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let units = match first {
                    0xd800..0xdc00 if self.take("\\u") => vec![first, self.unit()?],
                    _ => vec![first],
                };
                let decoded = char::decode_utf16(units).next().and_then(Result::ok);
                decoded.ok_or("half of a surrogate pair is no character")?
            }
            _ => return Err("no such escape"),
        })
    }

    fn unit(&mut self) -> Parsed<u16> {
        let digits = self.text.get(self.at..self.at + 4).ok_or("four hexadecimal digits were expected")?;
        let is_hex = digits.bytes().all(|each| each.is_ascii_hexdigit());
        let unit = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        self.at += 4;
        unit.ok_or("four hexadecimal digits were expected")
    }
}
