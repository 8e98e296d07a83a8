//! Optional data, and values behind pointers.

use crate::{Decode, DecodeError, Encode, Layout, Reader, Writer, Xdr};
use alloc::boxed::Box;

/// Optional data (RFC 4506 §4.19): a flag, and the value if the flag is 1.
impl<T: Xdr> Xdr for Option<T> {
    const LAYOUT: Layout = Layout::variable(4);
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.optional(self.as_ref());
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.optional()
    }
}

/// The value itself. A type that contains itself does so through a box, so a box is one level of nesting.
impl<T: Xdr> Xdr for Box<T> {
    // Of `T`, nothing: its layout may depend on this one.
    const LAYOUT: Layout = Layout::variable(0);
}

impl<T: Encode> Encode for Box<T> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.nested(|writer| writer.value(&**self));
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.charge::<T>(1)?;
        reader.nested(|reader| reader.value().map(Box::new))
    }
}

/// The value itself.
impl<T: Xdr + ?Sized> Xdr for &T {
    const LAYOUT: Layout = T::LAYOUT;
}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        (**self).encode(writer);
    }
}
