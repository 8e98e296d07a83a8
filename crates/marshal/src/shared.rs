//! Values that several pointers share, and that stay one value at the other end.
//!
//! A shared pointer is a `u32`: 0, and the value follows; or *n*, and it is the *n*th shared value of this message,
//! counted from 1 in the order in which they are complete.

use core::any::TypeId;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::keyed::charge_tree;
use crate::limits::stack_charge;
use crate::memory::vec_for;
use crate::pointer::charge_pointee;
use crate::{Data, DecodeError, Form, Reader, Writer};

/// A type that can keep the sharing of what it points to: `Arc`, `Rc`, and options, vectors and maps of them.
///
/// Ask for it with `#[stoop(shared)]` on a field of a type that derives `Data`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no shared values to keep",
    label = "`#[stoop(shared)]` is for `Arc<T>`, `Rc<T>`, and `Option`, `Vec` and maps of them"
)]
pub trait Shared: Data {
    /// As [`Data::encode`], or in that form, with a reference for what this message has already.
    fn encode_shared(&self, writer: &mut Writer<'_>, form: Option<Form>);

    /// As [`Data::decode`], for what [`encode_shared`](Shared::encode_shared) wrote.
    ///
    /// # Errors
    /// When the bytes there are not such a value.
    fn decode_shared(reader: &mut Reader<'_>, form: Option<Form>) -> Result<Self, DecodeError>;
}

/// Bytes of heap charged for remembering a shared value: its entry in `Received`, and the box behind it.
const REMEMBERED: usize = 10 * size_of::<usize>();

/// Charge for finding out whether a value is there already, beside the value itself.
const SHARED_FRAME: usize = stack_charge::<[usize; 8]>(2);

macro_rules! shared_pointers {
    ($($pointer:ident)*) => {$(
        impl<T: Data> Shared for $pointer<T> {
            fn encode_shared(&self, writer: &mut Writer<'_>, form: Option<Form>) {
                let key = (TypeId::of::<Self>(), $pointer::as_ptr(self).addr());
                if let Some(number) = writer.sent().number(key) {
                    return writer.fixed(&number);
                }
                if !writer.enter(SHARED_FRAME) {
                    return;
                }
                writer.fixed(&0u32);
                match form {
                    None => self.encode(writer),
                    Some(form) => self.encode_at(writer, form),
                }
                writer.leave(SHARED_FRAME);
                if !writer.sent().add(key, $pointer::clone(self)) {
                    writer.fail_for_memory();
                }
            }

            fn decode_shared(reader: &mut Reader<'_>, form: Option<Form>) -> Result<Self, DecodeError> {
                let found: u32 = reader.fixed()?;
                if found != 0 {
                    return reader.received().get(found).ok_or(DecodeError::BadReference { found });
                }
                charge_pointee::<T>(reader)?;
                reader.charge_pieces(1, REMEMBERED)?;
                reader.enter(SHARED_FRAME)?;
                let value = match form {
                    None => Self::decode(reader)?,
                    Some(form) => Self::decode_at(reader, form)?,
                };
                reader.leave(SHARED_FRAME);
                reader.received().add($pointer::clone(&value))?;
                Ok(value)
            }
        }
    )*};
}
shared_pointers!(Rc Arc);

impl<P: Shared> Shared for Option<P> {
    fn encode_shared(&self, writer: &mut Writer<'_>, form: Option<Form>) {
        writer.fixed(&self.is_some());
        if let Some(pointer) = self
            && writer.enter(stack_charge::<Self>(1))
        {
            pointer.encode_shared(writer, form);
            writer.leave(stack_charge::<Self>(1));
        }
    }

    fn decode_shared(reader: &mut Reader<'_>, form: Option<Form>) -> Result<Self, DecodeError> {
        if !reader.fixed::<bool>()? {
            return Ok(None);
        }
        reader.enter(stack_charge::<Self>(1))?;
        let pointer = P::decode_shared(reader, form)?;
        reader.leave(stack_charge::<Self>(1));
        Ok(Some(pointer))
    }
}

impl<P: Shared> Shared for Vec<P> {
    fn encode_shared(&self, writer: &mut Writer<'_>, form: Option<Form>) {
        writer.count(self.len());
        if writer.enter(stack_charge::<P>(1)) {
            for pointer in self {
                pointer.encode_shared(writer, form);
            }
            writer.leave(stack_charge::<P>(1));
        }
    }

    fn decode_shared(reader: &mut Reader<'_>, form: Option<Form>) -> Result<Self, DecodeError> {
        // The smallest is a reference of four bytes, or the flag of an absent one.
        let count = reader.count(1)?;
        reader.charge(count, size_of::<P>())?;
        reader.enter(stack_charge::<P>(1))?;
        let mut pointers = vec_for(count)?;
        for _ in 0..count {
            pointers.push(P::decode_shared(reader, form)?);
        }
        reader.leave(stack_charge::<P>(1));
        Ok(pointers)
    }
}

impl<K: Data + Ord, P: Shared> Shared for BTreeMap<K, P> {
    fn encode_shared(&self, writer: &mut Writer<'_>, form: Option<Form>) {
        writer.count(self.len());
        if writer.enter(stack_charge::<(K, P)>(2)) {
            for (key, pointer) in self {
                key.encode(writer);
                pointer.encode_shared(writer, form);
            }
            writer.leave(stack_charge::<(K, P)>(2));
        }
    }

    fn decode_shared(reader: &mut Reader<'_>, form: Option<Form>) -> Result<Self, DecodeError> {
        let count = reader.count(K::LAYOUT.min() + 1)?;
        charge_tree::<(K, P)>(reader, count)?;
        reader.enter(stack_charge::<(K, P)>(2))?;
        let mut map = Self::new();
        for _ in 0..count {
            let key = K::decode(reader)?;
            if map.insert(key, P::decode_shared(reader, form)?).is_some() {
                return Err(DecodeError::Duplicate);
            }
        }
        reader.leave(stack_charge::<(K, P)>(2));
        Ok(map)
    }
}
