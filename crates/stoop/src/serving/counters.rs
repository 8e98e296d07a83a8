//! The counters of a server.

/// Counters of a server, at all its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Calls begun.
    pub calls: u64,
    /// Calls refused.
    pub refused: u64,
    /// Packets that made no sense, and connections closed for what they sent.
    pub malformed: u64,
    /// Bindings at this moment.
    pub bindings: u64,
    /// Counters of the packet exchange.
    pub packet: PacketServerCounters,
    /// Counters of shared memory.
    pub shm: ShmServerCounters,
}

/// Counters of the packet exchange at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketServerCounters {
    /// Calls that arrived again and were not run again.
    pub duplicates: u64,
    /// Packets dropped because their checksum was wrong or missing
    /// ([`PacketOptions::checksum`](crate::PacketOptions::checksum)).
    pub corrupt: u64,
    /// Times that a caller which had a UDP address to itself was given a socket of its own there.
    pub dedicated: u64,
}

/// Counters of shared memory at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShmServerCounters {
    /// Bindings that their callers gave up: what the server wrote there made no sense to them.
    pub given_up: u64,
}

impl ServerCounters {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.packet.duplicates += other.packet.duplicates;
        self.refused += other.refused;
        self.malformed += other.malformed;
        self.packet.corrupt += other.packet.corrupt;
        self.shm.given_up += other.shm.given_up;
        self.bindings += other.bindings;
        self.packet.dedicated += other.packet.dedicated;
    }
}
