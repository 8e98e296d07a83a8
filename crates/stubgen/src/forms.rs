//! The forms of the interfaces in the text of a Rust file: what the compiler would make of its traits and types, as far as a file alone
//! says it.

use std::collections::{BTreeSet, HashMap, HashSet};

use proc_macro2::Span;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, Fields, File, GenericArgument, Item, Lit, PathArguments, Type};

use crate::mistakes::Mistakes;
use crate::model::{Argument, Interface, Mode, Procedure, Returns, Revisions, Shape, Way, plain};
use crate::since::{Since, SinceOptions};
use crate::traits;

/// A form of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The interface.
    pub interface: String,
    /// The first and the last revision at which it holds.
    pub revisions: (u32, u32),
    /// The signature.
    pub signature: String,
}

/// The forms of all interfaces in a file, as a lock file has them.
///
/// # Errors
/// A mistake in the file, with its line and column; or a type that the file does not declare.
pub fn of_text(text: &str) -> Result<Vec<Form>, String> {
    let forms = syn::parse_file(text).and_then(|file| of(&file));
    forms.map_err(|error| {
        let start = error.span().start();
        format!("{}:{}: {error}", start.line, start.column + 1)
    })
}

fn of(file: &File) -> Result<Vec<Form>, Error> {
    let declared = Declared::of(file);
    let mut forms = Vec::new();
    for item in &file.items {
        let Item::Trait(item) = item else { continue };
        let is_interface =
            |path: &syn::Path| path.segments.last().is_some_and(|last| last.ident == "interface");
        let Some(attribute) = item.attrs.iter().find(|each| is_interface(each.path())) else { continue };
        let options: traits::Options = match attribute.meta.require_list() {
            Ok(list) => list.parse_args()?,
            Err(_) => syn::parse_str("")?,
        };
        let interface =
            traits::interface(item.clone(), options.program, options.revisions, options.callback)?;
        forms.extend(declared.forms(&interface)?);
    }
    match forms.is_empty() {
        true => Err(Error::new(Span::call_site(), "no trait here has `#[stoop::interface]` and a procedure")),
        false => Ok(forms),
    }
}

/// The types and constants of a file.
struct Declared<'a> {
    types: HashMap<String, &'a Item>,
    aliases: HashMap<String, &'a Type>,
    constants: HashMap<String, &'a Expr>,
}

impl<'a> Declared<'a> {
    fn of(file: &'a File) -> Self {
        let (mut types, mut aliases, mut constants) = (HashMap::new(), HashMap::new(), HashMap::new());
        for item in &file.items {
            match item {
                Item::Struct(of) => _ = types.insert(of.ident.unraw().to_string(), item),
                Item::Enum(of) => _ = types.insert(of.ident.unraw().to_string(), item),
                Item::Type(of) => _ = aliases.insert(of.ident.unraw().to_string(), &*of.ty),
                Item::Const(of) => _ = constants.insert(of.ident.unraw().to_string(), &*of.expr),
                _ => {}
            }
        }
        Self { types, aliases, constants }
    }

    fn forms(&self, interface: &Interface) -> Result<Vec<Form>, Error> {
        let revisions = interface.revisions.unwrap_or(Revisions { newest: 0, oldest: 0 });
        let mut forms = Vec::new();
        for procedure in &interface.procedures {
            let mut newest = Describer::new(self, u32::MAX);
            newest.procedure(procedure)?;
            let first = revisions.oldest.max(procedure.since);
            let mut add = |revisions, signature| {
                forms.push(Form { interface: interface.name.unraw().to_string(), revisions, signature });
            };
            let (mut last, mut signature) = (revisions.newest, newest.text);
            for revision in
                newest.since.iter().rev().map(|since| since - 1).take_while(|revision| *revision >= first)
            {
                let mut older = Describer::new(self, revision);
                older.procedure(procedure)?;
                if older.text != signature {
                    add((revision + 1, last), std::mem::replace(&mut signature, older.text));
                    last = revision;
                }
            }
            add((first, last), signature);
        }
        Ok(forms)
    }
}

/// Writes a signature as at a revision.
struct Describer<'a> {
    declared: &'a Declared<'a>,
    revision: u32,
    text: String,
    /// The types that are spelled out already.
    named: HashSet<String>,
    since: BTreeSet<u32>,
}

impl<'a> Describer<'a> {
    fn new(declared: &'a Declared<'a>, revision: u32) -> Self {
        Self { declared, revision, text: String::new(), named: HashSet::new(), since: BTreeSet::new() }
    }

    fn has(&mut self, since: u32) -> bool {
        if since > 0 {
            self.since.insert(since);
        }
        since <= self.revision
    }

