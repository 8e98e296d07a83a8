//! What both ends of a packet link have in common for pipes: the way of bytes from a program's queue into the exchange.

use crate::pipes::contract::{Close, FIRST_WINDOW};
use crate::pipes::queue::PipeQueue;
use crate::pipes::waiters::Wakeup;
use crate::transport::packet::link::Room;
use crate::transport::packet::protection::Protection;
use stoop_exchange::server::PacketRoom;

/// A program begins no record within so many bytes before the exchange's limit, so that the end of a short record needs no limit of its
/// own.
pub(crate) const MARGIN: u64 = 1024;

/// Below this offset a program may begin a record before the first receipt.
pub(crate) const FIRST_LIMIT: u64 = FIRST_WINDOW - MARGIN;

/// Bytes of a pipe that were taken from its queue and that the exchange has not taken.
#[derive(Default)]
pub(crate) struct Outlet {
    run: Vec<u8>,
    at: usize,
}

/// What an [`Outlet`] has left behind.
pub(crate) struct Passed {
    /// A task that waits for room in the queue.
    pub(crate) wakeup: Wakeup,
    /// Everything has been passed on, and the program sends no more.
    pub(crate) closed: Option<Close>,
    /// Some bytes were not taken.
    pub(crate) is_held_up: bool,
}

impl Outlet {
    /// Passes the bytes of the queue to `send`, which returns how many it takes.
    pub(crate) fn pass(&mut self, queue: &PipeQueue, mut send: impl FnMut(&[u8]) -> usize) -> Passed {
        let mut wakeup = Wakeup::default();
        loop {
            if self.at == self.run.len() {
                self.run.clear();
                self.at = 0;
                let pulled = queue.pull(&mut self.run);
                wakeup = wakeup.or(pulled.wakeup);
                if self.run.is_empty() {
                    return Passed { wakeup, closed: pulled.closed, is_held_up: false };
                }
            }
            let sent = send(&self.run[self.at..]);
            self.at += sent;
            if self.at < self.run.len() {
                return Passed { wakeup, closed: None, is_held_up: true };
            }
        }
    }

    /// Forgets what is left.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
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
}
