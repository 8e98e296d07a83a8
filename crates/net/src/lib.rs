//! Sockets, the host and the wait: everything of Stoop that touches the operating system.
//!
//! | module | |
//! |---|---|
//! | [`udp`] | datagram sockets, tuned for one call at a time |
//! | [`host`] | what two ends tell each other about where they run |
//! | [`waiting`] | how long to spin before sleeping |
//! | [`clock`] | the monotonic clock as one number |
//!
//! System calls are made by `rustix`, which on Linux makes them directly, without libc's errno and
//! cancellation points. The only `unsafe` of this crate is in `udp::packet_info`, for two control
//! messages that `rustix` does not know.
//!
//! All times are nanoseconds of the monotonic clock or lengths of time in nanoseconds, as `u64`,
//! and are named `…_ns`.

#![deny(unsafe_code)]

pub mod clock;
pub mod host;
mod time_limit;
pub mod udp;
pub mod waiting;
