//! Looks up every name and computes every constant.

mod constants;
mod cycles;
mod known;
mod program;
mod types;

use crate::ast::{self, Body, Name, Notes};
use crate::error::Mistake;
use crate::expression::{Expression, Value};
use crate::model::{self, Definition, Kind, Model};
use crate::source::Span;
use constants::Constants;
pub(crate) use known::HEADERS;
use std::collections::{HashMap, HashSet};

/// The definitions that the options add to the file's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Externals {
    pub(crate) constants: HashMap<String, Value>,
    /// Rust types.
    pub(crate) types: HashMap<String, String>,
}

/// Makes a model of definitions; `known` are those of headers and `c_constants` those of C text, taken where a name is not
/// defined otherwise.
pub(crate) fn resolve(
    definitions: &[ast::Definition],
    known: &[ast::Definition],
    c_constants: &HashMap<String, Expression>,
    externals: &Externals,
) -> Result<Model, Mistake> {
    let types = defined_types(definitions)?;
    let constants = Constants::new(definitions, known, c_constants, externals)?;
    let numbers = definitions.iter().filter(|definition| matches!(definition.body, Body::Number(_)));
    let numbers = numbers.map(|definition| definition.name.text.as_str()).collect();
    let all = || definitions.iter().chain(known).filter(|definition| is_type(definition));
    let spans = all().map(|definition| (definition.name.text.as_str(), definition.name.span)).collect();
    let known = known.iter().filter(|definition| is_type(definition));
    let known = known.map(|definition| (definition.name.text.as_str(), definition)).collect();
    let mut resolver = Resolver { types, numbers, constants, known, externals, used: Vec::new() };
    let mut model = Model::default();
    for definition in definitions {
        if let Some(definition) = resolver.definition(definition)? {
            model.definitions.push(definition);
        }
    }
    // Those that were used, and those that they use.
    while let Some(definition) = resolver.used.pop() {
        model.definitions.extend(resolver.definition(definition)?);
    }
    cycles::mark(&mut model, &spans)?;
    Ok(model)
}

/// The definitions of types by their names.
fn defined_types(definitions: &[ast::Definition]) -> Result<HashMap<&str, &ast::Definition>, Mistake> {
    let mut types = HashMap::new();
    for definition in definitions.iter().filter(|definition| is_type(definition)) {
        let name = &definition.name;
        if types.insert(name.text.as_str(), definition).is_some() {
            return Err(Mistake::new(name.span, format!("the type `{}` is defined twice", name.text)));
        }
    }
    Ok(types)
}

fn is_type(definition: &ast::Definition) -> bool {
    !matches!(definition.body, Body::Number(_) | Body::Text(_) | Body::Program(_))
}

struct Resolver<'a> {
    types: HashMap<&'a str, &'a ast::Definition>,
    /// The names of constants that are numbers.
    numbers: HashSet<&'a str>,
    constants: Constants<'a>,
    /// Definitions of types that headers have, as far as they were not taken yet.
    known: HashMap<&'a str, &'a ast::Definition>,
    externals: &'a Externals,
    /// Those that were taken, and are not in the model yet.
    used: Vec<&'a ast::Definition>,
}

impl<'a> Resolver<'a> {
    /// A definition of the model; `None` if it only repeats what the language has.
    fn definition(&mut self, definition: &'a ast::Definition) -> Result<Option<Definition>, Mistake> {
        let name = &definition.name;
        let kind = match &definition.body {
            Body::Number(_) => Kind::Number(self.constants.named(&name.text, name.span)?),
            Body::Text(text) => Kind::Text(text.clone()),
            Body::Typedef(ty) => match self.typedef(name, ty)? {
                Some(ty) => Kind::Typedef(ty),
                None => return Ok(None),
            },
            Body::Enumeration(enumerators) => Kind::Enumeration(self.enumerators(enumerators)?),
            Body::Structure(fields) => {
                distinct("field", fields.iter().map(|field| &field.name))?;
                let fields = self.fields(fields)?;
                Kind::Structure(model::Structure { fields, is_node: false })
            }
            Body::Union(union) => Kind::Union(Box::new(self.union(union)?)),
            Body::Program(program) => Kind::Program(self.program(program)?),
        };
        Ok(Some(Definition { name: name.text.clone(), notes: notes(&definition.notes), kind }))
    }
}

fn notes(notes: &Notes) -> model::Notes {
    model::Notes { comment: notes.comment.clone(), declaration: notes.declaration.clone() }
}

/// The error that no type or constant has this name, and how to give it.
fn undefined(what: &str, name: &str, span: Span) -> Mistake {
    Mistake::new(
        span,
        format!(
            "no {what} is called `{name}`. If another interface file defines it, have that file read: `%#include \"FILE.h\"` here with \
             FILE.x beside it or in a folder that `--include-dir` names, or `--include FILE.x`. If C code does, give it by \
             `--extern-{}`",
            if what == "type" { "type" } else { "const" }
        ),
    )
}

/// Checks that no name comes twice.
fn distinct<'n>(what: &str, names: impl Iterator<Item = &'n Name>) -> Result<(), Mistake> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.text.as_str()) {
            return Err(Mistake::new(name.span, format!("the {what} `{}` is there twice", name.text)));
        }
    }
    Ok(())
}

/// A number that fits the type of `what`.
fn fitting<N: TryFrom<Value> + std::fmt::Display>(
    value: Value,
    span: Span,
    what: &str,
    limits: (N, N),
) -> Result<N, Mistake> {
    let (least, most) = limits;
    N::try_from(value).map_err(|_| {
        Mistake::new(span, format!("{what} is {value}: expected a number from {least} to {most}"))
    })
}