    fn procedure(&mut self, procedure: &Procedure) -> Result<(), Error> {
        let one_way = if procedure.one_way { "one_way " } else { "" };
        self.text.push_str(&format!("{one_way}{}(", procedure.name.unraw()));
        let mut separator = "";
        for argument in &procedure.arguments {
            if self.has(argument.since.as_ref().map_or(0, |since| since.number)) {
                self.text.push_str(separator);
                separator = ", ";
                self.argument(argument)?;
            }
        }
        self.text.push(')');
        match &procedure.returns {
            Returns::Nothing => Ok(()),
            Returns::Value(ty) => {
                self.text.push_str(" -> ");
                self.ty(ty)
            }
            Returns::Fallible(fallible) => {
                self.text.push_str(" -> ");
                self.ty(&fallible.declared)
            }
        }
    }

    fn argument(&mut self, argument: &Argument) -> Result<(), Error> {
        let mode = match argument.mode {
            Mode::Value | Mode::In => "",
            Mode::OptionalIn => "Option<",
            Mode::InOut => "inout ",
            Mode::Out => "out ",
        };
        self.text.push_str(&format!("{}: {mode}", argument.name.unraw()));
        let begin = self.text.len();
        match &argument.shape {
            Shape::Text => self.text.push_str("String"),
            Shape::Slice(element) => self.wrapped("[", &element.ty, "]")?,
            Shape::Buffer(ty) => self.wrapped("in place [", ty, "]")?,
            Shape::Pipe(way, item) => {
                self.text.push_str(if *way == Way::In { "pipe in " } else { "pipe out " });
                self.item(item)?;
            }
            Shape::Array(element, len) => self.array(&element.ty, len)?,
            Shape::Callback(_) => self.text.push_str("Callback{client: u64}"),
            Shape::Whole(ty) => self.ty(ty)?,
        }
        if argument.is_result() && !argument.is_written_in_place() && !argument.is_buffer() {
            self.mark(begin, matches!(argument.shape, Shape::Slice(_)));
        }
        if argument.mode == Mode::OptionalIn {
            self.text.push('>');
        }
        Ok(())
    }

    /// The items of a pipe, as `Item::describe` tells them.
    fn item(&mut self, ty: &Type) -> Result<(), Error> {
        match plain(ty) {
            Type::Slice(slice) => self.wrapped("slice<", &slice.elem, ">"),
            Type::Path(path) if path.path.is_ident("str") => self.push("str"),
            ty => self.ty(ty),
        }
    }

    /// Marks an argument that comes back in other bytes than its type says alone, as `Description::comes_back` does.
    fn mark(&mut self, begin: usize, is_slice: bool) {
        const NUMBERS: [&str; 12] =
            ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64"];
        let inside = self.text[begin..].strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let Some(inside) = inside else { return };
        let without_digits = inside.trim_end_matches(|each: char| each.is_ascii_digit());
        let array_of = without_digits.strip_suffix("; ").filter(|_| without_digits.len() < inside.len());
        let mark = match array_of {
            None if !is_slice => "whole ",
            _ if NUMBERS.contains(&array_of.unwrap_or(inside)) => "late ",
            _ => return,
        };
        self.text.insert_str(begin, mark);
    }

    fn wrapped(&mut self, begin: &str, ty: &Type, end: &str) -> Result<(), Error> {
        self.text.push_str(begin);
        self.ty(ty)?;
        self.text.push_str(end);
        Ok(())
    }

    fn array(&mut self, ty: &Type, len: &Expr) -> Result<(), Error> {
        let len = self.number(len)?;
        self.wrapped("[", ty, &format!("; {len}]"))
    }

