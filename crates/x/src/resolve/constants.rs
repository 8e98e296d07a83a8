//! The values of constants of all kinds: defined ones, values of enumerations, numbers of programs, versions and procedures.

use super::known::CONSTANTS;
use super::{Externals, undefined};
use crate::ast::{Body, Definition, Name, Program};
use crate::error::Mistake;
use crate::expression::{Expression, Value};
use crate::source::Span;
use std::collections::HashMap;

/// How long a chain of constants that refer to each other may be.
const DEPTH_MAX: usize = 256;

/// Where a value comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Expression(&'a Expression),
    /// So much more than an expression, or than zero: a value of an enumeration that has no expression of its own.
    After(Option<&'a Expression>, Value),
    Known(Value),
    Text,
}

/// The constants that a definition defines, without the numbers of a program.
fn defined(definition: &Definition) -> Vec<(&Name, Source<'_>)> {
    match &definition.body {
        Body::Number(value) => vec![(&definition.name, Source::Expression(value))],
        Body::Text(_) => vec![(&definition.name, Source::Text)],
        Body::Enumeration(enumerators) => {
            let (mut last, mut after) = (None, -1);
            let values = enumerators.iter().map(|enumerator| {
                (last, after) = match &enumerator.value {
                    Some(value) => (Some(value), 0),
                    None => (last, after + 1),
                };
                (&enumerator.name, Source::After(last, after))
            });
            values.collect()
        }
        Body::Program(_) | Body::Typedef(_) | Body::Structure(_) | Body::Union(_) => Vec::new(),
    }
}

/// All constants by their names.
pub(super) struct Constants<'a> {
    sources: HashMap<&'a str, Source<'a>>,
    values: HashMap<String, Value>,
    depth: usize,
}

impl<'a> Constants<'a> {
    pub(super) fn new(
        definitions: &'a [Definition],
        known_definitions: &'a [Definition],
        c_constants: &'a HashMap<String, Expression>,
        externals: &'a Externals,
    ) -> Result<Self, Mistake> {
        let known = CONSTANTS.map(|(name, value)| (name, Source::Known(value)));
        let given = externals.constants.iter().map(|(name, &value)| (name.as_str(), Source::Known(value)));
        let sources = known.into_iter().chain(given).collect();
        let mut constants = Constants { sources, values: HashMap::new(), depth: 0 };
        for definition in definitions {
            for (name, source) in defined(definition) {
                constants.add(name, source)?;
            }
            if let Body::Program(program) = &definition.body {
                constants.add_program(&definition.name.text, program);
            }
        }
        for definition in known_definitions {
            for (name, source) in defined(definition) {
                constants.sources.entry(&name.text).or_insert(source);
            }
            if let Body::Program(program) = &definition.body {
                constants.add_program(&definition.name.text, program);
            }
        }
        for (name, value) in c_constants {
            constants.sources.entry(name).or_insert(Source::Expression(value));
        }
        Ok(constants)
    }

    fn add(&mut self, name: &'a Name, source: Source<'a>) -> Result<(), Mistake> {
        match self.sources.insert(&name.text, source) {
            // A definition of the file counts more than the options and the known values of TRUE and FALSE.
            None | Some(Source::Known(_)) => Ok(()),
            Some(_) => Err(Mistake::new(name.span, format!("the constant `{}` is defined twice", name.text))),
        }
    }

    /// rpcgen defines names for programs, versions and procedures; the first one counts here.
    fn add_program(&mut self, name: &'a str, program: &'a Program) {
        let procedures = program.versions.iter().flat_map(|version| &version.procedures);
        let numbers = procedures.map(|procedure| (procedure.name.text.as_str(), &procedure.number));
        let versions = program.versions.iter().map(|version| (version.name.text.as_str(), &version.number));
        for (name, number) in numbers.chain(versions).chain([(name, &program.number)]) {
            self.sources.entry(name).or_insert(Source::Expression(number));
        }
    }

    /// The value of a constant that is used at `span`.
    pub(super) fn named(&mut self, name: &str, span: Span) -> Result<Value, Mistake> {
        if let Some(&value) = self.values.get(name) {
            return Ok(value);
        }
        let source = *self.sources.get(name).ok_or_else(|| undefined("constant", name, span))?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Mistake::new(span, format!("the value of `{name}` depends on itself")));
        }
        let value = match source {
            Source::Expression(value) => self.evaluate(value)?,
            Source::After(None, after) => after,
            Source::After(Some(value), after) => {
                let sum = self.evaluate(value)?.checked_add(after);
                sum.ok_or_else(|| Mistake::new(span, format!("the value of `{name}` is too large")))?
            }
            Source::Known(value) => value,
            Source::Text => return Err(Mistake::new(span, format!("`{name}` is a text: expected a number"))),
        };
        self.depth -= 1;
        self.values.insert(name.to_owned(), value);
        Ok(value)
    }

    pub(super) fn evaluate(&mut self, expression: &Expression) -> Result<Value, Mistake> {
        expression.evaluate(&mut |name| match name {
            Expression::Name(name, span) => self.named(name, *span),
            other => Err(Mistake::new(other.span(), "expected the name of a constant")),
        })
    }
}
