//! Values from the native form.

use crate::layout;
use crate::limits::FRAME;
use crate::tree::{Body, Field, Fields, Layout, Number, Signature, Style, Type};
use crate::value::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;
use stoop_marshal::{DecodeError, Reader};

/// Reads values of the types of a signature from one message.
pub(crate) struct Decoder<'s, 'r, 'p> {
    signature: &'s Signature,
    reader: &'r mut Reader<'p>,
    /// The types of the shared values that are complete.
    shared: Vec<&'s Type>,
}

type Decoded<T> = Result<T, DecodeError>;

impl<'s, 'r, 'p> Decoder<'s, 'r, 'p> {
    pub(crate) fn new(signature: &'s Signature, reader: &'r mut Reader<'p>) -> Self {
        Self { signature, reader, shared: Vec::new() }
    }

    /// Reads a value.
    pub(crate) fn value(&mut self, ty: &'s Type) -> Decoded<Value> {
        self.reader.enter(FRAME)?;
        let value = match ty {
            Type::Sequence(element) => {
                let count = self.reader.count(self.min(element))?;
                self.elements(element, count)
            }
            Type::Array(element, count) => {
                self.pad(ty)?;
                let count = usize::try_from(*count).map_err(|_| DecodeError::OverBudget)?;
                let array = self.elements(element, count)?;
                self.pad(ty)?;
                Ok(array)
            }
            Type::Tuple(parts) => {
                self.pad(ty)?;
                let mut values = self.vec_for(parts.len())?;
                for part in parts {
                    values.push(self.value(part)?);
                }
                self.pad(ty)?;
                Ok(Value::Sequence(values))
            }
            Type::Option(inner) => match self.reader.value::<bool>()? {
                true => self.boxed(inner).map(|value| Value::Option(Some(value))),
                false => Ok(Value::Option(None)),
            },
            Type::Result(value, error) => match self.reader.value::<bool>()? {
                false => self.boxed(value).map(|value| Value::Result(Ok(value))),
                true => self.boxed(error).map(|error| Value::Result(Err(error))),
            },
            Type::Map(key, value) => self.map(key, value),
            Type::Set(element) => self.set(element),
            Type::Boxed(pointee) => self.value(pointee),
            Type::Named(_) => self.user_type(ty),
            ty => self.simple(ty),
        }?;
        self.reader.leave(FRAME);
        Ok(value)
    }

    /// Reads the number of elements that the caller has room for.
    pub(crate) fn length(&mut self) -> Decoded<u32> {
        self.reader.value()
    }

    /// Reads that a buffer does not lie in shared memory.
    pub(crate) fn no_place(&mut self) -> Decoded<()> {
        match self.reader.value::<bool>()? {
            false => Ok(()),
            true => Err(DecodeError::BadFlag { found: 1 }),
        }
    }

    fn boxed(&mut self, ty: &'s Type) -> Decoded<Box<Value>> {
        self.reader.charge(1, size_of::<Value>())?;
        self.value(ty).map(Box::new)
    }

    /// The bytes of the smallest value.
    fn min(&self, ty: &Type) -> usize {
        self.signature.layout(ty).min as usize
    }

    /// Skips to where a value of a fixed type begins, or ends.
    fn pad(&mut self, ty: &Type) -> Decoded<()> {
        self.reader.chunk(self.signature.layout(ty).align, 0).map(drop)
    }

