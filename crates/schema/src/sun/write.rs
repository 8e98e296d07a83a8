//! XDR from JSON.

use crate::json::{Fault, Json, fault, range, shortened, simple, to_bytes, unknown};
use crate::sun::{File, number, spelling};
use crate::tree;
use crate::value::Value;
use stoop_x::model::{Arm, Enumerator, Field, Kind, Length, Scalar, Selector, Type, Union};

type Written<T = ()> = Result<T, Fault>;

/// The XDR of a value of a type.
pub(super) fn value(file: &File, ty: &Type, json: &Json) -> Written<Vec<u8>> {
    let mut putter = Putter { file, bytes: Vec::new() };
    putter.value(ty, json)?;
    Ok(putter.bytes)
}

/// The XDR of arguments: an object with their names, or an array in their order.
pub(super) fn arguments(file: &File, arguments: &[Field], json: &Json) -> Written<Vec<u8>> {
    let mut putter = Putter { file, bytes: Vec::new() };
    match json {
        Json::Array(values) if values.len() == arguments.len() => {
            for (argument, json) in arguments.iter().zip(values) {
                putter.below(&argument.name, &argument.ty, json)?;
            }
        }
        json => putter.fields("argument", arguments, json)?,
    }
    Ok(putter.bytes)
}

/// Writes values. They are nested no deeper than the parser of JSON allows.
struct Putter<'f> {
    file: &'f File,
    bytes: Vec<u8>,
}

