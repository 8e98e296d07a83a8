//! What a worker of a UDP address keeps from one call to the next.

use crate::transport::packet::checksum;
use crate::transport::packet::server::From;
use crate::transport::packet::server::answers::Answers;
use crate::transport::packet::server::batch::Finished;
use crate::transport::packet::server::call::DatagramCall;
use crate::transport::packet::server::dedicated::Dedicated;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use stoop_net::clock;
use stoop_net::owner_lock::Key;
use stoop_net::waiting::{MachineCosts, Placement, Wait, WaiterSlot, Waiting};
use stoop_wire::{LaneId, MAX_DATAGRAM};

/// A worker's buffers and way of waiting.
pub(crate) struct WorkerState {
    /// What was received last, if it came by itself, and has not become a batch. There is room for any datagram.
    pub(super) packet: Box<[u8; DATAGRAMS_MAX]>,
    pub(super) reply: Vec<u8>,
    pub(super) wait: Wait,
    /// Of a worker: the background never waits.
    pub(super) waiters: Option<WaiterSlot<'static>>,
    together: bool,
    spinners_max: u32,
    /// When this worker last looked at the clock.
    pub(super) clock_ns: u64,
    /// The dedicated socket, as of that many changes.
    pub(super) dedicated: Option<Arc<Dedicated>>,
    pub(super) changes: u64,
    /// Its peer.
    pub(super) dedicated_peer: From,
    /// Whoever sent what came last, by itself, by the address's own socket.
    pub(super) own_peer: From,
    /// Looks at it since the address's own socket was looked at.
    pub(super) looks: u32,
    /// Whose call was the last that came in by the address's own socket, and how many before it were the same lane's.
    pub(super) latest: Option<SocketAddr>,
    pub(super) calls_in_a_row: u32,
    pub(super) bunching: ArrivalPattern,
    pub(super) batch: BatchState,
    /// Of the batch from which all take calls.
    pub(super) key: Key,
}

/// Whether calls of one peer come together, and should be received together.
#[derive(Debug)]
pub(super) struct ArrivalPattern {
    /// The lane of the last call that came by itself.
    pub(super) lane: LaneId,
    /// Calls before it that each were another lane's of the same peer.
    pub(super) others: u32,
    /// Datagrams that came by themselves although several might have come together.
    pub(super) singles: u32,
    /// How many such end it.
    pub(super) singles_max: u32,
}

/// What a worker needs for calls that come together. Empty until some have.
#[derive(Default)]
pub(super) struct BatchState {
    /// Room for datagrams that come together.
    datagrams: Arc<[u8]>,
    /// Those of the batch from which this worker takes calls.
    pub(super) of_calls: Option<Arc<[u8]>>,
    /// Calls that have just come, on their way to where all can take from them.
    pub(super) calls: VecDeque<DatagramCall>,
    /// Calls that had to wait for others of their lanes to return.
    pub(super) parked: Vec<DatagramCall>,
    /// Answers on their way out.
    pub(super) answers: Answers,
    pub(super) finished: Vec<Finished>,
    /// What the exchange sends.
    pub(super) out: Vec<u8>,
    pub(super) pace: ClockPacing,
    /// When answers last went out.
    pub(super) flushed_ns: u64,
}

/// Datagrams by themselves that end receiving them together.
const SINGLES: u32 = 256;
/// The same, after it has ended and begun again several times.
const SINGLES_LIMIT: u32 = 1 << 16;

/// Room for the longest datagram, and for whatever can come together.
const DATAGRAMS_MAX: usize = 1 << 16;

impl WorkerState {
    pub(super) fn new(waiting: Waiting, spinners_max: u32, key: Key) -> Self {
        let placement = Placement { together: true, waiting_max: spinners_max };
        Self {
            packet: vec![0; DATAGRAMS_MAX].try_into().expect("it has that length"),
            reply: Vec::with_capacity(MAX_DATAGRAM),
            wait: Wait::new(waiting, MachineCosts::of_this_machine(), placement),
            waiters: None,
            together: true,
            spinners_max,
            clock_ns: clock::now_ns(),
            dedicated: None,
            changes: 0,
            dedicated_peer: From::NOBODY,
            own_peer: From::NOBODY,
            looks: 0,
            latest: None,
            calls_in_a_row: 0,
            bunching: ArrivalPattern { lane: LaneId(0), others: 0, singles: 0, singles_max: SINGLES },
            batch: BatchState::default(),
            key,
        }
    }