    fn number(&self, expression: &Expr) -> Result<u64, Error> {
        let unknown =
            || Error::new_spanned(expression, "its value is known to the compiler only; check a lock file");
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse(),
                _ => Err(unknown()),
            },
            Expr::Path(path) => {
                let name = path.path.segments.last().map(|last| last.ident.unraw().to_string());
                let constant =
                    name.and_then(|name| self.declared.constants.get(&name)).ok_or_else(unknown)?;
                self.number(constant)
            }
            _ => Err(unknown()),
        }
    }

    fn ty(&mut self, ty: &Type) -> Result<(), Error> {
        match plain(ty) {
            Type::Tuple(tuple) if tuple.elems.is_empty() => self.text.push_str("()"),
            Type::Tuple(tuple) => {
                self.text.push('(');
                for part in &tuple.elems {
                    self.ty(part)?;
                    self.text.push(',');
                }
                self.text.push(')');
            }
            Type::Array(array) => self.array(&array.elem, &array.len)?,
            Type::Slice(slice) => self.wrapped("[", &slice.elem, "]")?,
            Type::Path(path) => self.path(path)?,
            other => return Err(unknown_type(other)),
        }
        Ok(())
    }

    fn path(&mut self, path: &syn::TypePath) -> Result<(), Error> {
        const AS_THEMSELVES: [&str; 25] = [
            "bool",
            "char",
            "u8",
            "u16",
            "u32",
            "u64",
            "u128",
            "usize",
            "i8",
            "i16",
            "i32",
            "i64",
            "i128",
            "isize",
            "f32",
            "f64",
            "String",
            "Duration",
            "SystemTime",
            "IpAddr",
            "Ipv4Addr",
            "Ipv6Addr",
            "SocketAddr",
            "SocketAddrV4",
            "SocketAddrV6",
        ];
        let last = path.path.segments.last().ok_or_else(|| unknown_type(path))?;
        let name = last.ident.unraw().to_string();
        let parts: Vec<&Type> = match &last.arguments {
            PathArguments::AngleBracketed(parts) => parts
                .args
                .iter()
                .filter_map(|part| if let GenericArgument::Type(ty) = part { Some(ty) } else { None })
                .collect(),
            _ => Vec::new(),
        };
        match (name.as_str(), &parts[..]) {
            (_, []) if self.declared.types.contains_key(&name) => self.named(&name),
            (_, []) if let Some(alias) = self.declared.aliases.get(&name) => self.ty(alias),
            ("str", []) => self.push("String"),
            (known, []) if AS_THEMSELVES.contains(&known) => self.push(known),
            ("PhantomData", [_]) => self.push("()"),
            ("Vec" | "VecDeque" | "LinkedList", [of]) => self.wrapped("[", of, "]"),
            ("Box" | "Rc" | "Arc", [of]) => match plain(of) {
                Type::Slice(slice) => self.wrapped("[", &slice.elem, "]"),
                Type::Path(of) if of.path.is_ident("str") => self.push("String"),
                of => self.wrapped("Box<", of, ">"),
            },
            ("Option", [of]) => self.wrapped("Option<", of, ">"),
            ("NonZero", [of]) => self.wrapped("NonZero<", of, ">"),
            ("Result", [value, error]) => self.pair("Result<", value, error),
            ("HashMap" | "BTreeMap", [key, value, ..]) => self.pair("Map<", key, value),
            ("HashSet" | "BTreeSet", [of, ..]) => self.wrapped("Set<", of, ">"),
            _ => Err(unknown_type(path)),
        }
    }

    fn push(&mut self, text: &str) -> Result<(), Error> {
        self.text.push_str(text);
        Ok(())
    }

    fn pair(&mut self, begin: &str, one: &Type, other: &Type) -> Result<(), Error> {
        self.wrapped(begin, one, ", ")?;
        self.ty(other)?;
        self.push(">")
    }

    /// A type of the file: its structure the first time, its name alone after that.
    fn named(&mut self, name: &str) -> Result<(), Error> {
        self.text.push_str(name);
        if !self.named.insert(name.to_owned()) {
            return Ok(());
        }
        match self.declared.types[name] {
            Item::Struct(of) if of.generics.params.is_empty() => self.fields(&of.fields, true),
            Item::Enum(of) if of.generics.params.is_empty() => {
                let mut separator = "{";
                for variant in &of.variants {
                    if self.has(since(&variant.attrs)?.map_or(0, |since| since.number)) {
                        self.text.push_str(separator);
                        separator = " | ";
                        self.text.push_str(&variant.ident.unraw().to_string());
                        self.fields(&variant.fields, false)?;
                    }
                }
                self.push(if separator == "{" { "{}" } else { "}" })
            }
            other => Err(Error::new_spanned(
                other,
                "a type with parameters is known to the compiler only; check a lock file",
            )),
        }
    }

    /// The fields of a struct or variant, in brackets. A variant without any has none.
    fn fields(&mut self, fields: &Fields, is_struct: bool) -> Result<(), Error> {
        let (begin, end) = match fields {
            Fields::Named(_) => ("{", "}"),
            Fields::Unnamed(_) => ("(", ")"),
            Fields::Unit => return Ok(()),
        };
        // A variant that never had fields keeps the brackets that it has.
        let (mut separator, keeps) = (begin, is_struct || fields.is_empty());
        for field in fields {
            let since = since(&field.attrs)?;
            if !self.has(since.map_or(0, |since| since.number)) {
                continue;
            }
            self.text.push_str(separator);
            separator = ", ";
            if let Some(name) = &field.ident {
                self.text.push_str(&format!("{}: ", name.unraw()));
            }
            if is_shared(&field.attrs) {
                self.text.push_str("shared ");
            }
            self.ty(&field.ty)?;
        }
        match separator == begin {
            true if keeps => self.push(&format!("{begin}{end}")),
            true => Ok(()),
            false => self.push(end),
        }
    }
}

fn unknown_type(ty: &(impl Spanned + ToTokens)) -> Error {
    Error::new_spanned(
        ty,
        "this file does not declare the type; check a lock file, which the compiler has made (stoop::compatibility::locked)",
    )
}

/// With which revision a field or variant came.
fn since(attributes: &[Attribute]) -> Result<Option<Since>, Error> {
    let (mut options, mut mistakes) = (SinceOptions::default(), Mistakes::default());
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("stoop")) {
        attribute.parse_nested_meta(|meta| options.take(&meta).map(drop))?;
    }
    let since = options.finish(&mut mistakes);
    mistakes.into_result().map(|()| since)
}

fn is_shared(attributes: &[Attribute]) -> bool {
    let texts = attributes.iter().filter(|attribute| attribute.path().is_ident("stoop"));
    texts
        .map(|attribute| attribute.to_token_stream().to_string())
        .any(|text| text.split(|each: char| !each.is_alphanumeric()).any(|word| word == "shared"))
}
