//! The parser of signatures.

use crate::layout::{self, NoLayout};
use crate::limits::{NESTING_MAX, NODES_MAX, TEXT_MAX};
use crate::tree::{
    Body, Field, Fields, Layout, Mode, Named, Number, Parameter, Shape, Signature, Style, Type, Variant,
};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Why a text is no signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte of the text at which it was noticed.
    pub at: usize,
    /// The fault.
    pub why: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the signature: {}", self.at, self.why)
    }
}

impl std::error::Error for SyntaxError {}

impl Signature {
    /// The tree of a signature.
    ///
    /// # Errors
    /// The text is none, or is larger than the [limits](crate::limits) allow.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > TEXT_MAX {
            return Err(SyntaxError { at: TEXT_MAX, why: "it is longer than 64 KiB" });
        }
        let mut parser = Parser::new(text);
        let signature = parser.signature()?;
        if parser.at < text.len() {
            return Err(parser.error("nothing may follow"));
        }
        Ok(signature)
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    nodes: usize,
    nesting: usize,
    types: Vec<Named>,
    layouts: Vec<Option<Layout>>,
    /// The user's types that have occurred, by their names in the text.
    places: HashMap<&'t str, usize>,
}

type Parsed<T> = Result<T, SyntaxError>;

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let (types, layouts, places) = (Vec::new(), Vec::new(), HashMap::new());
        Self { text, at: 0, nodes: 0, nesting: 0, types, layouts, places }
    }

    fn error(&self, why: &'static str) -> SyntaxError {
        SyntaxError { at: self.at, why }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.rest().starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    fn expect(&mut self, token: &str, why: &'static str) -> Parsed<()> {
        if self.take(token) { Ok(()) } else { Err(self.error(why)) }
    }

    /// The next name, if there is one.
    fn name(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let end = rest.find(|each: char| !each.is_alphanumeric() && each != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() || name.starts_with(|first: char| first.is_numeric()) {
            return None;
        }
        self.at += end;
        Some(name)
    }

    fn expect_name(&mut self) -> Parsed<String> {
        self.name().map(str::to_owned).ok_or_else(|| self.error("a name was expected"))
    }

    fn digits(&mut self) -> Parsed<u64> {
        let rest = self.rest();
        let end = rest.find(|each: char| !each.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse().map_err(|_| self.error("a number was expected"))?;
        if end > 1 && rest.starts_with('0') {
            return Err(self.error("a number does not begin with 0"));
        }
        self.at += end;
        Ok(number)
    }

    fn count_node(&mut self) -> Parsed<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX { Err(self.error("it has more than 10,000 parts")) } else { Ok(()) }
    }

    fn signature(&mut self) -> Parsed<Signature> {
        let one_way = self.take("one_way ");
        let name = self.expect_name()?;
        self.expect("(", "`(` was expected behind the procedure's name")?;
        let parameters = self.separated(", ", ")", Self::parameter)?;
        self.distinct(parameters.iter().map(|parameter| parameter.name.as_str()))?;
        for mode in [Mode::PipeIn, Mode::PipeOut] {
            if parameters.iter().filter(|parameter| parameter.mode == mode).count() > usize::from(!one_way) {
                return Err(self.error("a procedure has one pipe each way, and a one-way procedure none"));
            }
        }
        let returns = if self.take(" -> ") { Some(self.ty()?) } else { None };
        parameters.iter().try_for_each(|parameter| self.check(&parameter.ty))?;
        returns.iter().try_for_each(|ty| self.check(ty))?;
        let mut fields = self.types.iter().flat_map(|named| named.body.fields());
        fields.try_for_each(|field| self.check(&field.ty))?;
        let complete =
            |layout: &Option<Layout>| layout.expect("a type is complete when the text behind it is parsed");
        let layouts = self.layouts.iter().map(complete).collect();
        Ok(Signature { name, one_way, parameters, returns, types: std::mem::take(&mut self.types), layouts })
    }

    /// Items until `end`, which is taken, too.
    fn separated<T>(
        &mut self,
        separator: &str,
        end: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut all = Vec::new();
        if self.take(end) {
            return Ok(all);
        }
        loop {
            self.count_node()?;
            all.push(item(self)?);
            if self.take(end) {
                return Ok(all);
            }
            self.expect(separator, "a separator or the end of the list was expected")?;
        }
    }

    /// Checks that no two parameters, fields or variants have one name: in JSON they could not be told apart.
    fn distinct<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>) -> Parsed<()> {
        let count = names.len();
        match names.collect::<HashSet<_>>().len() == count {
            true => Ok(()),
            false => Err(self.error("a name is there twice")),
        }
    }

    fn parameter(&mut self) -> Parsed<Parameter> {
        let name = self.expect_name()?;
        self.expect(": ", "`: ` was expected behind a parameter's name")?;
        let mode = match () {
            () if self.take("inout ") => Mode::InOut,
            () if self.take("out ") => Mode::Out,
            () if self.take("pipe in ") => return self.pipe(name, Mode::PipeIn),
            () if self.take("pipe out ") => return self.pipe(name, Mode::PipeOut),
            () => Mode::In,
        };
        let shape = match () {
            () if self.take("in place ") => Shape::Buffer,
            () if self.take("whole ") => Shape::Whole,
            () if self.take("late ") => Shape::Late,
            () => Shape::Plain,
        };
        let ty = self.ty()?;
        match (shape, &ty) {
            (Shape::Buffer, Type::Sequence(element)) if matches!(**element, Type::Number(_)) => {}
            (Shape::Buffer, _) => return Err(self.error("a buffer has elements that are numbers")),
            (Shape::Whole | Shape::Late, _) if mode == Mode::In || ty.element().is_none() => {
                return Err(self.error("`whole` and `late` are said of sequences and arrays that come back"));
            }
            _ => {}
        }
        Ok(Parameter { name, mode, shape, ty })
    }

    /// A pipe, from its items on.
    fn pipe(&mut self, name: String, mode: Mode) -> Parsed<Parameter> {
        let begin = self.at;
        let bare = match self.name() {
            Some("str") if self.rest().starts_with([',', ')']) => Some(Type::Text),
            Some("slice") if self.take("<") => Some(Type::Sequence(self.boxed()?)),
            _ => None,
        };
        let (shape, ty) = match bare {
            Some(Type::Sequence(element)) => {
                if !matches!(*element, Type::Number(number) if number.is_scalar()) {
                    return Err(self.error("the elements of a slice in a pipe are numbers"));
                }
                self.expect(">", "`>` was expected")?;
                (Shape::Bare, Type::Sequence(element))
            }
            Some(ty) => (Shape::Bare, ty),
            None => {
                self.at = begin;
                (Shape::Plain, self.ty()?)
            }
        };
        Ok(Parameter { name, mode, shape, ty })
    }

    fn ty(&mut self) -> Parsed<Type> {
        self.count_node()?;
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(self.error("its types are nested too deeply"));
        }
        let ty = self.unbounded_type()?;
        self.nesting -= 1;
        Ok(ty)
    }

    fn boxed(&mut self) -> Parsed<Box<Type>> {
        self.ty().map(Box::new)
    }

    fn unbounded_type(&mut self) -> Parsed<Type> {
        if self.take("[") {
            return self.elements();
        }
        if self.take("(") {
            return self.tuple();
        }
        let begin = self.at;
        let Some(name) = self.name() else { return Err(self.error("a type was expected")) };
        if self.take("<") {
            let ty = self.generic(name)?;
            self.expect(">", "`>` was expected")?;
            return Ok(ty);
        }
        let mut number = 1;
        if self.take("#") {
            number =
                u32::try_from(self.digits()?).map_err(|_| self.error("no type has so many namesakes"))?;
            if number < 2 {
                return Err(self.error("the first type of a name has no number"));
            }
        }
        let spelled = &self.text[begin..self.at];
        if let Some(place) = self.places.get(spelled) {
            return Ok(Type::Named(*place));
        }
        let has_structure = self.rest().starts_with(['{', '(']);
        match plain_type(name) {
            Some(ty) if !has_structure && number == 1 => Ok(ty),
            _ => self.user_type(spelled, name, number),
        }
    }

    fn elements(&mut self) -> Parsed<Type> {
        let element = self.boxed()?;
        if self.take("; ") {
            let count = self.digits()?;
            self.expect("]", "`]` was expected behind an array's length")?;
            return Ok(Type::Array(element, count));
        }
        self.expect("]", "`]` was expected")?;
        Ok(Type::Sequence(element))
    }

    fn tuple(&mut self) -> Parsed<Type> {
        let mut parts = Vec::new();
        while !self.take(")") {
            parts.push(self.ty()?);
            self.expect(",", "`,` was expected behind a part of a tuple")?;
        }
        Ok(if parts.is_empty() { Type::Unit } else { Type::Tuple(parts) })
    }

    fn generic(&mut self, name: &str) -> Parsed<Type> {
        let pair = |parser: &mut Self| -> Parsed<_> {
            let first = parser.boxed()?;
            parser.expect(", ", "`, ` was expected")?;
            Ok((first, parser.boxed()?))
        };
        match name {
            "Option" => self.boxed().map(Type::Option),
            "Set" => self.boxed().map(Type::Set),
            "Result" => pair(self).map(|(value, error)| Type::Result(value, error)),
            "Map" => pair(self).map(|(key, value)| Type::Map(key, value)),
            "Box" => self.boxed().map(Type::Boxed),
            "NonZero" => match self.ty()? {
                Type::Number(number) if !number.is_float() => Ok(Type::NonZero(number)),
                _ => Err(self.error("`NonZero` holds an integer")),
            },
            _ => Err(self.error("no such type has parameters")),
        }
    }

    /// Checks that a type and its parts have layouts. All of the text has been parsed.
    fn check(&self, ty: &Type) -> Parsed<()> {
        layout::of_type(ty, &|number| self.layouts[number]).map_err(|why| self.no_layout(why))?;
        ty.parts().into_iter().try_for_each(|part| self.check(part))
    }

    fn no_layout(&self, why: NoLayout) -> SyntaxError {
        self.error(match why {
            NoLayout::Endless => "a type contains itself, and nothing between ends it",
            NoLayout::TooLarge => "values of a type have more bytes than a message",
        })
    }

    /// A type of the user where it occurs first.
    fn user_type(&mut self, spelled: &'t str, name: &str, number: u32) -> Parsed<Type> {
        let place = self.types.len();
        self.places.insert(spelled, place);
        let body = Body::Struct(Fields { style: Style::Unit, all: Vec::new() });
        self.types.push(Named { name: name.to_owned(), number, body });
        self.layouts.push(None);
        let body = self.body(place)?;
        let layout =
            layout::of_body(&body, &|number| self.layouts[number]).map_err(|why| self.no_layout(why))?;
        self.layouts[place] = Some(layout);
        self.types[place].body = body;
        Ok(Type::Named(place))
    }

    fn body(&mut self, place: usize) -> Parsed<Body> {
        if self.is_enum() {
            // Types within it that contain it need its layout. It has fields then, so that this is it.
            self.layouts[place] = Some(Layout::TAGGED);
            self.expect("{", "`{` was expected")?;
            let variants = self.separated(" | ", "}", Self::variant)?;
            self.distinct(variants.iter().map(|variant| variant.name.as_str()))?;
            return Ok(Body::Enum(variants));
        }
        self.fields().map(Body::Struct)
    }

    /// Whether variants follow: a `{`, and behind it a name without a `:`.
    fn is_enum(&self) -> bool {
        let Some(inside) = self.rest().strip_prefix('{') else { return false };
        let end = inside.find(|each: char| !each.is_alphanumeric() && each != '_').unwrap_or(inside.len());
        end > 0 && !inside[end..].starts_with(':')
    }

    fn variant(&mut self) -> Parsed<Variant> {
        let name = self.expect_name()?;
        Ok(Variant { name, fields: self.fields()? })
    }

    fn fields(&mut self) -> Parsed<Fields> {
        let (style, all) = if self.take("{") {
            let all = self.separated(", ", "}", Self::named_field)?;
            self.distinct(all.iter().map(|field| field.name.as_str()))?;
            (Style::Named, all)
        } else if self.take("(") {
            (Style::Tuple, self.separated(", ", ")", |parser| parser.field(String::new()))?)
        } else {
            (Style::Unit, Vec::new())
        };
        Ok(Fields { style, all })
    }

    fn named_field(&mut self) -> Parsed<Field> {
        let name = self.expect_name()?;
        self.expect(": ", "`: ` was expected behind a field's name")?;
        self.field(name)
    }

    fn field(&mut self, name: String) -> Parsed<Field> {
        let shared = self.take("shared ");
        let ty = self.ty()?;
        if shared && !can_share(&ty) {
            return Err(
                self.error("`shared` is said of pointers, and of options, sequences and maps of them")
            );
        }
        Ok(Field { name, shared, ty })
    }
}

/// Whether a type has pointers whose values can stay shared.
fn can_share(ty: &Type) -> bool {
    match ty {
        Type::Boxed(_) => true,
        Type::Option(inner) | Type::Sequence(inner) | Type::Map(_, inner) => can_share(inner),
        _ => false,
    }
}

/// A type that has only a name.
fn plain_type(name: &str) -> Option<Type> {
    if let Some((_, number)) = Number::ALL.iter().find(|(of, _)| *of == name) {
        return Some(Type::Number(*number));
    }
    Some(match name {
        "bool" => Type::Bool,
        "char" => Type::Char,
        "String" => Type::Text,
        "Duration" => Type::Duration,
        "SystemTime" => Type::SystemTime,
        "Ipv4Addr" => Type::Ipv4Addr,
        "Ipv6Addr" => Type::Ipv6Addr,
        "IpAddr" => Type::IpAddr,
        "SocketAddrV4" => Type::SocketAddrV4,
        "SocketAddrV6" => Type::SocketAddrV6,
        "SocketAddr" => Type::SocketAddr,
        _ => return None,
    })
}
