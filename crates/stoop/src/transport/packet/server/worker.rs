//! The state that a worker of a packet endpoint keeps from one call to the next.

use crate::transport::packet::link::{ReceiveBuffers, ServerEndpoint};
use crate::transport::packet::server::answers::Answers;
use crate::transport::packet::server::batch::Finished;
use crate::transport::packet::server::call::PacketCall;
use std::collections::VecDeque;
use stoop_net::clock;
use stoop_net::owner_lock::Key;
use stoop_net::waiting::{Placement, Waiter, Waiting};
use stoop_wire::MAX_DATAGRAM;

/// A worker's buffers and way of waiting.
pub(crate) struct WorkerState<S: ServerEndpoint> {
    pub(super) buffers: ReceiveBuffers,
    pub(super) link: S::Worker,
    pub(super) reply: Vec<u8>,
    pub(super) waiter: Waiter,
    /// When this worker last looked at the clock.
    pub(super) clock_ns: u64,
    /// Something has come for a pipe, for which a thread waits as it does for a call.
    pub(super) has_part: bool,
    pub(super) batch: BatchState<S::Peer>,
    /// Right of this worker to lock the batch.
    pub(super) key: Key,
    /// Memory for packets that the exchange sends by itself; `None` until there are some.
    pub(super) room: Option<S::Room>,
}

/// A worker's state for calls that come together. Empty until some have.
pub(super) struct BatchState<P> {
    /// Calls that have just come, on their way to where all workers can take them.
    pub(super) calls: VecDeque<PacketCall<P>>,
    /// Calls that had to wait for others of their lanes to return.
    pub(super) parked: Vec<PacketCall<P>>,
    /// Answers that will leave together.
    pub(super) answers: Answers<P>,
    /// The same, in bundles.
    pub(super) bundled: Answers<P>,
    pub(super) finished: Vec<Finished<P>>,
    pub(super) pacing: ClockPacing,
    /// When answers last left.
    pub(super) flushed_ns: u64,
}

impl<P> Default for BatchState<P> {
    fn default() -> Self {
        Self {
            calls: VecDeque::new(),
            parked: Vec::new(),
            answers: Answers::default(),
            bundled: Answers::default(),
            finished: Vec::new(),
            pacing: ClockPacing::default(),
            flushed_ns: 0,
        }
    }
}

impl<S: ServerEndpoint> WorkerState<S> {
    pub(super) fn new(link: S::Worker, waiting: Waiting, spinners_max: u32, key: Key) -> Self {
        let placement = Placement { together: true, waiting_max: spinners_max };
        Self {
            buffers: ReceiveBuffers::default(),
            link,
            reply: Vec::with_capacity(MAX_DATAGRAM),
            waiter: Waiter::new(waiting, placement),
            clock_ns: clock::now_ns(),
            has_part: false,
            batch: BatchState::default(),
            key,
            room: None,
        }
    }
}

/// Decides when a worker reads the clock while it runs calls that came together: seldom while they are short.
#[derive(Debug)]
pub(super) struct ClockPacing {
    /// Calls since the last reading.
    calls: u32,
    /// Calls between two readings.
    every: u32,
    /// Number of calls after which the clock is still read one by one, because some took long.
    careful: u32,
}

/// Calls between two readings while they are short.
const SHORT_CALLS: u32 = 8;
/// Longest average duration of short calls.
const SHORT_NANOS: u64 = 5_000;
/// Number of calls that are timed one by one after some that were not short.
const CAREFUL: u32 = 64;

impl Default for ClockPacing {
    fn default() -> Self {
        // The first call may take any time.
        Self { calls: 0, every: 1, careful: 1 }
    }
}

impl ClockPacing {
    /// Whether to read the clock after this call.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.calls += 1;
        self.calls >= self.every
    }

    /// Notes that the calls since the last reading took `nanos`. Returns whether it was a single call, so that the duration is its own.
    pub(super) fn note_reading(&mut self, nanos: u64) -> bool {
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

    /// Calls until the clock is read.
    fn calls(pacing: &mut ClockPacing) -> u32 {
        (1..).find(|_| pacing.is_due()).unwrap()
    }

    #[test]
    fn short_calls_are_seldom_timed_and_each_after_a_long_one_is() {
        let mut pacing = ClockPacing::default();
        assert_eq!(calls(&mut pacing), 1);
        assert!(pacing.note_reading(100));
        assert_eq!(calls(&mut pacing), SHORT_CALLS);
        assert!(!pacing.note_reading(800));
        assert_eq!(calls(&mut pacing), SHORT_CALLS);
        assert!(!pacing.note_reading(SHORT_NANOS * u64::from(SHORT_CALLS) + 1));
        for _ in 0..CAREFUL {
            assert_eq!(calls(&mut pacing), 1);
            assert!(pacing.note_reading(100));
        }
        assert_eq!(calls(&mut pacing), SHORT_CALLS);
    }
}
