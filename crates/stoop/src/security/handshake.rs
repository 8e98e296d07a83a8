//! The interface of the handshakes by which callers of a sealed address authenticate themselves.

use crate::interface::{Interface, Procedure, Revisions, Signature};
use stoop_wire::bind::SEAL_INTERFACE;

/// The procedure that takes the caller's part of the handshake before it has authenticated itself, and returns the server's.
pub(crate) const HELLO: u16 = 0;
/// The procedure that takes the end of the caller's part and an encrypted packet, and returns the encrypted answer to the packet.
pub(crate) const FINISH: u16 = 1;

/// The interface of handshakes. Arguments and results are bytes of TLS as they are.
pub(crate) static INTERFACE: Interface = Interface {
    name: SEAL_INTERFACE,
    docs: "",
    procedures: &[procedure("hello", "hello(bytes) -> bytes"), procedure("finish", "finish(bytes) -> bytes")],
    revisions: Revisions::none(),
    callback: None,
};

const fn procedure(name: &'static str, signature: &'static str) -> Procedure {
    Procedure {
        name,
        docs: "",
        signature: Signature::Text(signature),
        idempotent: false,
        one_way: false,
        in_place: None,
        buffers: false,
        since: 0,
    }
}
