//! What bounds a server, and what it counts.

use core::time::Duration;

/// What bounds a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bindings at once.
    pub bindings: usize,
    /// Lanes of one binding.
    pub lanes: u16,
    /// Answers retained and calls waiting for their lanes, of all bindings together; each takes about 1.6 KB. Beyond,
    /// answers are not retained (whoever asks again is told that the result is gone), and calls that would have to wait
    /// are dropped.
    pub packets: usize,
    /// A binding from which nothing is heard for so long is released, with all that it retains (P16). A caller whose
    /// call takes long is heard every half second: below a few seconds, the results of long calls are lost with the
    /// first packet.
    pub silence: Duration,
    /// Bytes of the longest call, and of the longest result.
    pub max_message: u32,
    /// Bytes of a call that a caller may send unasked, and beyond what has arrived: what the socket's buffer can hold.
    pub window: u32,
    /// Bytes of calls of many packets that are arriving, wait for their lanes or run, of all bindings together; of one
    /// binding at most a quarter arrives or waits, or one call. Beyond, callers are told to wait.
    pub incomplete: usize,
    /// Bytes of results of many packets that are retained, of all bindings together; of one binding at most a quarter,
    /// or one result. Beyond, the call has run and its result is gone.
    pub retained: usize,
    /// A call of many packets of which so long nothing new has arrived is refused.
    pub patience: Duration,
    /// Binding flags that the driver knows: those of them that a caller asks for hold for its binding.
    pub flags: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bindings: 65_536,
            lanes: 16_384,
            packets: 131_072,
            silence: Duration::from_secs(600),
            max_message: 64 << 20,
            window: 128 << 10,
            incomplete: 256 << 20,
            retained: 512 << 20,
            patience: Duration::from_secs(10),
            flags: 0,
        }
    }
}

/// What a server has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Calls given out to run.
    pub calls: u64,
    /// Calls that arrived again and were not run again.
    pub duplicates: u64,
    /// Calls refused by the exchange itself: for their lane, procedure or length, or while shutting down.
    pub refused: u64,
    /// Bindings made.
    pub bound: u64,
    /// Bindings given up by their callers.
    pub unbound: u64,
    /// Bindings released because their callers were silent.
    pub silent: u64,
    /// Packets for bindings that this server does not know.
    pub unknown_bindings: u64,
    /// Peers asked to prove their address.
    pub challenges: u64,
    /// Packets dropped because they are none, or make no sense.
    pub malformed: u64,
    /// Packets of calls that later ones have superseded.
    pub stale: u64,
    /// Answers not retained and calls dropped because of [`Limits::packets`].
    pub dropped: u64,
    /// Calls cancelled by their callers.
    pub cancelled: u64,
    /// Calls of which only parts arrived.
    pub incomplete: u64,
    /// Times that a caller with a call of many packets was told to wait, for want of memory.
    pub waited: u64,
}
