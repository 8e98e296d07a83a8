//! Scalars: everything that is a number in the end.

use core::num::NonZero;

use crate::layout::align_up;
use crate::{Data, DecodeError, Description, Layout, Reader, Scalar, Writer};

/// `encode` and `decode` of every fixed type.
macro_rules! fixed {
    () => {
        #[inline(always)]
        fn encode(&self, writer: &mut Writer<'_>) {
            writer.fixed(self);
        }

        #[inline(always)]
        fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
            reader.fixed()
        }
    };
}
pub(crate) use fixed;

/// Describes a type by a name alone.
macro_rules! described_as {
    ($name:expr) => {
        fn describe(description: &mut Description) {
            description.text($name);
        }
    };
}
pub(crate) use described_as;

macro_rules! scalars {
    ($($ty:ty, $swap:expr;)*) => {$(
        impl Scalar for $ty {
            #[inline(always)]
            fn swapped_if_big_endian(self) -> Self {
                if cfg!(target_endian = "big") { $swap(self) } else { self }
            }
        }

        impl Data for $ty {
            // The size is also the alignment, where some machines (u64 on 32-bit x86) ask for less.
            const LAYOUT: Layout = Layout::fixed(size_of::<$ty>(), size_of::<$ty>());
            fixed!();
            described_as!(stringify!($ty));

            #[inline(always)]
            fn store(&self, chunk: &mut [u8]) {
                chunk.copy_from_slice(&self.to_le_bytes());
            }

            #[inline(always)]
            fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
                let bytes = chunk.first_chunk().expect("a scalar is loaded from all of its bytes");
                Ok(<$ty>::from_le_bytes(*bytes))
            }

            #[inline(always)]
            fn encode_all(values: &[Self], writer: &mut Writer<'_>) {
                writer.scalars(values);
            }

            #[inline]
            fn decode_all(count: usize, reader: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
                reader.elements(count)
            }

            #[inline(always)]
            fn store_all(values: &[Self], chunk: &mut [u8]) {
                Self::store_scalars(values, chunk);
            }

            #[inline(always)]
            fn load_array<const N: usize>(chunk: &[u8]) -> Result<[Self; N], DecodeError> {
                let mut values = [<$ty>::default(); N];
                Self::load_scalars(chunk, &mut values);
                Ok(values)
            }
        }
    )*};
}

scalars! {
    u8, u8::swap_bytes; u16, u16::swap_bytes; u32, u32::swap_bytes; u64, u64::swap_bytes; u128, u128::swap_bytes;
    i8, i8::swap_bytes; i16, i16::swap_bytes; i32, i32::swap_bytes; i64, i64::swap_bytes; i128, i128::swap_bytes;
    f32, |value: f32| f32::from_bits(value.to_bits().swap_bytes());
    f64, |value: f64| f64::from_bits(value.to_bits().swap_bytes());
}

/// A fixed type that travels as another one.
macro_rules! travels_as {
    ($ty:ty, $name:expr, $other:ty, |$value:ident| $to:expr, |$carried:ident| $from:expr) => {
        impl Data for $ty {
            const LAYOUT: Layout = <$other as Data>::LAYOUT;
            fixed!();
            described_as!($name);

            #[inline(always)]
            fn store(&self, chunk: &mut [u8]) {
                let $value = self;
                let carried: $other = $to;
                carried.store(chunk);
            }

            #[inline(always)]
            fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
                let $carried = <$other as Data>::load(chunk)?;
                $from
            }
        }
    };
}
pub(crate) use travels_as;

travels_as!(bool, "bool", u8, |value| u8::from(*value), |found| flag(found));
travels_as!(char, "char", u32, |value| u32::from(*value), |found| {
    char::from_u32(found).ok_or(DecodeError::BadChar { found })
});
// As wide as on the widest machine of today; what a narrower one cannot hold is an error there.
travels_as!(usize, "usize", u64, |value| *value as u64, |found| {
    usize::try_from(found).map_err(|_| DecodeError::OutOfRange { name: "usize" })
});
travels_as!(isize, "isize", i64, |value| *value as i64, |found| {
    isize::try_from(found).map_err(|_| DecodeError::OutOfRange { name: "isize" })
});

macro_rules! non_zero {
    ($($ty:ident)*) => {$(
        travels_as!(NonZero<$ty>, concat!("NonZero<", stringify!($ty), ">"), $ty, |value| value.get(), |found| {
            NonZero::new(found).ok_or(DecodeError::OutOfRange { name: concat!("NonZero<", stringify!($ty), ">") })
        });
    )*};
}
non_zero!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// The two values of a flag byte.
#[inline(always)]
pub(crate) const fn flag(found: u8) -> Result<bool, DecodeError> {
    match found {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::BadFlag { found }),
    }
}

// `Writer::new` relies on it: no alignment is larger than that of a payload.
const _: () = assert!(align_up(1, <u128 as Data>::LAYOUT.align()) == 16);