impl Putter<'_> {
    fn value(&mut self, ty: &Type, json: &Json) -> Written {
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar, json),
            Type::Named(name) => self.named(name, json),
            Type::External(_) => unreachable!("the file has none"),
            Type::FixedOpaque(length) => {
                let bytes = self.bytes_of(json)?;
                if bytes.len() != length.value as usize {
                    return Err(fault(format!("has {} bytes, not {}", length.value, bytes.len())));
                }
                self.padded(&bytes);
                Ok(())
            }
            Type::Opaque(bound) | Type::String(bound) => {
                let bytes = self.bytes_of(json)?;
                self.count(bytes.len(), bound)?;
                self.padded(&bytes);
                Ok(())
            }
            Type::Array(element, length) => {
                let values = array(ty, json)?;
                if values.len() != length.value as usize {
                    return Err(fault(format!("has {} elements, not {}", length.value, values.len())));
                }
                self.elements(element, values)
            }
            Type::Sequence(element, bound) => {
                let values = array(ty, json)?;
                self.count(values.len(), bound)?;
                self.elements(element, values)
            }
            Type::Optional(inner) | Type::Boxed(inner) => match json {
                Json::Null => self.flag(false),
                Json::Array(values) if self.file.may_be_null(inner) && values.len() == 1 => {
                    self.flag(true)?;
                    self.value(inner, &values[0])
                }
                _ if self.file.may_be_null(inner) => {
                    let advice = "is null, or an array with the value, because that may be null itself";
                    Err(fault(advice.into()))
                }
                json => {
                    self.flag(true)?;
                    self.value(inner, json)
                }
            },
            Type::Chain(node) => {
                let node = Type::Named(node.clone());
                for (place, json) in array(ty, json)?.iter().enumerate() {
                    self.flag(true)?;
                    self.below(&format!("[{place}]"), &node, json)?;
                }
                self.flag(false)
            }
        }
    }

    fn below(&mut self, name: &str, ty: &Type, json: &Json) -> Written {
        self.value(ty, json).map_err(|why| why.below(name))
    }

    fn elements(&mut self, element: &Type, values: &[Json]) -> Written {
        let mut all = values.iter().enumerate();
        all.try_for_each(|(place, json)| self.below(&format!("[{place}]"), element, json))
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    fn flag(&mut self, flag: bool) -> Written {
        self.word(flag.into());
        Ok(())
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn count(&mut self, count: usize, bound: &Option<Length>) -> Written {
        let most = bound.as_ref().map_or(u32::MAX, |length| length.value);
        match u32::try_from(count).ok().filter(|count| *count <= most) {
            Some(count) => self.word(count),
            None => return Err(fault(format!("has at most {most} elements or bytes, not {count}"))),
        }
        Ok(())
    }

    fn bytes_of(&self, json: &Json) -> Written<Vec<u8>> {
        to_bytes(json)
    }

    fn scalar(&mut self, scalar: Scalar, json: &Json) -> Written {
        let expected = |wanted: String| fault(format!("expected {wanted}, not {}", shortened(json)));
        match (scalar, json) {
            (Scalar::Bool, Json::Bool(value)) => return self.flag(*value),
            (Scalar::Bool, _) => return Err(expected("true or false".into())),
            (Scalar::Quadruple, Json::Text(text)) => {
                let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 32);
                let bits = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
                let bits =
                    bits.ok_or_else(|| expected("the 16 bytes of a quadruple in hexadecimal".into()))?;
                self.bytes.extend(bits.to_be_bytes());
                return Ok(());
            }
            _ => {}
        }
        let name = spelling::scalar_of(scalar);
        let Some(number) = number(scalar) else {
            return Err(expected(r#"a quadruple: "0x" and 32 hexadecimal digits"#.into()));
        };
        let value = simple(&tree::Type::Number(number), json).ok_or_else(|| match number.is_float() {
            true => expected(r#"a number, or "NaN", "inf", "-inf""#.into()),
            false => expected(format!("a number of type {name}, {}", range(number))),
        })?;
        match (value, number.size()) {
            (Value::F64(bits), _) => self.bytes.extend(bits.to_be_bytes()),
            (Value::F32(bits), _) => self.word(bits),
            (Value::Unsigned(value), 8) => self.bytes.extend((value as u64).to_be_bytes()),
            (Value::Signed(value), 8) => self.bytes.extend((value as i64).to_be_bytes()),
            (Value::Unsigned(value), _) => self.word(value as u32),
            (Value::Signed(value), _) => self.word((value as i32).cast_unsigned()),
            _ => unreachable!("the value is a number"),
        }
        Ok(())
    }

    fn named(&mut self, name: &str, json: &Json) -> Written {
        match self.file.kind(name).0 {
            Kind::Typedef(ty) => self.value(ty, json),
            Kind::Structure(structure) => self.fields("field", &structure.fields, json),
            Kind::Union(union) => self.union(union, json),
            Kind::Enumeration(values) => {
                let value = match json {
                    Json::Text(name) => enumerated(values, name)?,
                    Json::Number(digits) => enumerated(values, digits)?,
                    _ => {
                        return Err(fault(format!(
                            "expected the name of a {name}, such as \"{}\", not {}",
                            values.first().map_or("", |value| value.name.as_str()),
                            shortened(json)
                        )));
                    }
                };
                self.word(value.cast_unsigned());
                Ok(())
            }
            _ => unreachable!("a constant and a program are no types"),
        }
    }

    fn fields(&mut self, what: &str, fields: &[Field], json: &Json) -> Written {
        let Json::Object(members) = json else {
            return Err(fault(format!("is an object with: {}", spelling::fields(fields))));
        };
        for (name, _) in members {
            if !fields.iter().any(|field| field.name == *name) {
                let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
                return Err(unknown(what, name, &names));
            }
        }
        for field in fields {
            match json.member(&field.name) {
                Some(json) => self.below(&field.name, &field.ty, json)?,
                None if self.file.may_be_null(&field.ty) => self.flag(false)?,
                None => {
                    let why = format!("is missing; its type is {}", spelling::of(&field.ty));
                    return Err(fault(why).below(&field.name));
                }
            }
        }
        Ok(())
    }

    fn union(&mut self, union: &Union, json: &Json) -> Written {
        let truth = |value: &bool| if *value { "TRUE" } else { "FALSE" };
        let (name, inside) = match json {
            Json::Text(name) | Json::Number(name) => (name.as_str(), None),
            Json::Bool(value) => (truth(value), None),
            Json::Object(members) if members.len() == 1 => (members[0].0.as_str(), Some(&members[0].1)),
            _ => {
                let advice = r#"is the discriminant of an arm that is void, or {"DISCRIMINANT": …}"#;
                return Err(fault(advice.into()));
            }
        };
        let discriminant = self.discriminant(union, name)?;
        let selects = |arm: &&Arm| arm.labels.iter().any(|label| label.value == discriminant);
        let arm = union.arms.iter().find(selects).or(union.default.as_ref());
        let Some(arm) = arm else {
            let labels = union.arms.iter().flat_map(|arm| &arm.labels);
            let labels: Vec<_> =
                labels.map(|label| label.name.clone().unwrap_or_else(|| label.value.to_string())).collect();
            let labels: Vec<_> = labels.iter().map(String::as_str).collect();
            return Err(unknown("arm", name, &labels));
        };
        match (&union.selector, discriminant) {
            (Selector::Scalar(Scalar::I64 | Scalar::U64), value) => {
                self.bytes.extend((value as u64).to_be_bytes());
            }
            (_, value) => self.word(value as u32),
        }
        match (&arm.field, inside) {
            (None, None | Some(Json::Null)) => Ok(()),
            (None, Some(_)) => Err(fault("is void: it is null".into()).below(name)),
            (Some(field), Some(json)) => self.below(name, &field.ty, json),
            (Some(field), None) => {
                Err(fault(format!(r#"the arm has the type {}: {{"{name}": …}}"#, spelling::of(&field.ty))))
            }
        }
    }

    /// The number of a discriminant.
    fn discriminant(&self, union: &Union, name: &str) -> Written<i128> {
        let mut labels = union.arms.iter().flat_map(|arm| &arm.labels);
        let scalar = match &union.selector {
            Selector::Enumeration(of) => {
                let Kind::Enumeration(values) = self.file.kind(of).0 else { unreachable!("it is an enum") };
                return enumerated(values, name).map(i128::from);
            }
            Selector::Scalar(Scalar::Bool) => match name {
                "TRUE" | "true" | "1" => return Ok(1),
                "FALSE" | "false" | "0" => return Ok(0),
                _ => return Err(unknown("arm", name, &["TRUE", "FALSE"])),
            },
            Selector::Scalar(scalar) => *scalar,
        };
        if let Some(label) = labels.find(|label| label.name.as_deref() == Some(name)) {
            return Ok(label.value);
        }
        let number = number(scalar).expect("a discriminant is an integer");
        match simple(&tree::Type::Number(number), &Json::text(name)) {
            Some(Value::Unsigned(value)) => Ok(value as i128),
            Some(Value::Signed(value)) => Ok(value),
            _ => {
                let (name, wanted) = (Json::text(name), spelling::scalar_of(scalar));
                Err(fault(format!(
                    "the discriminant is a number of type {wanted}, {}, not {name}",
                    range(number)
                )))
            }
        }
    }
}

/// The elements of an array.
fn array<'j>(ty: &Type, json: &'j Json) -> Written<&'j [Json]> {
    match json {
        Json::Array(values) => Ok(values),
        json => Err(fault(format!(
            "expected an array, of the type {}, not {}",
            spelling::of(ty),
            shortened(json)
        ))),
    }
}

/// The value of an enum with that name or number.
fn enumerated(values: &[Enumerator], name: &str) -> Written<i32> {
    let number = name.parse::<i32>().ok();
    let value = values.iter().find(|value| value.name == name || Some(value.value) == number);
    value.map(|value| value.value).ok_or_else(|| {
        let names: Vec<_> = values.iter().map(|value| value.name.as_str()).collect();
        unknown("value", name, &names)
    })
}
