//! The user's types of an interface: each once, however many procedures have it.

use crate::rust::defaults::Defaults;
use crate::rust::print::{documented, ident};
use crate::rust::{COLUMNS, Interface};
use crate::tree::{Body, Field, Fields, Mode, Shape, Signature, Style, Type, Variant};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// The user's types of an interface.
pub(super) struct Types<'i> {
    all: Vec<UserType<'i>>,
    /// For each procedure the numbers of its types.
    places: Vec<Vec<usize>>,
    /// Names of the types outside of modules.
    outside: HashSet<&'i str>,
    /// Those that need an order, because they are in keys of maps or in sets.
    ordered: HashSet<usize>,
    /// Those that need a default, because a procedure fills them.
    filled: HashSet<usize>,
    /// Whether callers offer objects: then `Callback` is one of these, and no type of the user.
    has_callbacks: bool,
}

/// A type of the user.
pub(super) struct UserType<'i> {
    procedure: usize,
    signature: &'i Signature,
    place: usize,
    /// The module that has it, if another type outside has its name.
    module: Option<String>,
}

impl<'i> Types<'i> {
    pub(super) fn of(interface: &'i Interface, has_callbacks: bool) -> Self {
        let mut types = Self {
            all: Vec::new(),
            places: Vec::new(),
            outside: HashSet::new(),
            ordered: HashSet::new(),
            filled: HashSet::new(),
            has_callbacks,
        };
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut namesakes: HashMap<&str, usize> = HashMap::new();
        for (number, procedure) in interface.procedures.iter().enumerate() {
            let signature = &procedure.signature;
            let places = (0..signature.types.len()).map(|place| {
                *known.entry(signature.canonical(place)).or_insert_with(|| {
                    let name = signature.types[place].name.as_str();
                    let count =
                        namesakes.entry(name).or_insert(if is_taken(&interface.name, name) { 1 } else { 0 });
                    *count += 1;
                    let module = (*count > 1).then(|| format!("{}_{count}", name.to_lowercase()));
                    if module.is_none() {
                        types.outside.insert(name);
                    }
                    types.all.push(UserType { procedure: number, signature, place, module });
                    types.all.len() - 1
                })
            });
            let places = places.collect();
            types.places.push(places);
        }
        for (number, procedure) in interface.procedures.iter().enumerate() {
            types.note_uses(number, &procedure.signature);
        }
        types
    }

    fn note_uses(&mut self, procedure: usize, signature: &'i Signature) {
        let mut keys = Vec::new();
        for named in &signature.types {
            named.body.fields().into_iter().for_each(|field| key_types(&field.ty, &mut keys));
        }
        for parameter in &signature.parameters {
            key_types(&parameter.ty, &mut keys);
        }
        signature.returns.iter().for_each(|ty| key_types(ty, &mut keys));
        let filled = signature.parameters.iter().filter(|parameter| parameter.mode == Mode::Out);
        let filled: Vec<_> = filled.map(|parameter| &parameter.ty).collect();
        let places = &self.places[procedure];
        let within = |types: Vec<&Type>| -> Vec<usize> {
            let mut found = BTreeSet::new();
            types.into_iter().for_each(|ty| named_within(signature, ty, &mut found));
            found.into_iter().map(|place| places[place]).collect()
        };
        let (keys, filled) = (within(keys), within(filled));
        self.ordered.extend(keys);
        self.filled.extend(filled);
    }

    /// The names of types as a procedure writes them, or as the type of that number does.
    pub(super) fn names(&self, procedure: usize, within: Option<usize>) -> Names<'_> {
        let module = within.and_then(|number| self.all[number].module.as_deref());
        Names { types: self, procedure, module }
    }

    /// The definitions of all types.
    pub(super) fn definitions(&self, interface: &Interface) -> String {
        let docs: HashMap<&str, &str> =
            interface.types.iter().map(|(item, docs)| (item.as_str(), docs.as_str())).collect();
        let mut text = String::new();
        for element in interface
            .procedures
            .iter()
            .flat_map(|each| late_elements(&each.signature))
            .collect::<BTreeSet<_>>()
        {
            let _ = writeln!(
                text,
                "\n/// As `{element}`, in arguments that come back after those which the procedure writes in the result.\npub type {} = {element};",
                alias_name(element)
            );
        }
        let is_users = |of: &UserType<'_>| !self.has_callbacks || !is_callback(of.signature, of.place);
        for (number, of) in self.all.iter().enumerate().filter(|(_, of)| is_users(of)) {
            let definition = Definition { types: self, docs: &docs, number, of }.text();
            text.push('\n');
            match &of.module {
                None => text.push_str(&definition),
                Some(module) => {
                    let _ =
                        writeln!(text, "/// Another type of the name `{}`.\npub mod {module} {{", of.name());
                    for line in definition.lines() {
                        text.push_str(if line.is_empty() { "" } else { "    " });
                        text.push_str(line);
                        text.push('\n');
                    }
                    text.push_str("}\n");
                }
            }
        }
        text
    }
}

