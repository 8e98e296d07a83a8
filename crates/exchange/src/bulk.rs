//! Messages of many packets: what the sender sends and when, and what the receiver has received and reports.
//!
//! A message travels as a series of fragments, as many at a time as its receiver has memory for (flow control) and the
//! network has carried recently (congestion control, RFC 9002 §7). The receiver reports the bytes that have arrived in
//! [`Receipt`](stoop_wire::Receipt)s; the sender sends only the missing ones again (RFC 9002 §6). [`Outgoing`] and
//! [`Incoming`] are the two ends of one message. [`Path`] is the state that all messages of a binding in one direction
//! share.

mod congestion;
mod fragment_size;
mod incoming;
mod outgoing;
mod pacing;
mod path;
mod ranges;
mod receipts;
mod round_trip;
mod span;
#[cfg(test)]
pub(crate) mod tests;

pub use incoming::{Incoming, Taken};
pub use outgoing::{Outgoing, Run};
pub use path::Path;
pub(crate) use receipts::{is_newer, put_receipt};
pub use span::Span;

/// How long, in nanoseconds, a receiver that polls goes on polling before it sends a receipt that is
/// [due](Incoming::receipt_is_due) and not [urgent](Incoming::receipt_is_urgent). The sender copies the next packets
/// meanwhile, and a receipt costs both sides as much as several packets. (RFC 9000 §13.2.1 allows 25 ms.) A receiver
/// that is about to sleep sends it at once.
pub const RECEIPT_WAITS_NANOS: u64 = 20_000;

/// How long, in nanoseconds, the receiver of a pipe lets a receipt wait for data of the other pipe of its call, which carries it along. The
/// sender's [wait](Outgoing::next_timeout) includes it. (RFC 9000 §18.2 max_ack_delay)
pub(crate) const RECEIPT_DELAY_NANOS: u64 = 2_000_000;
