//! Takes packets out of frames that have arrived; the same for both backends.

use crate::address::Address;
use crate::counters::Counters;
use crate::frame::{Checksum, EtherType, Frame, FrameError};
use stoop_net::packets::Segments;

/// The outcome of a receive: `L` is a number of bytes, or [`Segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<L = usize> {
    /// The buffer begins with a packet of this many bytes, or with several packets.
    Packet {
        /// Bytes.
        len: L,
        /// The endpoint that has sent it.
        from: Address,
        /// Whether the sender has computed a checksum, which then was right.
        checksum: Checksum,
    },
    /// A packet of this many bytes did not fit into the buffer. It is lost.
    TooLarge(usize),
    /// Nothing is there. After a wait: the limit has passed, the wait has ended early, or another thread has
    /// taken what came.
    Nothing,
}

/// Frames that have arrived, in order.
pub(crate) trait FrameQueue {
    /// The first one.
    fn front(&self) -> Option<&[u8]>;
    /// Gives the first one back to the kernel. There is one.
    fn pop(&mut self);
}

/// Most useless frames that one receive drops. Others may be looked at then.
const USELESS_MAX: usize = 64;

/// Takes one packet.
#[inline]
pub(crate) fn take_one(
    queue: &mut impl FrameQueue,
    ether_type: EtherType,
    counters: &Counters,
    buffer: &mut [u8],
) -> Arrival {
    for _ in 0..USELESS_MAX {
        let Some(bytes) = queue.front() else { return Arrival::Nothing };
        let taken = Frame::parse(bytes, ether_type).and_then(|frame| {
            let (len, from) = (frame.packet().len(), frame.from());
            if len > buffer.len() {
                return Ok(Arrival::TooLarge(len));
            }
            frame.copy_to(buffer).map(|checksum| Arrival::Packet { len, from, checksum })
        });
        queue.pop();
        match taken {
            Ok(arrival) => return arrival,
            Err(why) => counters.note_useless(why),
        }
    }
    Arrival::Nothing
}

/// Takes packets that have come together: of one sender, and of one length, except the last, which may be
/// shorter.
#[inline]
pub(crate) fn take_many(
    queue: &mut impl FrameQueue,
    ether_type: EtherType,
    counters: &Counters,
    buffer: &mut [u8],
) -> Arrival<Segments> {
    let (first, from, checksum) = match take_one(queue, ether_type, counters, buffer) {
        Arrival::Packet { len, from, checksum } => (len, from, checksum),
        Arrival::TooLarge(len) => return Arrival::TooLarge(len),
        Arrival::Nothing => return Arrival::Nothing,
    };
    let mut len = first;
    while let Some(bytes) = queue.front() {
        // The next receive counts what is wrong with a frame.
        let Ok(frame) = Frame::parse(bytes, ether_type) else { break };
        let next = frame.packet().len();
        if frame.from() != from || next > first || next > buffer.len() - len {
            break;
        }
        let copied = frame.copy_to(&mut buffer[len..]);
        match copied {
            Ok(other) if other == checksum => {}
            Ok(_) => break,
            Err(why) => counters.note_useless(why),
        }
        queue.pop();
        if copied.is_ok() {
            len += next;
            if next < first {
                break;
            }
        }
    }
    Arrival::Packet { len: Segments { len, segment: first }, from, checksum }
}

impl Counters {
    #[cold]
    fn note_useless(&self, why: FrameError) {
        let counter = match why {
            FrameError::Corrupt => &self.corrupt,
            FrameError::Truncated | FrameError::OtherProtocol | FrameError::BadAddress => &self.malformed,
        };
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
