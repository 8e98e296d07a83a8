//! The types whose values travel in calls.

use crate::layouts::{LeftOut, NEVER, Revision};
use crate::limits::stack_charge;
use crate::memory::vec_for;
use crate::{DecodeError, Description, Form, Layout, Layouts, Reader, Writer};
use core::array;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

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
    /// Facts about the bytes that hold for every value.
    const LAYOUT: Layout;

    /// Writes the value after what has been written.
    fn encode(&self, writer: &mut Writer<'_>);

    /// Reads a value at the reader's position.
    ///
    /// # Errors
    /// When the bytes there are not a value of this type.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Whether a part of it came with a later revision, as far as that can be seen without looking behind pointers and into sequences,
    /// maps and sets. A fixed type has no such parts.
    const GROWS: bool = false;

    /// Fixed types: [`LAYOUT`](Data::LAYOUT) at all revisions.
    const LAYOUTS: Layouts = Layouts::One(Self::LAYOUT);

    /// [`LAYOUT`](Data::LAYOUT) in a message of an older form.
    #[inline(always)]
    fn layout_at(form: Form) -> Layout {
        let _ = form;
        Self::LAYOUT
    }

    /// [`encode`](Data::encode) into a message of an older form.
    #[inline(always)]
    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        let _ = form;
        self.encode(writer);
    }

    /// [`decode`](Data::decode) from a message of an older form.
    ///
    /// # Errors
    /// When the bytes there are not a value of this type in that form.
    #[inline(always)]
    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        let _ = form;
        Self::decode(reader)
    }

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

    /// [`store`](Data::store) as at a revision, where the value has another layout and other parts.
    #[inline(always)]
    fn store_at<R: Revision>(&self, chunk: &mut [u8], left_out: &mut LeftOut) {
        let _ = left_out;
        self.store(chunk);
    }

    /// [`load`](Data::load) of a value as at a revision.
    ///
    /// # Errors
    /// When the bytes are not a value of this type at that revision.
    #[inline(always)]
    fn load_at<R: Revision>(chunk: &[u8]) -> Result<Self, DecodeError> {
        Self::load(chunk)
    }

    /// Writes values one after the other, without a count.
    #[inline]
    fn encode_all(values: &[Self], writer: &mut Writer<'_>) {
        if !Self::LAYOUT.is_fixed() {
            if writer.enter(stack_charge::<Self>(1)) {
                for value in values {
                    value.encode(writer);
                }
                writer.leave(stack_charge::<Self>(1));
            }
        } else if !values.is_empty()
            && let Some(chunk) =
                writer.chunk(Self::LAYOUT.align(), Self::LAYOUT.fixed_size().saturating_mul(values.len()))
        {
            Self::store_all(values, chunk);
        }
    }

    /// Reads `count` values one after the other, where `count` has been checked by [`Reader::count`] and charged.
    ///
    /// # Errors
    /// When the bytes there are not that many values of this type.
    #[inline]
    fn decode_all(count: usize, reader: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut values = vec_for(count)?;
        if !Self::LAYOUT.is_fixed() {
            reader.enter(stack_charge::<Self>(1))?;
            for _ in 0..count {
                values.push(Self::decode(reader)?);
            }
            reader.leave(stack_charge::<Self>(1));
        } else if count > 0 {
            let size = Self::LAYOUT.fixed_size();
            let chunk = reader.chunk(Self::LAYOUT.align(), size.saturating_mul(count))?;
            for index in 0..count {
                values.push(Self::load(&chunk[index * size..][..size])?);
            }
        }
        Ok(values)
    }

    /// [`encode_all`](Data::encode_all) into a message of an older form.
    #[inline]
    fn encode_all_at(values: &[Self], writer: &mut Writer<'_>, form: Form) {
        if is_the_same_at::<Self>() {
            Self::encode_all(values, writer);
        } else if const { is_fixed_at::<Self>() } {
            writer.all_fixed_at(values, form);
        } else if writer.enter(stack_charge::<Self>(1)) {
            for value in values {
                value.encode_at(writer, form);
            }
            writer.leave(stack_charge::<Self>(1));
        }
    }

    /// [`decode_all`](Data::decode_all) from a message of an older form.
    ///
    /// # Errors
    /// When the bytes there are not that many values of this type in that form.
    #[inline]
    fn decode_all_at(count: usize, reader: &mut Reader<'_>, form: Form) -> Result<Vec<Self>, DecodeError> {
        if is_the_same_at::<Self>() {
            return Self::decode_all(count, reader);
        }
        if const { is_fixed_at::<Self>() } {
            return reader.all_fixed_at(count, form);
        }
        let mut values = vec_for(count)?;
        reader.enter(stack_charge::<Self>(1))?;
        for _ in 0..count {
            values.push(Self::decode_at(reader, form)?);
        }
        reader.leave(stack_charge::<Self>(1));
        Ok(values)
    }

    /// Fixed types: stores the values one after the other into `chunk`, which they fill.
    #[inline]
    fn store_all(values: &[Self], chunk: &mut [u8]) {
        // Values without bytes leave nothing to store, and no chunks to divide into.
        let size = Self::LAYOUT.fixed_size().max(1);
        for (value, chunk) in values.iter().zip(chunk.chunks_exact_mut(size)) {
            value.store(chunk);
        }
    }

    /// Fixed types: loads the `N` values that fill `chunk`.
    ///
    /// # Errors
    /// When one of them is not a value of this type.
    #[inline]
    fn load_array<const N: usize>(chunk: &[u8]) -> Result<[Self; N], DecodeError> {
        let size = Self::LAYOUT.fixed_size();
        try_array(|index| Self::load(&chunk[index * size..][..size]))
    }
}

