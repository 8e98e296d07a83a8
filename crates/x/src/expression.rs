//! Constant expressions, in conditions of the preprocessor and wherever a number may stand.

use crate::error::Mistake;
use crate::lexer::{Kind, Token};
use crate::source::Span;

/// The value of a constant; wide enough for every integer of XDR, signed or not.
pub type Value = i128;

/// How deeply parentheses and operators may nest.
const DEPTH_MAX: usize = 64;
/// How many operators an expression may have: its tree can be as deep.
const OPERATORS_MAX: usize = 256;

/// A constant expression.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    /// A number.
    Number(Value, Span),
    /// The name of a constant.
    Name(String, Span),
    /// An operator and its operand.
    Unary(char, Box<Expression>, Span),
    /// Two operands and the operator between them.
    Binary(Box<Expression>, String, Box<Expression>, Span),
    /// A condition, and the values if it holds and if not.
    Choice(Box<[Expression; 3]>),
}

impl Expression {
    /// Parses the expression with which tokens begin, and counts its tokens. Errors at the end of the tokens are at `place`.
    pub(crate) fn parse_prefix(tokens: &[Token], place: Span) -> Result<(Expression, usize), Mistake> {
        let mut parser = Parser { tokens, at: 0, place, depth: 0, operators: 0, is_in_angles: false };
        Ok((parser.choice()?, parser.at))
    }

    /// The same between `<` and `>`, where neither is an operator.
    pub(crate) fn parse_bound(tokens: &[Token], place: Span) -> Result<(Expression, usize), Mistake> {
        let mut parser = Parser { tokens, at: 0, place, depth: 0, operators: 0, is_in_angles: true };
        Ok((parser.choice()?, parser.at))
    }

    /// Computes the value; `lookup` finds those of names.
    pub(crate) fn evaluate(
        &self,
        lookup: &mut dyn FnMut(&Expression) -> Result<Value, Mistake>,
    ) -> Result<Value, Mistake> {
        match self {
            Expression::Number(value, _) => Ok(*value),
            Expression::Name(..) => lookup(self),
            Expression::Unary(operator, operand, span) => {
                let operand = operand.evaluate(lookup)?;
                let value = match operator {
                    '-' => operand.checked_neg(),
                    '~' => Some(!operand),
                    '!' => Some(Value::from(operand == 0)),
                    _ => Some(operand),
                };
                value.ok_or_else(|| overflow(*span))
            }
            Expression::Binary(left, operator, right, span) => {
                let (left, right) = (left.evaluate(lookup)?, right.evaluate(lookup)?);
                binary(left, operator, right).ok_or_else(|| overflow(*span))
            }
            Expression::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                if condition.evaluate(lookup)? != 0 {
                    then.evaluate(lookup)
                } else {
                    otherwise.evaluate(lookup)
                }
            }
        }
    }

    /// The place of the expression, or of an operator in it.
    pub(crate) fn span(&self) -> Span {
        match self {
            Expression::Number(_, span) | Expression::Name(_, span) => *span,
            Expression::Unary(_, _, span) | Expression::Binary(_, _, _, span) => *span,
            Expression::Choice(parts) => parts[0].span(),
        }
    }
}

fn overflow(span: Span) -> Mistake {
    Mistake::new(span, "this has no value: the result is too large, or a division is by zero")
}

/// The value of an operator of two operands, if there is one.
fn binary(left: Value, operator: &str, right: Value) -> Option<Value> {
    let shift = || u32::try_from(right).ok().filter(|&bits| bits < 64);
    Some(match operator {
        "*" => left.checked_mul(right)?,
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        "+" => left.checked_add(right)?,
        "-" => left.checked_sub(right)?,
        "<<" => left.checked_mul(1 << shift()?)?,
        ">>" => left >> shift()?,
        "&" => left & right,
        "^" => left ^ right,
        "|" => left | right,
        "<" => (left < right).into(),
        ">" => (left > right).into(),
        "<=" => (left <= right).into(),
        ">=" => (left >= right).into(),
        "==" => (left == right).into(),
        "!=" => (left != right).into(),
        "&&" => (left != 0 && right != 0).into(),
        _ => (left != 0 || right != 0).into(),
    })
}

