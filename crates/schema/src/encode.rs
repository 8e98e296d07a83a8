//! Values in the native form.

use crate::limits::FRAME;
use crate::tree::{Body, Fields, Number, Signature, Style, Type};
use crate::value::Value;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use stoop_marshal::Writer;

/// A value is not of the type as which it was to be written. Values that were read, or [taken from JSON](crate::json), with the same
/// signature are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit;

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value is not of the type that the signature has there")
    }
}

impl std::error::Error for Misfit {}

type Written = Result<(), Misfit>;

/// Writes values of the types of a signature into one message.
pub(crate) struct Encoder<'s, 'w, 'p> {
    signature: &'s Signature,
    writer: &'w mut Writer<'p>,
    /// The types of the shared values that are complete.
    shared: Vec<&'s Type>,
}

impl<'s, 'w, 'p> Encoder<'s, 'w, 'p> {
    pub(crate) fn new(signature: &'s Signature, writer: &'w mut Writer<'p>) -> Self {
        Self { signature, writer, shared: Vec::new() }
    }

    /// Writes a number of elements.
    pub(crate) fn count(&mut self, count: usize) {
        self.writer.count(count);
    }

    /// Writes a flag.
    pub(crate) fn flag(&mut self, flag: bool) {
        self.writer.value(&flag);
    }

    /// Writes a value.
    pub(crate) fn value(&mut self, ty: &'s Type, value: &Value) -> Written {
        if !self.writer.enter(FRAME) {
            // The writer has failed, and says why in the end.
            return Ok(());
        }
        match (ty, value) {
            (Type::Boxed(pointee), value) => self.value(pointee, value)?,
            (Type::Sequence(element) | Type::Set(element), value) => {
                self.count(len(value)?);
                self.elements(element, value)?;
            }
            (Type::Array(element, count), value) => {
                if len(value)? as u64 != *count {
                    return Err(Misfit);
                }
                self.pad(ty);
                self.elements(element, value)?;
                self.pad(ty);
            }
            (Type::Tuple(parts), Value::Sequence(values)) if values.len() == parts.len() => {
                self.pad(ty);
                parts.iter().zip(values).try_for_each(|(part, value)| self.value(part, value))?;
                self.pad(ty);
            }
            (Type::Option(inner), Value::Option(value)) => {
                self.flag(value.is_some());
                value.iter().try_for_each(|value| self.value(inner, value))?;
            }
            (Type::Result(of_value, of_error), Value::Result(value)) => {
                self.flag(value.is_err());
                match value {
                    Ok(value) => self.value(of_value, value)?,
                    Err(error) => self.value(of_error, error)?,
                }
            }
            (Type::Map(of_key, of_value), Value::Map(entries)) => {
                self.count(entries.len());
                for (key, value) in entries {
                    self.value(of_key, key)?;
                    self.value(of_value, value)?;
                }
            }
            (Type::Named(number), value) => self.user_type(ty, &self.signature.types[*number].body, value)?,
            (ty, value) => self.simple(ty, value)?,
        }
        self.writer.leave(FRAME);
        Ok(())
    }

    /// Writes zeros to where a value of a fixed type begins, or ends.
    fn pad(&mut self, ty: &Type) {
        let _ = self.writer.chunk(self.signature.layout(ty).align, 0);
    }

    /// Writes values one after the other.
    pub(crate) fn elements(&mut self, element: &'s Type, values: &Value) -> Written {
        match values {
            Value::Bytes(bytes) if *element == Type::Number(Number::U8) => {
                self.writer.scalars(bytes);
                Ok(())
            }
            Value::Sequence(values) => values.iter().try_for_each(|value| self.value(element, value)),
            _ => Err(Misfit),
        }
    }

    #[inline(never)]
    fn user_type(&mut self, ty: &'s Type, body: &'s Body, value: &Value) -> Written {
        match (body, value) {
            (Body::Struct(fields), Value::Unit) if fields.style == Style::Unit => Ok(()),
            (Body::Struct(fields), Value::Sequence(values)) if fields.style != Style::Unit => {
                self.pad(ty);
                self.fields(fields, values)?;
                self.pad(ty);
                Ok(())
            }
            (Body::Enum(variants), Value::Variant(number, values)) => {
                let variant = variants.get(*number as usize).ok_or(Misfit)?;
                self.writer.value(number);
                self.fields(&variant.fields, values)
            }
            _ => Err(Misfit),
        }
    }

    fn fields(&mut self, fields: &'s Fields, values: &[Value]) -> Written {
        if fields.all.len() != values.len() {
            return Err(Misfit);
        }
        fields.all.iter().zip(values).try_for_each(|(field, value)| match field.shared {
            true => self.shared(&field.ty, value),
            false => self.value(&field.ty, value),
        })
    }

