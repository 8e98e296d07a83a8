//! The traits of types that have an XDR form.

use crate::{DecodeError, EncodeError, Layout, Reader, Writer};
use alloc::vec::Vec;

/// A type that has an XDR form.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no XDR form",
    note = "your own type can have `#[derive(stoop::Xdr)]`; for bytes use `Opaque`"
)]
pub trait Xdr {
    /// The length of the form.
    const LAYOUT: Layout;

    /// The type is a byte of memory, but a word of 4 bytes in XDR. Sequences of it need an explicit choice.
    #[doc(hidden)]
    const IS_BYTE: bool = false;
}

/// A type whose values can be written as XDR.
///
/// # Contract
/// `encode` writes a multiple of 4 bytes, at least `LAYOUT.min()`, and exactly that many if the layout is fixed. It
/// writes its parts by methods of the [`Writer`], and never calls `encode` of a part itself: [`Writer::value`] does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as XDR",
    note = "your own type can have `#[derive(stoop::Xdr)]`; for bytes use `Opaque`"
)]
pub trait Encode: Xdr {
    /// Writes the value after what has been written. Failure is remembered by the writer.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// A type whose values can be read from XDR, and may borrow from the bytes that they are read from.
///
/// # Contract
/// `decode` of what [`Encode::encode`] wrote gives an equal value and consumes exactly those bytes. It accepts any
/// bytes without panicking. It reads its parts by methods of the [`Reader`], and never calls `decode` of a part itself:
/// [`Reader::value`] does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from XDR",
    note = "your own type can have `#[derive(stoop::Xdr)]`; for bytes use `Opaque`"
)]
pub trait Decode<'a>: Xdr + Sized {
    /// Reads a value at the reader's position.
    ///
    /// # Errors
    /// When the bytes there are not a value of this type.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

/// A type whose values can be read from XDR and own all that they hold. Implemented for every such type.
pub trait DecodeOwned: for<'a> Decode<'a> {}

impl<T: for<'a> Decode<'a>> DecodeOwned for T {}

/// Bytes that the XDR form of `value` takes.
///
/// # Errors
/// When the value has no XDR form.
pub fn encoded_len<T: Encode + ?Sized>(value: &T) -> Result<usize, EncodeError> {
    let mut writer = Writer::new(&mut []);
    writer.value(value);
    match writer.finish() {
        Err(EncodeError::NoRoom { needed, .. }) => Ok(needed),
        other => other,
    }
}

/// The XDR form of `value`.
///
/// # Errors
/// When the value has no XDR form.
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::new();
    append(value, &mut bytes)?;
    Ok(bytes)
}

/// Appends the XDR form of `value` to `bytes`, which is a multiple of 4 long. On failure, nothing is appended.
///
/// # Errors
/// When the value has no XDR form.
pub fn append<T: Encode + ?Sized>(value: &T, bytes: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = bytes.len();
    bytes.resize(start + encoded_len(value)?, 0);
    let mut writer = Writer::new(&mut bytes[start..]);
    writer.value(value);
    writer.finish().inspect_err(|_| bytes.truncate(start))?;
    Ok(())
}

/// The value whose XDR form is `bytes`, all of them.
///
/// # Errors
/// When the bytes are not the form of a `T`, or more than that.
pub fn from_slice<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = reader.value()?;
    reader.finish()?;
    Ok(value)
}
