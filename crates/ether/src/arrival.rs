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

/// Takes packets out of the frames of a queue.
#[derive(Debug)]
pub(crate) struct Arrivals<Q> {
    pub(crate) queue: Q,
    /// Bytes of the first frame's packets that have been taken. The frame stays until all are.
    taken: usize,
}

impl<Q: FrameQueue> Arrivals<Q> {
    pub(crate) fn new(queue: Q) -> Self {
        Self { queue, taken: 0 }
    }

    /// Drops all frames that have arrived, at most `count`.
    pub(crate) fn clear(&mut self, count: usize) {
        for _ in 0..count {
            if self.queue.front().is_none() {
                break;
            }
            self.queue.pop();
        }
        self.taken = 0;
    }

    /// Takes one packet.
    #[inline]
    pub(crate) fn take_one(
        &mut self,
        ether_type: EtherType,
        counters: &Counters,
        buffer: &mut [u8],
    ) -> Arrival {
        for _ in 0..USELESS_MAX {
            let Some(bytes) = self.queue.front() else { return Arrival::Nothing };
            let before = self.taken;
            let taken = Frame::parse(bytes, ether_type).and_then(|frame| {
                if frame.segment() < frame.packets().len() {
                    return take_part(&frame, &mut self.taken, buffer);
                }
                let (len, from) = (frame.packets().len(), frame.from());
                if len > buffer.len() {
                    return Ok(Arrival::TooLarge(len));
                }
                frame.copy_to(buffer).map(|checksum| Arrival::Packet { len, from, checksum })
            });
            if self.taken == before {
                self.queue.pop();
                self.taken = 0;
            }
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
        &mut self,
        ether_type: EtherType,
        counters: &Counters,
        buffer: &mut [u8],
    ) -> Arrival<Segments> {
        let first = self.take_frame(ether_type, counters, buffer);
        let Arrival::Packet { len: Segments { mut len, segment }, from, checksum } = first else {
            return first;
        };
        while len.is_multiple_of(segment) {
            let Some(bytes) = self.queue.front() else { break };
            // A malformed frame stays in the queue: the next receive drops and counts it.
            let Ok(frame) = Frame::parse(bytes, ether_type) else { break };
            let next = frame.packets().len();
            let continues = frame.segment() == segment || next < segment;
            if !continues || frame.from() != from || next > buffer.len() - len || self.taken > 0 {
                break;
            }
            let copied = frame.copy_to(&mut buffer[len..]);
            match copied {
                Ok(other) if other == checksum => len += next,
                Ok(_) => break,
                Err(why) => counters.note_useless(why),
            }
            self.queue.pop();
        }
        Arrival::Packet { len: Segments { len, segment }, from, checksum }
    }

    /// Takes the packets of the first frame, or one of them if they do not fit or some have been taken.
    #[inline]
    fn take_frame(
        &mut self,
        ether_type: EtherType,
        counters: &Counters,
        buffer: &mut [u8],
    ) -> Arrival<Segments> {
        if self.taken == 0
            && let Some(bytes) = self.queue.front()
            && let Ok(frame) = Frame::parse(bytes, ether_type)
            && frame.packets().len() <= buffer.len()
            && let Ok(checksum) = frame.copy_to(buffer)
        {
            let len = Segments { len: frame.packets().len(), segment: frame.segment() };
            let from = frame.from();
            self.queue.pop();
            return Arrival::Packet { len, from, checksum };
        }
        match self.take_one(ether_type, counters, buffer) {
            Arrival::Packet { len, from, checksum } => {
                Arrival::Packet { len: Segments { len, segment: len }, from, checksum }
            }
            Arrival::TooLarge(len) => Arrival::TooLarge(len),
            Arrival::Nothing => Arrival::Nothing,
        }
    }
}

/// Takes the next of several packets. `taken` stays as it is when that was the last, or the frame is useless.
#[cold]
fn take_part(frame: &Frame<'_>, taken: &mut usize, buffer: &mut [u8]) -> Result<Arrival, FrameError> {
    let checksum = frame.verify()?;
    let rest = &frame.packets()[*taken..];
    let len = frame.segment().min(rest.len());
    if len < rest.len() {
        *taken += len;
    }
    if len > buffer.len() {
        return Ok(Arrival::TooLarge(len));
    }
    buffer[..len].copy_from_slice(&rest[..len]);
    Ok(Arrival::Packet { len, from: frame.from(), checksum })
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
