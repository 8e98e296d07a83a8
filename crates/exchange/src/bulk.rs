//! Messages of many packets: what their sender sends and when, what their receiver has and tells.
//!
//! A message travels as a blast of fragments, as many at once as its receiver has room for (flow control) and the
//! network has taken lately (congestion control, RFC 9002 §7). The receiver tells by [`Receipt`](stoop_wire::Receipt)s
//! which bytes have arrived; what is missing, and only that, is sent again (RFC 9002 §6). [`Outgoing`] and [`Incoming`]
//! are one message; [`Path`] is what all messages of a binding in one direction share.

mod congestion;
mod fragment_size;
mod incoming;
mod outgoing;
mod pacing;
mod path;
mod ranges;
mod round_trip;
mod stretch;
#[cfg(test)]
mod tests;

pub use incoming::{Incoming, Taken};
pub use outgoing::{Outgoing, Run};
pub use path::Path;
pub use stretch::Span;

/// How long, in nanoseconds, a receiver that looks for packets all the time goes on looking before it sends a receipt that is
/// [due](Incoming::receipt_is_due) and not [urgent](Incoming::receipt_is_urgent): its sender copies the next packets
/// meanwhile, and a receipt costs both sides as much as some of them. (RFC 9000 §13.2.1 allows 25 ms.) A receiver that
/// is about to sleep sends it at once.
pub const RECEIPT_WAITS_NANOS: u64 = 20_000;
