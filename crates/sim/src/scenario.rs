//! The parameters of a run: how many callers there are, what they do, how bad the network is, and which process crashes when.

mod load;
mod seeds;
mod wishes;

pub(crate) use wishes::Wish;

use crate::Faults;
use core::time::Duration;
use stoop_exchange::outcome::PACKET_LIFE;
use stoop_exchange::server::Limits;

/// From the least to the most of something.
pub type Span = (Duration, Duration);

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Settings of a run. Chances are in a thousand.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Caller processes, each on a machine of its own.
    pub callers: usize,
    /// Calling threads of each.
    pub threads: usize,
    /// Calls that each thread makes; none if the test makes them.
    pub calls: u32,
    /// Time between two calls of a thread.
    pub think: Span,
    /// A thread thinks a thousand times as long.
    pub nap: u32,
    /// From the start of a call to its deadline.
    pub deadline: Span,
    /// Calls whose procedure the receiving thread runs at once.
    pub instant: u32,
    /// Running time of the other procedures.
    pub work: Span,
    /// Procedures that return before their answers are there.
    pub later: u32,
    /// Time from then to the answer.
    pub reply_after: Span,
    /// Of these answers, those that are never given: the means to give them are dropped.
    pub replies_lost: u32,
    /// Procedures that panic.
    pub panics: u32,
    /// Calls whose arguments the server cannot decode.
    pub bad_arguments: u32,
    /// Calls whose arguments fill a packet.
    pub long: u32,
    /// Bytes of the arguments of other calls, from the least to the most; never fewer than are needed.
    pub arguments: (usize, usize),
    /// Bytes of the results.
    pub results: (usize, usize),
    /// Bytes of the longest result that callers take.
    pub longest_result: usize,
    /// Calls that their program cancels.
    pub cancels: u32,
    /// Time after its beginning at which a call is cancelled; else at any time up to its deadline, mostly early.
    pub cancel_after: Option<Span>,
    /// Procedures that return at once when their calls are cancelled.
    pub heeds_cancels: u32,
    /// A thread that hears that others may send more sees to it that they do.
    pub shares_window: bool,
    /// Calls of procedures declared idempotent.
    pub idempotent: u32,
    /// Procedures of the interface; more than 128 are bound page by page.
    pub procedures: u16,
    /// The newest revision of the interface: each caller and each start of a server is of one up to it.
    pub revisions: u32,
    /// After a call whose outcome is unknown, its lane is left alone for a minute; else the next call uses it.
    pub retires_lanes: bool,
    /// Longest silence of a server after an acknowledgement.
    pub silence_limit: Duration,
    /// The network.
    pub faults: Faults,
    /// Time that the server's process needs to take a packet from its socket.
    pub server_drain: Duration,
    /// Time that a calling thread needs for that.
    pub caller_drain: Duration,
    /// Bytes of the server's receive buffer, as the kernel counts them; what does not fit is dropped.
    pub server_buffer: usize,
    /// Bytes of each thread's receive buffer.
    pub caller_buffer: usize,
    /// Procedures that the server runs at once, besides the instant ones.
    pub workers: usize,
    /// Calls that wait for a worker; beyond, calls are refused.
    pub queue: usize,
    /// Limits of the server.
    pub limits: Limits,
    /// Before anything happens, the server crashes and is back at once.
    pub restarts: u32,
    /// Time that the server runs before it crashes or shuts down.
    pub server_up: Option<Span>,
    /// It shuts down cleanly rather than crashes.
    pub shut_downs: u32,
    /// Time that it then is away.
    pub server_down: Span,
    /// While it is away, its machine reports a closed port.
    pub port_closed: bool,
    /// A caller that has made all its calls gives up its binding.
    pub unbinds: u32,
    /// Time that a caller runs before it crashes, and is back soon.
    pub caller_up: Option<Span>,
    /// Time between two changes of a caller's address.
    pub moves: Option<Span>,
    /// Speeds of the clocks, in 1,024ths of the world's: the server's machine's, then the callers'. Exact where none is given.
    pub rates: Vec<u64>,
    /// Time between two moments at which a machine is saved or falls asleep.
    pub stops: Option<Span>,
    /// Time that it then stands still.
    pub stop_lasts: Span,
    /// All processes run on the server's machine, by its clock.
    pub one_machine: bool,
    /// Time until the server's address leads to another server, which is alive beside the first; then back again.
    pub wanders: Option<Span>,
    /// Addresses of servers, one or two; the server at each starts, ends and starts again on its own.
    pub places: usize,
    /// Callers keep to the credits that they are granted.
    pub credits: bool,
    /// Callers send refused calls again: later after overload, to the next server after a shutdown.
    pub follows: bool,
    /// No packet arrives later than this after it was sent.
    pub packet_life: Duration,
    /// Nothing keeps any call from its result: all must get theirs.
    pub kind: bool,
    /// Bindings are sealed.
    pub sealed: bool,
    /// In a sealed world: for a packet that the attacker sees, it sends one of its own.
    pub attacks: u32,
    /// In a sealed world: for a packet, its sender goes on to the next phase if it may, as if it had used up the numbers of the present one.
    /// A lane then makes a quarter of all calls that it has numbers for in each phase.
    pub phases: u32,
    /// In a sealed world: a short call waits for the next one of its caller, to be sealed with it.
    pub bundles: u32,
    /// How long after its deadline a call may begin to run at most, if that is to be checked.
    pub late_max: Option<Duration>,
}

