//! Begun calls over a byte stream.
//!
//! A call that is begun is copied and queued. [Submission](submission) gives each call in the queue a lane of the connection, and
//! sends many by one write. The thread that has the receive role, be it for a blocking call or for a begun one, ends each call
//! whose answer arrives; the lane is then free for the next call in the queue. The [background thread](background) does what no
//! thread of the user waits for, and it alone sends long calls: a thread that begins or waits for a call is never kept by another's.

pub(crate) mod background;
mod handles;
pub(crate) mod piped;
pub(crate) mod refused;
pub(crate) mod submission;
#[cfg(test)]
mod tests;
pub(crate) mod waiting;

use crate::calling::background::{Background, Driven, hand_over, start};
use crate::calling::begun::BegunCalls;
use crate::calling::call_table::{CallTable, Payload, Wakeup};
use crate::calling::completion_table::CompletionTable;
use crate::calling::counters::CallCounters;
use crate::calling::fate::Fate;
use crate::context::TimeBounds;
use crate::error::{CallError, SendError, UnknownCause};
use crate::pipes::helper;
use crate::pipes::queue::PipeQueue;
use crate::transport::stream::begun::piped::CallerPipes;
use crate::transport::stream::caller::StreamBinding;
use crate::transport::stream::caller::lane_table::{Answered, CallId};
use crate::transport::stream::caller::session::{Session, TakesAnswers};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;
use stoop_calls::life::Told;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_net::waiting::Waiter;
use stoop_wire::{HEADER_LEN, LaneId, STREAM_FRAGMENT};

/// The begun calls of a binding, as handles see them.
pub(crate) struct StreamCalls(Arc<Outstanding>);

/// The begun calls of a binding.
pub(crate) struct Outstanding {
    binding: Arc<StreamBinding>,
    state: Mutex<State>,
    /// Calls that leave together. Held by a thread from the choice of their lanes until they have left, so that a cancel follows its
    /// call.
    sending: Mutex<Vec<u8>>,
    /// Wakers to be woken when no lock is held.
    to_wake: Mutex<Vec<Waker>>,
    /// Ways of waiting that no thread uses.
    waiters: Mutex<Vec<Waiter>>,
    background: Background,
    /// A long call leaves. The background thread, which sends it, may end it afterwards though its answer has arrived before.
    long_leaves: AtomicBool,
    /// A call has failed, perhaps because the server is elsewhere now.
    doubts: AtomicBool,
    /// No client and no handle is left, but perhaps ends of pipes.
    is_left: AtomicBool,
    completions: Arc<CompletionTable>,
    /// The sessions on which calls have left that may not have ended: the present one, and those of servers that shut down.
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Queues of pipes for which tasks wait, or have waited.
    polled: Mutex<Vec<Weak<PipeQueue>>>,
}

#[derive(Default)]
struct State {
    calls: CallTable<BegunCall>,
    /// Short calls that have not left, in the order in which they were begun. Some may have ended since.
    queue: VecDeque<CallId>,
    /// The same of calls that are longer than a fragment.
    long: VecDeque<CallId>,
    /// Calls that the server has refused because it is overloaded, and when they are queued again.
    postponed: Vec<(u64, CallId)>,
    /// The calls that were queued since the last submission, and their bytes.
    held_back: (Vec<CallId>, usize),
    /// Packets for calls to come.
    packets: Vec<Vec<u8>>,
    last_id: u64,
    /// Answers. A call that was refused and comes again has several.
    answered: u64,
    /// Calls that have left, each counted as often as it did.
    left: u64,
    /// Of these, results of calls that took the fast path.
    fast: u64,
}

/// A call that has not ended.
struct BegunCall {
    id: u64,
    procedure: u16,
    /// When it left; never while it is held back.
    begun: Instant,
    bounds: TimeBounds,
    /// Its attempts so far.
    fate: Fate,
    /// While it waits to be sent again after a refusal: its error if that fails.
    refused: Option<Box<CallError>>,
    /// The arguments behind room for the header.
    packet: Vec<u8>,
    progress: Progress,
    pipes: Option<Arc<CallerPipes>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Queued,
    /// It is queued again later.
    Postponed,
    /// The background thread sends it, fragment by fragment.
    Leaving,
    /// The same, and it was refused before all of it had left. When it has left, it is decided whether it comes again.
    LeavingRefused,
    /// It has left on that lane of the session of that generation.
    Sent {
        generation: u64,
        lane: LaneId,
    },
}

/// Packets kept for calls to come, and bytes of the longest.
const PACKETS: usize = 256;
const PACKET_MAX: usize = 4096;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamCalls {
    /// # Errors
    /// The system gives no thread for the background.
    pub(crate) fn new(binding: &Arc<StreamBinding>) -> io::Result<Self> {
        let calls = Outstanding::new(binding);
        start(&calls)?;
        Ok(Self(calls))
    }
}

