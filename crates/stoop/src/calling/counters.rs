//! The counters of a binding's calls.

/// Counters of the calls of a binding.
///
/// ```
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:call-counters")?.start()?;
/// # let client = AdderClient::bind("local:call-counters")?;
/// let counters = client.binding().counters();
/// println!("{} calls, {} of them slept", counters.calls, counters.slept);
/// println!("{} packets were sent again", counters.packet.retransmissions);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCounters {
    /// Calls made.
    pub calls: u64,
    /// Of these, calls that took the fast path: one packet there and one back, with nothing sent again. Over streams, the call left
    /// in one piece, and a blocking call's own thread received the result: of several threads that call over one connection, each
    /// may receive the results of others. Over shared memory, arguments and result were in the places that a call has there, and
    /// the thread that wanted the result took it.
    pub fast: u64,
    /// Packets that belonged to no outstanding call.
    pub ignored: u64,
    /// Waits that ended while spinning.
    pub spun: u64,
    /// Waits that slept in the kernel.
    pub slept: u64,
    /// One-way callbacks of the object that the client offers which the server has replaced by newer ones before they left, as far as
    /// those have arrived; `docs/callbacks.md` says when.
    pub skipped_callbacks: u64,
    /// Counters of the packet exchange; zero over other transports.
    pub packet: PacketCallCounters,
}

/// Counters of the packet exchange at a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketCallCounters {
    /// Call packets sent again.
    pub retransmissions: u64,
    /// Questions to the server whether it still works on a call.
    pub probes: u64,
    /// Packets dropped because their checksum was wrong or missing
    /// ([`PacketOptions::checksum`](crate::PacketOptions::checksum)).
    pub corrupt: u64,
}

impl CallCounters {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.fast += other.fast;
        self.packet.retransmissions += other.packet.retransmissions;
        self.packet.probes += other.packet.probes;
        self.ignored += other.ignored;
        self.packet.corrupt += other.packet.corrupt;
        self.spun += other.spun;
        self.slept += other.slept;
        self.skipped_callbacks += other.skipped_callbacks;
    }

    #[inline]
    pub(crate) fn add_lane(&mut self, lane: stoop_exchange::caller::Counters) {
        self.calls += lane.calls;
        self.fast += lane.fast;
        self.packet.retransmissions += lane.retransmissions;
        self.packet.probes += lane.probes;
        self.ignored += lane.ignored;
    }

    #[inline]
    pub(crate) fn add_waits(&mut self, waits: stoop_net::waiting::WaitCounts) {
        self.spun += waits.spun;
        self.slept += waits.slept + waits.spun_then_slept;
    }
}
