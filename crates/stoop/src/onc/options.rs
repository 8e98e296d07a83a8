//! Options of a client.

use crate::onc::authentication::{Authentication, Credential};
use crate::options::{Sealed, TransportOptions, Waiting};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub use stoop_onc::Retransmission;

/// Options of a [`Client`](crate::onc::Client). Each has a default that suits most programs.
///
/// A typed client, which `#[stoop::interface(program = N, version = N)]` makes, takes them by
/// [`BindOptions::with`](crate::BindOptions::with), but for the time-outs and the waiting, which `BindOptions` has itself.
#[derive(Clone)]
#[must_use]
pub struct ClientOptions {
    pub(crate) timeout: Duration,
    pub(crate) bind_timeout: Duration,
    pub(crate) retransmission: Retransmission,
    pub(crate) authentication: Arc<dyn Authentication>,
    pub(crate) reserved_port: bool,
    pub(crate) waiting: Waiting,
    pub(crate) message_max: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(25),
            bind_timeout: Duration::from_secs(5),
            retransmission: Retransmission::LIBTIRPC,
            authentication: Arc::new(Credential::none()),
            reserved_port: false,
            waiting: Waiting::Adaptive,
            message_max: 64 << 20,
        }
    }
}

impl Sealed for ClientOptions {}
impl TransportOptions for ClientOptions {}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("timeout", &self.timeout)
            .field("retransmission", &self.retransmission)
            .field("reserved_port", &self.reserved_port)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long each call may take, whatever else arrives meanwhile. 25 s unless set, as with libtirpc. Sun RPC does not tell the
    /// server.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long binding may take: asking rpcbind, and connecting. 5 s unless set.
    pub fn bind_timeout(mut self, timeout: Duration) -> Self {
        self.bind_timeout = timeout;
        self
    }

    /// When a call over UDP is sent again. After 15 s unless set, as libtirpc does. [`Retransmission::Measured`] is much faster on a
    /// network that loses packets; but a server that keeps no replies (most programs made with rpcgen keep none) runs a call again
    /// that it gets again.
    pub fn retransmission(mut self, retransmission: Retransmission) -> Self {
        self.retransmission = retransmission;
        self
    }

    /// Who calls. [`Credential::none`] unless set.
    pub fn authentication(mut self, authentication: impl Authentication + 'static) -> Self {
        self.authentication = Arc::new(authentication);
        self
    }

    /// Calls from a port below 1024, for servers that ask for it (NFS exports often do). Needs root, or CAP_NET_BIND_SERVICE.
    pub fn reserved_port(mut self) -> Self {
        self.reserved_port = true;
        self
    }

    /// How threads wait for results. [`Waiting::Adaptive`] unless set.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Bytes of the longest reply over TCP and Unix sockets, 64 MiB unless set: a longer one ends the connection. Memory is taken
    /// for bytes that have arrived only. Over UDP a datagram bounds both messages.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.message_max = bytes;
        self
    }
}
