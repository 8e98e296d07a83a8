//! What can be chosen when a client is bound.

use std::time::Duration;
pub use stoop_net::waiting::Waiting;

/// What can be chosen for a binding. Everything has a default that suits most.
///
/// ```
/// # use std::time::Duration;
/// let options = stoop::BindOptions::new().timeout(Duration::from_millis(200)).waiting(stoop::Waiting::Block);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct BindOptions {
    pub(crate) timeout: Duration,
    pub(crate) waiting: Waiting,
    pub(crate) silence_limit: Duration,
    pub(crate) bind_timeout: Duration,
    pub(crate) max_message: usize,
    pub(crate) upgrade: bool,
    /// Why this transport was chosen.
    pub(crate) reason: String,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            waiting: Waiting::Adaptive,
            silence_limit: stoop_exchange::caller::SILENCE_LIMIT,
            bind_timeout: Duration::from_secs(5),
            max_message: crate::MAX_MESSAGE,
            upgrade: false,
            reason: "because the address says so".into(),
        }
    }
}

impl BindOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long each call may take: its deadline, which travels with it and bounds the calls that it leads to.
    /// 30 s unless set. The client's `with_timeout` sets it for single calls. A `local:` call is a call through the
    /// trait: its procedure can see the deadline, but nothing ends it there.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How threads wait for results. [`Waiting::Adaptive`] unless set.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// If the server at a `udp:`, `tcp:` or `unix:` address turns out to be on this machine and offers shared memory, that is used
    /// instead. Only the client's `binding().describe()` tells, and the time that calls take.
    pub fn upgrade(mut self) -> Self {
        self.upgrade = true;
        self
    }

    pub(crate) fn because(&self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self.clone() }
    }

    /// After a server has acknowledged a long call, how long it may be silent before the call is given up, whatever
    /// its deadline. 2 s unless set; it has been asked in vain several times by then, also when this process could not for
    /// longer than that, because it was stopped. Over a byte stream the connection tells.
    pub fn silence_limit(mut self, limit: Duration) -> Self {
        self.silence_limit = limit;
        self
    }

    /// How long binding may take. 5 s unless set.
    pub fn bind_timeout(mut self, timeout: Duration) -> Self {
        self.bind_timeout = timeout;
        self
    }

    /// Bytes of the longest arguments and of the longest result, over UDP, TCP and Unix sockets. 64 MiB unless set. The
    /// server has a bound of its own for arguments, `Server::max_message`; the smaller one counts. Over UDP what takes
    /// more than 1440 bytes travels as many packets, and needs memory for the whole of it at both ends.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }
}
