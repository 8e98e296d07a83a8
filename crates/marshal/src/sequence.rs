//! Arrays, and sequences: a count, then the elements.

use std::collections::{LinkedList, VecDeque};

use crate::data::{is_fixed_at, is_the_same_at, try_array};
use crate::layouts::{LeftOut, Revision};
use crate::limits::stack_charge;
use crate::scalar::described_as;
use crate::{Data, DecodeError, Description, Form, Layout, Layouts, Reader, Writer};

impl<T: Data, const N: usize> Data for [T; N] {
    const LAYOUT: Layout = T::LAYOUT.array(N);

    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        if Self::LAYOUT.is_fixed() {
            writer.fixed(self);
        } else {
            // Charged as its decoding is.
            if writer.enter(stack_charge::<Self>(4)) {
                T::encode_all(self, writer);
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

    const GROWS: bool = T::GROWS;
    const LAYOUTS: Layouts = Layouts::Array(&T::LAYOUTS, N);

    fn layout_at(form: Form) -> Layout {
        T::layout_at(form).array(N)
    }

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        if is_the_same_at::<Self>() {
            return self.encode(writer);
        }
        if const { is_fixed_at::<Self>() } {
            return writer.fixed_at(self, form);
        }
        let Some(record) = writer.begin_record(Self::layout_at(form), stack_charge::<Self>(4)) else {
            return;
        };
        T::encode_all_at(self, writer, form);
        writer.end_record(record);
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        if is_the_same_at::<Self>() {
            return Self::decode(reader);
        }
        if const { is_fixed_at::<Self>() } {
            return reader.fixed_at(form);
        }
        let record = reader.begin_record(Self::layout_at(form), stack_charge::<Self>(4))?;
        let values = try_array(|_| T::decode_at(reader, form))?;
        reader.end_record(record)?;
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

    #[inline]
    fn store_at<R: Revision>(&self, chunk: &mut [u8], left_out: &mut LeftOut) {
        let size = const { T::LAYOUTS.at(R::NUMBER) }.fixed_size();
        for (index, value) in self.iter().enumerate() {
            value.store_at::<R>(&mut chunk[index * size..][..size], left_out);
        }
    }

    #[inline]
    fn load_at<R: Revision>(chunk: &[u8]) -> Result<Self, DecodeError> {
        let size = const { T::LAYOUTS.at(R::NUMBER) }.fixed_size();
        try_array(|index| T::load_at::<R>(&chunk[index * size..][..size]))
    }
}

/// The name of all sequences of `T`, since their bytes are alike.
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

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        writer.count(self.len());
        T::encode_all_at(self, writer, form);
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        reader.sequence_at(form)
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

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        writer.count(self.len());
        T::encode_all_at(self, writer, form);
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        Ok(reader.sequence_at(form)?.into_boxed_slice())
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

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        writer.count(self.len());
        let (front, back) = self.as_slices();
        T::encode_all_at(front, writer, form);
        T::encode_all_at(back, writer, form);
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        Ok(reader.sequence_at(form)?.into())
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
        // Each element is an allocation of its own, with two links.
        reader.charge_pieces(count, size_of::<T>() + 4 * size_of::<usize>())?;
        reader.enter(stack_charge::<T>(1))?;
        let mut values = Self::new();
        for _ in 0..count {
            values.push_back(T::decode(reader)?);
        }
        reader.leave(stack_charge::<T>(1));
        Ok(values)
    }

    fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
        writer.count(self.len());
        if writer.enter(stack_charge::<T>(1)) {
            for value in self {
                value.encode_at(writer, form);
            }
            writer.leave(stack_charge::<T>(1));
        }
    }

    fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        let count = reader.count(T::layout_at(form).min())?;
        reader.charge_pieces(count, size_of::<T>() + 4 * size_of::<usize>())?;
        reader.enter(stack_charge::<T>(1))?;
        let mut values = Self::new();
        for _ in 0..count {
            values.push_back(T::decode_at(reader, form)?);
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
        let mut copy = Self::new();
        copy.try_reserve_exact(text.len()).map_err(|_| DecodeError::NoMemory)?;
        copy.push_str(text);
        Ok(copy)
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
