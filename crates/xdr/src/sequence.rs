//! Arrays, sequences, linked lists.

use crate::{Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};
use alloc::vec::{self, Vec};
use core::ops::{Deref, DerefMut};
use core::{array, slice};

/// Refuses to compile a sequence of bytes that does not say whether it means opaque data.
const fn check_element<T: Xdr>() {
    assert!(
        !T::IS_BYTE,
        "bytes are `Opaque` or `OpaqueArray` (RFC 4506 §4.9, §4.10); an array of C's `char`, 4 bytes each, is \
         written and read with `Writer::sequence`, `Writer::array`, `Reader::sequence` and `Reader::array`"
    );
}

/// A variable-length array without a bound (RFC 4506 §4.13).
impl<T: Xdr> Xdr for Vec<T> {
    const LAYOUT: Layout = {
        check_element::<T>();
        Layout::variable(4)
    };
}

impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(self, UNBOUNDED);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.sequence(UNBOUNDED)
    }
}

/// A variable-length array without a bound (RFC 4506 §4.13).
impl<T: Xdr> Xdr for [T] {
    const LAYOUT: Layout = Vec::<T>::LAYOUT;
}

impl<T: Encode> Encode for [T] {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(self, UNBOUNDED);
    }
}

/// An array of fixed length (RFC 4506 §4.12).
impl<T: Xdr, const N: usize> Xdr for [T; N] {
    const LAYOUT: Layout = {
        check_element::<T>();
        T::LAYOUT.array(N)
    };
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.array(self, N);
    }
}

impl<'a, T: Decode<'a>, const N: usize> Decode<'a> for [T; N] {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.array_of()
    }
}

impl<'a> Reader<'a> {
    /// Reads an array of exactly `N` elements (RFC 4506 §4.12), bytes as C's `char`, 4 bytes each.
    ///
    /// # Errors
    /// When they are not all there, or one is not a `T`.
    #[inline]
    pub fn array_of<T: Decode<'a>, const N: usize>(&mut self) -> Result<[T; N], DecodeError> {
        let mut failure = None;
        let values: [Option<T>; N] = array::from_fn(|_| match failure {
            None => self.value().map_err(|error| failure = Some(error)).ok(),
            Some(_) => None,
        });
        match failure {
            None => Ok(values.map(|value| value.expect("every element was read, since nothing failed"))),
            Some(error) => Err(error),
        }
    }
}

/// A linked list: optional data whose type ends with optional data of the same type (RFC 4506 §4.19).
///
/// In the interface file it is `node *list` with `struct node { …; node *next; }`. Here `T` is the node without `next`,
/// and the nodes lie in a vector: a list of any length is encoded, decoded and dropped without recursion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain<T>(pub Vec<T>);

impl<T> Default for Chain<T> {
    fn default() -> Self {
        Chain(Vec::new())
    }
}

impl<T> From<Vec<T>> for Chain<T> {
    fn from(nodes: Vec<T>) -> Self {
        Chain(nodes)
    }
}

impl<T> FromIterator<T> for Chain<T> {
    fn from_iter<I: IntoIterator<Item = T>>(nodes: I) -> Self {
        Chain(nodes.into_iter().collect())
    }
}

impl<T> IntoIterator for Chain<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Chain<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> Deref for Chain<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Chain<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: Xdr> Xdr for Chain<T> {
    const LAYOUT: Layout = Layout::variable(4);
}

impl<T: Encode> Encode for Chain<T> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.chain(&self.0);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Chain<T> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.chain().map(Self)
    }
}
