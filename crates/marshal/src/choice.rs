//! `Option` and `Result`: a flag byte, then the value it announces.

use crate::limits::stack_charge;
use crate::scalar::flag;
use crate::{Data, DecodeError, Description, Form, Layout, Reader, Writer};

impl<T: Data> Data for Option<T> {
    const LAYOUT: Layout = Layout::variable(1);

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.fixed(&self.is_some());
        if let Some(value) = self
            && writer.enter(stack_charge::<Self>(1))
        {
            value.encode(writer);
            writer.leave(stack_charge::<Self>(1));
        }
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if !flag(reader.fixed()?)? {
            return Ok(None);
        }
        reader.enter(stack_charge::<Self>(1))?;
        let value = T::decode(reader)?;
        reader.leave(stack_charge::<Self>(1));
        Ok(Some(value))
    }

    const GROWS: bool = T::GROWS;

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        writer.fixed(&self.is_some());
        if let Some(value) = self
            && writer.enter(stack_charge::<Self>(1))
        {
            value.encode_at(writer, form);
            writer.leave(stack_charge::<Self>(1));
        }
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        if !flag(reader.fixed()?)? {
            return Ok(None);
        }
        reader.enter(stack_charge::<Self>(1))?;
        let value = T::decode_at(reader, form)?;
        reader.leave(stack_charge::<Self>(1));
        Ok(Some(value))
    }

    fn describe(description: &mut Description) {
        description.text("Option<").of::<T>().text(">");
    }
}

impl<T: Data, E: Data> Data for Result<T, E> {
    const LAYOUT: Layout = Layout::variable(1);

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.fixed(&self.is_err());
        if writer.enter(stack_charge::<Self>(2)) {
            match self {
                Ok(value) => value.encode(writer),
                Err(error) => error.encode(writer),
            }
            writer.leave(stack_charge::<Self>(2));
        }
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let is_error = flag(reader.fixed()?)?;
        reader.enter(stack_charge::<Self>(2))?;
        let value = if is_error { Err(E::decode(reader)?) } else { Ok(T::decode(reader)?) };
        reader.leave(stack_charge::<Self>(2));
        Ok(value)
    }

    const GROWS: bool = T::GROWS || E::GROWS;

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        writer.fixed(&self.is_err());
        if writer.enter(stack_charge::<Self>(2)) {
            match self {
                Ok(value) => value.encode_at(writer, form),
                Err(error) => error.encode_at(writer, form),
            }
            writer.leave(stack_charge::<Self>(2));
        }
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        let is_error = flag(reader.fixed()?)?;
        reader.enter(stack_charge::<Self>(2))?;
        let value = if is_error { Err(E::decode_at(reader, form)?) } else { Ok(T::decode_at(reader, form)?) };
        reader.leave(stack_charge::<Self>(2));
        Ok(value)
    }

    fn describe(description: &mut Description) {
        description.text("Result<").of::<T>().text(", ").of::<E>().text(">");
    }
}