/// How strongly an operator of two operands binds, as in C.
fn strength(operator: &str) -> Option<u32> {
    Some(match operator {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | ">" | "<=" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    place: Span,
    depth: usize,
    operators: usize,
    is_in_angles: bool,
}

impl Parser<'_> {
    fn choice(&mut self) -> Result<Expression, Mistake> {
        self.nested(|parser| {
            let condition = parser.binary(1)?;
            if !parser.take("?") {
                return Ok(condition);
            }
            let then = parser.choice()?;
            parser.expect(":")?;
            Ok(Expression::Choice(Box::new([condition, then, parser.choice()?])))
        })
    }

    /// Operands and operators that bind at least as strongly as `weakest`.
    fn binary(&mut self, weakest: u32) -> Result<Expression, Mistake> {
        let mut left = self.unary()?;
        while let Some((operator, span, found)) = self.operator().filter(|&(_, _, found)| found >= weakest) {
            self.at += 1;
            self.operators += 1;
            if self.operators > OPERATORS_MAX {
                return Err(Mistake::new(span, format!("more than {OPERATORS_MAX} operators")));
            }
            let right = self.binary(found + 1)?;
            left = Expression::Binary(Box::new(left), operator, Box::new(right), span);
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(String, Span, u32)> {
        let token = self.tokens.get(self.at).filter(|token| token.kind == Kind::Symbol)?;
        let is_close = self.is_in_angles && token.text.contains('>');
        let strength = strength(&token.text).filter(|_| !is_close)?;
        Some((token.text.clone(), token.span, strength))
    }

    fn unary(&mut self) -> Result<Expression, Mistake> {
        let end = || Mistake::new(self.place, "expected a constant");
        let token = self.tokens.get(self.at).ok_or_else(end)?.clone();
        self.at += 1;
        match (token.kind, token.text.as_str()) {
            (Kind::Number, text) => Ok(Expression::Number(number(text, token.span)?, token.span)),
            (Kind::Character, text) => Ok(Expression::Number(character(text, token.span)?, token.span)),
            (Kind::Word, _) => Ok(Expression::Name(token.text, token.span)),
            (Kind::Symbol, "-" | "~" | "!" | "+") => {
                let operator = token.text.chars().next().expect("a symbol is not empty");
                let operand = self.nested(Self::unary)?;
                Ok(Expression::Unary(operator, Box::new(operand), token.span))
            }
            (Kind::Symbol, "(") => {
                let was_in_angles = std::mem::replace(&mut self.is_in_angles, false);
                let inner = self.choice()?;
                self.is_in_angles = was_in_angles;
                self.expect(")")?;
                Ok(inner)
            }
            _ => Err(Mistake::new(token.span, format!("expected a constant, found {}", token.quoted()))),
        }
    }

    /// Parses something that can contain itself.
    fn nested(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Expression, Mistake>,
    ) -> Result<Expression, Mistake> {
        let place = self.tokens.get(self.at).map_or(self.place, |token| token.span);
        if self.depth == DEPTH_MAX {
            return Err(Mistake::new(place, format!("this nests more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|token| token.is(symbol));
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Mistake> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(match self.tokens.get(self.at) {
            Some(token) => Mistake::new(token.span, format!("expected `{symbol}`, found {}", token.quoted())),
            None => Mistake::new(self.place, format!("expected `{symbol}`")),
        })
    }
}

/// The value of a number as C writes it: decimal, `0x` and `0`; a suffix such as `UL` says nothing here.
fn number(text: &str, span: Span) -> Result<Value, Mistake> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    let wrong = |_| {
        Mistake::new(
            span,
            format!("`{text}` is no number: expected decimal, 0x with hexadecimal, or 0 with octal digits"),
        )
    };
    Value::from_str_radix(digits, radix).map_err(wrong)
}

/// The value of a character constant.
fn character(text: &str, span: Span) -> Result<Value, Mistake> {
    let mut characters = text[1..text.len() - 1].chars();
    let value = match (characters.next(), characters.next(), characters.next()) {
        (Some(c), None, None) if c.is_ascii() => c,
        (Some('\\'), Some('n'), None) => '\n',
        (Some('\\'), Some('t'), None) => '\t',
        (Some('\\'), Some('0'), None) => '\0',
        (Some('\\'), Some(c @ ('\\' | '\'' | '"')), None) => c,
        _ => return Err(Mistake::new(span, format!("expected one character of ASCII, found {text}"))),
    };
    Ok(Value::from(u32::from(value)))
}
