//! Values from JSON.

use crate::json::scalar::{range, simple};
use crate::json::{Json, SHARED, base64};
use crate::limits::DEPTH_MAX;
use crate::message::{self, Argument};
use crate::tree::{Body, Fields, Mode, Number, Parameter, Signature, Style, Type, Variant};
use crate::value::Value;
use std::collections::HashSet;
use std::fmt;

/// Why some JSON is no value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place in the arguments: `entry.tags[3]`. Empty: all of them.
    pub path: String,
    /// The fault.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self
            .path
            .chars()
            .map(|each| if super::write::is_harmless(each) { each } else { '\u{fffd}' })
            .collect();
        write!(f, "{path}{}{}", if self.path.is_empty() { "" } else { ": " }, self.why)
    }
}

impl std::error::Error for Fault {}

type Taken<T> = Result<T, Fault>;

impl Signature {
    /// The value of a type of this signature that some JSON stands for.
    ///
    /// # Errors
    /// It stands for none.
    pub fn value_of(&self, ty: &Type, json: &Json) -> Taken<Value> {
        Taker { signature: self, depth: 0 }.value(ty, json)
    }

    /// The bytes of an item of a pipe of this signature, which is given as JSON.
    ///
    /// # Errors
    /// It is no JSON, does not fit, or is too long.
    pub fn item_bytes(&self, pipe: &Parameter, json: &str) -> Result<Vec<u8>, String> {
        let json = Json::parse(json).map_err(|why| why.to_string())?;
        let item = self.value_of(&pipe.ty, &json).map_err(|why| why.to_string())?;
        message::bytes(|writer| self.put_item(pipe, &item, writer))
    }

    /// The arguments of a call, from an object with the names of the parameters. (An array has those that travel with the call in their
    /// order, and is taken, too.)
    ///
    /// # Errors
    /// An argument is missing, unknown or of another type.
    pub fn arguments_of(&self, json: &Json) -> Taken<Vec<Argument>> {
        let wanted = || self.parameters.iter().filter(|each| each.is_given());
        let members: Vec<(&str, &Json)> = match json {
            Json::Object(members) => members.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            Json::Array(values) if values.len() <= wanted().count() => {
                wanted().map(|parameter| parameter.name.as_str()).zip(values).collect()
            }
            Json::Array(_) => return Err(fault(format!("there are more arguments than {}", self.usage()))),
            _ => return Err(fault("the arguments are an object, with a name for each".into())),
        };
        for (name, _) in &members {
            if !wanted().any(|parameter| parameter.name == *name) {
                let names: Vec<_> = wanted().map(|parameter| parameter.name.as_str()).collect();
                return Err(unknown("argument", name, &names));
            }
        }
        let argument = |parameter: &Parameter| {
            let json = members.iter().find(|(name, _)| *name == parameter.name).map(|(_, json)| *json);
            self.argument(parameter, json).map_err(|why| why.below(&parameter.name))
        };
        self.parameters.iter().map(argument).collect()
    }

    fn argument(&self, parameter: &Parameter, json: Option<&Json>) -> Taken<Argument> {
        match (parameter.mode, json) {
            (Mode::Out, None) if parameter.has_length() => {
                Err(fault("is filled by the procedure: give its length, a number of elements".into()))
            }
            (Mode::Out, Some(json)) if parameter.has_length() => {
                let len = Taker { signature: self, depth: 0 }.value(&Type::Number(Number::U32), json)?;
                let Value::Unsigned(len) = len else { unreachable!("it is a u32") };
                Ok(Argument::Length(len as u32))
            }
            (Mode::Out | Mode::PipeIn | Mode::PipeOut, _) => Ok(Argument::Nothing),
            (_, None) if matches!(parameter.ty, Type::Option(_)) => Ok(Argument::Value(Value::Option(None))),
            (_, None) => Err(fault(format!("is missing; it is a {}", self.name_of(&parameter.ty)))),
            (_, Some(json)) => self.value_of(&parameter.ty, json).map(Argument::Value),
        }
    }

    /// The arguments that a call takes, in words: `name: String, count: u32`.
    pub fn usage(&self) -> String {
        let given = self.parameters.iter().filter(|parameter| parameter.is_given());
        let one = |parameter: &Parameter| match parameter.mode {
            Mode::Out => format!("{}: its length", parameter.name),
            _ => format!("{}: {}", parameter.name, self.name_of(&parameter.ty)),
        };
        let all: Vec<_> = given.map(one).collect();
        if all.is_empty() { "none".into() } else { all.join(", ") }
    }
}

