//! Tuples, and other types made of a fixed number of parts.

use core::marker::PhantomData;

use crate::data::{is_fixed_at, is_the_same_at};
use crate::layouts::{LeftOut, Revision};
use crate::limits::stack_charge;
use crate::scalar::described_as;
use crate::{
    Data, DecodeError, Description, Fields, FixedReader, FixedWriter, Form, Layout, Layouts, Reader, Writer,
};

macro_rules! tuples {
    ($($(#[$attribute:meta])* ($($part:ident $index:tt)+);)*) => {$(
        impl<$($part: Data),+> Data for ($($part,)+) {
            const LAYOUT: Layout = Layout::record(&[$($part::LAYOUT),+]);

            #[inline]
            fn encode(&self, writer: &mut Writer<'_>) {
                if Self::LAYOUT.is_fixed() {
                    writer.fixed(self);
                } else if writer.enter(stack_charge::<Self>([$($index),+].len())) {
                    $(self.$index.encode(writer);)+
                    writer.leave(stack_charge::<Self>([$($index),+].len()));
                }
            }

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                if Self::LAYOUT.is_fixed() {
                    return reader.fixed();
                }
                reader.enter(stack_charge::<Self>([$($index),+].len()))?;
                let value = ($($part::decode(reader)?,)+);
                reader.leave(stack_charge::<Self>([$($index),+].len()));
                Ok(value)
            }

            const GROWS: bool = $($part::GROWS ||)+ false;
            const LAYOUTS: Layouts = Layouts::Record(&[$((0, $part::LAYOUTS)),+]);

            #[inline]
            fn layout_at(form: Form) -> Layout {
                Fields::NONE$(.and($part::layout_at(form)))+.layout()
            }

            #[inline]
            fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
                if is_the_same_at::<Self>() {
                    return self.encode(writer);
                }
                if const { is_fixed_at::<Self>() } {
                    return writer.fixed_at(self, form);
                }
                let charge = stack_charge::<Self>([$($index),+].len());
                let Some(record) = writer.begin_record(Self::layout_at(form), charge) else { return };
                $(self.$index.encode_at(writer, form);)+
                writer.end_record(record);
            }

            #[inline]
            fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
                if is_the_same_at::<Self>() {
                    return Self::decode(reader);
                }
                if const { is_fixed_at::<Self>() } {
                    return reader.fixed_at(form);
                }
                let charge = stack_charge::<Self>([$($index),+].len());
                let record = reader.begin_record(Self::layout_at(form), charge)?;
                let value = ($($part::decode_at(reader, form)?,)+);
                reader.end_record(record)?;
                Ok(value)
            }

            fn describe(description: &mut Description) {
                description.text("(");
                $(description.of::<$part>().text(",");)+
                description.text(")");
            }

            #[inline]
            fn store(&self, chunk: &mut [u8]) {
                FixedWriter::new(chunk)$(.field(&self.$index))+.end();
            }

            #[inline]
            fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
                let mut parts = FixedReader::new(chunk);
                Ok(($(parts.field::<$part>()?,)+))
            }

            #[inline]
            fn store_at<R: Revision>(&self, chunk: &mut [u8], left_out: &mut LeftOut) {
                FixedWriter::new(chunk)$(.field_at::<_, R>(&self.$index, left_out))+.end();
            }

            #[inline]
            fn load_at<R: Revision>(chunk: &[u8]) -> Result<Self, DecodeError> {
                let mut parts = FixedReader::new(chunk);
                Ok(($(parts.field_at::<$part, R>()?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0 B 1);
    (A 0 B 1 C 2);
    (A 0 B 1 C 2 D 3);
    (A 0 B 1 C 2 D 3 E 4);
    (A 0 B 1 C 2 D 3 E 4 F 5);
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6);
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);
}

/// Types without bytes.
macro_rules! nothing {
    ([$($generics:tt)*] $ty:ty, $value:expr) => {
        impl<$($generics)*> Data for $ty {
            const LAYOUT: Layout = Layout::fixed(0, 1);
            described_as!("()");

            #[inline(always)]
            fn encode(&self, _: &mut Writer<'_>) {}

            #[inline(always)]
            fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok($value)
            }

            #[inline(always)]
            fn store(&self, _: &mut [u8]) {}

            #[inline(always)]
            fn load(_: &[u8]) -> Result<Self, DecodeError> {
                Ok($value)
            }
        }
    };
}
nothing!([](), ());
nothing!([T: 'static] PhantomData<T>, PhantomData);
