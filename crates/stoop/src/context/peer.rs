//! The caller of a procedure as it has proved to be.

use crate::context::Caller;
use crate::context::cancelled::CallId;
use std::collections::BTreeMap;
use std::fmt;
#[cfg(feature = "seal")]
use std::hash::{BuildHasher, RandomState};
#[cfg(feature = "seal")]
use std::sync::OnceLock;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use stoop_exchange::shares::Owner;
use stoop_wire::BindingId;

/// The caller of a procedure as it has proved to be: [`CurrentCall::peer`](crate::CurrentCall::peer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    name: Arc<str>,
    key: Option<Arc<str>>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The callers of the sealed bindings of this process.
static OF_BINDINGS: RwLock<Peers> = RwLock::new(BTreeMap::new());

type Peers = BTreeMap<BindingId, (Peer, Owner)>;

fn of_bindings() -> RwLockReadGuard<'static, Peers> {
    OF_BINDINGS.read().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    /// The caller with that name, and the public key by which it has proved it.
    #[cfg(feature = "seal")]
    pub(crate) fn new(name: Arc<str>, key: Option<Arc<str>>) -> Self {
        Self { name, key }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name, without a copy.
    pub(crate) fn into_name(self) -> Arc<str> {
        self.name
    }

    /// Its public key, of a caller on a sealed binding that has no certificate.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The caller of that call. `None`: nothing proves which it is.
    pub(crate) fn of(caller: &Caller, call: CallId) -> Option<Self> {
        match caller {
            Caller::Process(process) => Some(Self { name: format!("uid:{}", process.uid).into(), key: None }),
            Caller::Local => None,
            Caller::Network(_) | Caller::Station(_) => {
                of_bindings().get(&call.binding()).map(|(peer, _)| peer.clone())
            }
        }
    }

    /// The name by which the caller of a sealed binding has its share of the server. `None`: it has no name.
    pub(crate) fn owner_on(binding: BindingId) -> Option<Owner> {
        let is_known = |binding: &BindingId| binding.is_sealed();
        Some(binding)
            .filter(is_known)
            .and_then(|binding| of_bindings().get(&binding).map(|(_, owner)| *owner))
    }

    /// Its name as an owner of shares.
    #[cfg(feature = "seal")]
    pub(crate) fn owner(&self) -> Owner {
        static KEY: OnceLock<RandomState> = OnceLock::new();
        Owner::named(KEY.get_or_init(RandomState::new).hash_one(&self.name))
    }

    /// The caller of a sealed binding is known.
    #[cfg(feature = "seal")]
    pub(crate) fn enter(self, binding: BindingId) {
        let owner = self.owner();
        OF_BINDINGS.write().unwrap_or_else(PoisonError::into_inner).insert(binding, (self, owner));
    }

    /// A sealed binding has ended.
    #[cfg(feature = "seal")]
    pub(crate) fn leave(binding: BindingId) {
        OF_BINDINGS.write().unwrap_or_else(PoisonError::into_inner).remove(&binding);
    }
}