impl Scenario {
    /// One caller of two threads, a good network and a patient server; the test makes the calls.
    pub fn calm() -> Self {
        Self {
            callers: 1,
            threads: 2,
            calls: 0,
            think: (Duration::ZERO, Duration::ZERO),
            nap: 0,
            deadline: (Duration::from_secs(10), Duration::from_secs(10)),
            instant: 1000,
            work: (Duration::ZERO, Duration::ZERO),
            later: 0,
            reply_after: (Duration::ZERO, Duration::ZERO),
            replies_lost: 0,
            panics: 0,
            bad_arguments: 0,
            long: 0,
            arguments: (0, 0),
            results: (0, 0),
            longest_result: 1 << 24,
            cancels: 0,
            cancel_after: None,
            heeds_cancels: 0,
            shares_window: true,
            idempotent: 0,
            procedures: 2,
            revisions: 0,
            retires_lanes: true,
            silence_limit: Duration::from_secs(2),
            faults: Faults::none(),
            server_drain: Duration::ZERO,
            caller_drain: Duration::ZERO,
            server_buffer: 212_992,
            caller_buffer: 212_992,
            workers: 4,
            queue: 16,
            limits: Limits::default(),
            restarts: 0,
            server_up: None,
            shut_downs: 0,
            server_down: (millis(1), millis(500)),
            port_closed: false,
            unbinds: 0,
            caller_up: None,
            moves: None,
            rates: Vec::new(),
            stops: None,
            stop_lasts: (Duration::ZERO, Duration::ZERO),
            one_machine: false,
            wanders: None,
            places: 1,
            credits: false,
            follows: false,
            packet_life: PACKET_LIFE,
            kind: true,
            sealed: false,
            phases: 0,
            bundles: 0,
            attacks: 0,
            late_max: None,
        }
    }

    /// Many callers, which offer three times and more of the calls that the server can do. Packets wait in its socket, and calls in its
    /// queue, for about as long as callers do.
    pub fn overloaded() -> Self {
        let faults = Faults { loss: 20, duplicate: 50, delay: (micros(20), micros(500)), ..Faults::none() };
        Self {
            callers: 4,
            threads: 8,
            calls: 40,
            think: (Duration::ZERO, millis(2)),
            deadline: (millis(5), millis(80)),
            instant: 100,
            work: (millis(1), millis(6)),
            idempotent: 100,
            server_drain: micros(300),
            workers: 2,
            queue: 16,
            kind: false,
            // A duplicate may be as late as any packet.
            late_max: Some(2 * faults.delay.1),
            faults,
            ..Self::calm()
        }
    }

    /// Bytes of a result that may be under way to one thread, as its socket has room for them.
    pub(crate) fn caller_window(&self) -> u32 {
        (self.caller_buffer / 2) as u32
    }
}