    /// Writes a type with pointers that keep their sharing.
    fn shared(&mut self, ty: &'s Type, value: &Value) -> Written {
        if !self.writer.enter(FRAME) {
            return Ok(());
        }
        match (ty, value) {
            (Type::Option(inner), Value::Option(value)) => {
                self.flag(value.is_some());
                value.iter().try_for_each(|value| self.shared(inner, value))?;
            }
            (Type::Sequence(inner), Value::Sequence(values)) => {
                self.count(values.len());
                values.iter().try_for_each(|value| self.shared(inner, value))?;
            }
            (Type::Map(of_key, inner), Value::Map(entries)) => {
                self.count(entries.len());
                for (key, value) in entries {
                    self.value(of_key, key)?;
                    self.shared(inner, value)?;
                }
            }
            (pointer @ Type::Boxed(_), value) => self.pointer(pointer, value)?,
            _ => return Err(Misfit),
        }
        self.writer.leave(FRAME);
        Ok(())
    }

    fn pointer(&mut self, pointer: &'s Type, value: &Value) -> Written {
        let Value::Shared(number) = value else {
            self.writer.value(&0_u32);
            self.value(pointer, value)?;
            self.shared.push(pointer);
            return Ok(());
        };
        let of = (*number as usize).checked_sub(1).and_then(|place| self.shared.get(place));
        if of != Some(&pointer) {
            return Err(Misfit);
        }
        self.writer.value(number);
        Ok(())
    }

    /// Writes a value without parts.
    #[inline(never)]
    fn simple(&mut self, ty: &Type, value: &Value) -> Written {
        let writer = &mut *self.writer;
        match (ty, value) {
            (Type::Number(number), value) => return self::number(*number, value, writer),
            (Type::NonZero(_), Value::Unsigned(0) | Value::Signed(0)) => return Err(Misfit),
            (Type::NonZero(number), value) => return self::number(*number, value, writer),
            (Type::Bool, Value::Bool(value)) => writer.value(value),
            (Type::Char, Value::Char(value)) => writer.value(value),
            (Type::Unit, Value::Unit) => {}
            (Type::Duration, Value::Duration(value)) => writer.value(value),
            (Type::SystemTime, Value::Time(secs, nanos)) if *nanos < 1_000_000_000 => {
                writer.value(&(*secs, *nanos));
            }
            (Type::Ipv4Addr, Value::Ip(IpAddr::V4(value))) => writer.value(value),
            (Type::Ipv6Addr, Value::Ip(IpAddr::V6(value))) => writer.value(value),
            (Type::IpAddr, Value::Ip(value)) => writer.value(value),
            (Type::SocketAddr, Value::Socket(value)) => writer.value(&**value),
            (Type::SocketAddrV4 | Type::SocketAddrV6, Value::Socket(value)) => match (ty, &**value) {
                (Type::SocketAddrV4, SocketAddr::V4(value)) => writer.value(value),
                (Type::SocketAddrV6, SocketAddr::V6(value)) => writer.value(value),
                _ => return Err(Misfit),
            },
            (Type::Text, Value::Text(value)) => writer.text(value),
            _ => return Err(Misfit),
        }
        Ok(())
    }
}

/// Number of the values of a sequence.
pub(crate) fn len(values: &Value) -> Result<usize, Misfit> {
    match values {
        Value::Bytes(bytes) => Ok(bytes.len()),
        Value::Sequence(values) => Ok(values.len()),
        _ => Err(Misfit),
    }
}

#[inline(never)]
fn number(number: Number, value: &Value, writer: &mut Writer<'_>) -> Written {
    macro_rules! put {
        ($value:expr, $ty:ty) => {
            writer.value(&<$ty>::try_from(*$value).map_err(|_| Misfit)?)
        };
    }
    match (number, value) {
        (Number::U8, Value::Unsigned(value)) => put!(value, u8),
        (Number::U16, Value::Unsigned(value)) => put!(value, u16),
        (Number::U32, Value::Unsigned(value)) => put!(value, u32),
        (Number::U64 | Number::Usize, Value::Unsigned(value)) => put!(value, u64),
        (Number::U128, Value::Unsigned(value)) => writer.value(value),
        (Number::I8, Value::Signed(value)) => put!(value, i8),
        (Number::I16, Value::Signed(value)) => put!(value, i16),
        (Number::I32, Value::Signed(value)) => put!(value, i32),
        (Number::I64 | Number::Isize, Value::Signed(value)) => put!(value, i64),
        (Number::I128, Value::Signed(value)) => writer.value(value),
        (Number::F32, Value::F32(bits)) => writer.value(bits),
        (Number::F64, Value::F64(bits)) => writer.value(bits),
        _ => return Err(Misfit),
    }
    Ok(())
}
