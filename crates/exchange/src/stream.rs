//! Messages on a byte stream: cut into fragments at one end, put together again at the other.
//!
//! A message travels behind the same 32-byte header as on a datagram. One of at most
//! [`STREAM_FRAGMENT`](stoop_wire::STREAM_FRAGMENT) bytes travels whole; a longer one as fragments, each behind a header
//! of its own, in order, so that messages of other lanes can go between them. A lane's next message ends an incomplete
//! one, and so does a cancel of it: that is how a sender gives a message up.

mod departure;
mod intake;

pub use departure::OutgoingMessage;
pub use intake::{Arrival, Bounds, Message, Reassembler, Violation};

#[cfg(test)]
mod tests;
