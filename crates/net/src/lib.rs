//! Sockets, facts about the host, and waiting: the parts of Stoop that touch the operating system.
//!
//! | module | |
//! |---|---|
//! | [`packets`] | outcomes of sending and receiving packets |
//! | [`udp`] | datagram sockets, tuned for one call at a time |
//! | [`stream`] | byte streams over TCP and Unix sockets |
//! | [`poller`] | waiting for many descriptors at once |
//! | [`address`] | which addresses this machine has |
//! | [`host`] | facts about the host that two ends tell each other |
//! | [`waiting`] | how long to spin before sleeping |
//! | [`clock`] | the monotonic clock as one number |
//! | [`crc`] | CRC-32C, by the processor's instruction |
//! | [`fence`] | a fence of which one side costs nothing |
//! | [`hand_over`] | locks that the thread that releases one hands over to the thread that has waited longest |
//! | [`owner_lock`] | a lock that is cheap for the thread that took it last |
//! | [`threads`] | threads that are started only when there is address space for them |
//! | [`fork`] | whether this process made an object, or its parent did |
//!
//! `rustix` makes the system calls, on Linux directly, without libc's errno and cancellation points. `unsafe` code is
//! only in `udp::message` (control messages that `rustix` does not know), `stream::credentials` (one that it misreads),
//! `stream::rights` (an option that it lacks), `crc` and `prefetch` (instructions), `fork` (a handler for forks), `threads` (a mapping), and
//! `owner_lock` and `hand_over` (locks).
//!
//! Times are nanoseconds of the monotonic clock and durations are nanoseconds, as `u64`, with names that end in `_ns`.

#![deny(unsafe_code)]

pub mod address;
pub mod clock;
pub mod crc;
pub mod fence;
pub mod fork;
pub mod hand_over;
pub mod host;
pub mod inherited;
pub mod memory;
pub mod owner_lock;
pub mod packets;
pub mod poller;
mod prefetch;
mod reserved_port;
pub mod stream;
pub mod switches;
pub mod threads;
mod time_limit;
pub mod udp;
pub mod waiting;

pub use prefetch::prefetch;

/// The way to wait when nothing has arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Return at once.
    DontWait,
    /// Sleep in the kernel until something arrives.
    Block,
}