    /// Room for so many values.
    fn vec_for<T>(&mut self, count: usize) -> Decoded<Vec<T>> {
        self.reader.charge(count, size_of::<T>())?;
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|_| DecodeError::NoMemory)?;
        Ok(values)
    }

    /// Reads so many values one after the other.
    pub(crate) fn elements(&mut self, element: &'s Type, count: usize) -> Decoded<Value> {
        if *element == Type::Number(Number::U8) {
            let bytes = self.reader.chunk(1, count)?;
            let mut copy = self.vec_for(count)?;
            copy.extend_from_slice(bytes);
            return Ok(Value::Bytes(copy));
        }
        let mut values = self.vec_for(count)?;
        for _ in 0..count {
            values.push(self.value(element)?);
        }
        Ok(Value::Sequence(values))
    }

    fn map(&mut self, key: &'s Type, value: &'s Type) -> Decoded<Value> {
        let count = self.reader.count(self.min(key) + self.min(value))?;
        let mut entries = self.vec_for(count)?;
        for _ in 0..count {
            entries.push((self.value(key)?, self.value(value)?));
        }
        self.different(entries.iter().map(|(key, _)| key))?;
        Ok(Value::Map(entries))
    }

    fn set(&mut self, element: &'s Type) -> Decoded<Value> {
        let count = self.reader.count(self.min(element))?;
        let set = self.elements(element, count)?;
        match &set {
            Value::Bytes(bytes) => {
                let mut seen = [false; 256];
                if bytes.iter().any(|byte| std::mem::replace(&mut seen[usize::from(*byte)], true)) {
                    return Err(DecodeError::Duplicate);
                }
            }
            Value::Sequence(values) => self.different(values.iter())?,
            _ => unreachable!("elements are a sequence"),
        }
        Ok(set)
    }

    /// Checks that no two keys are equal.
    fn different<'v>(&mut self, keys: impl ExactSizeIterator<Item = &'v Value>) -> Decoded<()> {
        let count = keys.len();
        self.reader.charge(count, 2 * size_of::<usize>())?;
        if keys.collect::<BTreeSet<_>>().len() == count { Ok(()) } else { Err(DecodeError::Duplicate) }
    }

    #[inline(never)]
    fn user_type(&mut self, ty: &'s Type) -> Decoded<Value> {
        let Type::Named(number) = ty else { unreachable!("the caller has looked") };
        match &self.signature.types[*number].body {
            Body::Struct(fields) => {
                self.pad(ty)?;
                let values = self.fields(fields)?;
                self.pad(ty)?;
                Ok(if fields.style == Style::Unit { Value::Unit } else { Value::Sequence(values) })
            }
            Body::Enum(variants) => {
                let found: u32 = self.reader.value()?;
                let variant = variants.get(found as usize);
                let variant = variant.ok_or(DecodeError::BadVariant { name: "enum", found })?;
                Ok(Value::Variant(found, self.fields(&variant.fields)?))
            }
        }
    }

    fn fields(&mut self, fields: &'s Fields) -> Decoded<Vec<Value>> {
        let mut values = self.vec_for(fields.all.len())?;
        for Field { shared, ty, .. } in &fields.all {
            values.push(if *shared { self.shared(ty)? } else { self.value(ty)? });
        }
        Ok(values)
    }

    /// Reads a type with pointers that keep their sharing.
    fn shared(&mut self, ty: &'s Type) -> Decoded<Value> {
        self.reader.enter(FRAME)?;
        let value = match ty {
            Type::Option(inner) => match self.reader.value::<bool>()? {
                true => {
                    self.reader.charge(1, size_of::<Value>())?;
                    Value::Option(Some(Box::new(self.shared(inner)?)))
                }
                false => Value::Option(None),
            },
            Type::Sequence(inner) => {
                let count = self.reader.count(1)?;
                let mut values = self.vec_for(count)?;
                for _ in 0..count {
                    values.push(self.shared(inner)?);
                }
                Value::Sequence(values)
            }
            Type::Map(key, inner) => {
                let count = self.reader.count(self.min(key) + 1)?;
                let mut entries = self.vec_for(count)?;
                for _ in 0..count {
                    entries.push((self.value(key)?, self.shared(inner)?));
                }
                self.different(entries.iter().map(|(key, _)| key))?;
                Value::Map(entries)
            }
            pointer => self.pointer(pointer)?,
        };
        self.reader.leave(FRAME);
        Ok(value)
    }

    fn pointer(&mut self, pointer: &'s Type) -> Decoded<Value> {
        let found: u32 = self.reader.value()?;
        if found == 0 {
            let value = self.value(pointer)?;
            self.reader.charge(1, size_of::<&Type>())?;
            self.shared.push(pointer);
            return Ok(value);
        }
        match self.shared.get(found as usize - 1) {
            Some(of) if *of == pointer => Ok(Value::Shared(found)),
            _ => Err(DecodeError::BadReference { found }),
        }
    }

    /// Reads a value without parts.
    #[inline(never)]
    fn simple(&mut self, ty: &Type) -> Decoded<Value> {
        let reader = &mut *self.reader;
        Ok(match ty {
            Type::Number(number) => self::number(*number, reader)?,
            Type::NonZero(number) => match self::number(*number, reader)? {
                Value::Unsigned(0) | Value::Signed(0) => {
                    return Err(DecodeError::OutOfRange { name: "NonZero" });
                }
                value => value,
            },
            Type::Bool => Value::Bool(reader.value()?),
            Type::Char => Value::Char(reader.value()?),
            Type::Unit => Value::Unit,
            Type::Duration => Value::Duration(reader.value::<Duration>()?),
            Type::SystemTime => {
                let (secs, nanos) = reader.value::<(i64, u32)>()?;
                if nanos >= 1_000_000_000 {
                    return Err(DecodeError::OutOfRange { name: "SystemTime" });
                }
                Value::Time(secs, nanos)
            }
            Type::Ipv4Addr => Value::Ip(reader.value::<Ipv4Addr>()?.into()),
            Type::Ipv6Addr => Value::Ip(reader.value::<Ipv6Addr>()?.into()),
            Type::IpAddr => Value::Ip(reader.value::<IpAddr>()?),
            Type::SocketAddrV4 => Value::Socket(Box::new(reader.value::<SocketAddrV4>()?.into())),
            Type::SocketAddrV6 => Value::Socket(Box::new(reader.value::<SocketAddrV6>()?.into())),
            Type::SocketAddr => Value::Socket(Box::new(reader.value::<SocketAddr>()?)),
            Type::Text => Value::Text(reader.value()?),
            _ => unreachable!("the other types have parts"),
        })
    }
}

#[inline(never)]
fn number(number: Number, reader: &mut Reader<'_>) -> Decoded<Value> {
    Ok(match number {
        Number::U8 => Value::Unsigned(reader.value::<u8>()?.into()),
        Number::U16 => Value::Unsigned(reader.value::<u16>()?.into()),
        Number::U32 => Value::Unsigned(reader.value::<u32>()?.into()),
        Number::U64 | Number::Usize => Value::Unsigned(reader.value::<u64>()?.into()),
        Number::U128 => Value::Unsigned(reader.value()?),
        Number::I8 => Value::Signed(reader.value::<i8>()?.into()),
        Number::I16 => Value::Signed(reader.value::<i16>()?.into()),
        Number::I32 => Value::Signed(reader.value::<i32>()?.into()),
        Number::I64 | Number::Isize => Value::Signed(reader.value::<i64>()?.into()),
        Number::I128 => Value::Signed(reader.value()?),
        Number::F32 => Value::F32(reader.value()?),
        Number::F64 => Value::F64(reader.value()?),
    })
}

impl Signature {
    /// The layout of a type of this signature.
    pub(crate) fn layout(&self, ty: &Type) -> Layout {
        layout::of_complete(ty, &self.layouts)
    }
}
