//! The keys of sealed bindings: of one at a caller, of all at a server.

use crate::security::cipher::PacketSuite;
use crate::security::keys::{PublicKey, in_words};
use crate::transport::packet::protection::held::{self, Held};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use stoop_net::{clock, fork};
use stoop_seal::Seal;
use stoop_wire::{BindingId, HEADER_LEN, Header, Kind, RefusalCode};

/// Hints that a server does not know a binding any more, after which the caller binds again: an attacker can forge them.
const HINTS: u32 = 2;

/// Least age of a session that hints end.
const HINTED_AFTER_NS: u64 = 1_000_000_000;

/// The phase of a binding that has ended.
const ENDED: u32 = u32::MAX;

/// A sealed binding.
#[derive(Debug)]
pub(crate) struct SealedBinding {
    pub(super) id: BindingId,
    present: RwLock<Arc<Seal<PacketSuite>>>,
    /// The phase of `present`, for threads that hold one; or [`ENDED`].
    phase: AtomicU32,
    /// The peer's key; `None`: it is anonymous.
    pub(crate) peer: Option<PublicKey>,
    /// The process that has made it: no other uses its numbers.
    generation: u32,
    begun_ns: u64,
    hints: AtomicU32,
}

impl SealedBinding {
    pub(crate) fn new(id: BindingId, seal: Seal<PacketSuite>, peer: Option<PublicKey>) -> Self {
        Self {
            id,
            phase: AtomicU32::new(seal.phase()),
            present: RwLock::new(Arc::new(seal)),
            peer,
            generation: fork::generation(),
            begun_ns: clock::now_ns(),
            hints: AtomicU32::new(0),
        }
    }

    /// Its keys in the present phase.
    pub(super) fn present(&self) -> Arc<Seal<PacketSuite>> {
        Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether that phase is the present one, and the binding has not ended.
    #[inline]
    pub(super) fn is_in(&self, phase: u32) -> bool {
        // Pairs with the Release in `go_on`: the keys of the phase are there.
        self.phase.load(Ordering::Acquire) == phase
    }

    pub(super) fn has_ended(&self) -> bool {
        self.is_in(ENDED)
    }

    /// Whether this process may seal its packets.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Goes on to the phase behind `from`, if that is the present one.
    #[cold]
    pub(super) fn go_on(&self, from: u32, now_ns: u64, by_peer: bool) {
        let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
        if present.phase() == from {
            *present = Arc::new(present.next(now_ns, by_peer));
            let _ = self.phase.compare_exchange(from, present.phase(), Ordering::Release, Ordering::Relaxed);
        }
    }

    /// A packet of it has been opened.
    #[inline]
    pub(super) fn has_opened(&self) {
        if self.hints.load(Ordering::Relaxed) != 0 {
            self.hints.store(0, Ordering::Relaxed);
        }
    }

    /// Whether an unsealed packet is the last of so many hints, with no sealed packet in between, that the caller is to bind again.
    #[cold]
    fn is_hint(&self, packet: &[u8]) -> bool {
        let Ok((header, _)) = Header::parse(packet) else { return false };
        let is_unknown = header.kind == Kind::Refusal && header.refused().code == RefusalCode::UnknownBinding;
        if !is_unknown && header.kind != Kind::Versions {
            return false;
        }
        let hints = self.hints.fetch_add(1, Ordering::Relaxed) + 1;
        hints >= HINTS && clock::now_ns().saturating_sub(self.begun_ns) >= HINTED_AFTER_NS
    }
}

/// The sealed bindings of a server, by their numbers.
#[derive(Debug)]
pub(crate) struct SealedBindings {
    all: RwLock<Bindings>,
    /// Tells it from other ends in this process.
    end: u64,
}

impl Default for SealedBindings {
    fn default() -> Self {
        Self { all: RwLock::default(), end: next_end() }
    }
}

/// A number that no other end of this process has.
fn next_end() -> u64 {
    static ENDS: AtomicU64 = AtomicU64::new(0);
    ENDS.fetch_add(1, Ordering::Relaxed)
}

type Bindings = HashMap<BindingId, Arc<SealedBinding>, BuildHasherDefault<NumberHasher>>;

/// Takes the number of a binding for its hash: the server has drawn it.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a binding's number is one word");
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The two highest bits are the same in all numbers.
        self.0 ^ self.0 << 2
    }
}

