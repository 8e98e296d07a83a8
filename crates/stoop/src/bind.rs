//! How a client is bound, and what it can tell of its binding afterwards.

use crate::client::Transport;
use std::fmt;
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
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            waiting: Waiting::Adaptive,
            silence_limit: stoop_exchange::caller::SILENCE_LIMIT,
            bind_timeout: Duration::from_secs(5),
            max_message: crate::MAX_MESSAGE,
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

    /// After a server has acknowledged a long call, how long it may be silent before the call is given up, whatever
    /// its deadline. 2 s unless set. Over a byte stream the connection tells.
    pub fn silence_limit(mut self, limit: Duration) -> Self {
        self.silence_limit = limit;
        self
    }

    /// How long binding may take. 5 s unless set.
    pub fn bind_timeout(mut self, timeout: Duration) -> Self {
        self.bind_timeout = timeout;
        self
    }

    /// Bytes of the longest arguments and of the longest result, where the transport can carry them: over TCP and
    /// Unix sockets. 64 MiB unless set. Over UDP it is 1440 bytes, one packet.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }
}

/// A client's binding to a server.
pub struct Binding {
    pub(crate) uri: String,
    pub(crate) transport: Transport,
}

impl Binding {
    /// The address that was bound to.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// In words: which transport, why, and how it waits.
    pub fn describe(&self) -> String {
        format!("{}: {}", self.uri, self.transport.describe())
    }

    /// What this binding's calls have seen so far, those that have ended; it does not wait for the others. A `local:`
    /// binding counts nothing: it would cost more than the call.
    pub fn counters(&self) -> CallCounters {
        self.transport.counters()
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Binding").field(&self.describe()).finish()
    }
}

/// What the calls of a binding have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCounters {
    /// Calls made.
    pub calls: u64,
    /// Of these, calls that took the fast path: one packet there and one back, with nothing sent again.
    pub fast: u64,
    /// Call packets sent again.
    pub retransmissions: u64,
    /// Questions whether the server still works on a call.
    pub probes: u64,
    /// Packets that belonged to no outstanding call.
    pub ignored: u64,
    /// Waits that ended while spinning.
    pub spun: u64,
    /// Waits that slept in the kernel.
    pub slept: u64,
}

impl CallCounters {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.fast += other.fast;
        self.retransmissions += other.retransmissions;
        self.probes += other.probes;
        self.ignored += other.ignored;
        self.spun += other.spun;
        self.slept += other.slept;
    }

    #[inline]
    pub(crate) fn add_lane(&mut self, lane: stoop_exchange::caller::Counters) {
        self.calls += lane.calls;
        self.fast += lane.fast;
        self.retransmissions += lane.retransmissions;
        self.probes += lane.probes;
        self.ignored += lane.ignored;
    }

    #[inline]
    pub(crate) fn add_waits(&mut self, waits: stoop_net::waiting::WaitCounts) {
        self.spun += waits.spun;
        self.slept += waits.slept + waits.spun_then_slept;
    }
}