impl<'i> UserType<'i> {
    pub(super) fn name(&self) -> &'i str {
        &self.signature.types[self.place].name
    }

    pub(super) fn body(&self) -> &'i Body {
        &self.signature.types[self.place].body
    }
}

/// The names of types in one place of the text.
pub(super) struct Names<'t> {
    types: &'t Types<'t>,
    procedure: usize,
    /// The module of the place.
    module: Option<&'t str>,
}

impl Names<'_> {
    /// A name of Rust's prelude, or its path if the user has a type of that name.
    pub(super) fn prelude(&self, name: &str) -> String {
        let path = match name {
            "String" => "std::string::String",
            "Vec" => "std::vec::Vec",
            "Box" => "std::boxed::Box",
            "Option" => "std::option::Option",
            _ => "std::result::Result",
        };
        let is_users = self.types.all.iter().any(|of| of.name() == name);
        if is_users { path.to_owned() } else { name.to_owned() }
    }

    /// The path of a type of the user.
    pub(super) fn user_type(&self, place: usize) -> String {
        let of = &self.types.all[self.types.places[self.procedure][place]];
        let name = ident(of.name());
        match (self.module, of.module.as_deref()) {
            (None, None) => name,
            (Some(here), Some(there)) if here == there => name,
            (None, Some(there)) => format!("{there}::{name}"),
            (Some(_), None) => format!("super::{name}"),
            (Some(_), Some(there)) => format!("super::{there}::{name}"),
        }
    }

    /// A type that owns its parts.
    pub(super) fn owned(&self, ty: &Type) -> String {
        self.written(ty, false)
    }

    /// A type without sequences and texts of its own, behind a reference.
    pub(super) fn borrowed(&self, ty: &Type, is_changed: bool) -> String {
        match ty {
            Type::Text if !is_changed => "str".into(),
            Type::Sequence(element) => format!("[{}]", self.owned(element)),
            ty => self.owned(ty),
        }
    }

    /// A type whose pointers keep their sharing.
    fn shared(&self, ty: &Type) -> String {
        self.written(ty, true)
    }

    fn written(&self, ty: &Type, is_shared: bool) -> String {
        let inner = |ty: &Type| self.written(ty, is_shared);
        match ty {
            Type::Number(number) => number.name().into(),
            Type::NonZero(number) => format!("std::num::NonZero<{}>", number.name()),
            Type::Bool => "bool".into(),
            Type::Char => "char".into(),
            Type::Text => self.prelude("String"),
            Type::Unit => "()".into(),
            Type::Duration => "std::time::Duration".into(),
            Type::SystemTime => "std::time::SystemTime".into(),
            Type::Ipv4Addr => "std::net::Ipv4Addr".into(),
            Type::Ipv6Addr => "std::net::Ipv6Addr".into(),
            Type::IpAddr => "std::net::IpAddr".into(),
            Type::SocketAddrV4 => "std::net::SocketAddrV4".into(),
            Type::SocketAddrV6 => "std::net::SocketAddrV6".into(),
            Type::SocketAddr => "std::net::SocketAddr".into(),
            Type::Sequence(element) => format!("{}<{}>", self.prelude("Vec"), inner(element)),
            Type::Array(element, count) => format!("[{}; {count}]", inner(element)),
            Type::Tuple(parts) => match &parts[..] {
                [one] => format!("({},)", inner(one)),
                parts => format!("({})", parts.iter().map(inner).collect::<Vec<_>>().join(", ")),
            },
            Type::Option(of) => format!("{}<{}>", self.prelude("Option"), inner(of)),
            Type::Result(value, error) => {
                format!("{}<{}, {}>", self.prelude("Result"), inner(value), inner(error))
            }
            Type::Map(key, value) => {
                format!("std::collections::BTreeMap<{}, {}>", self.owned(key), inner(value))
            }
            Type::Set(element) => format!("std::collections::BTreeSet<{}>", inner(element)),
            // What a shared pointer points to is as ever.
            Type::Boxed(pointee) if is_shared => format!("std::sync::Arc<{}>", self.owned(pointee)),
            Type::Boxed(pointee) => format!("{}<{}>", self.prelude("Box"), inner(pointee)),
            Type::Named(place) => self.user_type(*place),
        }
    }
}

/// The definition of a type.
struct Definition<'t> {
    types: &'t Types<'t>,
    docs: &'t HashMap<&'t str, &'t str>,
    number: usize,
    of: &'t UserType<'t>,
}