/// Changes of a type for which there is code of its own.
const CHANGES_MAX: usize = 8;

/// Whether a type is fixed, and has changed so seldom that there is code for each of its forms.
pub const fn is_fixed_at<T: Data>() -> bool {
    T::LAYOUT.is_fixed() && T::LAYOUTS.change(CHANGES_MAX) == NEVER
}

/// Whether values of a type have the same bytes in every form: those of a fixed type without later parts.
#[inline(always)]
pub(crate) const fn is_the_same_at<T: Data>() -> bool {
    T::LAYOUT.is_fixed() && !T::GROWS
}

impl Description {
    /// Adds the structure of a type that is a key of a map or a member of a set.
    pub fn key<T: Data>(&mut self) -> &mut Self {
        self.as_key(T::describe);
        self
    }

    /// Adds the structure of a type.
    pub fn of<T: Data>(&mut self) -> &mut Self {
        T::describe(self);
        self
    }
}

/// A number for which every bit pattern is a value, with the same size everywhere: integers up to 128 bits and floats,
/// not `usize`. Slices and arrays of them are read and written in place.
pub trait Scalar: Data + Copy + Default + FromBytes + IntoBytes + Immutable + KnownLayout {
    /// From or to little-endian.
    #[doc(hidden)]
    fn swapped_if_big_endian(self) -> Self;

    /// Stores `values` into `chunk`, which they fill.
    #[doc(hidden)]
    #[inline(always)]
    fn store_scalars(values: &[Self], chunk: &mut [u8]) {
        if cfg!(target_endian = "little") {
            chunk.copy_from_slice(values.as_bytes());
        } else {
            for (value, chunk) in values.iter().zip(chunk.chunks_exact_mut(size_of::<Self>())) {
                chunk.copy_from_slice(value.swapped_if_big_endian().as_bytes());
            }
        }
    }

    /// Loads `values` from `chunk`, which they fill.
    #[doc(hidden)]
    #[inline(always)]
    fn load_scalars(chunk: &[u8], values: &mut [Self]) {
        values.as_mut_bytes().copy_from_slice(chunk);
        if cfg!(target_endian = "big") {
            for value in values {
                *value = value.swapped_if_big_endian();
            }
        }
    }
}

/// The alignment of a scalar in the native form: its size, on every machine.
#[inline(always)]
pub(crate) const fn align_of_wire<S: Scalar>() -> usize {
    <S as Data>::LAYOUT.align()
}

/// An array of what `make` makes, or its first error.
#[inline]
pub(crate) fn try_array<T, const N: usize>(
    mut make: impl FnMut(usize) -> Result<T, DecodeError>,
) -> Result<[T; N], DecodeError> {
    let mut failure = None;
    let made: [Option<T>; N] = array::from_fn(|index| match failure {
        None => make(index).map_err(|error| failure = Some(error)).ok(),
        Some(_) => None,
    });
    match failure {
        None => Ok(made.map(|value| value.expect("every element was made, since nothing failed"))),
        Some(error) => Err(error),
    }
}
