//! Things that take turns.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Things by key. The one behind that which had the last turn is next, and behind the last comes the first.
#[derive(Debug)]
pub(super) struct Rotation<K, V> {
    all: BTreeMap<K, V>,
    last: Option<K>,
}

impl<K, V> Default for Rotation<K, V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), last: None }
    }
}

impl<K: Ord + Copy, V> Rotation<K, V> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.all.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.all.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.all.values()
    }

    /// Keeps those of which `keeps` says so.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&mut V) -> bool) {
        self.all.retain(|_, value| keeps(value));
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.all.remove(key)
    }

    /// Whose turn it is among those that may have one.
    pub(super) fn next(&self, may: impl Fn(&K) -> bool) -> Option<K> {
        let behind = self.last.as_ref().map_or((Unbounded, Unbounded), |last| (Excluded(last), Unbounded));
        let in_turn = self.all.range::<K, _>(behind).chain(self.all.iter()).take(self.all.len());
        in_turn.map(|(key, _)| *key).find(|key| may(key))
    }

    /// Gives this one its turn.
    pub(super) fn take_turn(&mut self, key: &K) -> Option<&mut V> {
        self.last = Some(*key);
        self.all.get_mut(key)
    }
}

impl<K: Ord + Copy, V: Default> Rotation<K, V> {
    /// The one with this key, made if it is not there.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        self.all.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_before_one_has_another() {
        let mut rotation = Rotation::<u8, ()>::default();
        for key in [3, 1, 2] {
            rotation.entry(key);
        }
        let mut turn = |may: fn(&u8) -> bool| {
            let key = rotation.next(may)?;
            rotation.take_turn(&key).map(|()| key)
        };
        assert_eq!([turn(|_| true), turn(|_| true), turn(|_| true)], [Some(1), Some(2), Some(3)]);
        assert_eq!(
            [turn(|_| true), turn(|key| *key != 2)],
            [Some(1), Some(3)],
            "one that may not is passed over"
        );
        assert_eq!(turn(|key| *key == 3), Some(3), "also the last once more");
        assert_eq!(turn(|_| false), None);
    }
}
