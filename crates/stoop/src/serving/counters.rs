//! The counters of a server.

/// Counters of a server, at all its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Calls begun.
    pub calls: u64,
    /// Calls that arrived again and were not run again.
    pub duplicates: u64,
    /// Calls refused.
    pub refused: u64,
    /// Packets that made no sense, and connections closed for what they sent.
    pub malformed: u64,
    /// Packets dropped because their checksum was wrong or missing
    /// ([`PacketOptions::checksum`](crate::PacketOptions::checksum)).
    pub corrupt: u64,
    /// Bindings over shared memory that their callers gave up: what was written there made no sense to them.
    pub given_up: u64,
    /// Bindings at this moment.
    pub bindings: u64,
    /// Times that a caller which had a UDP address to itself was given a socket of its own there.
    pub dedicated: u64,
}

impl ServerCounters {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.duplicates += other.duplicates;
        self.refused += other.refused;
        self.malformed += other.malformed;
        self.corrupt += other.corrupt;
        self.given_up += other.given_up;
        self.bindings += other.bindings;
        self.dedicated += other.dedicated;
    }
}
