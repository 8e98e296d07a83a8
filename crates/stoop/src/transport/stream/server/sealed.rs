//! What a sealed address of byte streams has for its handshakes, and a connection for the binding that one has led to.

use crate::security::Security;
use crate::security::keys::PublicKey;
use crate::security::tls::{Acceptor, BindingKeys, Purpose};
use crate::serving::binder::Bound;
use crate::serving::handshakes::Handshakes;
use crate::serving::service::Service;
use crate::transport::stream::channel::sealed::SealedStream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time between two looks at the callers of sealed connections.
const LOOK_NANOS: u64 = 1_000_000_000;

/// What a sealed address has for handshakes.
pub(super) struct Sealing<C> {
    pub(super) handshakes: Handshakes<C>,
    next_look_ns: AtomicU64,
}

impl<C: Send + 'static> Sealing<C> {
    /// Adds the interface of handshakes to those of the service, which makes sealed bindings only. `None`: the address is not sealed.
    pub(super) fn new(security: &Security, service: &mut Service) -> Option<Self> {
        let acceptor = security.keys().and_then(|keys| Acceptor::new(keys, Purpose::BINDING))?;
        let handshakes = Handshakes::new(acceptor, &mut service.interfaces);
        service.handshakes = Some(handshakes.interface);
        Some(Self { handshakes, next_look_ns: AtomicU64::new(0) })
    }

    /// When callers of sealed connections are looked at.
    pub(super) fn next_look_ns(&self) -> u64 {
        self.next_look_ns.load(Ordering::Relaxed)
    }

    /// They are looked at now.
    pub(super) fn looks_at(&self, now_ns: u64) {
        self.next_look_ns.store(now_ns + LOOK_NANOS, Ordering::Relaxed);
    }
}

/// A sealed binding that has been granted on a connection.
pub(super) struct Granted {
    pub(super) bound: Bound,
    pub(super) keys: BindingKeys,
    /// The caller's key.
    pub(super) caller: Option<PublicKey>,
}

impl Granted {
    /// The end of the connection, which has received these bytes already.
    pub(super) fn into_sealed(self, early: Vec<u8>) -> SealedStream {
        let Self { keys: BindingKeys { suite, of_caller, of_server }, caller, .. } = self;
        SealedStream::new(suite, (of_server, of_caller), caller, early)
    }
}
