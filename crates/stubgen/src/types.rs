//! The front end for Rust types: a struct or an enum under `#[derive(Xdr)]` becomes a model of its form in Sun RPC.

use std::collections::HashMap;

use syn::{
    Attribute, Data, DataEnum, DeriveInput, Error, Expr, ExprLit, ExprUnary, Fields, Generics, Ident, Lit,
    Member, Type, UnOp, Variant,
};

use crate::check;
use crate::mistakes::Mistakes;
use crate::xdr::{Form, Marks};

/// A type of the user.
pub struct UserType {
    /// Doc comments and other attributes.
    pub attributes: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Its type parameters.
    pub generics: Generics,
    /// Its parts.
    pub body: Body,
}

/// The parts of a type.
pub enum Body {
    /// Fields one after the other, RFC 4506 §4.14.
    Structure(Vec<Part>),
    /// Numbers, §4.3.
    Enumeration(Vec<Case>),
    /// A number, and the fields of the case that it selects, §4.15.
    Union(Vec<Case>),
}

/// A field.
pub struct Part {
    /// Doc comments and other attributes.
    pub attributes: Vec<Attribute>,
    /// `x` or `0`.
    pub member: Member,
    /// Its type.
    pub ty: Type,
    /// How it is written.
    pub form: Form,
}

/// A variant of an enum.
pub struct Case {
    /// Doc comments and other attributes.
    pub attributes: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Its number: as declared, else one more than the one before, beginning at 0.
    pub number: i32,
    /// Its fields.
    pub parts: Vec<Part>,
}

/// The type that `item` declares.
///
/// # Errors
/// All mistakes, each at the offending token.
pub fn user_type(item: &DeriveInput) -> Result<UserType, Error> {
    let mut mistakes = Mistakes::default();
    if let Some(lifetime) = item.generics.lifetimes().next() {
        mistakes.add(lifetime, "a value that travels owns its parts; use types without a lifetime");
    }
    let body = match &item.data {
        Data::Struct(data) => Body::Structure(parts(&data.fields, &mut mistakes)),
        Data::Enum(data) => choice(data, &mut mistakes),
        Data::Union(data) => {
            let advice = "which field of a union is valid is not known when it is sent; write an enum";
            mistakes.add(data.union_token, advice);
            Body::Structure(Vec::new())
        }
    };
    mistakes.into_result()?;
    let (attributes, name) = (item.attrs.clone(), item.ident.clone());
    Ok(UserType { attributes, name, generics: item.generics.clone(), body })
}

fn parts(fields: &Fields, mistakes: &mut Mistakes) -> Vec<Part> {
    let mut parts = Vec::new();
    for (field, member) in fields.iter().zip(fields.members()) {
        let marks = Marks::read(&field.attrs, mistakes);
        check::field(&field.ty).unwrap_or_else(|error| mistakes.extend(error));
        match Form::of(&field.ty, &marks) {
            Ok(form) => {
                let (attributes, ty) = (field.attrs.clone(), field.ty.clone());
                parts.push(Part { attributes, member, ty, form });
            }
            Err(error) => mistakes.extend(error),
        }
    }
    parts
}

fn choice(data: &DataEnum, mistakes: &mut Mistakes) -> Body {
    let (mut cases, mut next, mut taken) = (Vec::new(), Some(0), HashMap::new());
    for variant in &data.variants {
        let number = match number(variant, next) {
            Ok(number) => number,
            Err(error) => {
                mistakes.extend(error);
                0
            }
        };
        next = number.checked_add(1);
        if let Some(other) = taken.insert(number, &variant.ident) {
            mistakes.add(&variant.ident, format!("`{other}` has the number {number}, too"));
        }
        let (attributes, name) = (variant.attrs.clone(), variant.ident.clone());
        cases.push(Case { attributes, name, number, parts: parts(&variant.fields, mistakes) });
    }
    let is_plain = cases.iter().all(|case| case.parts.is_empty());
    if is_plain { Body::Enumeration(cases) } else { Body::Union(cases) }
}

fn number(variant: &Variant, next: Option<i32>) -> Result<i32, Error> {
    let Some((_, declared)) = &variant.discriminant else {
        let advice = "there is no number after that of the variant before; give this one a number";
        return next.ok_or_else(|| Error::new_spanned(&variant.ident, advice));
    };
    let literal = |expression: &Expr, negative: bool| match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => {
            let sign = if negative { "-" } else { "" };
            let number: i64 = literal.base10_parse().ok()?;
            format!("{sign}{number}").parse().ok()
        }
        _ => None,
    };
    let number = match declared {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => literal(expr, true),
        declared => literal(declared, false),
    };
    number.ok_or_else(|| Error::new_spanned(declared, "write a number that fits into an `i32`"))
}