impl Parameter {
    /// Whether a caller gives something for it.
    pub fn is_given(&self) -> bool {
        matches!(self.mode, Mode::In | Mode::InOut) || self.has_length()
    }
}

pub(crate) fn fault(why: String) -> Fault {
    Fault { path: String::new(), why }
}

impl Fault {
    pub(crate) fn below(mut self, name: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{separator}{}", self.path);
        self
    }
}

/// The beginning of some JSON, for a message.
pub(crate) fn shortened(json: &Json) -> String {
    let mut text = json.to_string();
    if let Some((end, _)) = text.char_indices().nth(40) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Bytes: a string, `{"base64": …}` or an array of numbers.
pub(crate) fn to_bytes(json: &Json) -> Taken<Vec<u8>> {
    match json {
        Json::Text(text) => Ok(text.clone().into_bytes()),
        Json::Object(members) => match &members[..] {
            [(name, Json::Text(text))] if name == "base64" => {
                base64::decode(text).ok_or_else(|| fault("is no base64 (RFC 4648)".into()))
            }
            _ => Err(fault(r#"bytes are a string, {"base64": "…"} or an array of numbers"#.into())),
        },
        Json::Array(values) => {
            let byte = |(place, json): (usize, &Json)| match simple(&Type::Number(Number::U8), json) {
                Some(Value::Unsigned(byte)) => Ok(byte as u8),
                _ => {
                    let why = format!("expected a u8, from 0 to 255, not {}", shortened(json));
                    Err(fault(why).below(&format!("[{place}]")))
                }
            };
            values.iter().enumerate().map(byte).collect()
        }
        json => {
            Err(fault(format!("expected bytes: a string, or an array of numbers, not {}", shortened(json))))
        }
    }
}

/// A name that is not among those that are known.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> Fault {
    let advice = match nearest(name, known) {
        Some(near) => format!("; did you mean {near}?"),
        None if known.is_empty() => "; there is none".into(),
        None => format!("; there is {}", known.join(", ")),
    };
    fault(format!("there is no {what} {}{advice}", Json::text(name)))
}

/// The name that is nearest to another, if one is near: at most a third of its characters differ.
pub fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let name: Vec<char> = name.chars().take(64).collect();
    let near = known.iter().map(|each| (distance(&name, each), *each)).min()?;
    (near.0 <= name.len().max(3) / 3).then_some(near.1)
}

/// Characters that have to be inserted, removed or replaced to make one text of the other (Levenshtein).
fn distance(one: &[char], other: &str) -> usize {
    let mut row: Vec<usize> = (0..=one.len()).collect();
    for (line, there) in other.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, here) in one.iter().enumerate() {
            let replaced = diagonal + usize::from(*here != there);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[one.len()]
}

struct Taker<'s> {
    signature: &'s Signature,
    depth: usize,
}

