//! One direction of the path between the callers and the server: a rate, a queue in front of it, a largest packet.

use core::time::Duration;
use std::collections::VecDeque;
use stoop_exchange::Instant;

/// Bytes that Ethernet, IPv4 and UDP put around a datagram; the line carries them, too.
pub const FRAME_OVERHEAD: usize = 14 + 20 + 8;

/// Capacity of a line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Bits in a second, frames counted whole; none: as fast as one likes.
    pub bits_per_second: Option<u64>,
    /// Bytes that wait behind the frame that is being sent; what does not fit is dropped.
    pub queue: usize,
    /// Bytes of the largest datagram, one after the other for `largest_lasts` each; a larger one vanishes.
    pub largest: Vec<usize>,
    /// Time until the next of `largest` counts.
    pub largest_lasts: Duration,
}

impl Line {
    /// One that carries everything at once.
    pub fn wide() -> Self {
        Self {
            bits_per_second: None,
            queue: 0,
            largest: vec![usize::MAX],
            largest_lasts: Duration::from_secs(1),
        }
    }

    /// One of a rate, with a queue.
    pub fn with_rate(bits_per_second: u64, queue: usize) -> Self {
        Self { bits_per_second: Some(bits_per_second), queue, ..Self::wide() }
    }

    /// Bytes of the largest datagram that it carries now.
    pub fn largest_at(&self, now: Instant) -> usize {
        let turn = now.as_nanos() / (self.largest_lasts.as_nanos() as u64).max(1);
        self.largest[turn as usize % self.largest.len()]
    }
}

/// Losses by place, for a report on a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Datagrams that a full queue did not take.
    pub queue: u64,
    /// Datagrams larger than the line carried.
    pub too_large: u64,
}

/// A line with what waits at it.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// The frame that is being sent and those behind it: when each will have been sent, and its bytes.
    frames: VecDeque<(Instant, usize)>,
    /// Bytes of all but the first.
    waiting: usize,
    pub(crate) losses: Losses,
    /// Bytes of frames taken.
    pub(crate) carried: u64,
}

impl Traffic {
    /// When a datagram that is sent now has left the line; `None`: it was dropped.
    pub(crate) fn pass(&mut self, line: &Line, now: Instant, datagram: usize) -> Option<Instant> {
        if datagram > line.largest_at(now) {
            self.losses.too_large += 1;
            return None;
        }
        let frame = datagram + FRAME_OVERHEAD;
        let Some(rate) = line.bits_per_second else {
            self.carried += frame as u64;
            return Some(now);
        };
        self.leave(now);
        let begins = match self.frames.back() {
            Some(_) if self.waiting + frame > line.queue => {
                self.losses.queue += 1;
                return None;
            }
            Some((sent, _)) => {
                self.waiting += frame;
                *sent
            }
            None => now,
        };
        self.carried += frame as u64;
        let sent = begins + Duration::from_nanos(frame as u64 * 8_000_000_000 / rate);
        self.frames.push_back((sent, frame));
        Some(sent)
    }

    /// Forgets what has been sent by now.
    fn leave(&mut self, now: Instant) {
        while self.frames.front().is_some_and(|(sent, _)| *sent <= now) {
            self.frames.pop_front();
            // The next one is being sent, and no longer waits.
            self.waiting -= self.frames.front().map_or(0, |(_, frame)| *frame);
        }
    }
}