impl Definition<'_> {
    fn text(&self) -> String {
        let (name, names) = (self.of.name(), self.types.names(self.of.procedure, Some(self.number)));
        let mut text = documented(self.docs_of(name), 0);
        let copied = if is_plain(self.of.body()) { "Copy, " } else { "" };
        let ordered = if self.types.ordered.contains(&self.number) { ", Eq, PartialOrd, Ord" } else { "" };
        let _ = writeln!(text, "#[derive(stoop::Data, Clone, {copied}Debug, PartialEq{ordered})]");
        match self.of.body() {
            Body::Struct(fields) => {
                let end = if fields.style == Style::Named { "\n" } else { ";\n" };
                let fields = self.fields(&names, name, fields, 0, "pub ");
                let _ = write!(text, "pub struct {}{fields}{end}", ident(name));
            }
            Body::Enum(variants) => {
                let _ = writeln!(text, "pub enum {} {{", ident(name));
                for variant in variants {
                    text.push_str(&self.variant(&names, variant));
                }
                text.push_str("}\n");
            }
        }
        if self.types.filled.contains(&self.number) {
            let value = Defaults { names: &names, signature: self.of.signature }.of_body(self.of.body());
            let _ = writeln!(
                text,
                "\nimpl Default for {} {{\n    fn default() -> Self {{\n        {value}\n    }}\n}}",
                ident(name)
            );
        }
        text
    }

    fn docs_of(&self, item: &str) -> &str {
        self.docs.get(item).copied().unwrap_or_default()
    }

    fn variant(&self, names: &Names<'_>, variant: &Variant) -> String {
        let item = format!("{}::{}", self.of.name(), variant.name);
        let fields = self.fields(names, &item, &variant.fields, 4, "");
        format!("{}    {}{fields},\n", documented(self.docs_of(&item), 4), ident(&variant.name))
    }

    /// The fields of a struct or variant behind so many spaces.
    fn fields(&self, names: &Names<'_>, item: &str, fields: &Fields, indent: usize, visible: &str) -> String {
        let ty = |field: &Field| match field.shared {
            true => format!("#[stoop(shared)] {visible}{}", names.shared(&field.ty)),
            false => format!("{visible}{}", names.owned(&field.ty)),
        };
        match fields.style {
            Style::Unit => String::new(),
            Style::Tuple => {
                let all: Vec<_> = fields.all.iter().map(ty).collect();
                let line = format!("({})", all.join(", "));
                if line.len() + indent + item.len() < COLUMNS {
                    return line;
                }
                format!(
                    "(\n{:indent$}    {},\n{:indent$})",
                    "",
                    all.join(&format!(",\n{:indent$}    ", "")),
                    ""
                )
            }
            Style::Named => {
                let mut text = String::from(" {\n");
                for field in &fields.all {
                    text.push_str(&documented(self.docs_of(&format!("{item}.{}", field.name)), indent + 4));
                    let shared = if field.shared {
                        format!("{:indent$}    #[stoop(shared)]\n", "")
                    } else {
                        String::new()
                    };
                    let ty = if field.shared { names.shared(&field.ty) } else { names.owned(&field.ty) };
                    let _ =
                        writeln!(text, "{shared}{:indent$}    {visible}{}: {ty},", "", ident(&field.name));
                }
                let _ = write!(text, "{:indent$}}}", "");
                text
            }
        }
    }
}

/// Whether something of that name is emitted with the interface.
fn is_taken(interface: &str, name: &str) -> bool {
    let ending = name.strip_prefix(interface);
    ending.is_some_and(|ending| ["", "Client", "Server", "Begin", "Async", "AsyncBegin"].contains(&ending))
}

/// Whether it is an enum of which no variant has fields.
pub(super) fn is_plain(body: &Body) -> bool {
    match body {
        Body::Struct(_) => false,
        Body::Enum(variants) => variants.iter().all(|variant| variant.fields.all.is_empty()),
    }
}

/// Whether it is what a call tells of the object that its caller offers.
pub(super) fn is_callback(signature: &Signature, place: usize) -> bool {
    signature.canonical(place) == "Callback{client: u64}"
}

/// The types of keys and of elements of sets, without those inside of the user's types.
fn key_types<'t>(ty: &'t Type, found: &mut Vec<&'t Type>) {
    if let Type::Map(key, _) | Type::Set(key) = ty {
        found.push(key);
    }
    ty.parts().into_iter().for_each(|part| key_types(part, found));
}

/// The user's types in a type, and in those.
fn named_within(signature: &Signature, ty: &Type, found: &mut BTreeSet<usize>) {
    let mut open = vec![ty];
    while let Some(ty) = open.pop() {
        open.extend(ty.parts());
        if let Type::Named(place) = ty
            && found.insert(*place)
        {
            open.extend(signature.types[*place].body.fields().into_iter().map(|field| &field.ty));
        }
    }
}

/// The elements of arrays and slices that come back late.
fn late_elements(signature: &Signature) -> impl Iterator<Item = &'static str> + '_ {
    let late = signature.parameters.iter().filter(|parameter| parameter.shape == Shape::Late);
    late.filter_map(|parameter| match parameter.ty.element() {
        Some(Type::Number(number)) => Some(number.name()),
        _ => None,
    })
}

/// The other name of a type of numbers.
pub(super) fn alias(element: &Type) -> String {
    match element {
        Type::Number(number) => alias_name(number.name()),
        _ => String::new(),
    }
}

fn alias_name(number: &str) -> String {
    format!("Late{}", number.to_uppercase())
}
