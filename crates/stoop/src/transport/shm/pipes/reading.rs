//! The end of a pipe over shared memory at which items are received.

use crate::locked::locked;
use crate::pipes::contract::{Arrival, ReceivingEnd};
use crate::pipes::error::PipeError;
use crate::pipes::window::{Size, Window};
use crate::transport::shm::pipes::side::{Side, Waits, disorder};
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use stoop_net::clock;
use stoop_shm::Disorder;
use stoop_shm::pipe::{Closed, Reading, Stopped};

/// The end at which items are taken out of the ring.
pub(crate) struct ReadingEnd<S: Side> {
    side: Arc<S>,
    item_max: usize,
    state: Mutex<State>,
    /// For looks without the lock.
    is_over: AtomicBool,
    is_attended: AtomicBool,
    waits: Waits,
}

struct State {
    ring: Reading,
    /// Bytes that were taken out of the ring.
    received: u64,
    /// The limit of which the writer knows.
    limit: u64,
    window: Size,
    over: Option<PipeError>,
    /// Nothing more comes, for this reason: what the writer had closed before is still there to be taken.
    failed: Option<PipeError>,
    waker: Option<Waker>,
    stream: Stream,
}

/// Knows whether short items come one behind the other.
struct Stream {
    /// Items that come sooner after each other are a stream.
    soon_ns: u64,
    /// When the program last found nothing, and how many bytes had been taken then.
    asked_ns: u64,
    received: u64,
    /// How often in a row the next bytes came soon, or several items together.
    times: u32,
}

/// Items that come so soon after each other are a stream, if this side sends none. A writer and a reader that looks for each item move in
/// step: an item takes as long as the line of the count from one processor to the other and back.
const SOON_NS: u64 = 1000;
/// As [`SOON_NS`], if this side sends items, too: an answer to an item takes longer.
const SOON_BETWEEN_ANSWERS_NS: u64 = 250;
/// Bytes that come together in a stream of short items.
const TOGETHER: std::ops::Range<u64> = 256..4096;
/// So often in a row, and it is one.
const TIMES: u32 = 8;
/// How long its reader lets items gather: each look takes the line of the count from the writer, which publishes each item by it.
const GATHER_NS: u64 = 400;

impl Stream {
    fn new(is_answered: bool) -> Self {
        let soon_ns = if is_answered { SOON_BETWEEN_ANSWERS_NS } else { SOON_NS };
        Self { soon_ns, asked_ns: 0, received: 0, times: 0 }
    }

    /// The program has found nothing, though so many bytes came in all. Whether it lets items gather before it looks again.
    fn gathers(&mut self, now_ns: u64, received: u64) -> bool {
        let came = received - self.received;
        let is_soon = now_ns - self.asked_ns < self.soon_ns && came < TOGETHER.start;
        self.times = if came > 0 && is_soon || TOGETHER.contains(&came) { self.times + 1 } else { 0 };
        (self.asked_ns, self.received) = (now_ns, received);
        self.times >= TIMES
    }
}

