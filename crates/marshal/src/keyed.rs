//! Maps and sets: a count, then the entries in the order in which the collection gives them.

use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{Data, DecodeError, Description, Layout, Reader, Writer};

/// Reads the count of a collection whose entries `E` take `min` bytes each, and charges for them. Hash tables are up to
/// twice as large as what is in them, and trees have nodes that may be half empty.
fn counted<E>(reader: &mut Reader<'_>, min: usize) -> Result<usize, DecodeError> {
    let count = reader.count(min)?;
    reader.charge(count, 2 * size_of::<E>() + 2 * size_of::<usize>())?;
    Ok(count)
}

macro_rules! maps {
    ($($map:ident <K, V $(, $hasher:ident)?> where K: [$($bound:tt)*];)*) => {$(
        impl<K: Data + $($bound)*, V: Data $(, $hasher: BuildHasher + Default + 'static)?> Data for $map<K, V $(, $hasher)?> {
            const LAYOUT: Layout = Layout::variable(4);

            fn encode(&self, writer: &mut Writer<'_>) {
                writer.count(self.len());
                writer.nested::<(K, V)>(|writer| {
                    for (key, value) in self {
                        key.encode(writer);
                        value.encode(writer);
                    }
                });
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let count = counted::<(K, V)>(reader, K::LAYOUT.min() + V::LAYOUT.min())?;
                reader.nested::<(K, V), _>(|reader| {
                    let mut map = Self::default();
                    for _ in 0..count {
                        let key = K::decode(reader)?;
                        if map.insert(key, V::decode(reader)?).is_some() {
                            return Err(DecodeError::Duplicate);
                        }
                    }
                    Ok(map)
                })
            }

            fn describe(description: &mut Description) {
                description.text("Map<").of::<K>().text(", ").of::<V>().text(">");
            }
        }
    )*};
}

maps! {
    BTreeMap<K, V> where K: [Ord];
    HashMap<K, V, S> where K: [Eq + Hash];
}

macro_rules! sets {
    ($($set:ident <T $(, $hasher:ident)?> where T: [$($bound:tt)*];)*) => {$(
        impl<T: Data + $($bound)* $(, $hasher: BuildHasher + Default + 'static)?> Data for $set<T $(, $hasher)?> {
            const LAYOUT: Layout = Layout::variable(4);

            fn encode(&self, writer: &mut Writer<'_>) {
                writer.count(self.len());
                writer.nested::<T>(|writer| {
                    for value in self {
                        value.encode(writer);
                    }
                });
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let count = counted::<T>(reader, T::LAYOUT.min())?;
                reader.nested::<T, _>(|reader| {
                    let mut set = Self::default();
                    for _ in 0..count {
                        if !set.insert(T::decode(reader)?) {
                            return Err(DecodeError::Duplicate);
                        }
                    }
                    Ok(set)
                })
            }

            fn describe(description: &mut Description) {
                description.text("Set<").of::<T>().text(">");
            }
        }
    )*};
}

sets! {
    BTreeSet<T> where T: [Ord];
    HashSet<T, S> where T: [Eq + Hash];
}
