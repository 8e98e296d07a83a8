//! Arrays, and sequences: a count, then the elements.

use core::array;
use std::collections::{LinkedList, VecDeque};

use crate::limits::stack_charge;
use crate::scalar::described_as;
use crate::{Data, DecodeError, Description, Layout, Reader, Writer};

/// Writes values of any type one after the other.
#[inline]
pub(crate) fn encode_each<T: Data>(values: &[T], writer: &mut Writer<'_>) {
    if !T::LAYOUT.is_fixed() {
        if writer.enter(stack_charge::<T>(1)) {
            for value in values {
                value.encode(writer);
            }
            writer.leave(stack_charge::<T>(1));
        }
    } else if !values.is_empty()
        && let Some(chunk) =
            writer.chunk(T::LAYOUT.align(), T::LAYOUT.fixed_size().saturating_mul(values.len()))
    {
        T::store_all(values, chunk);
    }
}

/// Stores values of any fixed type one after the other.
#[inline]
pub(crate) fn store_each<T: Data>(values: &[T], chunk: &mut [u8]) {
    // Values without bytes leave nothing to store, and no chunks to divide into.
    let size = T::LAYOUT.fixed_size().max(1);
    for (value, chunk) in values.iter().zip(chunk.chunks_exact_mut(size)) {
        value.store(chunk);
    }
}

/// Reads values of any type one after the other.
#[inline]
pub(crate) fn decode_each<T: Data>(count: usize, reader: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
    let mut values = Vec::with_capacity(count);
    if !T::LAYOUT.is_fixed() {
        reader.enter(stack_charge::<T>(1))?;
        for _ in 0..count {
            values.push(T::decode(reader)?);
        }
        reader.leave(stack_charge::<T>(1));
    } else if count > 0 {
        let size = T::LAYOUT.fixed_size();
        let chunk = reader.chunk(T::LAYOUT.align(), size.saturating_mul(count))?;
        for index in 0..count {
            values.push(T::load(&chunk[index * size..][..size])?);
        }
    }
    Ok(values)
}

/// Loads an array of any fixed type.
#[inline]
pub(crate) fn load_each<T: Data, const N: usize>(chunk: &[u8]) -> Result<[T; N], DecodeError> {
    let size = T::LAYOUT.fixed_size();
    try_array(|index| T::load(&chunk[index * size..][..size]))
}

/// An array of what `make` makes, or its first error.
#[inline]
fn try_array<T, const N: usize>(
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

impl<T: Data, const N: usize> Data for [T; N] {
    const LAYOUT: Layout = T::LAYOUT.array(N);

    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        if Self::LAYOUT.is_fixed() {
            writer.fixed(self);
        } else {
            // Charged as its decoding is.
            if writer.enter(stack_charge::<Self>(4)) {
                encode_each(self, writer);
                writer.leave(stack_charge::<Self>(4));
            }
        }
    }

    #[inline(always)]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if Self::LAYOUT.is_fixed() {
            return reader.fixed();
        }
        reader.enter(stack_charge::<Self>(4))?;
        let values = try_array(|_| T::decode(reader))?;
        reader.leave(stack_charge::<Self>(4));
        Ok(values)
    }

    fn describe(description: &mut Description) {
        description.text("[").of::<T>().text(&format!("; {N}]"));
    }

    #[inline(always)]
    fn store(&self, chunk: &mut [u8]) {
        T::store_all(self, chunk);
    }

    #[inline(always)]
    fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
        T::load_array(chunk)
    }
}

/// What all sequences of `T` are called, since their bytes are alike.
fn describe_sequence<T: Data>(description: &mut Description) {
    description.text("[").of::<T>().text("]");
}

impl<T: Data> Data for Vec<T> {
    const LAYOUT: Layout = Layout::variable(4);

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(self);
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.sequence()
    }

    fn describe(description: &mut Description) {
        describe_sequence::<T>(description);
    }
}

impl<T: Data> Data for Box<[T]> {
    const LAYOUT: Layout = Layout::variable(4);

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(self);
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(reader.sequence()?.into_boxed_slice())
    }

    fn describe(description: &mut Description) {
        describe_sequence::<T>(description);
    }
}

impl<T: Data> Data for VecDeque<T> {
    const LAYOUT: Layout = Layout::variable(4);

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.count(self.len());
        let (front, back) = self.as_slices();
        T::encode_all(front, writer);
        T::encode_all(back, writer);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(reader.sequence()?.into())
    }

    fn describe(description: &mut Description) {
        describe_sequence::<T>(description);
    }
}

impl<T: Data> Data for LinkedList<T> {
    const LAYOUT: Layout = Layout::variable(4);

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.count(self.len());
        if writer.enter(stack_charge::<T>(1)) {
            for value in self {
                value.encode(writer);
            }
            writer.leave(stack_charge::<T>(1));
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count(T::LAYOUT.min())?;
        // Each element has its own piece of heap, with two links.
        reader.charge(count, size_of::<T>() + 4 * size_of::<usize>())?;
        reader.enter(stack_charge::<T>(1))?;
        let mut values = Self::new();
        for _ in 0..count {
            values.push_back(T::decode(reader)?);
        }
        reader.leave(stack_charge::<T>(1));
        Ok(values)
    }

    fn describe(description: &mut Description) {
        describe_sequence::<T>(description);
    }
}

impl Data for String {
    const LAYOUT: Layout = Layout::variable(4);
    described_as!("String");

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.text(self);
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let text = reader.text()?;
        reader.charge(text.len(), 1)?;
        Ok(text.to_owned())
    }
}

impl Data for Box<str> {
    const LAYOUT: Layout = Layout::variable(4);
    described_as!("String");

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.text(self);
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(String::decode(reader)?.into_boxed_str())
    }
}
