//! Callbacks: calls from a server to an object that its client offers.
//!
//! They are [records](stoop_calls::callbacks::record) in the two pipes of a call that the client keeps open: the procedure `callback`, which every interface with
//! callbacks has behind its own. So they travel by every transport that carries pipes, and no transport knows of them. At the server the
//! object is a binding like others, of the [transport](crate::transport::callback) whose records these are. At the client a
//! [session](session) runs the procedures of the object.

pub(crate) mod nested;
pub(crate) mod session;

use crate::pipes::contract::Pipes;

/// Names the object that a client offers, in its calls. Zero: it offers none.
///
/// The number is random: callers that do not know it cannot pass the object of another client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct Callback {
    pub(crate) client: u64,
}

/// The pipes of the procedure that carries callbacks.
pub(crate) const PIPES: Pipes = Pipes { to_procedure: true, from_procedure: true };

/// Why the failure of a callback that has panicked has no message.
pub(crate) const PANIC_STAYS: &str = "a client does not tell its server why";
