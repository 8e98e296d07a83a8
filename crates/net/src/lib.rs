//! Sockets, the host and the wait: everything of Stoop that touches the operating system.
//!
//! | module | |
//! |---|---|
//! | [`packets`] | what becomes of packets that are sent and received |
//! | [`udp`] | datagram sockets, tuned for one call at a time |
//! | [`stream`] | byte streams over TCP and Unix sockets |
//! | [`poller`] | waiting for many descriptors at once |
//! | [`host`] | what two ends tell each other about where they run |
//! | [`waiting`] | how long to spin before sleeping |
//! | [`clock`] | the monotonic clock as one number |
//! | [`crc`] | CRC-32C, by the processor's instruction |
//! | [`fence`] | a fence of which one side costs nothing |
//! | [`biased`] | a lock that costs whoever took it last next to nothing |
//! | [`fork`] | whether this process is still the one that made something |
//!
//! System calls are made by `rustix`, which on Linux makes them directly, without libc's errno and
//! cancellation points. The only `unsafe` of this crate is in `udp::message`, for control messages
//! that `rustix` does not know, in `stream::credentials`, for one that it misreads, in `crc` and `prefetch`, for instructions, in `fork`, to be
//! told of forks, and in `biased`, which is a lock.
//!
//! All times are nanoseconds of the monotonic clock or lengths of time in nanoseconds, as `u64`,
//! and are named `…_ns`.

#![deny(unsafe_code)]

pub mod biased;
pub mod clock;
pub mod crc;
pub mod fence;
pub mod fork;
pub mod host;
pub mod packets;
pub mod poller;
mod prefetch;
pub mod stream;
mod time_limit;
pub mod udp;
pub mod waiting;

pub use prefetch::prefetch;

/// What to do when nothing has arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Return at once.
    DontWait,
    /// Sleep in the kernel until something arrives.
    Block,
}
