//! The receive buffer of a socket, and a process that takes its time to empty it.

use core::time::Duration;
use std::collections::VecDeque;
use stoop_exchange::Instant;

/// Bytes that the kernel charges a socket buffer for a datagram beyond its own.
const BOOKKEEPING: usize = 768;

/// The datagrams in a receive buffer.
#[derive(Debug, Default)]
pub(crate) struct Socket {
    /// When each will have been taken, and what the buffer is charged for it.
    waiting: VecDeque<(Instant, usize)>,
    charged: usize,
}

impl Socket {
    /// When the process will have taken a datagram that arrives now, if it needs `drain` for each; `None`: there is no
    /// room for it in a buffer of `room` bytes.
    pub(crate) fn arrives(
        &mut self,
        now: Instant,
        datagram: usize,
        room: usize,
        drain: Duration,
    ) -> Option<Instant> {
        while self.waiting.front().is_some_and(|(taken, _)| *taken <= now) {
            let (_, charge) = self.waiting.pop_front().expect("it was looked at");
            self.charged -= charge;
        }
        let charge = datagram.next_multiple_of(256) + BOOKKEEPING;
        if self.charged + charge > room {
            return None;
        }
        let taken = self.waiting.back().map_or(now, |(taken, _)| *taken) + drain;
        self.waiting.push_back((taken, charge));
        self.charged += charge;
        Some(taken)
    }

    /// Whether something will still be taken after `now`.
    pub(crate) fn has_more(&self, now: Instant) -> bool {
        self.waiting.back().is_some_and(|(taken, _)| *taken > now)
    }
}
