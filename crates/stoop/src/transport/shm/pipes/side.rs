//! What the ends of pipes need of the process and the binding in which they are.

use crate::error::UnknownCause;
use crate::pipes::error::PipeError;
use std::sync::Mutex;
use stoop_net::clock;
use stoop_net::waiting::Waiter;
use stoop_shm::Segment;
use stoop_shm::pipe::Sleep;

/// The side of a call, caller or server.
pub(crate) trait Side: Send + Sync + 'static {
    fn segment(&self) -> &Segment;

    /// The other end is to be notified of what this one has done.
    fn notify(&self);

    /// The peer has written values that the protocol does not allow: the binding is ended.
    fn end_binding(&self);

    /// A way of waiting for the peer.
    fn waiter(&self) -> Waiter;

    /// An end begins to need attention, or needs none any more.
    fn attend(&self, begins: bool);

    /// Some of what waited for room has been written.
    fn moved(&self) {}

    /// The program has closed or stopped one of its ends.
    fn ended(&self);

    /// The program has dropped the end at which it received.
    fn left(&self);
}

/// How the threads at an end wait.
#[derive(Default)]
pub(super) struct Waits(Mutex<Option<State>>);

struct State {
    waiter: Waiter,
    /// Looks before a wait begins.
    first_looks: u32,
}

/// Looks of a spinning thread between two readings of the clock.
const LOOKS: u32 = 32;
/// Looks before a wait begins, if the last one ended while the thread spun: about as long as an item and its answer travel. To count a
/// thread among those that wait, and out again, takes as long as an item.
const FIRST_LOOKS: u32 = 256;
/// A peer that writes into its words can keep a thread from being woken, but not for longer.
const SLEEP_MAX_NS: u64 = 1_000_000_000;

impl Waits {
    /// Waits until the peer has moved the count on, or `is_over`, at most until that time.
    /// Does `prepare` before it sleeps.
    pub(super) fn wait(
        &self,
        side: &impl Side,
        sleep: Sleep,
        until_ns: u64,
        is_over: impl Fn() -> bool,
        prepare: impl Fn(),
    ) {
        // Of several threads that wait at once, one has the end's waiter.
        let (mut kept, mut other) = (self.0.try_lock().ok(), None);
        let state = kept.as_deref_mut().unwrap_or(&mut other);
        let State { waiter, first_looks } =
            state.get_or_insert_with(|| State { waiter: side.waiter(), first_looks: 1 });
        if (0..*first_looks).any(|_| sleep.has_moved(side.segment()) || is_over()) {
            return waiter.came_at_once();
        }
        let mut now_ns = clock::now_ns();
        let mut wait = waiter.begin_in_memory(now_ns);
        'waiting: while now_ns < until_ns {
            for _ in 0..if wait.spins() { LOOKS } else { 1 } {
                if sleep.has_moved(side.segment()) || is_over() {
                    waiter.arrived(&wait, now_ns);
                    *first_looks = if wait.spins() { FIRST_LOOKS } else { 1 };
                    break 'waiting;
                }
            }
            if wait.sleeps() {
                prepare();
                sleep.sleep(side.segment(), SLEEP_MAX_NS.min(until_ns - now_ns), &is_over);
            }
            now_ns = waiter.pause(&mut wait, now_ns);
        }
    }
}

/// The binding has ended, for this side because the peer has written values that the protocol does not allow.
pub(super) fn disorder(side: &impl Side) -> PipeError {
    side.end_binding();
    lost(UnknownCause::ConnectionLost)
}

/// The binding has ended.
pub(crate) fn lost(cause: UnknownCause) -> PipeError {
    PipeError::lost(cause)
}

/// A side without a receiver, for tests of its ends.
#[cfg(test)]
pub(super) mod alone {
    use super::Side;
    use stoop_net::waiting::{Placement, Waiter, Waiting};
    use stoop_shm::Segment;

    pub(crate) struct Alone(pub(crate) Segment);

    impl Side for Alone {
        fn segment(&self) -> &Segment {
            &self.0
        }
        fn notify(&self) {}
        fn end_binding(&self) {}
        fn waiter(&self) -> Waiter {
            Waiter::new(Waiting::Block, Placement { together: false, waiting_max: 0 })
        }
        fn attend(&self, _: bool) {}
        fn ended(&self) {}
        fn left(&self) {}
    }
}
