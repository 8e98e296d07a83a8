//! Maps and sets: a count, then the entries in the order in which the collection gives them.

use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::limits::stack_charge;
use crate::{Data, DecodeError, Description, Form, Layout, Reader, Writer};

/// The layout of a map or set with such keys. A key that has grown behind a pointer or in a sequence is found only when the
/// interface is described.
const fn layout_of_keyed<K: Data>() -> Layout {
    assert!(
        !K::GROWS,
        "a type with items under `#[stoop(since = N)]` cannot be the key of a map or a member of a set: two keys could become one"
    );
    Layout::variable(4)
}

/// Charges for a hash table of entries `E`, with a byte of control each: a power of two of them, 7/8 full at most.
fn charge_table<E>(reader: &mut Reader<'_>, count: usize) -> Result<(), DecodeError> {
    reader.charge(1, if count > 0 { 64 } else { 0 })?;
    reader.charge(count.saturating_mul(16) / 7 + 8, if count > 0 { size_of::<E>() + 1 } else { 0 })
}

/// Charges for a tree of entries `E`: nodes have room for 11, and at least 5 except for the root.
pub(crate) fn charge_tree<E>(reader: &mut Reader<'_>, count: usize) -> Result<(), DecodeError> {
    let node = 11 * size_of::<E>() + 16 * size_of::<usize>();
    reader.charge_pieces(count.div_ceil(5), node)
}

macro_rules! maps {
    ($($map:ident <K, V $(, $hasher:ident)?> where K: [$($bound:tt)*], $charge:ident, |$size:ident| $empty:expr;)*) => {$(
        impl<K: Data + $($bound)*, V: Data $(, $hasher: BuildHasher + Default + 'static)?> Data for $map<K, V $(, $hasher)?> {
            const LAYOUT: Layout = layout_of_keyed::<K>();

            fn encode_at(&self, writer: &mut Writer<'_>, form: Form) {
                writer.count(self.len());
                if writer.enter(stack_charge::<(K, V)>(2)) {
                    for (key, value) in self {
                        key.encode(writer);
                        value.encode_at(writer, form);
                    }
                    writer.leave(stack_charge::<(K, V)>(2));
                }
            }

            fn decode_at(reader: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
                let $size = reader.count(K::LAYOUT.min() + V::layout_at(form).min())?;
                $charge::<(K, V)>(reader, $size)?;
                reader.enter(stack_charge::<(K, V)>(2))?;
                let mut map: Self = $empty;
                for _ in 0..$size {
                    let key = K::decode(reader)?;
                    if map.insert(key, V::decode_at(reader, form)?).is_some() {
                        return Err(DecodeError::Duplicate);
                    }
                }
                reader.leave(stack_charge::<(K, V)>(2));
                Ok(map)
            }

            fn encode(&self, writer: &mut Writer<'_>) {
                writer.count(self.len());
                if writer.enter(stack_charge::<(K, V)>(2)) {
                    for (key, value) in self {
                        key.encode(writer);
                        value.encode(writer);
                    }
                    writer.leave(stack_charge::<(K, V)>(2));
                }
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let $size = reader.count(K::LAYOUT.min() + V::LAYOUT.min())?;
                $charge::<(K, V)>(reader, $size)?;
                reader.enter(stack_charge::<(K, V)>(2))?;
                let mut map: Self = $empty;
                for _ in 0..$size {
                    let key = K::decode(reader)?;
                    if map.insert(key, V::decode(reader)?).is_some() {
                        return Err(DecodeError::Duplicate);
                    }
                }
                reader.leave(stack_charge::<(K, V)>(2));
                Ok(map)
            }

            fn describe(description: &mut Description) {
                description.text("Map<").key::<K>().text(", ").of::<V>().text(">");
            }
        }
    )*};
}

maps! {
    BTreeMap<K, V> where K: [Ord], charge_tree, |count| Self::new();
    HashMap<K, V, S> where K: [Eq + Hash], charge_table, |count| {
        let mut map = Self::with_hasher(S::default());
        map.try_reserve(count).map_err(|_| DecodeError::NoMemory)?;
        map
    };
}

macro_rules! sets {
    ($($set:ident <T $(, $hasher:ident)?> where T: [$($bound:tt)*], $charge:ident, |$size:ident| $empty:expr;)*) => {$(
        impl<T: Data + $($bound)* $(, $hasher: BuildHasher + Default + 'static)?> Data for $set<T $(, $hasher)?> {
            const LAYOUT: Layout = layout_of_keyed::<T>();

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
                let $size = reader.count(T::LAYOUT.min())?;
                $charge::<T>(reader, $size)?;
                reader.enter(stack_charge::<T>(1))?;
                let mut set: Self = $empty;
                for _ in 0..$size {
                    if !set.insert(T::decode(reader)?) {
                        return Err(DecodeError::Duplicate);
                    }
                }
                reader.leave(stack_charge::<T>(1));
                Ok(set)
            }

            fn describe(description: &mut Description) {
                description.text("Set<").key::<T>().text(">");
            }
        }
    )*};
}

sets! {
    BTreeSet<T> where T: [Ord], charge_tree, |count| Self::new();
    HashSet<T, S> where T: [Eq + Hash], charge_table, |count| {
        let mut set = Self::with_hasher(S::default());
        set.try_reserve(count).map_err(|_| DecodeError::NoMemory)?;
        set
    };
}
