//! The types whose values travel through pipes.

use std::borrow::Cow;
use std::cell::Cell;
use stoop_marshal::{
    Data, DecodeError, Description, EncodeError, Form, Reader, Scalar, View, Writer, bytes_of,
};

/// A type whose values travel through pipes: any type that implements [`Data`], and `[u8]`, `str` and slices of other numbers, which are
/// sent where they lie and can be received without a copy ([`Receiver::recv_with`](crate::Receiver::recv_with)).
pub trait Item {
    /// What a receiver gives.
    type Owned;

    /// Passes the bytes of the item to `with`, at most so many: those of an older form, if the other end knows only that.
    ///
    /// # Errors
    /// It cannot be sent.
    #[doc(hidden)]
    fn with_bytes<R>(
        &self,
        most: usize,
        form: Option<Form>,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, EncodeError>;

    /// Reads an item, of an older form if the other end knows only that.
    ///
    /// # Errors
    /// These bytes are none.
    #[doc(hidden)]
    fn read(bytes: &[u8], form: Option<Form>) -> Result<Self::Owned, DecodeError>;

    /// Adds the type to the signature of a procedure.
    #[doc(hidden)]
    fn describe(description: &mut Description);
}

/// An item that can be received where it lies: `[u8]`, `str`, and slices of other numbers.
pub trait InPlaceItem: Item {
    /// Passes the item to `with`.
    ///
    /// # Errors
    /// These bytes are none.
    #[doc(hidden)]
    fn view<R>(bytes: &[u8], with: impl FnOnce(&Self) -> R) -> Result<R, DecodeError>;
}

thread_local! {
    /// Memory for the form of an item.
    static UNUSED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes of memory that a thread keeps for items.
const KEPT_MAX: usize = 1 << 20;

impl<T: Data> Item for T {
    type Owned = T;

    fn with_bytes<R>(
        &self,
        most: usize,
        form: Option<Form>,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, EncodeError> {
        // An encoder may use a pipe of its own; a thread that ends has no memory to keep.
        let mut bytes = UNUSED.try_with(Cell::take).unwrap_or_default();
        let mut writer = Writer::new(&mut bytes, 0, most);
        match form {
            None => writer.value(self),
            Some(form) => self.encode_at(&mut writer, form),
        }
        let written = writer.finish();
        let done = written.map(|len| with(&bytes[..len]));
        if bytes.len() <= KEPT_MAX {
            let _ = UNUSED.try_with(|unused| unused.set(bytes));
        }
        done
    }

    fn read(bytes: &[u8], form: Option<Form>) -> Result<T, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = match form {
            None => reader.value()?,
            Some(form) => T::decode_at(&mut reader, form)?,
        };
        reader.finish()?;
        Ok(value)
    }

    fn describe(description: &mut Description) {
        T::describe(description);
    }
}

impl Item for str {
    type Owned = String;

    fn with_bytes<R>(
        &self,
        most: usize,
        _: Option<Form>,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, EncodeError> {
        whole(self.as_bytes(), most).map(with)
    }

    fn read(bytes: &[u8], _: Option<Form>) -> Result<String, DecodeError> {
        Self::view(bytes, str::to_owned)
    }

    fn describe(description: &mut Description) {
        description.text("str");
    }
}

impl InPlaceItem for str {
    fn view<R>(bytes: &[u8], with: impl FnOnce(&str) -> R) -> Result<R, DecodeError> {
        std::str::from_utf8(bytes).map(with).map_err(|_| DecodeError::BadText)
    }
}

impl<S: Scalar> Item for [S] {
    type Owned = Vec<S>;

    fn with_bytes<R>(
        &self,
        most: usize,
        _: Option<Form>,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, EncodeError> {
        let bytes: Cow<'_, [u8]> = bytes_of(self);
        whole(&bytes, most).map(with)
    }

    fn read(bytes: &[u8], _: Option<Form>) -> Result<Vec<S>, DecodeError> {
        Self::view(bytes, <[S]>::to_vec)
    }

    fn describe(description: &mut Description) {
        // Other bytes than those of a `Vec`, which is `[T]`.
        description.text("slice<");
        S::describe(description);
        description.text(">");
    }
}

impl<S: Scalar> InPlaceItem for [S] {
    fn view<R>(bytes: &[u8], with: impl FnOnce(&[S]) -> R) -> Result<R, DecodeError> {
        View::<[S]>::filling(bytes).map(|view| with(&view))
    }
}

/// The bytes, if they are not more than so many.
fn whole(bytes: &[u8], most: usize) -> Result<&[u8], EncodeError> {
    match bytes.len() <= most {
        true => Ok(bytes),
        false => Err(EncodeError::TooLarge { needed_at_least: bytes.len(), limit: most }),
    }
}
