//! Opaque data and strings.

use crate::{Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Variable-length opaque data without a bound (RFC 4506 §4.10): `Opaque<Vec<u8>>`, or `Opaque<&[u8]>` in place. Also a
/// string that need not be UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opaque<B>(pub B);

impl<B> Xdr for Opaque<B> {
    const LAYOUT: Layout = Layout::variable(4);
}

impl<B: AsRef<[u8]>> Encode for Opaque<B> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.0.as_ref(), UNBOUNDED);
    }
}

impl<'a> Decode<'a> for Opaque<&'a [u8]> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.opaque(UNBOUNDED).map(Self)
    }
}

impl Decode<'_> for Opaque<Vec<u8>> {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opaque(UNBOUNDED).map(|bytes| Self(bytes.to_vec()))
    }
}

/// Opaque data of `N` bytes (RFC 4506 §4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpaqueArray<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for OpaqueArray<N> {
    fn default() -> Self {
        OpaqueArray([0; N])
    }
}

impl<const N: usize> Xdr for OpaqueArray<N> {
    const LAYOUT: Layout = Layout::opaque(N);
}

impl<const N: usize> Encode for OpaqueArray<N> {
    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque_fixed(&self.0, N);
    }
}

impl<const N: usize> Decode<'_> for OpaqueArray<N> {
    #[inline(always)]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opaque_fixed().copied().map(Self)
    }
}

/// A string without a bound, which must be UTF-8 (RFC 4506 §4.11 says ASCII).
impl Xdr for str {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for str {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(self, UNBOUNDED);
    }
}

impl<'a> Decode<'a> for &'a str {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.text(UNBOUNDED)
    }
}

/// A string without a bound, which must be UTF-8 (RFC 4506 §4.11 says ASCII).
impl Xdr for String {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for String {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(self, UNBOUNDED);
    }
}

impl Decode<'_> for String {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.text(UNBOUNDED).map(ToOwned::to_owned)
    }
}