impl Drop for StreamCalls {
    /// Detached calls go on: the background thread drives them.
    fn drop(&mut self) {
        // Calls to come would go there.
        self.0.doubts.store(false, Ordering::SeqCst);
        self.0.is_left.store(true, Ordering::SeqCst);
        self.0.submit();
        hand_over(&self.0);
    }
}

impl BegunCalls for Arc<StreamCalls> {
    type Table = StreamCalls;

    #[inline]
    fn present(&self) -> Result<Self, SendError> {
        Ok(self.latest())
    }

    #[inline]
    fn latest(&self) -> Self {
        Arc::clone(self)
    }

    fn counters(&self) -> CallCounters {
        let state = self.0.state();
        CallCounters { calls: state.answered, fast: state.fast, ..CallCounters::default() }
    }
}

impl TakesAnswers for Outstanding {
    fn note_rest(&self) {
        if self.background.is_idle() {
            self.wake_background();
        }
    }

    fn end_answered(&self, answered: &mut Vec<Answered>) {
        let mut wakeups = Vec::new();
        let mut state = self.state();
        // One reading for all: they have come together.
        let recording = self.binding.recorder.as_ref().map(|recorder| (recorder, clock::now_ns()));
        for Answered { call, outcome, server_ns } in answered.drain(..) {
            state.answered += 1;
            wakeups.extend(match outcome {
                Ok(result) => {
                    if let (Some((recorder, now_ns)), Some(known)) = (recording, state.known(call)) {
                        let whole_ns = now_ns.saturating_sub(known.begun.as_nanos());
                        recorder.record_begun(known.procedure, whole_ns, server_ns, 0);
                    }
                    state.end_with(call, result)
                }
                Err(error) => self.end_or_come_again(&mut state, call, error),
            });
        }
        drop(state);
        self.give(wakeups);
        self.wake_if_left();
    }
}