impl Taker<'_> {
    fn value(&mut self, ty: &Type, json: &Json) -> Taken<Value> {
        if self.depth >= DEPTH_MAX {
            return Err(fault("is nested too deeply".into()));
        }
        self.depth += 1;
        let value = self.bounded(ty, json);
        self.depth -= 1;
        value
    }

    fn bounded(&mut self, ty: &Type, json: &Json) -> Taken<Value> {
        match (ty, json) {
            (Type::Boxed(_), Json::Object(members)) if matches!(&members[..], [(name, _)] if name == SHARED) => {
                self.shared(&members[0].1)
            }
            (Type::Boxed(pointee), json) => self.value(pointee, json),
            (ty, json) if ty.is_bytes() => self.bytes(ty, json),
            (Type::Sequence(element), Json::Array(values)) => self.elements(element, values),
            (Type::Array(element, count), Json::Array(values)) => match values.len() as u64 == *count {
                true => self.elements(element, values),
                false => Err(fault(format!("has {count} elements, not {}", values.len()))),
            },
            (Type::Set(element), Json::Array(values)) => {
                let set = self.elements(element, values)?;
                match &set {
                    Value::Sequence(values) => different(values.iter())?,
                    Value::Bytes(bytes) if bytes.iter().collect::<HashSet<_>>().len() < bytes.len() => {
                        return Err(twice());
                    }
                    _ => {}
                }
                Ok(set)
            }
            (Type::Tuple(parts), Json::Array(values)) => {
                self.parts(parts.iter(), parts.len(), values).map(Value::Sequence)
            }
            (Type::Option(_), Json::Null) => Ok(Value::Option(None)),
            (Type::Option(inner), json) => self.some(inner, json),
            (Type::Result(of_value, of_error), Json::Object(members)) => match &members[..] {
                [(name, json)] if name == "ok" => {
                    Ok(Value::Result(Ok(self.below(name, of_value, json)?.into())))
                }
                [(name, json)] if name == "err" => {
                    Ok(Value::Result(Err(self.below(name, of_error, json)?.into())))
                }
                _ => Err(fault(r#"is {"ok": …} or {"err": …}"#.into())),
            },
            (Type::Map(of_key, of_value), Json::Array(_) | Json::Object(_)) => {
                self.map(of_key, of_value, json)
            }
            (Type::Named(place), json) => self.user_type(*place, json),
            (ty, json) => simple(ty, json).ok_or_else(|| self.expected(ty, json)),
        }
    }

    fn expected(&self, ty: &Type, json: &Json) -> Fault {
        let found = shortened(json);
        let wanted = match ty {
            Type::Number(number) if !number.is_float() => format!("a {}, {}", number.name(), range(*number)),
            Type::NonZero(number) => format!("a {} other than 0", number.name()),
            Type::Number(_) => "a number, or \"NaN\", \"inf\", \"-inf\"".into(),
            Type::Text => "a string".into(),
            Type::Char => "a string of one character".into(),
            Type::Bool => "true or false".into(),
            Type::Unit => "null".into(),
            Type::Duration => "a duration such as \"1.5s\" or \"20ms\"".into(),
            Type::SystemTime => "a time such as \"2026-11-27T03:00:00Z\"".into(),
            Type::Sequence(_) | Type::Array(..) | Type::Tuple(_) | Type::Set(_) => {
                format!("an array, of the type {}", self.signature.name_of(ty))
            }
            ty => format!("a {}", self.signature.name_of(ty)),
        };
        fault(format!("expected {wanted}, not {found}"))
    }

    fn shared(&mut self, json: &Json) -> Taken<Value> {
        match simple(&Type::Number(Number::U32), json) {
            Some(Value::Unsigned(number)) if number > 0 => Ok(Value::Shared(number as u32)),
            _ => Err(fault("the number of a shared value begins at 1".into())),
        }
    }

    fn bytes(&mut self, ty: &Type, json: &Json) -> Taken<Value> {
        let bytes = to_bytes(json)?;
        match ty {
            Type::Array(_, count) if bytes.len() as u64 != *count => {
                Err(fault(format!("has {count} bytes, not {}", bytes.len())))
            }
            _ => Ok(Value::Bytes(bytes)),
        }
    }

    fn elements(&mut self, element: &Type, values: &[Json]) -> Taken<Value> {
        let value = |(place, json): (usize, &Json)| self.below(&format!("[{place}]"), element, json);
        let values: Vec<Value> = values.iter().enumerate().map(value).collect::<Taken<_>>()?;
        if *element != Type::Number(Number::U8) {
            return Ok(Value::Sequence(values));
        }
        let byte = |value: &Value| match value {
            Value::Unsigned(byte) => *byte as u8,
            _ => unreachable!("it is a u8"),
        };
        Ok(Value::Bytes(values.iter().map(byte).collect()))
    }

    fn below(&mut self, name: &str, ty: &Type, json: &Json) -> Taken<Value> {
        self.value(ty, json).map_err(|why| why.below(name))
    }

    fn parts<'t>(
        &mut self,
        types: impl Iterator<Item = &'t Type>,
        count: usize,
        values: &[Json],
    ) -> Taken<Vec<Value>> {
        if values.len() != count {
            return Err(fault(format!("has {count} parts, not {}", values.len())));
        }
        let part = |(place, (ty, json)): (usize, (&Type, &Json))| self.below(&format!("[{place}]"), ty, json);
        types.zip(values).enumerate().map(part).collect()
    }

    fn some(&mut self, inner: &Type, json: &Json) -> Taken<Value> {
        let json = match json {
            json if !self.signature.may_be_null(inner) => json,
            Json::Array(values) if values.len() == 1 => &values[0],
            _ => {
                return Err(fault(
                    "is null, or an array with the value, because that may be null itself".into(),
                ));
            }
        };
        self.value(inner, json).map(|value| Value::Option(Some(Box::new(value))))
    }

    fn map(&mut self, of_key: &Type, of_value: &Type, json: &Json) -> Taken<Value> {
        let mut entries = Vec::new();
        match json {
            Json::Object(members) if *of_key == Type::Text => {
                for (name, json) in members {
                    entries.push((Value::Text(name.clone()), self.below(name, of_value, json)?));
                }
            }
            Json::Array(pairs) => {
                for (place, pair) in pairs.iter().enumerate() {
                    let Json::Array(pair) = pair else {
                        return Err(fault("its entries are arrays of a key and its value".into())
                            .below(&format!("[{place}]")));
                    };
                    let pair = self.parts([of_key, of_value].into_iter(), 2, pair);
                    let mut pair = pair.map_err(|why| why.below(&format!("[{place}]")))?.into_iter();
                    entries.extend(pair.next().zip(pair.next()));
                }
            }
            _ => return Err(fault("is an array of pairs, each of a key and its value".into())),
        }
        different(entries.iter().map(|(key, _)| key))?;
        Ok(Value::Map(entries))
    }

    #[inline(never)]
    fn user_type(&mut self, place: usize, json: &Json) -> Taken<Value> {
        let signature = self.signature;
        match &signature.types[place].body {
            Body::Struct(fields) => match (fields.style, json) {
                (Style::Unit, Json::Null) => Ok(Value::Unit),
                (Style::Unit, _) => Err(fault("has no fields: it is null".into())),
                _ => self.fields(fields, json).map(Value::Sequence),
            },
            Body::Enum(variants) => self.variant(variants, json),
        }
    }

    fn variant(&mut self, variants: &[Variant], json: &Json) -> Taken<Value> {
        let (name, inside) = match json {
            Json::Text(name) => (name, None),
            Json::Object(members) if members.len() == 1 => (&members[0].0, Some(&members[0].1)),
            _ => return Err(fault(r#"is the name of a variant, or {"Name": …} for one with fields"#.into())),
        };
        let Some(number) = variants.iter().position(|variant| variant.name == *name) else {
            let names: Vec<_> = variants.iter().map(|variant| variant.name.as_str()).collect();
            return Err(unknown("variant", name, &names));
        };
        let fields = &variants[number].fields;
        let values = match inside {
            None if fields.all.is_empty() => Vec::new(),
            None => return Err(fault(format!(r#"the variant has fields: {{"{name}": …}}"#))),
            Some(json) => self.fields(fields, json).map_err(|why| why.below(name))?,
        };
        Ok(Value::Variant(number as u32, values))
    }

    fn fields(&mut self, fields: &Fields, json: &Json) -> Taken<Vec<Value>> {
        match (fields.style, &fields.all[..], json) {
            (Style::Named, all, Json::Object(members)) => {
                for (name, _) in members {
                    if !all.iter().any(|field| field.name == *name) {
                        let names: Vec<_> = all.iter().map(|field| field.name.as_str()).collect();
                        return Err(unknown("field", name, &names));
                    }
                }
                let missing = |ty: &Type| match ty {
                    Type::Option(_) => Ok(Value::Option(None)),
                    ty => Err(fault(format!("is missing; it is a {}", self.signature.name_of(ty)))),
                };
                let mut values = Vec::with_capacity(all.len());
                for field in all {
                    values.push(match json.member(&field.name) {
                        Some(json) => self.below(&field.name, &field.ty, json)?,
                        None => missing(&field.ty).map_err(|why| why.below(&field.name))?,
                    });
                }
                Ok(values)
            }
            (Style::Named, all, _) => {
                let names: Vec<_> = all.iter().map(|field| field.name.as_str()).collect();
                Err(fault(format!("is an object with the fields {}", names.join(", "))))
            }
            (_, [one], json) => Ok(vec![self.value(&one.ty, json)?]),
            (_, all, Json::Array(values)) => self.parts(all.iter().map(|field| &field.ty), all.len(), values),
            (_, [], Json::Null) => Ok(Vec::new()),
            (_, all, _) => Err(fault(format!("is an array of {} parts", all.len()))),
        }
    }
}

fn different<'v>(keys: impl ExactSizeIterator<Item = &'v Value>) -> Taken<()> {
    let count = keys.len();
    if keys.collect::<HashSet<_>>().len() == count { Ok(()) } else { Err(twice()) }
}

fn twice() -> Fault {
    fault("a key or element is there twice".into())
}
