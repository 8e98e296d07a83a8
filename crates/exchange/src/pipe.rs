//! Pipes over packets: bytes in one direction of a call, of which nobody knows yet how many there will be.
//!
//! A pipe is a message whose length is not known yet: the machinery of [`bulk`](crate::bulk) carries its bytes. [`Sending`] and
//! [`Receiving`] are its two ends. The bytes lie in them: at the sender until they have arrived, at the receiver until the program has
//! taken them. The limit in a receipt is the credit: what the program has taken, and the window. So a receiver never has more than a
//! window of bytes, and never waits for its program.
//!
//! Offsets are absolute, below 2⁵⁶, and receipts repeat the whole truth, so that lost, late and repeated ones do no harm. The end takes
//! up one offset behind the last byte: it is acknowledged, lost and sent again like a byte. So is an abort, before which nothing has
//! to arrive any more. A receiver that wants no more says *stop* in its receipts, until an end or abort has come.
//!
//! # For drivers
//!
//! The ends are in a caller's [`Lane`](crate::caller::Lane) and in a [`Server`](crate::server::Server), by whose methods `pipe_…` the
//! driver gives and takes bytes, under the lock that it has for them. None of them waits. Bytes that the driver [shares](Added::Shared)
//! are not copied before the system sends them, if the driver can [gather](crate::server::PacketRoom::gather) packets.
//!
//! | the program wants to | caller | server |
//! |---|---|---|
//! | send bytes | `pipe_send`, then `next_pipe_run` | `pipe_send`, then `next_transmission` |
//! | know how much may be sent | `pipe_room` | `pipe_room` |
//! | read bytes | `pipe_received`, `pipe_take` | `pipe_received`, `pipe_take` |
//! | end, abort, stop | `pipe_finish`, `pipe_abort`, `pipe_stop` | `pipe_close` before the answer; `pipe_stop` |
//!
//! A thread that waits for bytes or for room sleeps in the driver. It is woken when a packet has brought [`News`]:
//! [`Heard::Pipe`](crate::caller::Heard::Pipe), [`Effect::Pipe`](crate::server::Effect::Pipe). A call that ends in any way wakes it, too.

mod bytes;
mod chunks;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use crate::room::Piece;
pub use chunks::Added;
pub use receiving::{Drawn, Receiving, Rest};
pub use sending::Sending;

use stoop_wire::{BindingId, CallNumber, LaneId};

/// Bytes that a receiver grants before it knows how fast its program takes them.
pub const FIRST_WINDOW: u32 = 16 * 1024;

/// Most bytes that a receiver may grant beyond those that have arrived: offsets in receipts have 32 bits, and are read as nearest to
/// what has arrived.
pub const WINDOW_MAX: u32 = 1 << 30;

/// Distance of offsets and transmission numbers from where they count, from which on they count from a later place.
const REBASE: u32 = 1 << 24;

/// The header fields that all packets of a pipe share.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// The binding of its call.
    pub binding: BindingId,
    /// The lane of its call.
    pub lane: LaneId,
    /// The number of its call.
    pub number: CallNumber,
}

/// What a packet has changed for the program at one end of a call's pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Bytes have arrived without a gap before them, or the pipe has ended.
    pub readable: bool,
    /// More may be sent, or the receiver takes no more.
    pub writable: bool,
}

impl News {
    /// Whether there is nothing new.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// The offset with these low 32 bits that is nearest to `near`, and not negative.
fn nearest(word: u32, near: u64) -> Option<u64> {
    let distance = word.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(distance.into())
}
