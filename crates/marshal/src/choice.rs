//! `Option` and `Result`: a flag byte, then the value it announces.

use crate::scalar::flag;
use crate::{Data, DecodeError, Description, Layout, Reader, Writer};

impl<T: Data> Data for Option<T> {
    const LAYOUT: Layout = Layout::variable(1);

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.fixed(&self.is_some());
        if let Some(value) = self {
            value.encode(writer);
        }
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if flag(reader.fixed()?)? { Ok(Some(T::decode(reader)?)) } else { Ok(None) }
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
        match self {
            Ok(value) => value.encode(writer),
            Err(error) => error.encode(writer),
        }
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if flag(reader.fixed()?)? { Ok(Err(E::decode(reader)?)) } else { Ok(Ok(T::decode(reader)?)) }
    }

    fn describe(description: &mut Description) {
        description.text("Result<").of::<T>().text(", ").of::<E>().text(">");
    }
}
