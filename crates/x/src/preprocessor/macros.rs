//! Macros, and their replacement.

use crate::error::Mistake;
use crate::lexer::{Kind, Token};
use crate::source::Span;
use std::cell::Cell;
use std::collections::HashMap;

/// More tokens than this, all files and macros together, are a mistake: macros can grow exponentially.
const TOKENS_MAX: usize = 1 << 20;
/// How often macros may be used, and how deeply they may use each other.
const USES_MAX: usize = 1 << 16;
const DEPTH_MAX: usize = 64;

/// The tokens that replace a use of a macro, and those after the use.
type Replacement<'t> = (Vec<Token>, &'t [Token]);

struct Macro {
    /// The names of the parameters of a function-like macro.
    parameters: Option<Vec<String>>,
    body: Vec<Token>,
}

/// The macros that are defined at a line.
#[derive(Default)]
pub(super) struct Macros {
    defined: HashMap<String, Macro>,
    uses: Cell<usize>,
}

impl Macros {
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.defined.contains_key(name)
    }

    /// Follows `#define`; `line` is what stands after it.
    pub(super) fn define(&mut self, line: &[Token], place: Span) -> Result<(), Mistake> {
        let (name, mut body) = named(line, "#define", place)?;
        let mut parameters = None;
        // A parenthesis belongs to the name only directly after it.
        if body.first().is_some_and(|open| open.is("(") && open.span.start == name.span.end) {
            let close = body.iter().position(|token| token.is(")"));
            let close = close.ok_or_else(|| Mistake::new(name.span, "expected `)` after the parameters"))?;
            let names = body[1..close].iter().filter(|token| token.kind == Kind::Word);
            parameters = Some(names.map(|token| token.text.clone()).collect());
            body = &body[close + 1..];
        }
        self.defined.insert(name.text.clone(), Macro { parameters, body: body.to_vec() });
        Ok(())
    }

    /// Follows `#undef`.
    pub(super) fn undefine(&mut self, line: &[Token], place: Span) -> Result<(), Mistake> {
        let (name, _) = named(line, "#undef", place)?;
        self.defined.remove(&name.text);
        Ok(())
    }

    /// Appends tokens to others, with macros replaced.
    pub(super) fn expand(&self, tokens: &[Token], to: &mut Vec<Token>) -> Result<(), Mistake> {
        self.replace(tokens, None, &mut Vec::new(), to)
    }

    /// `place` is where the outermost macro was used, and `active` the macros whose bodies these tokens are from.
    fn replace(
        &self,
        tokens: &[Token],
        place: Option<Span>,
        active: &mut Vec<String>,
        to: &mut Vec<Token>,
    ) -> Result<(), Mistake> {
        let mut rest = tokens;
        while let Some((token, behind)) = rest.split_first() {
            rest = behind;
            let span = place.unwrap_or(token.span);
            let Some((body, behind)) = self.body(token, rest, span, active)? else {
                if to.len() == TOKENS_MAX {
                    return Err(Mistake::new(span, format!("more than {TOKENS_MAX} tokens")));
                }
                to.push(Token { span, ..token.clone() });
                continue;
            };
            rest = behind;
            active.push(token.text.clone());
            self.replace(&body, Some(span), active, to)?;
            active.pop();
        }
        Ok(())
    }

    /// The tokens that replace a use of a macro, and the tokens after the use; for a token that is such a use.
    fn body<'t>(
        &self,
        token: &Token,
        rest: &'t [Token],
        span: Span,
        active: &mut Vec<String>,
    ) -> Result<Option<Replacement<'t>>, Mistake> {
        let definition = self.defined.get(&token.text).filter(|_| token.kind == Kind::Word);
        let Some(definition) = definition.filter(|_| !active.contains(&token.text)) else { return Ok(None) };
        self.uses.set(self.uses.get() + 1);
        if active.len() == DEPTH_MAX || self.uses.get() > USES_MAX {
            return Err(Mistake::new(span, "this macro uses too many others"));
        }
        let Some(parameters) = &definition.parameters else {
            return Ok(Some((definition.body.clone(), rest)));
        };
        // Without arguments the name of a function-like macro is a name like any other.
        let Some((arguments, behind)) = arguments(rest) else { return Ok(None) };
        let mut body = Vec::new();
        for token in &definition.body {
            match parameters.iter().position(|name| token.kind == Kind::Word && *name == token.text) {
                Some(position) => {
                    let argument = arguments.get(position).copied().unwrap_or_default();
                    self.replace(argument, Some(span), active, &mut body)?;
                }
                None => body.push(token.clone()),
            }
        }
        Ok(Some((body, behind)))
    }
}

/// The name after a directive, and the tokens after the name.
fn named<'a>(line: &'a [Token], directive: &str, place: Span) -> Result<(&'a Token, &'a [Token]), Mistake> {
    match line.split_first() {
        Some((name, rest)) if name.kind == Kind::Word => Ok((name, rest)),
        _ => Err(Mistake::new(place, format!("expected a name after `{directive}`"))),
    }
}

/// The arguments in parentheses with which tokens begin, and the tokens after them.
fn arguments(tokens: &[Token]) -> Option<(Vec<&[Token]>, &[Token])> {
    tokens.first().filter(|open| open.is("("))?;
    let (mut arguments, mut start, mut depth) = (Vec::new(), 1, 0);
    for (position, token) in tokens.iter().enumerate().skip(1) {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" if depth == 0 => {
                arguments.push(&tokens[start..position]);
                return Some((arguments, &tokens[position + 1..]));
            }
            ")" => depth -= 1,
            "," if depth == 0 => {
                arguments.push(&tokens[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    None
}
