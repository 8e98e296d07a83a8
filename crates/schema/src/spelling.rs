//! The text of a tree: the same from which it was parsed.

use crate::limits::TEXT_MAX;
use crate::tree::{Body, Fields, Mode, Parameter, Shape, Signature, Style, Type};
use std::collections::HashMap;
use std::fmt::{self, Write};

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut speller = Speller::new(self);
        speller.signature();
        f.write_str(&speller.text)
    }
}

impl Signature {
    /// The text of a type, with the structures of the user's types where they occur first.
    pub fn spell(&self, ty: &Type) -> String {
        let mut speller = Speller::new(self);
        speller.ty(ty);
        speller.text
    }

    /// The text of a user's type, which is the same for the same type of another signature: it is the only one of its name.
    pub(crate) fn canonical(&self, place: usize) -> String {
        let mut speller = Speller::new(self);
        speller.numbers = Some(HashMap::new());
        speller.user_type(place);
        speller.text
    }

    /// The text of a type, in which the user's types are named only.
    pub fn name_of(&self, ty: &Type) -> String {
        let mut speller = Speller::new(self);
        speller.spelled = self.types.iter().map(|named| named.number).collect();
        speller.ty(ty);
        speller.text
    }
}

impl Parameter {
    /// The text of the items of a pipe, if they lie there without a count.
    pub(crate) fn bare(&self) -> Option<String> {
        let text = || match self.ty.element() {
            Some(Type::Number(number)) => format!("slice<{}>", number.name()),
            _ => "str".into(),
        };
        (self.shape == Shape::Bare).then(text)
    }
}

struct Speller<'s> {
    signature: &'s Signature,
    text: String,
    /// The user's types that have occurred, by the numbers that they have among those of their names; 0 for the others.
    spelled: Vec<u32>,
    /// Types of each name so far, if they are numbered anew.
    numbers: Option<HashMap<&'s str, u32>>,
}

impl<'s> Speller<'s> {
    fn new(signature: &'s Signature) -> Self {
        Self { signature, text: String::new(), spelled: vec![0; signature.types.len()], numbers: None }
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn signature(&mut self) {
        let Signature { name, one_way, parameters, returns, .. } = self.signature;
        self.put(if *one_way { "one_way " } else { "" });
        self.put(name);
        self.put("(");
        self.separated(", ", parameters, Self::parameter);
        self.put(")");
        if let Some(ty) = returns {
            self.put(" -> ");
            self.ty(ty);
        }
    }

    fn separated<T>(&mut self, separator: &str, all: &'s [T], mut put: impl FnMut(&mut Self, &'s T)) {
        for (place, each) in all.iter().enumerate() {
            self.put(if place == 0 { "" } else { separator });
            put(self, each);
        }
    }

    fn parameter(&mut self, parameter: &'s Parameter) {
        self.put(&parameter.name);
        self.put(": ");
        self.put(match parameter.mode {
            Mode::In => "",
            Mode::InOut => "inout ",
            Mode::Out => "out ",
            Mode::PipeIn => "pipe in ",
            Mode::PipeOut => "pipe out ",
        });
        self.put(match parameter.shape {
            Shape::Plain => "",
            Shape::Bare => "",
            Shape::Whole => "whole ",
            Shape::Late => "late ",
            Shape::Buffer => "in place ",
        });
        match parameter.bare() {
            Some(text) => self.put(&text),
            None => self.ty(&parameter.ty),
        }
    }

    fn ty(&mut self, ty: &'s Type) {
        // A type that is named alone is spelled out once, so that the text is not much longer than the one that was parsed.
        if self.text.len() > 2 * TEXT_MAX {
            return;
        }
        match ty {
            Type::Number(number) => self.put(number.name()),
            Type::NonZero(number) => {
                write!(self.text, "NonZero<{}>", number.name()).expect("a String takes any text");
            }
            Type::Sequence(element) => self.within("[", element, "]"),
            Type::Array(element, count) => self.within("[", element, &format!("; {count}]")),
            Type::Tuple(parts) => {
                self.put("(");
                for part in parts {
                    self.within("", part, ",");
                }
                self.put(")");
            }
            Type::Option(inner) => self.within("Option<", inner, ">"),
            Type::Set(inner) => self.within("Set<", inner, ">"),
            Type::Boxed(inner) => self.within("Box<", inner, ">"),
            Type::Result(first, second) => self.pair("Result<", first, second),
            Type::Map(first, second) => self.pair("Map<", first, second),
            Type::Named(place) => self.user_type(*place),
            Type::Bool => self.put("bool"),
            Type::Char => self.put("char"),
            Type::Text => self.put("String"),
            Type::Unit => self.put("()"),
            Type::Duration => self.put("Duration"),
            Type::SystemTime => self.put("SystemTime"),
            Type::Ipv4Addr => self.put("Ipv4Addr"),
            Type::Ipv6Addr => self.put("Ipv6Addr"),
            Type::IpAddr => self.put("IpAddr"),
            Type::SocketAddrV4 => self.put("SocketAddrV4"),
            Type::SocketAddrV6 => self.put("SocketAddrV6"),
            Type::SocketAddr => self.put("SocketAddr"),
        }
    }

    fn within(&mut self, begin: &str, ty: &'s Type, end: &str) {
        self.put(begin);
        self.ty(ty);
        self.put(end);
    }

    fn pair(&mut self, begin: &str, first: &'s Type, second: &'s Type) {
        self.within(begin, first, ", ");
        self.within("", second, ">");
    }

    fn user_type(&mut self, place: usize) {
        let named = &self.signature.types[place];
        self.put(&named.name);
        let is_first = self.spelled[place] == 0;
        if is_first {
            self.spelled[place] = match &mut self.numbers {
                None => named.number,
                Some(numbers) => {
                    let number = numbers.entry(&named.name).or_default();
                    *number += 1;
                    *number
                }
            };
        }
        if self.spelled[place] > 1 {
            write!(self.text, "#{}", self.spelled[place]).expect("a String takes any text");
        }
        if !is_first {
            return;
        }
        match &named.body {
            Body::Struct(fields) => self.fields(fields),
            Body::Enum(variants) => {
                self.put("{");
                self.separated(" | ", variants, |speller, variant| {
                    speller.put(&variant.name);
                    speller.fields(&variant.fields);
                });
                self.put("}");
            }
        }
    }

    fn fields(&mut self, fields: &'s Fields) {
        let (begin, end) = match fields.style {
            Style::Unit => return,
            Style::Tuple => ("(", ")"),
            Style::Named => ("{", "}"),
        };
        self.put(begin);
        self.separated(", ", &fields.all, |speller, field| {
            if fields.style == Style::Named {
                speller.put(&field.name);
                speller.put(": ");
            }
            speller.put(if field.shared { "shared " } else { "" });
            speller.ty(&field.ty);
        });
        self.put(end);
    }
}
