//! `Box`, `Rc` and `Arc`: what they point to, as if the pointer were not there.
//!
//! A value that is pointed to twice is sent twice; [`Shared`](crate::Shared) is for those that should stay one.

use std::rc::Rc;
use std::sync::Arc;

use crate::limits::{STACK_BUDGET, stack_charge};
use crate::{Data, DecodeError, Description, Form, Layout, Reader, Writer};

macro_rules! pointers {
    ($($pointer:ident)*) => {$(
        impl<T: Data> Data for $pointer<T> {
            // Never fixed, even if `T` is: what is on the heap is charged for as it is read.
            const LAYOUT: Layout = Layout::variable(T::LAYOUT.min());

            fn encode(&self, writer: &mut Writer<'_>) {
                if writer.enter(stack_charge::<T>(1)) {
                    T::encode(self, writer);
                    writer.leave(stack_charge::<T>(1));
                }
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                const { assert!(stack_charge::<T>(1) <= STACK_BUDGET / 2, "too large to be made on the stack: use a Vec") };
                charge_pointee::<T>(reader)?;
                reader.enter(stack_charge::<T>(1))?;
                let value = $pointer::new(T::decode(reader)?);
                reader.leave(stack_charge::<T>(1));
                Ok(value)
            }

            fn layout_at(form: Form) -> Layout {
                Layout::variable(T::layout_at(form).min())
            }

            fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
                if writer.enter(stack_charge::<T>(1)) {
                    T::encode_at(self, writer, form);
                    writer.leave(stack_charge::<T>(1));
                }
            }

            fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
                charge_pointee::<T>(reader)?;
                reader.enter(stack_charge::<T>(1))?;
                let value = $pointer::new(T::decode_at(reader, form)?);
                reader.leave(stack_charge::<T>(1));
                Ok(value)
            }

            fn describe(description: &mut Description) {
                description.text("Box<").of::<T>().text(">");
            }
        }
    )*};
}
pointers!(Box Rc Arc);

/// Charges for a value on the heap, with the two counts of an `Rc` or `Arc`.
pub(crate) fn charge_pointee<T>(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    reader.charge_pieces(1, size_of::<T>() + 2 * size_of::<usize>())
}
