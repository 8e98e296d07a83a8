//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};
use stoop_wire::RefusalCode;

/// Counters of a server, at all its addresses.
///
/// ```
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:server-counters")?.start()?;
/// # let client = AdderClient::bind("local:server-counters")?;
/// let counters = server.counters();
/// println!("{} calls of {} bindings, {} open", counters.calls, counters.bindings, counters.open);
/// println!("{:?} {:?} {:?} {:?}", counters.queue, counters.memory, counters.packet, counters.shm);
/// println!("{:?}", counters.refusals);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Calls begun. A call that is refused is not among them, also if it is refused for its arguments or their length.
    pub calls: u64,
    /// Calls refused.
    pub refused: u64,
    /// The same by the reason that callers are told.
    pub refusals: RefusalCounters,
    /// Packets that made no sense, and connections closed for what they sent.
    pub malformed: u64,
    /// Bindings at this moment. One on which a handshake is under way is none yet.
    pub bindings: u64,
    /// Binds refused because there were as many bindings as the server takes, or its host or user had its share of them
    /// ([`Limits`](crate::Limits)).
    pub binds_refused: u64,
    /// Handshakes at sealed addresses.
    pub handshakes: HandshakeCounters,
    /// Calls whose procedures have returned and whose answers come later ([`Deferred`](crate::Deferred)), at this moment; with begun calls
    /// to `local:` addresses.
    pub open: u64,
    /// Pipes of open calls at this moment ([`Sender`](crate::Sender), [`Receiver`](crate::Receiver)).
    pub pipes: u64,
    /// Counters of the calls that waited for a worker.
    pub queue: QueueCounters,
    /// Counters of the packet exchange.
    pub packet: PacketServerCounters,
    /// Counters of shared memory.
    pub shm: ShmServerCounters,
    /// Memory for long messages at `tcp:`, `unix:` and `shm:` addresses.
    pub memory: MemoryCounters,
}

/// Memory for long messages at addresses whose bindings have a connection each (`tcp:`, `unix:`, `shm:`).
///
/// ```
/// use stoop::ServerCounters;
///
/// /// Whether long messages were lost for want of memory since an earlier look: raise `Limits::argument_bytes` or `result_bytes`.
/// fn lacks_memory(now: &ServerCounters, before: &ServerCounters) -> bool {
///     now.memory.arguments_refused > before.memory.arguments_refused
///         || now.memory.results_dropped > before.memory.results_dropped
/// }
/// # assert!(!lacks_memory(&ServerCounters::default(), &ServerCounters::default()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryCounters {
    /// Bytes held at this moment for arguments of long calls that are arriving, waiting or running.
    pub argument_bytes: u64,
    /// Bytes held at this moment for results that their callers have not taken.
    pub result_bytes: u64,
    /// Long calls that were refused because the caller's host or user, or its binding, had its share of the memory for arguments
    /// ([`Limits::argument_bytes`](crate::Limits::argument_bytes)).
    pub arguments_refused: u64,
    /// Results that were dropped because the caller's host or user, or its binding, had its share of the memory for results
    /// ([`Limits::result_bytes`](crate::Limits::result_bytes)): their calls have run, and fail.
    pub results_dropped: u64,
}

impl MemoryCounters {
    fn add(&mut self, other: Self) {
        self.argument_bytes += other.argument_bytes;
        self.result_bytes += other.result_bytes;
        self.arguments_refused += other.arguments_refused;
        self.results_dropped += other.results_dropped;
    }
}

/// Calls refused, by reason.
///
/// ```
/// # #[stoop::interface] trait Test { fn null(&self); }
/// # struct Nothing;
/// # impl Test for Nothing { fn null(&self) {} }
/// # fn main() -> Result<(), stoop::ListenError> {
/// # let server = stoop::Server::new().export(TestServer::new(Nothing)).listen("udp://127.0.0.1:0")?.start()?;
/// assert_eq!(server.counters().refusals.of(stoop::RefusalCode::Overloaded), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounters([u64; REASONS]);

/// Reasons with counters of their own, and at first the rest.
const REASONS: usize = 14;

