//! Types, and what is declared with them.

use super::{Resolver, fitting, known, notes, undefined};
use crate::ast::{self, Body, Name};
use crate::error::Mistake;
use crate::expression::{Expression, Value};
use crate::model::{Arm, Enumerator, Field, Label, Length, Scalar, Selector, Type, Union};
use std::collections::HashSet;

/// How many typedefs may lead to a type.
const DEPTH_MAX: usize = 256;

impl<'a> Resolver<'a> {
    /// The type for which a typedef stands; `None` if it gives a C name the meaning that it has anyway.
    pub(super) fn typedef(&mut self, name: &Name, ty: &ast::Type) -> Result<Option<Type>, Mistake> {
        let ty = self.ty(ty)?;
        let is_known = matches!(ty, Type::Scalar(scalar) if known::scalar(&name.text) == Some(scalar));
        Ok((!is_known).then_some(ty))
    }

    pub(super) fn ty(&mut self, ty: &ast::Type) -> Result<Type, Mistake> {
        Ok(match ty {
            ast::Type::Scalar(scalar) => Type::Scalar(*scalar),
            ast::Type::Named(name) => self.named(name)?,
            ast::Type::FixedOpaque(length) => Type::FixedOpaque(self.length(length)?),
            ast::Type::Opaque(bound) => Type::Opaque(self.bound(bound.as_ref())?),
            ast::Type::String(bound) => Type::String(self.bound(bound.as_ref())?),
            ast::Type::Array(element, length) => Type::Array(self.boxed(element)?, self.length(length)?),
            ast::Type::Sequence(element, bound) => {
                Type::Sequence(self.boxed(element)?, self.bound(bound.as_ref())?)
            }
            ast::Type::Optional(value) => Type::Optional(self.boxed(value)?),
        })
    }

    fn boxed(&mut self, ty: &ast::Type) -> Result<Box<Type>, Mistake> {
        self.ty(ty).map(Box::new)
    }

    fn named(&mut self, name: &Name) -> Result<Type, Mistake> {
        let text = name.text.as_str();
        if let Some(rust) = self.externals.types.get(text) {
            return Ok(Type::External(rust.clone()));
        }
        let scalar = known::scalar(text);
        match self.types.get(text).map(|definition| &definition.body) {
            // A typedef that says what is known anyway is left out.
            Some(Body::Typedef(ast::Type::Scalar(same))) if scalar == Some(*same) => Ok(Type::Scalar(*same)),
            Some(_) => Ok(Type::Named(name.text.clone())),
            None => match scalar {
                Some(scalar) => Ok(Type::Scalar(scalar)),
                None => self.known(name),
            },
        }
    }

    /// A type that headers have.
    fn known(&mut self, name: &Name) -> Result<Type, Mistake> {
        let Some(definition) = self.known.remove(name.text.as_str()) else {
            return Err(undefined("type", &name.text, name.span));
        };
        self.types.insert(&definition.name.text, definition);
        self.used.push(definition);
        Ok(Type::Named(name.text.clone()))
    }

    fn length(&mut self, length: &Expression) -> Result<Length, Mistake> {
        let value = self.constants.evaluate(length)?;
        let value = fitting(value, length.span(), "the length", (0, u32::MAX))?;
        Ok(Length { value, name: self.defined_name(length) })
    }

    fn bound(&mut self, bound: Option<&Expression>) -> Result<Option<Length>, Mistake> {
        bound.map(|bound| self.length(bound)).transpose()
    }

    pub(super) fn fields(&mut self, fields: &[ast::Field]) -> Result<Vec<Field>, Mistake> {
        fields.iter().map(|field| self.field(field)).collect()
    }

    fn field(&mut self, field: &ast::Field) -> Result<Field, Mistake> {
        Ok(Field { name: field.name.text.clone(), notes: notes(&field.notes), ty: self.ty(&field.ty)? })
    }

    pub(super) fn enumerators(
        &mut self,
        enumerators: &[ast::Enumerator],
    ) -> Result<Vec<Enumerator>, Mistake> {
        let mut resolved = Vec::new();
        for enumerator in enumerators {
            let Name { text, span } = &enumerator.name;
            let value = as_c_int(self.constants.named(text, *span)?);
            let value = fitting(value, *span, &format!("`{text}`"), (i32::MIN, i32::MAX))?;
            resolved.push(Enumerator { name: text.clone(), notes: notes(&enumerator.notes), value });
        }
        Ok(resolved)
    }

