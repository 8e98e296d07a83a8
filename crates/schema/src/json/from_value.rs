//! Values as JSON.

use crate::json::write::is_harmless;
use crate::json::{Json, SHARED, base64, time};
use crate::message::{Argument, Outcome};
use crate::tree::{Body, Fields, Signature, Style, Type};
use crate::value::Value;
use std::fmt::Display;
use std::net::SocketAddr;

impl Signature {
    /// A value of a type of this signature as JSON.
    ///
    /// # Panics
    /// It is of another type.
    pub fn json_of(&self, ty: &Type, value: &Value) -> Json {
        match (ty, value) {
            (_, Value::Shared(number)) => Json::object([(SHARED, Json::Number(number.to_string()))]),
            (_, Value::Bytes(bytes)) => Json::bytes(bytes),
            (Type::Boxed(pointee), value) => self.json_of(pointee, value),
            (
                Type::Sequence(element) | Type::Array(element, _) | Type::Set(element),
                Value::Sequence(values),
            ) => Json::Array(values.iter().map(|value| self.json_of(element, value)).collect()),
            (Type::Tuple(parts), Value::Sequence(values)) => self.array_of(parts.iter(), values),
            (Type::Option(_), Value::Option(None)) => Json::Null,
            (Type::Option(inner), Value::Option(Some(value))) => {
                let json = self.json_of(inner, value);
                if self.may_be_null(inner) { Json::Array(vec![json]) } else { json }
            }
            (Type::Result(of_value, _), Value::Result(Ok(value))) => {
                Json::object([("ok", self.json_of(of_value, value))])
            }
            (Type::Result(_, of_error), Value::Result(Err(error))) => {
                Json::object([("err", self.json_of(of_error, error))])
            }
            (Type::Map(key, value), Value::Map(entries)) => self.map(key, value, entries),
            (Type::Named(place), value) => self.user_type(*place, value),
            (_, value) => simple(value),
        }
    }

    /// The arguments of a call as JSON: an object, by the names of the parameters.
    ///
    /// # Panics
    /// They are not of this signature.
    pub fn json_of_arguments(&self, arguments: &[Argument]) -> Json {
        let members = self.parameters.iter().zip(arguments).filter_map(|(parameter, argument)| {
            let json = match argument {
                Argument::Value(value) => self.json_of(&parameter.ty, value),
                Argument::Length(len) => Json::Number(len.to_string()),
                Argument::Nothing | Argument::Window(_) => return None,
            };
            Some((parameter.name.clone(), json))
        });
        Json::Object(members.collect())
    }

    /// The outcome of a call as JSON, and whether it is the procedure's own error. If nothing but the value returned comes back, that is it;
    /// otherwise it is an object with that value as `returned` and what comes back by the names of the parameters. Of a `Result` the value
    /// is shown as it is, and the error as `{"err": …}`.
    ///
    /// # Panics
    /// It is not of this signature.
    pub fn json_of_outcome(&self, outcome: &Outcome) -> (Json, bool) {
        let (returned, is_error) = match (&self.returns, &outcome.returned) {
            (Some(Type::Result(ty, _)), Some(Value::Result(Ok(value)))) => {
                (Some(self.json_of(ty, value)), false)
            }
            (Some(Type::Result(_, ty)), Some(Value::Result(Err(error)))) => {
                (Some(self.json_of(ty, error)), true)
            }
            (Some(ty), Some(value)) => (Some(self.json_of(ty, value)), false),
            _ => (None, false),
        };
        let back = self.parameters.iter().zip(&outcome.back).filter_map(|(parameter, value)| {
            Some((parameter.name.clone(), self.json_of(&parameter.ty, value.as_ref()?)))
        });
        let back: Vec<_> = back.collect();
        let name = if is_error { "err" } else { "returned" };
        let json = match (returned, back.is_empty()) {
            (None, true) => Json::Null,
            (Some(value), true) if !is_error => value,
            (returned, _) => {
                let returned = returned.map(|value| (name.to_owned(), value));
                Json::Object(returned.into_iter().chain(back).collect())
            }
        };
        (json, is_error)
    }

