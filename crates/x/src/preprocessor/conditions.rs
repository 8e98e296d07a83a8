//! `#if` to `#endif`: which parts of a file count.

use super::macros::Macros;
use crate::error::Mistake;
use crate::expression::{self, Expression};
use crate::lexer::{Kind, Lexer, Token};
use crate::source::Span;

/// One `#if` that is not closed yet.
struct Condition {
    /// The directive that opened it.
    span: Span,
    /// Whether the part that is being read counts.
    holds: bool,
    /// Whether no later part of it can count: one has, or the whole is excluded.
    is_decided: bool,
    has_else: bool,
}

/// The conditions around the present line of a file.
#[derive(Default)]
pub(super) struct Conditions {
    open: Vec<Condition>,
}

impl Conditions {
    /// Whether the present line counts.
    pub(super) fn hold(&self) -> bool {
        self.open.last().is_none_or(|condition| condition.holds)
    }

    /// Checks that every `#if` was closed.
    pub(super) fn finish(&self) -> Result<(), Mistake> {
        let unclosed = |condition: &Condition| Mistake::new(condition.span, "this condition has no `#endif`");
        self.open.last().map_or(Ok(()), |condition| Err(unclosed(condition)))
    }

    /// Follows a directive called `name` if it belongs to a condition; whether it does.
    pub(super) fn directive(
        &mut self,
        name: &str,
        place: Span,
        text: &str,
        operands: Span,
        macros: &Macros,
    ) -> Result<bool, Mistake> {
        let evaluate = || evaluate(name, place, text, operands, macros);
        match name {
            "if" | "ifdef" | "ifndef" => {
                let is_excluded = !self.hold();
                let holds = !is_excluded && evaluate()?;
                self.open.push(Condition {
                    span: place,
                    holds,
                    is_decided: is_excluded || holds,
                    has_else: false,
                });
            }
            "elif" => {
                let condition = self.innermost(name, place)?;
                condition.holds = !condition.is_decided && evaluate()?;
                condition.is_decided |= condition.holds;
            }
            "else" => {
                let condition = self.innermost(name, place)?;
                condition.holds = !condition.is_decided;
                (condition.is_decided, condition.has_else) = (true, true);
            }
            "endif" => {
                let without = || Mistake::new(place, "`#endif` without `#if`");
                self.open.pop().ok_or_else(without)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The condition to which `#elif` or `#else` belongs.
    fn innermost(&mut self, name: &str, place: Span) -> Result<&mut Condition, Mistake> {
        let condition = self.open.last_mut();
        let condition = condition.ok_or_else(|| Mistake::new(place, format!("`#{name}` without `#if`")))?;
        if condition.has_else {
            return Err(Mistake::new(place, format!("`#{name}` after `#else`")));
        }
        Ok(condition)
    }
}

fn evaluate(name: &str, place: Span, text: &str, operands: Span, macros: &Macros) -> Result<bool, Mistake> {
    let line = Lexer::of_directive(text, operands).tokens()?;
    if name == "ifdef" || name == "ifndef" {
        let word = line.first().filter(|token| token.kind == Kind::Word);
        let word = word.ok_or_else(|| Mistake::new(place, format!("expected a name after `#{name}`")))?;
        return Ok(macros.is_defined(&word.text) == (name == "ifdef"));
    }
    let mut tokens = Vec::new();
    macros.expand(&with_definitions(&line, macros)?, &mut tokens)?;
    let (value, used) = Expression::parse_prefix(&tokens, place)?;
    if let Some(extra) = tokens.get(used) {
        return Err(Mistake::new(
            extra.span,
            format!("expected the end of the condition, found {}", extra.quoted()),
        ));
    }
    // A name that is no macro is 0, as in C.
    Ok(value.evaluate(&mut |_| Ok(expression::Value::from(0)))? != 0)
}

/// Replaces `defined NAME` and `defined(NAME)` by 1 or 0.
fn with_definitions(line: &[Token], macros: &Macros) -> Result<Vec<Token>, Mistake> {
    let mut replaced = Vec::new();
    let mut rest = line;
    while let Some((token, behind)) = rest.split_first() {
        rest = behind;
        if !token.is("defined") {
            replaced.push(token.clone());
            continue;
        }
        let (name, behind) = match rest {
            [open, name, close, behind @ ..] if open.is("(") && close.is(")") => (name, behind),
            [name, behind @ ..] if name.kind == Kind::Word => (name, behind),
            _ => return Err(Mistake::new(token.span, "expected a name after `defined`")),
        };
        rest = behind;
        let text = if macros.is_defined(&name.text) { "1" } else { "0" };
        replaced.push(Token { kind: Kind::Number, text: text.to_owned(), span: token.span });
    }
    Ok(replaced)
}
