//! The keys of sealed bindings: of one at a caller, of all at a server.

use crate::security::cipher::PacketSuite;
use crate::security::keys::{PublicKey, in_words};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use stoop_net::{clock, fork};
use stoop_seal::{KEY_PHASE, Opened, Seal};
use stoop_wire::{BindingId, HEADER_LEN, Header, Kind, RefusalCode};

/// Numbers between two looks whether keys have been used for long.
const LOOK_EVERY: u64 = 1024;

/// Hints that a server does not know a binding any more, after which the caller binds again: an attacker can forge them.
const HINTS: u32 = 2;

/// Least age of a session that hints end.
const HINTED_AFTER_NS: u64 = 1_000_000_000;

/// A sealed binding.
#[derive(Debug)]
pub(crate) struct SealedBinding {
    id: BindingId,
    seal: RwLock<Seal<PacketSuite>>,
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
            seal: RwLock::new(seal),
            peer,
            generation: fork::generation(),
            begun_ns: clock::now_ns(),
            hints: AtomicU32::new(0),
        }
    }

    fn present(&self) -> RwLockReadGuard<'_, Seal<PacketSuite>> {
        self.seal.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals a packet whose data ends at `end`. `false`: it cannot be sealed.
    fn seal(&self, packet: &mut [u8], end: usize) -> bool {
        if self.generation != fork::generation() {
            return false;
        }
        let seal = self.present();
        let is_sealed = seal.seal(packet, end);
        if !is_sealed || seal.numbers().is_multiple_of(LOOK_EVERY) {
            let phase = seal.phase();
            drop(seal);
            self.look(phase);
        }
        is_sealed
    }

    /// Goes on to the next phase if it is time to.
    #[cold]
    fn look(&self, phase: u32) {
        let now_ns = clock::now_ns();
        if self.present().is_due(now_ns) {
            self.go_on(phase, now_ns, false);
        }
    }

    #[cold]
    fn go_on(&self, phase: u32, now_ns: u64, by_peer: bool) {
        self.seal.write().unwrap_or_else(PoisonError::into_inner).go_on(phase, now_ns, by_peer);
    }

    /// Opens a packet of this binding.
    fn open(&self, packet: &mut [u8]) -> bool {
        let phase = packet[3] & KEY_PHASE;
        packet[3] ^= phase;
        let Ok((_, payload)) = Header::parse(packet) else { return false };
        let end = HEADER_LEN + payload.len();
        packet[3] ^= phase;
        let seal = self.present();
        // The clock matters for packets of the phase before only.
        let is_of_present = (phase != 0) == (seal.phase() & 1 == 1);
        let now_ns = if is_of_present { 0 } else { clock::now_ns() };
        match seal.open(now_ns, packet, end) {
            Opened::Yes => {}
            Opened::InNextPhase => {
                let phase = seal.phase();
                drop(seal);
                self.go_on(phase, now_ns, true);
            }
            Opened::No => return false,
        }
        if self.hints.load(Ordering::Relaxed) != 0 {
            self.hints.store(0, Ordering::Relaxed);
        }
        true
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
#[derive(Debug, Default)]
pub(crate) struct SealedBindings(RwLock<Bindings>);

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
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn bindings_mut(&self) -> RwLockWriteGuard<'_, Bindings> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
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
        self.bindings_mut().retain(|id, binding| keep(*id, binding));
    }
}

/// The keys of an end.
#[derive(Debug, Default)]
pub(crate) enum Seals {
    #[default]
    None,
    /// Of a caller's session.
    One(Box<SealedBinding>),
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
    /// Seals a packet of that binding whose data ends at `end`. `false`: it cannot be sealed.
    pub(super) fn seal(&self, id: BindingId, packet: &mut [u8], end: usize) -> bool {
        match self {
            Self::One(binding) => binding.id == id && binding.seal(packet, end),
            Self::Many(all) => all.bindings().get(&id).is_some_and(|binding| binding.seal(packet, end)),
            Self::None => false,
        }
    }

    /// Opens a packet of that binding.
    pub(super) fn open(&self, id: BindingId, packet: &mut [u8]) -> OpenedSeal {
        let of = |opens| if opens { OpenedSeal::Yes } else { OpenedSeal::No };
        match self {
            Self::One(binding) if binding.id != id => OpenedSeal::No,
            Self::One(binding) => {
                // A refusal of an unknown binding is never sealed.
                let is_short =
                    packet.len() < HEADER_LEN + stoop_wire::SEAL_LEN || packet[2] == Kind::Versions as u8;
                of(!is_short && binding.open(packet) || binding.is_hint(packet))
            }
            Self::Many(all) => match all.bindings().get(&id) {
                Some(binding) => of(binding.open(packet)),
                None => OpenedSeal::Unknown,
            },
            Self::None => OpenedSeal::Unknown,
        }
    }

    /// With which server a caller's session is sealed, in words.
    pub(crate) fn server(&self) -> Option<String> {
        match self {
            Self::One(binding) => Some(in_words(binding.peer)),
            Self::Many(_) | Self::None => None,
        }
    }
}