impl Outstanding {
    fn new(binding: &Arc<StreamBinding>) -> Arc<Self> {
        let completions = Arc::<CompletionTable>::default();
        let calls = CallTable::with_completions(Arc::clone(&completions));
        Arc::new(Self {
            binding: Arc::clone(binding),
            state: Mutex::new(State { calls, ..State::default() }),
            sending: Mutex::default(),
            to_wake: Mutex::default(),
            waiters: Mutex::default(),
            background: Background::default(),
            long_leaves: AtomicBool::new(false),
            doubts: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            completions,
            sessions: Mutex::default(),
            polled: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    #[inline]
    fn has_ended(&self, call: u32) -> bool {
        match CompletionTable::covers(call) {
            true => self.completions.has_ended(call),
            false => self.state().calls.has_ended(call),
        }
    }

    fn is_idempotent(&self, procedure: u16) -> bool {
        self.binding.is_idempotent(procedure)
    }

    /// Ends a call with this error of its latest attempt, unless it has ended before.
    #[cold]
    fn fail(&self, state: &mut State, call: CallId, error: CallError) -> Option<Wakeup> {
        let known = state.known(call)?;
        self.note_doubt(&error);
        let error = known.explain(error);
        self.fail_with(state, call, error)
    }

    /// Ends a call with this error, unless it has ended before, and notes the failure.
    #[cold]
    fn fail_with(&self, state: &mut State, call: CallId, error: CallError) -> Option<Wakeup> {
        let known = state.known(call)?;
        self.binding.recorder.iter().for_each(|recorder| recorder.record_failure(known.procedure, 1));
        self.note_doubt(&error);
        if let Some(pipes) = known.pipes.take() {
            // Locks are held.
            pipes.end(self.name(&error)).into_iter().for_each(helper::wake);
        }
        let packet = std::mem::take(&mut known.packet);
        recycle(&mut state.packets, packet);
        state.calls.end(call.place, Err(error)).if_awaited()
    }

    /// The error of a call, with its server.
    fn name(&self, error: &CallError) -> CallError {
        error.clone().at(&self.binding.uri)
    }

    /// A call has failed like this. If its server is perhaps elsewhere, the background thread has the client look there.
    fn note_doubt(&self, error: &CallError) {
        if self.binding.note_failure(error) {
            self.doubts.store(true, Ordering::SeqCst);
            self.wake_background();
        }
    }

    /// Wakes threads at once, and wakers when no lock is held.
    fn give(&self, wakeups: impl IntoIterator<Item = Wakeup>) {
        for waker in wakeups.into_iter().filter_map(Wakeup::unpark) {
            locked(&self.to_wake).push(waker);
            self.wake_background();
        }
    }

    /// Wakes the tasks that wait for calls which have ended. The calling thread holds no lock, nor the receive role.
    fn wake_all(&self) {
        let to_wake = std::mem::take(&mut *locked(&self.to_wake));
        to_wake.into_iter().for_each(Waker::wake);
    }

    /// Ends the calls whose deadlines have passed, except those whose answers have arrived. The calling thread does not hold the
    /// receive role. Returns whether calls were outstanding.
    fn receive_and_expire(self: &Arc<Self>, now_ns: u64) -> bool {
        let state = self.state();
        let (has_calls, earliest_ns) = (state.calls.open_count() > 0, state.calls.earliest_ns());
        drop(state);
        if earliest_ns <= now_ns {
            self.receive_all();
            self.expire(now_ns);
        }
        has_calls
    }

    /// Ends the calls whose deadlines have passed.
    fn expire(&self, now_ns: u64) {
        let session = self.binding.present();
        let mut wakeups = Vec::new();
        let mut state = self.state();
        for place in state.calls.expired(now_ns) {
            let call = state.calls.get_mut(place).expect("a call that expires is open");
            // A step of it has ended in time.
            if let Some(until_ns) =
                call.pipes.as_ref().and_then(|pipes| pipes.due_ns(now_ns)).filter(|due| *due > now_ns)
            {
                state.calls.set_deadline(place, |_| Some(until_ns));
                continue;
            }
            let error = match call.progress {
                // The background thread ends it.
                Progress::Leaving | Progress::LeavingRefused => continue,
                Progress::Queued | Progress::Postponed if call.refused.is_some() => call.refusal(),
                Progress::Queued if session.is_lost() => {
                    call.explain(self.binding.not_bound_within(call.waited()))
                }
                Progress::Queued | Progress::Postponed => {
                    call.explain(CallError::not_sent(SendError::DeadlinePassed))
                }
                Progress::Sent { generation, lane } => {
                    if let Some(session) = self.session_of(generation) {
                        session.lanes().abandon(lane, CallId { place, id: call.id });
                    }
                    call.fate.error(Told::Late, None, || call.waited())
                }
            };
            let id = call.id;
            wakeups.extend(self.fail_with(&mut state, CallId { place, id }, error));
        }
        drop(state);
        self.give(wakeups);
    }
}

impl State {
    /// The state of a call; `None` if it has ended.
    fn known(&mut self, call: CallId) -> Option<&mut BegunCall> {
        self.calls.get_mut(call.place).filter(|known| known.id == call.id)
    }

    /// Ends a call with this result, unless it has ended before. Tells what waits for it.
    fn end_with(&mut self, call: CallId, result: Payload) -> Option<Wakeup> {
        let known = self.known(call)?;
        let is_fast = known.took_fast_path(result.bytes().len());
        if let Some(pipes) = known.pipes.take() {
            pipes.answered().into_iter().for_each(helper::wake);
        }
        let packet = std::mem::take(&mut known.packet);
        recycle(&mut self.packets, packet);
        self.fast += u64::from(is_fast);
        self.calls.end(call.place, Ok(result)).if_awaited()
    }
}

/// Keeps a packet for another call.
#[inline]
fn recycle(packets: &mut Vec<Vec<u8>>, packet: Vec<u8>) {
    if packets.len() < PACKETS && (1..=PACKET_MAX).contains(&packet.capacity()) {
        packets.push(packet);
    }
}

impl BegunCall {
    /// Whether it was sent once, in one piece, and so came its result of so many bytes.
    #[inline]
    fn took_fast_path(&self, result_len: usize) -> bool {
        let is_sent_once = self.fate == Fate::default();
        // No packet is left of a long call.
        let has_packet = (HEADER_LEN..=HEADER_LEN + STREAM_FRAGMENT).contains(&self.packet.len());
        is_sent_once && has_packet && result_len <= STREAM_FRAGMENT
    }

    /// When the whole call has to have ended, if its present step has to by then.
    #[inline]
    fn whole_ns(&self, deadline_ns: u64) -> u64 {
        self.pipes.as_ref().map_or(deadline_ns, |pipes| pipes.whole_ns())
    }

    fn is_queued(&self) -> bool {
        self.progress == Progress::Queued
    }

    /// Time since it left.
    fn waited(&self) -> Duration {
        Instant::from_nanos(clock::now_ns()).since(self.begun)
    }

    /// The error for its caller when it was lost with its connection.
    #[cold]
    fn lost(&self, may_have_run: bool) -> CallError {
        let (waited, cause) = (self.waited(), UnknownCause::ConnectionLost);
        match may_have_run {
            true => CallError::Unknown { transmissions: 1, waited, cause, callee: None },
            false => CallError::not_sent(SendError::Io(io::ErrorKind::ConnectionReset.into())),
        }
    }

    /// The error for its caller when it was refused and cannot be sent again.
    fn refusal(&mut self) -> CallError {
        let refused = self.refused.take().expect("it was refused");
        self.explain(*refused)
    }

    /// The error for its caller when its last attempt ends with this error.
    fn explain(&self, error: CallError) -> CallError {
        self.fate.error(Told::Latest, Some(error), || self.waited())
    }
}
