//! Declarations: a type, a name, and a length.

use super::Parser;
use crate::ast::{Field, Name, Type};
use crate::error::Mistake;
use crate::expression::Expression;
use crate::lexer::Kind;
use crate::model::Scalar;
use crate::source::Span;

/// The part before the name of a declaration.
enum Specifier {
    /// `opaque`, which needs a length.
    Opaque,
    /// `string`, which has a bound.
    String,
    Type(Type),
}

/// Where a declaration stands: it may leave out different parts there.
#[derive(Clone, Copy, PartialEq)]
enum DeclaredIn {
    /// A field, an arm or a typedef: nothing.
    Field,
    /// An argument or a result of a procedure: the bound of a string.
    Procedure,
}

impl Parser<'_> {
    /// A declaration with a name; `None` for `void`. A type in it that has no name is called after `of`, the type around it.
    pub(super) fn declaration(&mut self, of: &str) -> Result<Option<Field>, Mistake> {
        let first = self.at;
        if self.take("void") {
            return Ok(None);
        }
        let specifier = match self.inner_type(Some(of))? {
            Some(inner) => Specifier::Type(Type::Named(inner)),
            None => self.specifier()?,
        };
        let star = self.star();
        let name = self.name("what is declared")?;
        let ty = self.length(specifier, star, DeclaredIn::Field)?;
        // The comment after the semicolon is found, too: only white space and `;` is between.
        let notes = self.notes(first, self.at, self.at);
        Ok(Some(Field { name, notes, ty }))
    }

    /// An argument of a procedure, with or without a name; `None` for `void`.
    pub(super) fn argument(&mut self, position: usize) -> Result<Option<Field>, Mistake> {
        let first = self.at;
        if self.take("void") {
            // rpcgen takes a name here, too.
            self.at += usize::from(self.peek().kind == Kind::Word);
            return Ok(None);
        }
        let specifier = self.specifier()?;
        let early_star = self.star();
        let name = match self.peek().kind {
            Kind::Word => self.name("the argument")?,
            _ => Name { text: format!("arg{position}"), span: self.tokens[first].span },
        };
        let ty = self.length(specifier, early_star, DeclaredIn::Procedure)?;
        Ok(Some(Field { name, notes: self.notes(first, self.at, self.at), ty }))
    }

    /// The result type of a procedure; `None` for `void`.
    pub(super) fn result(&mut self) -> Result<Option<Type>, Mistake> {
        if self.take("void") {
            return Ok(None);
        }
        let specifier = self.specifier()?;
        let star = self.star();
        self.length(specifier, star, DeclaredIn::Procedure).map(Some)
    }

    /// Takes the `*` of optional data.
    fn star(&mut self) -> Option<Span> {
        let span = self.peek().span;
        self.take("*").then_some(span)
    }

    fn specifier(&mut self) -> Result<Specifier, Mistake> {
        let token = self.peek().clone();
        if token.kind != Kind::Word {
            return Err(self.expected("a type"));
        }
        self.at += 1;
        let scalar = match token.text.as_str() {
            "opaque" => return Ok(Specifier::Opaque),
            "string" => return Ok(Specifier::String),
            "struct" | "enum" | "union" => {
                let name = self.name(&format!("the {}", token.text))?;
                return Ok(Specifier::Type(Type::Named(name)));
            }
            "unsigned" => self.unsigned(),
            "bool" => Scalar::Bool,
            "char" => Scalar::I8,
            "int" => Scalar::I32,
            "float" => Scalar::F32,
            "double" => Scalar::F64,
            "quadruple" => Scalar::Quadruple,
            word @ ("short" | "long" | "hyper") => self.sized(word, [Scalar::I16, Scalar::I32, Scalar::I64]),
            _ => {
                self.at -= 1;
                return self.type_name().map(|name| Specifier::Type(Type::Named(name)));
            }
        };
        Ok(Specifier::Type(Type::Scalar(scalar)))
    }

    /// Parses the part behind `unsigned`, which can stand alone.
    fn unsigned(&mut self) -> Scalar {
        let word = self.peek().text.clone();
        match word.as_str() {
            "char" | "int" | "short" | "long" | "hyper" => self.at += 1,
            _ => return Scalar::U32,
        }
        match word.as_str() {
            "char" => Scalar::U8,
            "int" => Scalar::U32,
            word => self.sized(word, [Scalar::U16, Scalar::U32, Scalar::U64]),
        }
    }

    /// One of the types `short`, `long` and `hyper`, with an optional `int` after. `long` takes 4 bytes in XDR, and
    /// `long long`, which rpcgen does not know, 8.
    fn sized(&mut self, word: &str, [short, long, hyper]: [Scalar; 3]) -> Scalar {
        let scalar = match word {
            "short" => short,
            "hyper" => hyper,
            _ if self.take("long") => hyper,
            _ => long,
        };
        self.take("int");
        scalar
    }

    /// The name of a type, of which a namespace before it is no part.
    fn type_name(&mut self) -> Result<Name, Mistake> {
        let mut name = self.name("a type")?;
        while self.take("::") {
            name = self.name("a type")?;
        }
        Ok(name)
    }

    /// Parses the part behind the name: `[N]`, `<N>`, `<>` or nothing.
    fn length(
        &mut self,
        specifier: Specifier,
        star: Option<Span>,
        within: DeclaredIn,
    ) -> Result<Type, Mistake> {
        let (is_fixed, is_variable) = (self.peek_is("["), self.peek_is("<"));
        if let Some(star) = star.filter(|_| is_fixed || is_variable) {
            let advice = "optional data cannot be an array in one declaration: use a typedef for one of both";
            return Err(Mistake::new(star, advice));
        }
        let ty = match specifier {
            Specifier::Opaque if is_fixed => Type::FixedOpaque(self.fixed_length()?),
            Specifier::Opaque if is_variable => Type::Opaque(self.bound()?),
            Specifier::Opaque => return Err(self.expected("`[` or `<`: opaque data has a length")),
            Specifier::String if is_variable => Type::String(self.bound()?),
            Specifier::String if within == DeclaredIn::Procedure && star.is_none() => Type::String(None),
            Specifier::String => return Err(self.expected("`<`: the length of a string is variable")),
            Specifier::Type(ty) if is_fixed => Type::Array(Box::new(ty), self.fixed_length()?),
            Specifier::Type(ty) if is_variable => Type::Sequence(Box::new(ty), self.bound()?),
            Specifier::Type(ty) if star.is_some() => Type::Optional(Box::new(ty)),
            Specifier::Type(ty) => ty,
        };
        if self.peek_is("[") || self.peek_is("<") {
            let advice = "a declaration has one length: use a typedef for the inner array";
            return Err(Mistake::new(self.peek().span, advice));
        }
        Ok(ty)
    }

    fn fixed_length(&mut self) -> Result<Expression, Mistake> {
        self.expect("[", "")?;
        let length = self.number()?;
        self.expect("]", "after the length")?;
        Ok(length)
    }

    pub(super) fn bound(&mut self) -> Result<Option<Expression>, Mistake> {
        self.expect("<", "")?;
        if self.take(">") {
            return Ok(None);
        }
        let (bound, used) = Expression::parse_bound(&self.tokens[self.at..], self.end.span)?;
        self.at += used;
        self.expect(">", "after the bound")?;
        Ok(Some(bound))
    }

    /// A struct, union or enum that is defined here, inside a declaration. If it has no name, it is called `of_name` after
    /// the type around it and what is declared, or after what is declared alone.
    pub(super) fn inner_type(&mut self, of: Option<&str>) -> Result<Option<Name>, Mistake> {
        let first = self.at;
        let keyword = self.peek().text.clone();
        if !matches!(keyword.as_str(), "enum" | "struct" | "union") {
            return Ok(None);
        }
        let begins_body = |token: Option<&crate::lexer::Token>| {
            token.is_some_and(|token| token.is("{") || token.is("switch"))
        };
        let name = if begins_body(self.tokens.get(self.at + 1)) {
            self.at += 1;
            let declared = self.name_behind_braces()?;
            let text = of.map_or(declared.text.clone(), |of| format!("{of}_{}", declared.text));
            Name { text, ..declared }
        } else if begins_body(self.tokens.get(self.at + 2)) {
            self.at += 1;
            self.name("the type")?
        } else {
            return Ok(None);
        };
        self.body(first, &keyword, name.clone())?;
        Ok(Some(name))
    }

    /// The name that is declared with a type that has none. It is the first word after the type's braces.
    fn name_behind_braces(&self) -> Result<Name, Mistake> {
        let mut depth = 0;
        for (position, token) in self.tokens.iter().enumerate().skip(self.at) {
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth -= 1;
                if depth == 0 {
                    let behind = self.tokens[position + 1..].iter().find(|token| !token.is("*"));
                    let name = behind.filter(|token| token.kind == Kind::Word);
                    let name = name.map(|token| Name { text: token.text.clone(), span: token.span });
                    let missing = || Mistake::new(token.span, "expected a name after the type");
                    return name.ok_or_else(missing);
                }
            }
        }
        Err(self.expected("a type that ends"))
    }
}
