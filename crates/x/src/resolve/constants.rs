//! The values of constants of all kinds: defined ones, values of enumerations, numbers of programs, versions and procedures.

use super::Externals;
use super::known::CONSTANTS;
use crate::ast::{Body, Definition, Program};
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

/// All constants by their names.
pub(super) struct Constants<'a> {
    sources: HashMap<&'a str, Source<'a>>,
    values: HashMap<String, Value>,
    depth: usize,
}

impl<'a> Constants<'a> {
    pub(super) fn new(
        definitions: &'a [Definition],
        c_constants: &'a HashMap<String, Expression>,
        externals: &'a Externals,
    ) -> Result<Self, Mistake> {
        let known = CONSTANTS.map(|(name, value)| (name, Source::Known(value)));
        let given = externals.constants.iter().map(|(name, &value)| (name.as_str(), Source::Known(value)));
        let sources = known.into_iter().chain(given).collect();
        let mut constants = Constants { sources, values: HashMap::new(), depth: 0 };
        for definition in definitions {
            let name = definition.name.text.as_str();
            match &definition.body {
                Body::Number(value) => {
                    constants.add(name, definition.name.span, Source::Expression(value))?
                }
                Body::Text(_) => constants.add(name, definition.name.span, Source::Text)?,
                Body::Enumeration(enumerators) => {
                    let (mut last, mut after) = (None, -1);
                    for enumerator in enumerators {
                        (last, after) = match &enumerator.value {
                            Some(value) => (Some(value), 0),
                            None => (last, after + 1),
                        };
                        let source = Source::After(last, after);
                        constants.add(&enumerator.name.text, enumerator.name.span, source)?;
                    }
                }
                Body::Program(program) => constants.add_program(name, program),
                Body::Typedef(_) | Body::Structure(_) | Body::Union(_) => {}
            }
        }
        for (name, value) in c_constants {
            constants.sources.entry(name).or_insert(Source::Expression(value));
        }
        Ok(constants)
    }

    fn add(&mut self, name: &'a str, span: Span, source: Source<'a>) -> Result<(), Mistake> {
        match self.sources.insert(name, source) {
            // A definition of the file counts more than the options and the known values of TRUE and FALSE.
            None | Some(Source::Known(_)) => Ok(()),
            Some(_) => Err(Mistake::new(span, format!("the constant `{name}` is defined twice"))),
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
        let unknown = || {
            Mistake::new(
                span,
                format!(
                    "no constant is called `{name}` (for one that C code defines, there is `extern const`)"
                ),
            )
        };
        let source = *self.sources.get(name).ok_or_else(unknown)?;
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