    /// Whether the packet at the worker is one that has a checksum; anything, if it is shorter than a header.
    #[inline]
    pub(super) fn packet_has_checksum(&self) -> bool {
        checksum::says_so(self.packet.first_chunk().expect("it is longer"))
    }

    /// The latest caller is the likeliest to call next.
    #[inline]
    pub(super) fn set_placement(&mut self, together: bool) {
        if self.together != together {
            self.together = together;
            self.wait.set_placement(Placement { together, waiting_max: self.spinners_max });
        }
    }
}

impl ArrivalPattern {
    /// Whether datagrams have come by themselves for so long that none should be expected together.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.singles >= self.singles_max
    }

    /// Datagrams are no longer received together. If that was premature, it is kept up longer next time.
    pub(super) fn end(&mut self) {
        (self.others, self.singles) = (0, 0);
        self.singles_max = (2 * self.singles_max).min(SINGLES_LIMIT);
    }
}

impl BatchState {
    /// Where datagrams that come together are received.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.of_calls = None;
        if self.datagrams.is_empty() || Arc::strong_count(&self.datagrams) > 1 {
            // The first time; or another worker is in a procedure whose arguments are there.
            self.datagrams = vec![0; DATAGRAMS_MAX].into();
        }
        Arc::get_mut(&mut self.datagrams).expect("nobody else has it")
    }

    /// The datagrams of the calls that this worker takes from a batch.
    #[inline]
    pub(super) fn datagrams_of_calls(&self) -> &[u8] {
        self.of_calls.as_deref().expect("whoever takes from a batch has its datagrams")
    }

    /// What has been received into the [room](Self::room).
    #[inline]
    pub(super) fn received(&self) -> &Arc<[u8]> {
        &self.datagrams
    }
}

/// How often a worker looks at the clock while it runs calls that came together: seldom while they are short.
#[derive(Debug)]
pub(super) struct ClockPacing {
    /// Calls since the last look.
    calls: u32,
    /// Calls from one look to the next.
    every: u32,
    /// Looks after single calls that are to come, since some took long.
    careful: u32,
}

/// Calls from one look to the next while they are short.
const SHORT_CALLS: u32 = 8;
/// Calls that take longer on average are not short.
const SHORT_NANOS: u64 = 5_000;
/// How many calls are looked at one by one after some that were not short.
const CAREFUL: u32 = 64;

impl Default for ClockPacing {
    fn default() -> Self {
        // The first may take any time.
        Self { calls: 0, every: 1, careful: 1 }
    }
}

impl ClockPacing {
    /// Whether to look at the clock after this call.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.calls += 1;
        self.calls >= self.every
    }

    /// The calls since the last look took `nanos`. Returns whether that was one call only, so that it is known which.
    pub(super) fn looked(&mut self, nanos: u64) -> bool {
        let one = self.calls == 1;
        self.careful = match nanos > SHORT_NANOS * u64::from(self.calls) {
            true => CAREFUL,
            false => self.careful.saturating_sub(1),
        };
        self.every = if self.careful > 0 { 1 } else { SHORT_CALLS };
        self.calls = 0;
        one
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::packet::server::worker::*;

    /// Calls until the clock is looked at.
    fn calls(pace: &mut ClockPacing) -> u32 {
        (1..).find(|_| pace.is_due()).unwrap()
    }

    #[test]
    fn short_calls_are_seldom_timed_and_each_after_a_long_one_is() {
        let mut pace = ClockPacing::default();
        assert_eq!(calls(&mut pace), 1);
        assert!(pace.looked(100));
        assert_eq!(calls(&mut pace), SHORT_CALLS);
        assert!(!pace.looked(800));
        assert_eq!(calls(&mut pace), SHORT_CALLS);
        assert!(!pace.looked(SHORT_NANOS * u64::from(SHORT_CALLS) + 1));
        for _ in 0..CAREFUL {
            assert_eq!(calls(&mut pace), 1);
            assert!(pace.looked(100));
        }
        assert_eq!(calls(&mut pace), SHORT_CALLS);
    }
}
