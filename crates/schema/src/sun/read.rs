//! JSON from XDR.

use crate::json::{Json, of_simple};
use crate::limits::DEPTH_MAX;
use crate::sun::File;
use crate::value::Value;
use std::fmt::Write;
use stoop_x::model::{Field, Kind, Length, Scalar, Selector, Type, Union};
use stoop_xdr::{DecodeError, Fault, Quadruple, Reader};

type Read = Result<Json, DecodeError>;

/// A value of a type.
pub(super) fn value(file: &File, ty: &Type, reader: &mut Reader<'_>) -> Read {
    Taker { file, depth: 0 }.value(ty, reader)
}

/// Values one after the other, as an object.
pub(super) fn fields(file: &File, fields: &[Field], reader: &mut Reader<'_>) -> Read {
    Taker { file, depth: 0 }.fields(fields, reader)
}

struct Taker<'f> {
    file: &'f File,
    depth: usize,
}

impl Taker<'_> {
    fn value(&mut self, ty: &Type, reader: &mut Reader<'_>) -> Read {
        if self.depth >= DEPTH_MAX {
            return Err(DecodeError { position: reader.position(), fault: Fault::TooDeep });
        }
        reader.charge::<Json>(1)?;
        self.depth += 1;
        let value = self.bounded(ty, reader);
        self.depth -= 1;
        value
    }

    fn bounded(&mut self, ty: &Type, reader: &mut Reader<'_>) -> Read {
        match ty {
            Type::Scalar(scalar) => self::scalar(*scalar, reader),
            Type::Named(name) => self.named(name, reader),
            Type::External(_) => unreachable!("the file has none"),
            Type::FixedOpaque(length) => fixed(length, reader),
            Type::Opaque(bound) | Type::String(bound) => reader.opaque(most(bound)).map(Json::bytes),
            Type::Array(element, length) => self.elements(element, length.value, reader),
            Type::Sequence(element, bound) => {
                let (position, len) = (reader.position(), reader.u32()?);
                match most(bound) {
                    max if len as usize <= max => self.elements(element, len, reader),
                    max => Err(DecodeError { position, fault: Fault::TooLong { len, max } }),
                }
            }
            Type::Optional(inner) | Type::Boxed(inner) => match reader.bool()? {
                false => Ok(Json::Null),
                true if self.file.may_be_null(inner) => Ok(Json::Array(vec![self.value(inner, reader)?])),
                true => self.value(inner, reader),
            },
            Type::Chain(node) => {
                let mut nodes = Vec::new();
                while reader.bool()? {
                    nodes.push(self.value(&Type::Named(node.clone()), reader)?);
                }
                Ok(Json::Array(nodes))
            }
        }
    }

    fn elements(&mut self, element: &Type, count: u32, reader: &mut Reader<'_>) -> Read {
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(element, reader)?);
        }
        Ok(Json::Array(values))
    }

    fn named(&mut self, name: &str, reader: &mut Reader<'_>) -> Read {
        match self.file.kind(name) {
            (Kind::Typedef(ty), _) => self.value(ty, reader),
            (Kind::Structure(structure), _) => self.fields(&structure.fields, reader),
            (Kind::Union(union), name) => self.union(union, name, reader),
            _ => self.file.enumerated(name, reader).map(|(_, name)| Json::Text(name)),
        }
    }

    fn fields(&mut self, fields: &[Field], reader: &mut Reader<'_>) -> Read {
        let field = |field: &Field| Ok((field.name.clone(), self.value(&field.ty, reader)?));
        fields.iter().map(field).collect::<Result<_, _>>().map(Json::Object)
    }

    fn union(&mut self, union: &Union, name: &'static str, reader: &mut Reader<'_>) -> Read {
        let (discriminant, mut spelled) = self.file.discriminant(&union.selector, reader)?;
        let mut labels = union.arms.iter().flat_map(|arm| arm.labels.iter().map(move |label| (arm, label)));
        let arm = match labels.find(|(_, label)| label.value == discriminant) {
            Some((arm, label)) => {
                if let Some(name) = &label.name {
                    spelled.clone_from(name);
                }
                arm
            }
            None => union.default.as_ref().ok_or_else(|| match &union.selector {
                Selector::Scalar(Scalar::I64 | Scalar::U64) => reader.unknown_arm(name, discriminant as i64),
                _ if discriminant < 0 => reader.unknown_arm(name, discriminant as i32),
                _ => reader.unknown_arm(name, discriminant as u32),
            })?,
        };
        match &arm.field {
            None => Ok(Json::Text(spelled)),
            Some(field) => Ok(Json::Object(vec![(spelled, self.value(&field.ty, reader)?)])),
        }
    }
}

impl File {
    /// Reads a value of an enum: its number, and its first name.
    fn enumerated(&self, name: &str, reader: &mut Reader<'_>) -> Result<(i32, String), DecodeError> {
        let found = reader.i32()?;
        let (kind, name) = self.kind(name);
        let Kind::Enumeration(values) = kind else { unreachable!("the other types have parts") };
        let value = values.iter().find(|each| each.value == found);
        value.map(|value| (found, value.name.clone())).ok_or_else(|| reader.unknown_value(name, found))
    }

    /// Reads a discriminant: the number, and how it is shown.
    fn discriminant(
        &self,
        selector: &Selector,
        reader: &mut Reader<'_>,
    ) -> Result<(i128, String), DecodeError> {
        Ok(match selector {
            Selector::Enumeration(name) => {
                let (number, name) = self.enumerated(name, reader)?;
                (number.into(), name)
            }
            Selector::Scalar(Scalar::Bool) => match reader.bool()? {
                false => (0, "FALSE".into()),
                true => (1, "TRUE".into()),
            },
            Selector::Scalar(scalar) => {
                let number = integer(*scalar, reader)?;
                (number, number.to_string())
            }
        })
    }
}

/// The most elements that a bound allows.
fn most(bound: &Option<Length>) -> usize {
    bound.as_ref().map_or(stoop_xdr::UNBOUNDED, |length| length.value as usize)
}

fn fixed(length: &Length, reader: &mut Reader<'_>) -> Read {
    let len = length.value as usize;
    let mut bytes = Vec::new();
    while bytes.len() < len {
        bytes.extend(reader.u32()?.to_be_bytes());
    }
    Ok(Json::bytes(&bytes[..len]))
}

fn integer(scalar: Scalar, reader: &mut Reader<'_>) -> Result<i128, DecodeError> {
    Ok(match scalar {
        Scalar::I8 => reader.value::<i8>()?.into(),
        Scalar::U8 => reader.value::<u8>()?.into(),
        Scalar::I16 => reader.value::<i16>()?.into(),
        Scalar::U16 => reader.value::<u16>()?.into(),
        Scalar::U32 => reader.u32()?.into(),
        Scalar::I64 => reader.value::<i64>()?.into(),
        Scalar::U64 => reader.u64()?.into(),
        _ => reader.i32()?.into(),
    })
}

fn scalar(scalar: Scalar, reader: &mut Reader<'_>) -> Read {
    Ok(match scalar {
        Scalar::Bool => Json::Bool(reader.bool()?),
        Scalar::F32 => of_simple(&Value::F32(reader.u32()?)),
        Scalar::F64 => of_simple(&Value::F64(reader.u64()?)),
        Scalar::Quadruple => {
            let Quadruple(bytes) = reader.value()?;
            let mut text = String::from("0x");
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
            Json::Text(text)
        }
        integer => Json::Number(self::integer(integer, reader)?.to_string()),
    })
}
