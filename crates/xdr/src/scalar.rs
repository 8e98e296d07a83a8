//! Numbers, booleans and void.

use crate::{Decode, DecodeError, Encode, Fault, Layout, Reader, Writer, Xdr};

/// A number that takes its own size in XDR, `len` bytes written as `wire` by the method of that name.
macro_rules! number {
    ($($type:ty: $len:literal $wire:ident $to_wire:expr, $from_wire:expr;)*) => { $(
        impl Xdr for $type {
            const LAYOUT: Layout = Layout::fixed($len);
        }

        impl Encode for $type {
            #[inline(always)]
            fn encode(&self, writer: &mut Writer<'_>) {
                writer.$wire($to_wire(*self));
            }
        }

        impl Decode<'_> for $type {
            #[inline(always)]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.$wire().map($from_wire)
            }
        }
    )* };
}

// RFC 4506 §4.1, §4.2, §4.5, §4.6, §4.7.
number! {
    u32: 4 u32 core::convert::identity, core::convert::identity;
    i32: 4 i32 core::convert::identity, core::convert::identity;
    u64: 8 u64 core::convert::identity, core::convert::identity;
    i64: 8 u64 i64::cast_unsigned, u64::cast_signed;
    f32: 4 u32 f32::to_bits, f32::from_bits;
    f64: 8 u64 f64::to_bits, f64::from_bits;
}

/// A number narrower than the 4 bytes that it takes in XDR: `char`, `short` and the like, which rpcgen adds to the
/// language.
macro_rules! narrow {
    ($($type:ty, $is_byte:literal, $accepts:expr;)*) => { $(
        impl Xdr for $type {
            const LAYOUT: Layout = Layout::fixed(4);
            const IS_BYTE: bool = $is_byte;
        }

        impl Encode for $type {
            #[inline(always)]
            fn encode(&self, writer: &mut Writer<'_>) {
                writer.i32(i32::from(*self));
            }
        }

        impl Decode<'_> for $type {
            /// # Errors
            /// When the number is not in the range of the type. C programs cut it to its low bits instead.
            #[inline(always)]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let found = reader.i32()?;
                if $accepts.contains(&found) {
                    return Ok(found as $type);
                }
                let name = stringify!($type);
                Err(reader.error_before(4, Fault::OutOfRange { name, found: found.into() }))
            }
        }
    )* };
}

narrow! {
    u8, true, 0..=255;
    // C's char is unsigned on some machines, which then send 255 where others send -1.
    i8, true, -128..=255;
    u16, false, 0..=65_535;
    i16, false, -32_768..=32_767;
}

impl Xdr for bool {
    const LAYOUT: Layout = Layout::fixed(4);
}

impl Encode for bool {
    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(*self));
    }
}

impl Decode<'_> for bool {
    #[inline(always)]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.bool()
    }
}

/// Void, which takes no bytes (RFC 4506 §4.16).
impl Xdr for () {
    const LAYOUT: Layout = Layout::fixed(0);
}

impl Encode for () {
    #[inline(always)]
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl Decode<'_> for () {
    #[inline(always)]
    fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

/// A floating-point number of 128 bits, as its bytes (RFC 4506 §4.8): Rust has no such number to compute with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quadruple(pub [u8; 16]);

impl Xdr for Quadruple {
    const LAYOUT: Layout = Layout::fixed(16);
}

impl Encode for Quadruple {
    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque_fixed(&self.0, 16);
    }
}

impl Decode<'_> for Quadruple {
    #[inline(always)]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opaque_fixed().copied().map(Self)
    }
}
