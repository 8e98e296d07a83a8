//! What can travel in a call.

use crate::{DecodeError, Description, Layout, Reader, Writer};

/// A type whose values can be arguments and results of remote procedures.
///
/// Derive it: `#[derive(stoop::Data)]`. To write it by hand, for a type that travels as another one, delegate every
/// item to that other type.
///
/// # Contract
/// [`decode`](Data::decode) of what [`encode`](Data::encode) wrote gives an equal value and consumes exactly those
/// bytes, at any position. For a fixed [`LAYOUT`](Data::LAYOUT), `encode` is [`Writer::fixed`], `decode` is
/// [`Reader::fixed`], and `store` and `load` are implemented; for others they are never called. `decode` accepts any
/// bytes without panicking, and allocates only what it has [charged](Reader::charge).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument or result of a remote procedure",
    label = "this type does not implement `stoop::Data`",
    note = "put `#[derive(stoop::Data)]` on your own type; for a type of another crate, send a type of yours with the same contents"
)]
pub trait Data: Sized + 'static {
    /// What is known of the bytes before a value is seen.
    const LAYOUT: Layout;

    /// Writes the value after what has been written.
    fn encode(&self, writer: &mut Writer<'_>);

    /// Reads a value at the reader's position.
    ///
    /// # Errors
    /// When the bytes there are not a value of this type.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Adds the structure of the type to the signature of a procedure. Types with the same bytes may describe
    /// themselves alike; types with different bytes must not.
    fn describe(description: &mut Description);

    /// Fixed types: stores the value into its own bytes, all `LAYOUT.size()` of them, padding as zeros.
    fn store(&self, chunk: &mut [u8]) {
        let _ = chunk;
        unreachable!("only values of fixed types are stored")
    }

    /// Fixed types: loads a value from its own bytes.
    ///
    /// # Errors
    /// When the bytes are not a value of this type.
    fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
        let _ = chunk;
        unreachable!("only values of fixed types are loaded")
    }

    /// Writes values one after the other, without a count.
    #[inline]
    fn encode_all(values: &[Self], writer: &mut Writer<'_>) {
        crate::sequence::encode_each(values, writer);
    }

    /// Reads `count` values one after the other, where `count` has been checked by [`Reader::count`] and charged.
    ///
    /// # Errors
    /// When the bytes there are not that many values of this type.
    #[inline]
    fn decode_all(count: usize, reader: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        crate::sequence::decode_each(count, reader)
    }

    /// Fixed types: stores the values one after the other into `chunk`, which they fill.
    #[inline]
    fn store_all(values: &[Self], chunk: &mut [u8]) {
        crate::sequence::store_each(values, chunk);
    }

    /// Fixed types: loads the `N` values that fill `chunk`.
    ///
    /// # Errors
    /// When one of them is not a value of this type.
    #[inline]
    fn load_array<const N: usize>(chunk: &[u8]) -> Result<[Self; N], DecodeError> {
        crate::sequence::load_each(chunk)
    }
}