/// Their names among the [counters](ServerCounters::named), by code. Packets for unknown bindings are not counted as calls refused.
const REASON_NAMES: [&str; REASONS] = [
    "refused.without_reason",
    "",
    "refused.unknown_procedure",
    "refused.bad_arguments",
    "refused.overloaded",
    "refused.shutting_down",
    "refused.deadline_passed",
    "refused.message_too_large",
    "refused.too_many_lanes",
    "refused.result_too_large",
    "refused.cancelled",
    "refused.incomplete",
    "refused.denied",
    "refused.no_callback",
];

impl RefusalCounters {
    /// Calls refused for that reason.
    ///
    /// ```
    /// use stoop::{RefusalCode, ServerCounters};
    ///
    /// /// Calls that a larger server would have run.
    /// fn too_many(counters: &ServerCounters) -> u64 {
    ///     counters.refusals.of(RefusalCode::Overloaded) + counters.refusals.of(RefusalCode::DeadlinePassed)
    /// }
    /// # assert_eq!(too_many(&ServerCounters::default()), 0);
    /// ```
    pub fn of(&self, reason: RefusalCode) -> u64 {
        self.0[place_of(reason)]
    }

    pub(crate) fn count(&mut self, reason: RefusalCode, more: u64) {
        self.0[place_of(reason)] += more;
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own += more);
    }
}

fn place_of(reason: RefusalCode) -> usize {
    usize::try_from(reason.code()).ok().filter(|code| *code < REASONS).unwrap_or(0)
}

/// Calls refused, by reason, as many threads count them.
#[derive(Debug, Default)]
pub(crate) struct Refusals([AtomicU64; REASONS]);

