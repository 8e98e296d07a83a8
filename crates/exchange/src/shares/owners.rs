//! The owners that hold something now, with what each holds.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A caller with a name, a host of a network, or a user of this machine: one party among which resources are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Name);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Host([u8; 16]),
    User(u32),
    Named(u64),
}

/// Bytes of an IPv6 address that name a network. One host has all addresses of such a network to choose from (RFC 4291
/// §2.5.1, RFC 8981), so all of them are one owner.
const IPV6_NETWORK: usize = 8;

/// The first 12 bytes of an IPv4 address that is mapped to IPv6 (RFC 4291 §2.5.5.2).
const IPV4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Owner {
    /// The host with this address: an IPv6 address, a mapped IPv4 address, or a station's address followed by zeros.
    pub fn host(address: [u8; 16]) -> Self {
        let mut name = address;
        if !address.starts_with(&IPV4_MAPPED) {
            name[IPV6_NETWORK..].fill(0);
        }
        Self(Name::Host(name))
    }

    /// The caller that has proved a name, wherever it is: `hash` is that of the name, under a key that no caller knows.
    pub fn named(hash: u64) -> Self {
        Self(Name::Named(hash))
    }

    /// The user with this number.
    pub fn user(number: u32) -> Self {
        Self(Name::User(number))
    }
}

/// Place of an owner in [`Owners`]. It is valid while at least one binding of the owner is
/// [entered](Owners::enter) and not [left](Owners::leave).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerId(u32);

/// The owners that have at least one binding, each with `T`, the counts of what it holds.
///
/// The memory is bounded by the number of bindings.
#[derive(Clone, Debug)]
pub struct Owners<T> {
    places: BTreeMap<Owner, OwnerId>,
    entries: Vec<Entry<T>>,
    unused: Vec<OwnerId>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    owner: Owner,
    /// How often it was entered and not left.
    entered: usize,
    counts: T,
}

impl<T> Default for Owners<T> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), entries: Vec::new(), unused: Vec::new() }
    }
}

impl<T: Default> Owners<T> {
    /// Number of owners.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no owner.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place of an owner; `None` if nothing of it is entered.
    pub fn find(&self, owner: Owner) -> Option<OwnerId> {
        self.places.get(&owner).copied()
    }

    /// Adds a binding, or another part, of this owner.
    pub fn enter(&mut self, owner: Owner) -> OwnerId {
        let place = match self.find(owner) {
            Some(place) => place,
            None => self.add(owner),
        };
        self.entry_mut(place).entered += 1;
        place
    }

    /// Adds another part of an owner that is entered already.
    #[inline]
    pub fn enter_again(&mut self, place: OwnerId) {
        self.entry_mut(place).entered += 1;
    }

    fn add(&mut self, owner: Owner) -> OwnerId {
        let entry = Entry { owner, entered: 0, counts: T::default() };
        let place = match self.unused.pop() {
            Some(place) => {
                self.entries[place.0 as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                OwnerId(
                    u32::try_from(self.entries.len() - 1).expect("bindings have 32 bits for their owners"),
                )
            }
        };
        self.places.insert(owner, place);
        place
    }

    /// Removes a binding of this owner. After its last one, the place may become that of another owner.
    ///
    /// # Panics
    /// If nothing of it is entered: a mistake of the caller.
    pub fn leave(&mut self, place: OwnerId) {
        let entry = self.entry_mut(place);
        entry.entered = entry.entered.checked_sub(1).expect("each part leaves once");
        if entry.entered == 0 {
            let owner = entry.owner;
            self.places.remove(&owner);
            self.unused.push(place);
            self.shrink();
        }
    }

    /// Frees all memory after the last owner has left.
    fn shrink(&mut self) {
        if self.places.is_empty() {
            (self.entries, self.unused) = (Vec::new(), Vec::new());
        }
    }

    fn entry_mut(&mut self, place: OwnerId) -> &mut Entry<T> {
        &mut self.entries[place.0 as usize]
    }

    /// The owner at this place.
    ///
    /// # Panics
    /// If no owner has ever been there.
    pub fn at(&self, place: OwnerId) -> Owner {
        self.entries[place.0 as usize].owner
    }

    /// The counts of the owner at this place.
    ///
    /// # Panics
    /// If no owner has ever been there.
    #[inline]
    pub fn counts(&self, place: OwnerId) -> &T {
        &self.entries[place.0 as usize].counts
    }

    /// As [`counts`](Self::counts), to be changed.
    ///
    /// # Panics
    /// As [`counts`](Self::counts).
    #[inline]
    pub fn counts_mut(&mut self, place: OwnerId) -> &mut T {
        &mut self.entry_mut(place).counts
    }

    /// The owners and their counts, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, &T)> {
        self.places.iter().map(|(owner, place)| (*owner, self.counts(*place)))
    }

    /// Bytes of memory in use, about.
    pub fn bytes_held(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<T>>()
            + self.unused.capacity() * size_of::<OwnerId>()
            + self.places.len() * size_of::<(Owner, OwnerId)>()
    }
}