impl SealedBindings {
    fn bindings(&self) -> RwLockReadGuard<'_, Bindings> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn bindings_mut(&self) -> RwLockWriteGuard<'_, Bindings> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a binding; `false`: there is one of that number.
    pub(crate) fn add(&self, binding: SealedBinding) -> bool {
        let (mut bindings, id) = (self.bindings_mut(), binding.id);
        if bindings.contains_key(&id) {
            return false;
        }
        bindings.insert(id, Arc::new(binding));
        true
    }

    /// Removes the bindings for which `keep` is false.
    pub(crate) fn retain(&self, mut keep: impl FnMut(BindingId, &SealedBinding) -> bool) {
        self.bindings_mut().retain(|id, binding| {
            let stays = keep(*id, binding);
            if !stays {
                binding.phase.store(ENDED, Ordering::Relaxed);
            }
            stays
        });
    }
}

/// The keys of an end.
#[derive(Debug, Default)]
pub(crate) enum Seals {
    #[default]
    None,
    /// Of a caller's session, and what tells it from other ends in this process.
    One(Arc<SealedBinding>, u64),
    /// Of a server's endpoint.
    Many(Arc<SealedBindings>),
}

/// The outcome of opening a sealed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedSeal {
    Yes,
    No,
    /// There are no keys for its binding.
    Unknown,
}

impl Seals {
    /// Those of a caller's session.
    pub(super) fn of(binding: SealedBinding) -> Self {
        Self::One(Arc::new(binding), next_end())
    }

    /// Has `then` use the keys of that binding; `None`: there are none.
    #[inline]
    fn with<T>(&self, id: BindingId, then: impl FnOnce(&mut Held) -> T) -> Option<T> {
        match self {
            Self::One(binding, end) => {
                held::with((*end, id), || (binding.id == id).then(|| Arc::clone(binding)), then)
            }
            Self::Many(all) => held::with((all.end, id), || all.bindings().get(&id).cloned(), then),
            Self::None => None,
        }
    }

    /// Seals a packet of that binding whose data ends at `end`. `false`: it cannot be sealed.
    pub(super) fn seal(&self, id: BindingId, packet: &mut [u8], end: usize) -> bool {
        self.with(id, |held| held.seal(packet, end)).unwrap_or(false)
    }

    /// The same, with `data` in place of the bytes between the packet's header and its trailer.
    pub(super) fn seal_from(&self, id: BindingId, packet: &mut [u8], data: &[u8]) -> bool {
        self.with(id, |held| held.seal_from(packet, data)).unwrap_or(false)
    }

    /// Opens a packet of that binding.
    pub(super) fn open(&self, id: BindingId, packet: &mut [u8]) -> OpenedSeal {
        let of = |opens| if opens { OpenedSeal::Yes } else { OpenedSeal::No };
        let Self::One(binding, _) = self else {
            return self.with(id, |held| held.open(packet)).map_or(OpenedSeal::Unknown, of);
        };
        // A refusal of an unknown binding is never sealed.
        let is_short = packet.len() < HEADER_LEN + stoop_wire::SEAL_LEN || packet[2] == Kind::Versions as u8;
        let opens = !is_short && self.with(id, |held| held.open(packet)).unwrap_or(false);
        of(opens || binding.id == id && binding.is_hint(packet))
    }

    /// With which server a caller's session is sealed, in words.
    pub(crate) fn server(&self) -> Option<String> {
        match self {
            Self::One(binding, _) => Some(in_words(binding.peer)),
            Self::Many(_) | Self::None => None,
        }
    }
}