impl<S: Side> ReadingEnd<S> {
    /// An end with that window, whose writer may send the bytes below that limit at first. `is_answered`: this side sends items, too.
    pub(crate) fn new(
        side: &Arc<S>,
        ring: Reading,
        (limit, window): (u64, Window),
        (item_max, is_answered): (usize, bool),
    ) -> Arc<Self> {
        let window = window.size();
        let (received, over, failed, waker) = (0, None, None, None);
        Arc::new(Self {
            side: Arc::clone(side),
            item_max,
            state: Mutex::new(State {
                ring,
                received,
                limit,
                window,
                over,
                failed,
                waker,
                stream: Stream::new(is_answered),
            }),
            is_over: AtomicBool::new(false),
            is_attended: AtomicBool::new(false),
            waits: Waits::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    #[cold]
    fn end_disorderly(&self, state: &mut State) -> PipeError {
        let why = disorder(&*self.side);
        state.over.get_or_insert(why.clone());
        self.is_over.store(true, Ordering::Release);
        why
    }

    /// Whether there are bytes, or the pipe has ended.
    fn has(&self, state: &State) -> bool {
        let segment = self.side.segment();
        state.over.is_some()
            || state.failed.is_some()
            || state.ring.closed(segment) != Ok(None)
            || state.ring.arrived(segment) != Ok(0)
    }

    /// Tells the writer of all that was taken.
    fn tell(&self, state: &mut State) {
        if state.ring.tell(self.side.segment()) {
            self.side.notify();
        }
    }

    /// The task that is to be woken; asks to be notified of bytes for it.
    fn settle(&self, state: &mut State) -> Option<Waker> {
        loop {
            let woken = if self.has(state) { state.waker.take() } else { None };
            let needs = state.waker.is_some();
            if self.is_attended.swap(needs, Ordering::SeqCst) != needs {
                self.side.attend(needs);
            }
            if !needs {
                return woken;
            }
            self.tell(state);
            state.ring.ask(self.side.segment());
            // Bytes that came before this were not told.
            if !self.has(state) {
                return None;
            }
        }
    }

    /// The thread that receives for the binding goes on with it. Returns a task that is to be woken.
    pub(crate) fn advance(&self) -> Option<Waker> {
        if !self.is_attended.load(Ordering::SeqCst) {
            return None;
        }
        self.settle(&mut self.state())
    }

    /// Whether [`advance`](Self::advance) would do something.
    pub(crate) fn can_advance(&self) -> bool {
        self.is_attended.load(Ordering::SeqCst) && self.has(&self.state())
    }

    /// Whether nothing more comes.
    pub(crate) fn is_finished(&self) -> bool {
        let (state, segment) = (self.state(), self.side.segment());
        state.over.is_some() || state.ring.closed(segment) != Ok(None) && state.ring.arrived(segment) == Ok(0)
    }

    /// The pipe has ended, for this reason, unless all that it carries is there. Returns a task that is to be woken.
    pub(crate) fn fail(&self, why: &PipeError) -> Option<Waker> {
        let mut state = self.state();
        // A hostile writer can open again what it has closed: that is not waited for.
        state.failed.get_or_insert_with(|| why.clone());
        if state.ring.closed(self.side.segment()) == Ok(None) {
            state.over.get_or_insert_with(|| why.clone());
        }
        self.finish(state)
    }

    /// The call of the procedure has been answered: it receives nothing more, for this reason, unless the pipe has been aborted before.
    /// Returns a task that is to be woken.
    pub(crate) fn answer(&self, why: PipeError) -> Option<Waker> {
        let mut state = self.state();
        let is_aborted = state.ring.closed(self.side.segment()) == Ok(Some(Closed::Aborted));
        if state.ring.stop(self.side.segment(), Stopped::Answered) {
            self.side.notify();
        }
        state.over.get_or_insert(if is_aborted { PipeError::Aborted } else { why });
        self.finish(state)
    }

    fn finish(&self, mut state: MutexGuard<'_, State>) -> Option<Waker> {
        self.is_over.store(true, Ordering::Release);
        let waker = state.waker.take();
        if self.is_attended.swap(false, Ordering::SeqCst) {
            self.side.attend(false);
        }
        let sleep = state.ring.sleep();
        drop(state);
        sleep.wake(self.side.segment());
        waker
    }
}

impl<S: Side> Drop for ReadingEnd<S> {
    fn drop(&mut self) {
        self.side.left();
    }
}

impl<S: Side> ReceivingEnd for ReadingEnd<S> {
    fn has_arrived(&self) -> bool {
        self.has(&self.state())
    }

    fn take(&self, into: &mut Vec<u8>) -> Result<Arrival, PipeError> {
        let (state, segment) = (&mut *self.state(), self.side.segment());
        if let Some(why) = &state.over {
            return Err(why.clone());
        }
        // In this order: what was written before the end is there.
        let closed = state.ring.closed(segment);
        match (state.ring.arrived(segment), closed) {
            (Err(Disorder), _) | (_, Err(Disorder)) => Err(self.end_disorderly(state)),
            (Ok(0), Ok(Some(Closed::Whole))) => Ok(Arrival::End),
            (Ok(0), Ok(Some(Closed::Aborted))) => Err(PipeError::Aborted),
            (Ok(0), Ok(None)) => state.failed.clone().map_or(Ok(Arrival::Nothing), Err),
            (Ok(len), Ok(_)) => {
                state.received += len as u64;
                if state.ring.take(segment, len, into) {
                    self.side.notify();
                }
                Ok(Arrival::Bytes)
            }
        }
    }

    fn taken(&self, up_to: u64, wanted: Option<u64>) -> u64 {
        let state = &mut *self.state();
        let credit = state.window.take(up_to, wanted, (state.received, state.limit));
        if let Some(limit) = credit.limit.filter(|_| state.over.is_none()) {
            state.limit = limit;
            if state.ring.raise_limit(self.side.segment(), limit) {
                self.side.notify();
            }
        }
        credit.next
    }

    fn wait_for_bytes(&self, until_ns: u64) {
        let mut state = self.state();
        let (ring, received, now_ns) = (state.ring, state.received, clock::now_ns());
        if state.stream.gathers(now_ns, received) {
            drop(state);
            while clock::now_ns() < now_ns + GATHER_NS {
                hint::spin_loop();
            }
            return;
        }
        if self.has(&state) {
            return;
        }
        drop(state);
        let is_over = || {
            let segment = self.side.segment();
            ring.expect(segment);
            self.is_over.load(Ordering::Acquire) || ring.closed(segment) != Ok(None)
        };
        self.waits.wait(&*self.side, ring.sleep(), until_ns, is_over, || self.tell(&mut self.state()));
    }

    fn poll_bytes(&self, waker: &Waker) -> bool {
        let state = self.state();
        if self.has(&state) || state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return self.has(&state);
        }
        // No lock is held while a waker is cloned or dropped.
        drop(state);
        let fresh = waker.clone();
        let mut state = self.state();
        let before = state.waker.replace(fresh);
        let woken = self.settle(&mut state);
        drop(state);
        drop(before);
        woken.is_some()
    }

    fn stop(&self) {
        let mut state = self.state();
        if state.over.is_none() {
            state.over = Some(PipeError::Stopped);
            if state.ring.stop(self.side.segment(), Stopped::Unwanted) {
                self.side.notify();
            }
        }
        drop(self.finish(state));
        self.side.ended();
    }

    fn item_max(&self) -> usize {
        self.item_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UnknownCause;
    use crate::transport::shm::pipes::side::alone::Alone;
    use crate::transport::shm::pipes::side::lost;
    use stoop_shm::pipe::{self, Writing};
    use stoop_shm::{Segment, Way};

    #[test]
    fn a_pipe_that_failed_while_it_was_closed_is_not_waited_for_when_its_writer_opens_it_again() {
        let (segment, file) = Segment::create().unwrap();
        let writer = Segment::attach(&file).unwrap();
        let window = (1 << 10, Window::Usual);
        let end =
            ReadingEnd::new(&Arc::new(Alone(segment)), Reading::new(Way::Call, 0), window, (1 << 10, false));
        Writing::new(Way::Call, 0).close(&writer, Closed::Whole);
        end.fail(&lost(UnknownCause::ConnectionLost));
        assert_eq!(end.take(&mut Vec::new()).unwrap(), Arrival::End);
        pipe::reset(&writer, 0);
        assert!(matches!(end.take(&mut Vec::new()), Err(PipeError::Lost(_))));
        end.wait_for_bytes(u64::MAX);
    }

    /// Whether a reader that finds one short item every `step_ns` lets items gather in the end.
    fn gathers(step_ns: u64, is_answered: bool) -> bool {
        let mut stream = Stream::new(is_answered);
        (1..=u64::from(TIMES) + 1).any(|item| stream.gathers(item * step_ns, item * 72))
    }

    #[test]
    fn short_items_gather_if_they_follow_each_other_and_are_not_answers() {
        assert!(gathers(SOON_BETWEEN_ANSWERS_NS - 1, true) && !gathers(SOON_BETWEEN_ANSWERS_NS, true));
        assert!(gathers(SOON_NS - 1, false) && !gathers(SOON_NS, false));
    }
}