impl Refusals {
    #[inline]
    pub(crate) fn count(&self, reason: RefusalCode) {
        self.0[place_of(reason)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copy(&self) -> RefusalCounters {
        RefusalCounters(self.0.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// Counters of the calls that found no worker free, or whose caller has its share of the workers.
///
/// ```
/// use stoop::ServerCounters;
///
/// /// The share of calls that found no worker free: above some percent, give the server more workers.
/// fn waited(counters: &ServerCounters) -> f64 {
///     counters.queue.waited as f64 / counters.calls.max(1) as f64
/// }
/// # assert_eq!(waited(&ServerCounters::default()), 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounters {
    /// Calls that wait at this moment.
    pub waiting: u64,
    /// Calls that waited for a worker.
    pub waited: u64,
    /// Calls refused because too many waited.
    pub full: u64,
    /// Calls that waited until shortly before their deadlines, and were refused then.
    pub overdue: u64,
    /// Calls that waited and were refused because nothing had been heard from their callers for some 5 s, whose hosts had many in the
    /// queue.
    pub abandoned: u64,
}

impl QueueCounters {
    fn add(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.waited += other.waited;
        self.full += other.full;
        self.overdue += other.overdue;
        self.abandoned += other.abandoned;
    }
}

/// Handshakes at sealed addresses ([`Security`](crate::Security)), by how they ended.
///
/// ```
/// use stoop::ServerCounters;
///
/// /// Whether callers were turned away since an earlier look whose keys, or certificates, the server does not take.
/// fn strangers(now: &ServerCounters, before: &ServerCounters) -> bool {
///     now.handshakes.unknown_caller > before.handshakes.unknown_caller
///         || now.handshakes.certificate > before.handshakes.certificate
/// }
/// # assert!(!strangers(&ServerCounters::default(), &ServerCounters::default()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeCounters {
    /// Callers that have authenticated themselves, and have a sealed binding.
    pub bound: u64,
    /// Refused: the caller's key is in no line of the file of callers, it has none, or its certificate has no name.
    pub unknown_caller: u64,
    /// Refused: the caller's certificate has expired, or was issued by no root of the server.
    pub certificate: u64,
    /// Refused: the caller has certificates and the server keys, or the reverse.
    pub other_kind: u64,
    /// Refused: what came is no handshake of a version that the server speaks, or was changed on the way.
    pub protocol: u64,
    /// Ended by the caller: it does not take the server.
    pub by_caller: u64,
    /// Refused: too many callers were binding at that time.
    pub too_many: u64,
    /// Refused: a message that belongs to no handshake.
    pub out_of_place: u64,
    /// Given up: the caller did not go on within 10 s, or too many others had begun.
    pub abandoned: u64,
}

impl HandshakeCounters {
    /// Their names among the [counters](ServerCounters::named).
    fn named(self) -> [(&'static str, u64); 9] {
        [
            ("handshakes.bound", self.bound),
            ("handshakes_refused.unknown_caller", self.unknown_caller),
            ("handshakes_refused.certificate", self.certificate),
            ("handshakes_refused.other_kind", self.other_kind),
            ("handshakes_refused.protocol", self.protocol),
            ("handshakes_refused.by_caller", self.by_caller),
            ("handshakes_refused.too_many", self.too_many),
            ("handshakes_refused.out_of_place", self.out_of_place),
            ("handshakes_refused.abandoned", self.abandoned),
        ]
    }

    fn add(&mut self, other: Self) {
        self.bound += other.bound;
        self.unknown_caller += other.unknown_caller;
        self.certificate += other.certificate;
        self.other_kind += other.other_kind;
        self.protocol += other.protocol;
        self.by_caller += other.by_caller;
        self.too_many += other.too_many;
        self.out_of_place += other.out_of_place;
        self.abandoned += other.abandoned;
    }
}

/// Counters of the packet exchange at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketServerCounters {
    /// Calls that arrived again and were not run again.
    pub duplicates: u64,
    /// Packets dropped because their checksum was wrong or missing
    /// ([`PacketOptions::checksum`](crate::PacketOptions::checksum)), and frames of an Ethernet with a wrong one.
    pub corrupt: u64,
    /// Results that were not retained, and calls that were dropped, because all callers or one host had as many as the server takes
    /// ([`Limits`](crate::Limits)).
    pub dropped: u64,
    /// Times that a caller was told to wait for memory for its arguments.
    pub waited: u64,
    /// Bindings that were released before their first call, to make room for a host that had less than its fair share.
    pub reclaimed: u64,
    /// Frames of an Ethernet that the kernel dropped, because the server did not take earlier ones in time and the ring was full.
    /// Callers send what was in them again.
    pub overflowed: u64,
    /// Times that a caller which had a UDP address to itself was given a socket of its own there.
    pub dedicated: u64,
}

/// Counters of shared memory at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShmServerCounters {
    /// Bindings that their callers gave up: what the server wrote there made no sense to them, or it owed answers on all lanes.
    pub given_up: u64,
}

impl ServerCounters {
    /// All counters, each with its name.
    pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
        let Self {
            calls,
            refused,
            refusals,
            malformed,
            bindings,
            binds_refused,
            handshakes,
            open,
            pipes,
            queue,
            packet,
            shm,
            memory,
        } = *self;
        let refusals = REASON_NAMES.into_iter().zip(refusals.0).filter(|(name, _)| !name.is_empty());
        let others = [
            ("calls", calls),
            ("refused", refused),
            ("malformed", malformed),
            ("bindings", bindings),
            ("binds_refused", binds_refused),
            ("open", open),
            ("pipes", pipes),
            ("queue.waiting", queue.waiting),
            ("queue.waited", queue.waited),
            ("queue.full", queue.full),
            ("queue.overdue", queue.overdue),
            ("queue.abandoned", queue.abandoned),
            ("packet.duplicates", packet.duplicates),
            ("packet.corrupt", packet.corrupt),
            ("packet.dropped", packet.dropped),
            ("packet.waited", packet.waited),
            ("packet.reclaimed", packet.reclaimed),
            ("packet.overflowed", packet.overflowed),
            ("packet.dedicated", packet.dedicated),
            ("shm.given_up", shm.given_up),
            ("memory.argument_bytes", memory.argument_bytes),
            ("memory.result_bytes", memory.result_bytes),
            ("memory.arguments_refused", memory.arguments_refused),
            ("memory.results_dropped", memory.results_dropped),
        ];
        others.into_iter().chain(refusals).chain(handshakes.named()).collect()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.packet.duplicates += other.packet.duplicates;
        self.refused += other.refused;
        self.refusals.add(other.refusals);
        self.queue.add(other.queue);
        self.malformed += other.malformed;
        self.packet.corrupt += other.packet.corrupt;
        self.shm.given_up += other.shm.given_up;
        self.memory.add(other.memory);
        self.bindings += other.bindings;
        self.binds_refused += other.binds_refused;
        self.handshakes.add(other.handshakes);
        self.open += other.open;
        self.pipes += other.pipes;
        self.packet.dropped += other.packet.dropped;
        self.packet.waited += other.packet.waited;
        self.packet.reclaimed += other.packet.reclaimed;
        self.packet.overflowed += other.packet.overflowed;
        self.packet.dedicated += other.packet.dedicated;
    }
}
