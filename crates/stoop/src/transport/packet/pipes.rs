//! What both ends of a packet link have in common for pipes: the way of bytes from a program's queue into the exchange.

use crate::pipes::contract::{Close, FIRST_WINDOW};
use crate::pipes::queue::{PipeQueue, Pulled};
use crate::pipes::waiters::Wakeup;
use crate::transport::packet::link::Room;
use crate::transport::packet::packet_run::GATHERED_MIN;
use crate::transport::packet::protection::Protection;
use std::mem;
use stoop_exchange::pipe::{Added, Piece};
use stoop_exchange::server::{PacketRoom, Part};

/// A program begins no record within so many bytes before the exchange's limit, so that the end of a short record needs no limit of its
/// own.
pub(crate) const MARGIN: u64 = 1024;

/// Below this offset a program may begin a record before the first receipt.
pub(crate) const FIRST_LIMIT: u64 = FIRST_WINDOW - MARGIN;

/// So many bytes of a pipe are not copied into the exchange: it shares them, and the system gathers them where packets are long enough.
const SHARED_MIN: usize = 16 * 1024;
/// Bytes of memory that are kept for the next at most.
const KEPT: usize = 128 * 1024;
/// And at least: less is had as quickly when it is needed, and many pipes are quiet.
const KEPT_LEAST: usize = 256;

/// Bytes of a pipe that were taken from its queue and that the exchange has not taken, or memory for many: mostly nothing.
#[derive(Default)]
pub(crate) struct Outlet(Option<Box<Passing>>);

#[derive(Default)]
struct Passing {
    run: Vec<u8>,
    at: usize,
    /// They are these instead of those in `run`.
    shared: Option<Piece>,
    is_flushed: bool,
}

/// What an [`Outlet`] has left behind.
pub(crate) struct Passed {
    /// A task that waits for room in the queue.
    pub(crate) wakeup: Wakeup,
    /// Everything has been passed on, and is to leave now.
    pub(crate) is_flushed: bool,
    /// Everything has been passed on, and the program sends no more.
    pub(crate) closed: Option<Close>,
    /// Some bytes were not taken.
    pub(crate) is_held_up: bool,
}

impl Outlet {
    /// Passes the bytes of the queue to `send`, which returns how many it takes.
    pub(crate) fn pass(&mut self, queue: &PipeQueue, send: impl FnMut(Added<'_>) -> usize) -> Passed {
        let mut passing = self.0.take().map_or_else(Passing::default, |passing| *passing);
        let passed = passing.pass(queue, send);
        if passed.is_held_up || passing.run.capacity() > 0 {
            self.0 = Some(Box::new(passing));
        }
        passed
    }

    /// Forgets what is left.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

impl Passing {
    fn pass(&mut self, queue: &PipeQueue, mut send: impl FnMut(Added<'_>) -> usize) -> Passed {
        let mut wakeup = Wakeup::default();
        loop {
            let rest = match &self.shared {
                Some(piece) => Added::Shared(piece),
                None => Added::Copied(&self.run[self.at..]),
            };
            let (len, sent) = (rest.len(), if rest.len() > 0 { send(rest) } else { 0 });
            if sent < len {
                match &mut self.shared {
                    Some(piece) => *piece = piece.part(sent, len - sent),
                    None => self.at += sent,
                }
                return Passed { wakeup, is_flushed: false, closed: None, is_held_up: true };
            }
            let pulled = self.pull(queue);
            wakeup = wakeup.or(pulled.wakeup);
            if self.run.is_empty() && self.shared.is_none() {
                if self.run.capacity() < KEPT_LEAST {
                    self.run = Vec::new();
                }
                let is_flushed = mem::take(&mut self.is_flushed);
                return Passed { wakeup, is_flushed, closed: pulled.closed, is_held_up: false };
            }
        }
    }

    fn pull(&mut self, queue: &PipeQueue) -> Pulled {
        self.run.clear();
        (self.at, self.shared) = (0, None);
        let pulled = queue.pull(&mut self.run);
        self.is_flushed |= pulled.is_flushed;
        if self.run.len() >= SHARED_MIN {
            // The queue gets memory for as many with the next pull.
            let next = Vec::with_capacity(self.run.len().min(KEPT));
            self.shared = Some(Piece::new(mem::replace(&mut self.run, next)));
        }
        pulled
    }
}

/// A link's room, for packets that are protected.
pub(crate) struct Protected<'a, R>(pub(crate) &'a mut R, pub(crate) &'a Protection);

impl<R: Room> PacketRoom for Protected<'_, R> {
    #[inline]
    fn put(&mut self, len: usize, segment: usize, mut write: impl FnMut(&mut [u8])) {
        for packet in self.0.packets(len, segment) {
            write(packet);
            self.1.frame_whole(packet);
        }
    }

    fn gather(&mut self, len: usize, segment: usize) -> Option<&mut Vec<Part>> {
        if len.min(segment) < GATHERED_MIN as usize { None } else { self.0.gather(segment) }
    }
}
