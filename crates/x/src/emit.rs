//! A model as Rust.

mod constants;
mod docs;
mod enumerations;
mod interfaces;
mod names;
mod procedures;
mod programs;
mod structures;
mod text;
mod types;
mod unions;

use crate::model::{Definition, Kind, Model, Type};
use crate::options::{Options, Strings};
use names::Names;
use proc_macro2::TokenStream;
use programs::Numbers;
use quote::quote;
use std::collections::{HashMap, HashSet};

/// The Rust text for a model, and the Rust names of its types; `heading` are the first comments of the file called `name`.
pub(crate) fn emit(
    model: &Model,
    name: &str,
    heading: &[String],
    options: &Options,
) -> (String, HashMap<String, String>) {
    let definitions =
        model.definitions.iter().map(|definition| (definition.name.as_str(), definition)).collect();
    let names = Names::new(model);
    let borrows = options.borrowed && !options.interfaces;
    let borrowing = borrowing(model, borrows);
    let mut emitter = Emitter {
        definitions,
        names,
        inexact: inexact(model),
        strings: options.strings,
        borrows,
        borrowing,
        interfaces: options.interfaces,
        numbers: Numbers::default(),
    };
    let items: Vec<TokenStream> =
        model.definitions.iter().map(|definition| emitter.definition(definition)).collect();
    let runtime = if options.interfaces { "stoop::xdr" } else { "stoop_xdr" };
    (text::text(name, heading, &items, runtime), emitter.names.types())
}

/// The context in which a model is emitted.
struct Emitter<'m> {
    definitions: HashMap<&'m str, &'m Definition>,
    names: Names,
    /// The types without `Eq`.
    inexact: HashSet<String>,
    strings: Strings,
    /// Whether opaque data and strings stay where they were received, and the types that have such parts.
    borrows: bool,
    borrowing: HashSet<String>,
    /// Whether versions are interfaces with stubs.
    interfaces: bool,
    numbers: Numbers,
}

impl Emitter<'_> {
    fn definition(&mut self, definition: &Definition) -> TokenStream {
        match &definition.kind {
            Kind::Number(value) => self.number(definition, *value),
            Kind::Text(text) => self.constant_text(definition, text),
            Kind::Typedef(ty) => self.typedef(definition, ty),
            Kind::Enumeration(enumerators) => self.enumeration(definition, enumerators),
            Kind::Structure(structure) => self.structure(definition, structure),
            Kind::Union(union) => self.union(definition, union),
            Kind::Program(program) => self.program(definition, program),
        }
    }

    /// The traits that a type with such parts has besides `Clone`, `Debug` and `PartialEq`.
    fn more_derives<'t>(&self, mut parts: impl Iterator<Item = &'t Type>) -> TokenStream {
        let is_eq = parts.all(|part| is_eq(part, &self.inexact));
        let (equal, native) = (is_eq.then(|| quote!(, Eq, Hash)), self.native());
        quote!(#equal #native)
    }

    /// The trait by which values travel by Stoop's own protocol, too, as a further trait to derive.
    fn native(&self) -> Option<TokenStream> {
        self.interfaces.then(|| quote!(, stoop::Data))
    }
}

/// The types without `Eq`: those with floating-point numbers, or with types from elsewhere.
fn inexact(model: &Model) -> HashSet<String> {
    with_a_part(model, |part, inexact| !is_eq(part, inexact))
}

/// The types that borrow from what they were decoded from, if opaque data and strings do.
fn borrowing(model: &Model, bytes_do: bool) -> HashSet<String> {
    with_a_part(model, |part, borrowing| types::borrows(part, bytes_do, borrowing))
}

/// The types of which some part `counts`, given those that are known to have such a part.
fn with_a_part(model: &Model, counts: impl Fn(&Type, &HashSet<String>) -> bool) -> HashSet<String> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for definition in &model.definitions {
            if parts(definition).into_iter().any(|part| counts(part, &found)) {
                found.insert(definition.name.clone());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn parts(definition: &Definition) -> Vec<&Type> {
    match &definition.kind {
        Kind::Typedef(ty) => vec![ty],
        Kind::Structure(structure) => structure.fields.iter().map(|field| &field.ty).collect(),
        Kind::Union(union) => {
            let arms = union.arms.iter().chain(&union.default);
            arms.filter_map(|arm| arm.field.as_ref()).map(|field| &field.ty).collect()
        }
        _ => Vec::new(),
    }
}

fn is_eq(ty: &Type, inexact: &HashSet<String>) -> bool {
    match ty {
        Type::Scalar(scalar) => types::is_integral(*scalar),
        Type::External(_) => false,
        Type::FixedOpaque(_) | Type::Opaque(_) | Type::String(_) => true,
        Type::Array(inner, _) | Type::Sequence(inner, _) | Type::Optional(inner) | Type::Boxed(inner) => {
            is_eq(inner, inexact)
        }
        Type::Named(name) | Type::Chain(name) => !inexact.contains(name),
    }
}
