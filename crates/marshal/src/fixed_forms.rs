//! Fixed values in messages of older forms: their offsets are constants, as those of the newest form are.
//!
//! Code for a form is compiled for a [`Revision`], a type. Which one a message has is looked up once, also for a sequence.

use core::marker::PhantomData;

use crate::data::is_fixed_at;
use crate::layouts::{LeftOut, NEVER, Newest, Revision};
use crate::memory::vec_for;
use crate::{Data, DecodeError, EncodeError, Form, Reader, Writer};

/// The revision before `T` changed for the `INDEX`-th time.
struct Before<T, const INDEX: usize>(PhantomData<T>);

impl<T: Data, const INDEX: usize> Revision for Before<T, INDEX> {
    const NUMBER: u32 = T::LAYOUTS.change(INDEX) - 1;
}

/// Calls `$function::<$ty, R>` for the revision `R` that stands for the form.
macro_rules! at_form {
    ($form:expr, $function:ident::<$ty:ident> $arguments:tt) => {
        at_form!($form, $function::<$ty> $arguments, [0 1 2 3 4 5 6 7])
    };
    ($form:expr, $function:ident::<$ty:ident> $arguments:tt, [$($index:literal)*]) => {{
        debug_assert!(is_fixed_at::<$ty>());
        $(
            if const { $ty::LAYOUTS.change($index) == NEVER } {
                return $function::<$ty, Newest> $arguments;
            }
            if $form.revision() < const { $ty::LAYOUTS.change($index) } {
                return $function::<$ty, Before<$ty, $index>> $arguments;
            }
        )*
        $function::<$ty, Newest> $arguments
    }};
}

impl Writer<'_> {
    /// Writes a value whose type [is fixed at all revisions](crate::is_fixed_at).
    #[inline]
    pub fn fixed_at<T: Data>(&mut self, value: &T, form: Form) {
        at_form!(form, write::<T>(self, value, form))
    }

    /// Writes such values one after the other, without a count.
    #[inline]
    pub(crate) fn all_fixed_at<T: Data>(&mut self, values: &[T], form: Form) {
        at_form!(form, write_all::<T>(self, values, form))
    }
}

impl Reader<'_> {
    /// Reads a value of a type that [is fixed at all revisions](crate::is_fixed_at).
    ///
    /// # Errors
    /// When the bytes are not a `T` in that form.
    #[inline]
    pub fn fixed_at<T: Data>(&mut self, form: Form) -> Result<T, DecodeError> {
        at_form!(form, read::<T>(self))
    }

    /// Reads `count` such values, which has been checked and charged.
    #[inline]
    pub(crate) fn all_fixed_at<T: Data>(&mut self, count: usize, form: Form) -> Result<Vec<T>, DecodeError> {
        at_form!(form, read_all::<T>(self, count))
    }
}

#[inline(always)]
fn write<T: Data, R: Revision>(writer: &mut Writer<'_>, value: &T, form: Form) {
    let layout = const { T::LAYOUTS.at(R::NUMBER) };
    let mut left_out = LeftOut { is_strict: form.is_strict(), item: None };
    if let Some(chunk) = writer.chunk(layout.align(), layout.fixed_size()) {
        value.store_at::<R>(chunk, &mut left_out);
    }
    end(writer, left_out);
}

fn write_all<T: Data, R: Revision>(writer: &mut Writer<'_>, values: &[T], form: Form) {
    let layout = const { T::LAYOUTS.at(R::NUMBER) };
    let size = layout.fixed_size();
    let mut left_out = LeftOut { is_strict: form.is_strict(), item: None };
    if values.is_empty() {
        return;
    }
    if size == 0 {
        values.iter().for_each(|value| value.store_at::<R>(&mut [], &mut left_out));
    }
    if let Some(chunk) = writer.chunk(layout.align(), size.saturating_mul(values.len())) {
        for (value, chunk) in values.iter().zip(chunk.chunks_exact_mut(size.max(1))) {
            value.store_at::<R>(chunk, &mut left_out);
        }
    }
    end(writer, left_out);
}

#[inline(always)]
fn end(writer: &mut Writer<'_>, left_out: LeftOut) {
    if let Some(&(item, since)) = left_out.item {
        writer.fail(EncodeError::Inexpressible { item, since });
    }
}

#[inline(always)]
fn read<T: Data, R: Revision>(reader: &mut Reader<'_>) -> Result<T, DecodeError> {
    let layout = const { T::LAYOUTS.at(R::NUMBER) };
    T::load_at::<R>(reader.chunk(layout.align(), layout.fixed_size())?)
}

fn read_all<T: Data, R: Revision>(reader: &mut Reader<'_>, count: usize) -> Result<Vec<T>, DecodeError> {
    let layout = const { T::LAYOUTS.at(R::NUMBER) };
    let size = layout.fixed_size();
    let mut values = vec_for(count)?;
    if count > 0 {
        let chunk = reader.chunk(layout.align(), size.saturating_mul(count))?;
        for index in 0..count {
            values.push(T::load_at::<R>(&chunk[index * size..][..size])?);
        }
    }
    Ok(values)
}
