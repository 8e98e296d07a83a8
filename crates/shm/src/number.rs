//! Numbers of which any bytes are some value.

#![allow(unsafe_code)]

/// A number of which every bit pattern is a value: integers up to 128 bits and floats, not `usize`, which is not as large everywhere.
///
/// # Safety
/// A value has no padding, and any bytes of its size are a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the element of an `InPlace` buffer",
    label = "not a number of which every bit pattern is a value",
    note = "any bytes may appear in memory that another process writes; use u8 … u128, i8 … i128, f32 or f64"
)]
pub unsafe trait Number: Copy + Default + Send + Sync + 'static {}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        // SAFETY: primitive numbers have no padding, and all their bit patterns are values.
        unsafe impl Number for $ty {}
    )*};
}

numbers! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 }