    pub(super) fn union(&mut self, union: &'a ast::Union) -> Result<Union, Mistake> {
        let (selector, numbers) = self.selector(&union.discriminant)?;
        let (mut arms, mut default, mut seen) = (Vec::new(), None, HashSet::new());
        for arm in &union.arms {
            let field = arm.field.as_ref().map(|field| self.field(field)).transpose()?;
            let mut resolved = Arm { labels: Vec::new(), field, notes: notes(&arm.notes) };
            for label in &arm.labels {
                match label {
                    ast::Label::Default(span) if default.is_some() => {
                        return Err(Mistake::new(*span, "this union has a default already"));
                    }
                    ast::Label::Default(_) => default = Some(Arm { labels: Vec::new(), ..resolved.clone() }),
                    ast::Label::Case(case) => {
                        let label = self.label(case, &selector, numbers.as_ref())?;
                        if !seen.insert(label.value) {
                            let advice = format!("the discriminant {} has an arm already", label.value);
                            return Err(Mistake::new(case.span(), advice));
                        }
                        resolved.labels.push(label);
                    }
                }
            }
            if !resolved.labels.is_empty() {
                arms.push(resolved);
            }
        }
        let discriminant = union.discriminant.name.text.clone();
        Ok(Union { discriminant, selector, arms, default })
    }

    fn label(
        &mut self,
        case: &Expression,
        selector: &Selector,
        numbers: Option<&HashSet<Value>>,
    ) -> Result<Label, Mistake> {
        let value = self.constants.evaluate(case)?;
        let (value, least, most) = match selector {
            Selector::Scalar(Scalar::Bool) => (value, 0, 1),
            Selector::Scalar(Scalar::U32) if value < 0 => (value + (1 << 32), 1 << 31, u32::MAX.into()),
            Selector::Scalar(Scalar::U32) => (value, 0, u32::MAX.into()),
            Selector::Scalar(Scalar::I64) => (value, i64::MIN.into(), i64::MAX.into()),
            Selector::Scalar(Scalar::U64) => (value, 0, u64::MAX.into()),
            _ => (as_c_int(value), i32::MIN.into(), i32::MAX.into()),
        };
        if value < least || value > most {
            let advice = format!("the label is {value}: expected a number from {least} to {most}");
            return Err(Mistake::new(case.span(), advice));
        }
        if numbers.is_some_and(|numbers| !numbers.contains(&value)) {
            let advice = format!("the label is {value}, which is no value of the discriminant's enum");
            return Err(Mistake::new(case.span(), advice));
        }
        Ok(Label { value, name: constant_name(case) })
    }

    /// The type of a discriminant, after all typedefs; and if it is an enumeration, its numbers.
    fn selector(&mut self, discriminant: &ast::Field) -> Result<(Selector, Option<HashSet<Value>>), Mistake> {
        let mut ty = self.ty(&discriminant.ty)?;
        for _ in 0..DEPTH_MAX {
            let name = match ty {
                Type::Scalar(Scalar::F32 | Scalar::F64 | Scalar::Quadruple) => break,
                Type::Scalar(scalar) => return Ok((Selector::Scalar(scalar), None)),
                Type::Named(name) => name,
                _ => break,
            };
            match self.types.get(name.as_str()).map(|definition| &definition.body) {
                Some(Body::Enumeration(enumerators)) => {
                    let numbers = self.enumerators(enumerators)?;
                    let numbers = numbers.iter().map(|enumerator| enumerator.value.into()).collect();
                    return Ok((Selector::Enumeration(name), Some(numbers)));
                }
                Some(Body::Typedef(target)) => ty = self.ty(target)?,
                _ => break,
            }
        }
        let advice = "a discriminant is an integer, a `bool` or an enum";
        Err(Mistake::new(discriminant.name.span, advice))
    }

    /// The name of a constant, if an expression is only that, and the file defines it as one.
    fn defined_name(&self, expression: &Expression) -> Option<String> {
        constant_name(expression).filter(|name| self.numbers.contains(name.as_str()))
    }
}

/// A number as C stores it in an `int`: 0xffffffff is -1.
fn as_c_int(value: Value) -> Value {
    let wraps = value > i32::MAX.into() && value <= u32::MAX.into();
    if wraps { value - (1 << 32) } else { value }
}

fn constant_name(expression: &Expression) -> Option<String> {
    match expression {
        Expression::Name(name, _) => Some(name.clone()),
        _ => None,
    }
}
