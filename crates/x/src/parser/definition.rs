//! Definitions: constants, types and namespaces.

use super::Parser;
use crate::ast::{Arm, Body, Definition, Enumerator, Field, Label, Name, Type, Union};
use crate::error::Mistake;
use crate::lexer::Kind;

/// The definitions of `bool` in RFC 4506 §4.18, which say what the language has anyway.
const BOOL: [&str; 11] = ["enum", "bool", "{", "FALSE", "=", "0", ",", "TRUE", "=", "1", "}"];
const BOOL_BY_TYPEDEF: [&str; 12] =
    ["typedef", "enum", "{", "FALSE", "=", "0", ",", "TRUE", "=", "1", "}", "bool"];

impl Parser<'_> {
    pub(super) fn definitions_until_end(&mut self) -> Result<(), Mistake> {
        while self.peek().kind != Kind::End {
            self.definition()?;
        }
        Ok(())
    }

    fn definition(&mut self) -> Result<(), Mistake> {
        let first = self.at;
        let tokens = self.tokens;
        match tokens.get(first).map_or("", |token| token.text.as_str()) {
            // Behind the brace of a namespace, or twice.
            ";" => {
                self.at += 1;
                return Ok(());
            }
            "namespace" => return self.nested(Self::namespace),
            "const" => self.constant(first)?,
            "enum" | "typedef" if self.take_all(&BOOL) || self.take_all(&BOOL_BY_TYPEDEF) => {}
            "typedef" => self.typedef(first)?,
            "enum" | "struct" | "union" => self.type_definition(first)?,
            "program" => self.program(first)?,
            _ => {
                let what = "a definition (`const`, `typedef`, `enum`, `struct`, `union` or `program`)";
                return Err(self.expected(what));
            }
        }
        self.expect(";", "after the definition")?;
        Ok(())
    }

    /// A struct, union or enum. A name behind the braces declares a variable (RFC 5531 §9 has `union reply_body … reply`), but names a
    /// type that has no other name.
    fn type_definition(&mut self, first: usize) -> Result<(), Mistake> {
        let is_nameless = self.tokens.get(first + 1).is_some_and(|next| next.is("{") || next.is("switch"));
        if is_nameless && self.inner_type(None)?.is_some() {
            self.at += 1;
            return Ok(());
        }
        let keyword = self.peek().text.clone();
        self.at += 1;
        let is_optional = keyword == "struct" && self.take("*");
        let name = self.name(&format!("the {keyword}"))?;
        if is_optional || (keyword == "struct" && self.peek_is("<")) {
            return self.list(first, name, is_optional);
        }
        self.body(first, &keyword, name)?;
        let is_declared = self.tokens.get(self.at + 1).is_some_and(|next| next.is(";"));
        self.at += usize::from(is_declared && self.peek().kind == Kind::Word);
        Ok(())
    }

    /// `struct *list { … }` and `struct list<1> { … }` (RFC 4506 §4.19, RFC 1833 §3.1): a struct, called `list_element` here, that is
    /// optional, or in an array.
    fn list(&mut self, first: usize, name: Name, is_optional: bool) -> Result<(), Mistake> {
        let bound = if is_optional { None } else { Some(self.bound()?) };
        let element = Name { text: format!("{}_element", name.text), ..name.clone() };
        let declared = self.at;
        self.body(first, "struct", element.clone())?;
        let element = Box::new(Type::Named(element));
        let list = bound
            .map_or_else(|| Type::Optional(element.clone()), |bound| Type::Sequence(element.clone(), bound));
        self.define(first, declared, name, Body::Typedef(list));
        Ok(())
    }

    /// Names are those of one module, so what a namespace is called does not matter.
    fn namespace(&mut self) -> Result<(), Mistake> {
        self.at += 1;
        self.name("the namespace")?;
        while self.take("::") {
            self.name("the namespace")?;
        }
        self.expect("{", "after the name of the namespace")?;
        while !self.take("}") {
            self.definition()?;
        }
        Ok(())
    }

    fn constant(&mut self, first: usize) -> Result<(), Mistake> {
        self.at += 1;
        let name = self.name("the constant")?;
        self.expect("=", "after the name of the constant")?;
        let body = if self.peek().kind == Kind::Text {
            let text = self.peek().text.clone();
            self.at += 1;
            Body::Text(text[1..text.len() - 1].to_owned())
        } else {
            Body::Number(self.number()?)
        };
        self.define(first, self.at, name, body);
        Ok(())
    }

    fn typedef(&mut self, first: usize) -> Result<(), Mistake> {
        self.at += 1;
        // The name of a type without one is that of the typedef.
        if let Some(name) = self.inner_type(None)? {
            self.name("the type")?;
            debug_assert!(!name.text.is_empty(), "the name was looked up after the braces");
            return Ok(());
        }
        let Some(field) = self.declaration("typedef")? else {
            return Err(Mistake::new(self.tokens[first].span, "`void` is no type for a typedef"));
        };
        // `typedef struct foo foo;` declares nothing new.
        if !matches!(&field.ty, Type::Named(name) if name.text == field.name.text) {
            self.define(first, self.at, field.name, Body::Typedef(field.ty));
        }
        Ok(())
    }

    /// Parses the part behind the name of an enum, a struct or a union.
    pub(super) fn body(&mut self, first: usize, keyword: &str, name: Name) -> Result<(), Mistake> {
        let declared = self.at;
        // Types inside it are parsed before it is defined, but their place is after.
        let position = self.definitions.len();
        let body = self.nested(|parser| match keyword {
            "enum" => parser.enumerators().map(Body::Enumeration),
            "struct" => parser.fields(&name).map(Body::Structure),
            _ => parser.union(&name).map(Body::Union),
        })?;
        let inner = self.definitions.split_off(position);
        self.define(first, declared, name, body);
        self.definitions.extend(inner);
        Ok(())
    }

    /// Adds a definition that begins with token `first` and whose text is shown up to token `declared`.
    pub(super) fn define(&mut self, first: usize, declared: usize, name: Name, body: Body) {
        let notes = self.notes(first, declared, declared);
        self.definitions.push(Definition { name, notes, body });
    }

    fn enumerators(&mut self) -> Result<Vec<Enumerator>, Mistake> {
        self.expect("{", "after the name of the enum")?;
        let mut enumerators = Vec::new();
        while !self.take("}") {
            let first = self.at;
            let name = self.name("a value of the enum")?;
            let value = if self.take("=") { Some(self.number()?) } else { None };
            let notes = self.notes(first, self.at, self.at);
            enumerators.push(Enumerator { name, notes, value });
            if !self.take(",") && !self.peek_is("}") {
                return Err(self.expected("`,` or `}` after a value of the enum"));
            }
        }
        Ok(enumerators)
    }

    fn fields(&mut self, of: &Name) -> Result<Vec<Field>, Mistake> {
        self.expect("{", "after the name of the struct")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            // `void` takes no bytes, and so is no field.
            fields.extend(self.declaration(&of.text)?);
            self.expect(";", "after a field")?;
        }
        Ok(fields)
    }

    fn union(&mut self, of: &Name) -> Result<Union, Mistake> {
        self.expect("switch", "after the name of the union")?;
        self.expect("(", "after `switch`")?;
        let discriminant = self.declaration(&of.text)?;
        let discriminant = discriminant.ok_or_else(|| self.expected("a declaration that is not `void`"))?;
        self.expect(")", "after the discriminant")?;
        self.expect("{", "after `switch (…)`")?;
        let mut arms = Vec::new();
        while !self.take("}") {
            arms.push(self.arm(of)?);
        }
        Ok(Union { discriminant, arms })
    }

    fn arm(&mut self, of: &Name) -> Result<Arm, Mistake> {
        let mut labels = Vec::new();
        let first = self.at;
        loop {
            let span = self.peek().span;
            if self.take("case") {
                labels.push(Label::Case(self.number()?));
            } else if self.take("default") {
                labels.push(Label::Default(span));
            } else if labels.is_empty() {
                return Err(self.expected("`case`, `default` or `}`"));
            } else {
                break;
            }
            self.expect(":", "after the label")?;
        }
        let start = self.at;
        let field = self.declaration(&of.text)?;
        let declared = self.at;
        self.expect(";", "after the arm")?;
        // The comment can be above the labels, after them, or after the declaration.
        let mut notes = self.notes(first, declared, self.at);
        if notes.comment.is_empty() {
            notes.comment = self.notes(start, declared, self.at).comment;
        }
        Ok(Arm { labels, field, notes })
    }
}
