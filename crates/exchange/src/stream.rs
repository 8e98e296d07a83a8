//! Messages on a byte stream: the sender cuts them into fragments, the receiver reassembles them.
//!
//! A message has the same 32-byte header as on a datagram. A message of at most
//! [`STREAM_FRAGMENT`](stoop_wire::STREAM_FRAGMENT) bytes travels whole. A longer one travels as fragments in order,
//! each with a header of its own, so that messages of other lanes can go between them. A sender abandons an incomplete
//! message by the next message of its lane, or by a cancel of the call.

mod buffers;
mod message;
mod outgoing;
mod piped;
mod reassembler;
mod terms;

pub use message::{Message, PipeBytes, StreamEvent};
pub use outgoing::OutgoingMessage;
pub use reassembler::Reassembler;
pub use terms::{Account, Bounds, Violation};

#[cfg(test)]
mod tests;
