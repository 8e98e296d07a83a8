//! How far a connection of an address that requires TLS has come.

use crate::security::keys::PublicKey;
use crate::security::tls::ServerHandshake;
use stoop_onc::record::RecordLimits;
use stoop_wire::BindingId;

/// Bounds on the records of a connection in the clear: a call is refused, whatever it is.
pub(super) const IN_CLEAR: RecordLimits = RecordLimits { record_max: 16 << 10, fragments_max: 1 << 8 };

/// How far a connection has come.
pub(super) enum Stage {
    /// Its calls are served: it is under TLS, or the address does not require that.
    Open,
    /// It is in the clear. The question for TLS is awaited, and calls are refused.
    Clear,
    /// The question has been answered, and bytes of the handshake are awaited, which may have begun.
    Handshake(Option<Box<ServerHandshake>>),
    /// The thread of handshakes has bytes of it, and nothing is read meanwhile.
    AtWork(Option<Box<ServerHandshake>>),
}

/// The caller of a connection under TLS.
pub(super) struct SealedCaller {
    /// Its key; `None`: it has shown a certificate, or none.
    pub(super) key: Option<PublicKey>,
    /// Stands for the connection where callers are found by their bindings.
    pub(super) binding: BindingId,
}