    fn array_of<'s>(&self, types: impl Iterator<Item = &'s Type>, values: &[Value]) -> Json {
        Json::Array(types.zip(values).map(|(ty, value)| self.json_of(ty, value)).collect())
    }

    fn map(&self, of_key: &Type, of_value: &Type, entries: &[(Value, Value)]) -> Json {
        // An object whose names begin with `$` has a meaning of its own.
        let is_object = *of_key == Type::Text
            && !entries.iter().any(|(key, _)| matches!(key, Value::Text(key) if key.starts_with('$')));
        let entries = entries.iter();
        match is_object {
            true => Json::Object(
                entries
                    .map(|(key, value)| {
                        let Value::Text(key) = key else { unreachable!("the keys are texts") };
                        (key.clone(), self.json_of(of_value, value))
                    })
                    .collect(),
            ),
            false => Json::Array(
                entries
                    .map(|(key, value)| {
                        Json::Array(vec![self.json_of(of_key, key), self.json_of(of_value, value)])
                    })
                    .collect(),
            ),
        }
    }

    fn user_type(&self, place: usize, value: &Value) -> Json {
        match (&self.types[place].body, value) {
            (Body::Struct(fields), Value::Sequence(values)) => self.fields(fields, values),
            (Body::Enum(variants), Value::Variant(number, values)) => {
                let variant = &variants[*number as usize];
                match values.is_empty() {
                    true => Json::text(&variant.name),
                    false => Json::object([(&variant.name, self.fields(&variant.fields, values))]),
                }
            }
            _ => Json::Null,
        }
    }

    fn fields(&self, fields: &Fields, values: &[Value]) -> Json {
        match (fields.style, &fields.all[..]) {
            (Style::Named, all) => Json::Object(
                all.iter()
                    .zip(values)
                    .map(|(field, value)| (field.name.clone(), self.json_of(&field.ty, value)))
                    .collect(),
            ),
            (_, [one]) => self.json_of(&one.ty, &values[0]),
            (_, all) => self.array_of(all.iter().map(|field| &field.ty), values),
        }
    }

    /// Whether `null` may be a value of a type.
    pub(super) fn may_be_null(&self, ty: &Type) -> bool {
        let mut ty = ty;
        // Types that are as one of their parts, which may be themselves.
        for _ in 0..=self.types.len() + crate::limits::NESTING_MAX {
            ty = match ty {
                Type::Option(_) | Type::Unit => return true,
                Type::Boxed(pointee) => pointee,
                Type::Named(place) => match &self.types[*place].body {
                    Body::Struct(fields) if fields.style == Style::Unit => return true,
                    Body::Struct(Fields { style: Style::Tuple, all }) if all.len() == 1 => &all[0].ty,
                    _ => return false,
                },
                _ => return false,
            };
        }
        true
    }
}

impl Json {
    /// Bytes: a string if they are printable text, otherwise `{"base64": …}`.
    pub fn bytes(bytes: &[u8]) -> Json {
        let is_printable =
            |text: &&str| text.chars().all(|each| is_harmless(each) || matches!(each, '\n' | '\r' | '\t'));
        match std::str::from_utf8(bytes).ok().filter(is_printable) {
            Some(text) => Json::text(text),
            None => Json::object([("base64", Json::Text(base64::encode(bytes)))]),
        }
    }
}

/// A value without parts.
pub(crate) fn simple(value: &Value) -> Json {
    let displayed = |value: &dyn Display| Json::Text(value.to_string());
    let number = |value: &dyn Display, is_short: bool| match is_short {
        true => Json::Number(value.to_string()),
        false => displayed(value),
    };
    match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::Unsigned(value) => number(value, u64::try_from(*value).is_ok()),
        Value::Signed(value) => number(value, i64::try_from(*value).is_ok()),
        Value::F32(bits) => {
            let value = f32::from_bits(*bits);
            float(
                value.is_finite(),
                format!("{value:?}"),
                value.is_nan() && *bits != f32::NAN.to_bits(),
                (*bits).into(),
            )
        }
        Value::F64(bits) => {
            let value = f64::from_bits(*bits);
            float(
                value.is_finite(),
                format!("{value:?}"),
                value.is_nan() && *bits != f64::NAN.to_bits(),
                *bits,
            )
        }
        Value::Char(value) => displayed(value),
        Value::Text(value) => Json::text(value),
        Value::Duration(value) => Json::Text(time::of_duration(*value)),
        Value::Time(secs, nanos) => Json::Text(time::of_time(*secs, *nanos)),
        Value::Ip(value) => displayed(value),
        Value::Socket(address) => match &**address {
            SocketAddr::V6(v6) if v6.flowinfo() != 0 => Json::object([
                ("address", displayed(&SocketAddr::V6(*v6))),
                ("flowinfo", Json::Number(v6.flowinfo().to_string())),
            ]),
            address => displayed(address),
        },
        _ => Json::Null,
    }
}

fn float(is_finite: bool, text: String, is_other_nan: bool, bits: u64) -> Json {
    match () {
        () if is_finite => Json::Number(text),
        () if is_other_nan => Json::Text(format!("NaN({bits:#x})")),
        () => Json::Text(text),
    }
}
