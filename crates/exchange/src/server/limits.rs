//! The bounds of a server, and its counters.

use core::time::Duration;
use stoop_wire::bind::NO_CREDIT_LIMIT;

/// The bounds of a server.
///
/// Bindings, lanes, packets and bytes are [shared](crate::shares) among the hosts of the callers, and what a host may
/// have among its bindings: a host has at most three quarters of each, and one binding at most nine sixteenths.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most bindings. Above the bound, and for a host above its share, binds are refused.
    pub bindings: usize,
    /// Most lanes of one binding.
    pub lanes: u16,
    /// Most lanes of all bindings together, without the first four of each binding; each takes about 60 bytes, or
    /// 16 while it rests. Above the bound, calls on further lanes are dropped.
    pub all_lanes: usize,
    /// Most retained answers and waiting calls, of all bindings together; each takes at most about 1.6 KB. Above the bound,
    /// answers are not retained (a caller that asks again learns that the result is gone), and calls that would have to
    /// wait are dropped.
    pub packets: usize,
    /// Silence after which a binding is released, with everything that it retains (P16). A caller whose call takes long
    /// is heard every half second. With a limit below a few seconds, the loss of one packet can cost the result of a
    /// long call.
    pub silence: Duration,
    /// Bytes of the longest call, and of the longest result.
    pub max_message: u32,
    /// Bytes of a call that a caller may send before the first receipt, and beyond what has arrived: the size of the
    /// socket's buffer.
    pub window: u32,
    /// Calls of one packet that the socket's buffer holds: all callers together send no more without being answered.
    /// [`NO_CREDIT_LIMIT`]: it has no bound.
    pub calls: u32,
    /// Most bytes of calls of many packets that are arriving, waiting or running, of all bindings together. Above the
    /// bound, callers are told to wait.
    pub incomplete: usize,
    /// Most bytes of retained results of many packets, of all bindings together. Above the bound, the call has run and
    /// its result is gone.
    pub retained: usize,
    /// Most bytes that pipes hold or that their callers may send, of all bindings together. Above the bound, calls with pipes from their
    /// callers are refused, windows do not grow, and procedures wait for room.
    pub pipes: usize,
    /// Time without a new part after which a call of many packets is refused.
    pub patience: Duration,
    /// Binding flags that the driver knows. Those that a caller asks for hold for its binding.
    pub flags: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bindings: 65_536,
            lanes: 16_384,
            all_lanes: 524_288,
            packets: 131_072,
            silence: Duration::from_secs(600),
            max_message: 64 << 20,
            window: 128 << 10,
            calls: NO_CREDIT_LIMIT,
            incomplete: 256 << 20,
            retained: 512 << 20,
            pipes: 256 << 20,
            patience: Duration::from_secs(10),
            flags: 0,
        }
    }
}

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Calls given out to run.
    pub calls: u64,
    /// Repeated calls that were not run again.
    pub duplicates: u64,
    /// Calls that the exchange itself refused because they were too long;
    pub refused_too_long: u64,
    /// on lanes whose numbers are too high;
    pub refused_lanes: u64,
    /// of procedures that the interface does not have;
    pub refused_procedures: u64,
    /// during the shutdown.
    pub refused_in_shutdown: u64,
    /// Bindings made.
    pub bound: u64,
    /// Bindings released by their callers.
    pub unbound: u64,
    /// Bindings released because their callers were silent.
    pub silent: u64,
    /// Packets for bindings that this server does not know.
    pub unknown_bindings: u64,
    /// Peers asked to prove their address.
    pub challenges: u64,
    /// Packets dropped because they were malformed or not allowed.
    pub malformed: u64,
    /// Packets of calls that later calls have superseded.
    pub stale: u64,
    /// Answers not retained and calls dropped because of [`Limits::packets`] or [`Limits::all_lanes`], or because the
    /// caller's host or binding had its share of them.
    pub dropped: u64,
    /// Calls cancelled by their callers.
    pub cancelled: u64,
    /// Calls refused because only parts of them arrived.
    pub incomplete: u64,
    /// How often a caller with a call of many packets was told to wait for memory.
    pub waited: u64,
    /// Binds refused because the server had all bindings that it takes, or the caller's host its share.
    pub full: u64,
    /// Bindings released before any call arrived on them, to make room for a host that had less than its fair share.
    pub reclaimed: u64,
}
