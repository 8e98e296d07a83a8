//! Calls in flight over a byte stream.
//!
//! A call that is begun is copied and queued. Those that are queued are *launched* together: each gets a lane of the
//! connection for itself, and they leave by one write. An answer is received by whoever has the receive role, a thread
//! that waits for a blocking call as well as one that waits here, and ends its call at once; the lane is then free for
//! the next in the queue. What nobody sees to, the [background](background) does.

pub(crate) mod background;
pub(crate) mod submission;
pub(crate) mod waiting;

use crate::calling::begun::{BegunCalls, CallBatch, OutstandingCalls};
use crate::calling::call_table::{CallTable, Outcome, Payload, Wakeup};
use crate::calling::counters::CallCounters;
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::calling::recovery::{EarlierAttempts, no_answer};
use crate::error::{CallError, SendError};
use crate::transport::stream::begun::background::Background;
use crate::transport::stream::caller::StreamBinding;
use crate::transport::stream::caller::mailbox::{Answer, Mailbox, failure_of};
use crate::transport::stream::caller::session::Session;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::stream::Message;
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_net::waiting::Waiter;
use stoop_wire::{HEADER_LEN, Header, Kind, MAX_DATAGRAM};

/// Carries the begun calls of a binding over a byte stream.
pub(crate) struct StreamCalls(Arc<Outstanding>);

/// The calls in flight of a binding.
pub(crate) struct Outstanding {
    binding: Arc<StreamBinding>,
    state: Mutex<State>,
    /// Held by whoever sends, from the choice of lanes until the calls have left: a cancel follows its call.
    sending: Mutex<Vec<u8>>,
    /// To be woken when no lock is held.
    to_wake: Mutex<Vec<Waker>>,
    /// Ways of waiting that no thread uses.
    waiters: Mutex<Vec<Waiter>>,
    background: Background,
    last_id: AtomicU64,
    answered: AtomicU64,
}

struct State {
    slots: CallTable<OutstandingCall>,
    /// Calls that have not left, in the order in which they were begun; some may have been given up.
    queue: VecDeque<(u32, u64)>,
    /// How many were added to it since it was last launched, and their bytes.
    added: (usize, usize),
    /// Packets for calls to come.
    spares: Vec<Vec<u8>>,
    /// The calls is gone: what is in flight is detached.
    closing: bool,
}

/// A call that has not ended.
struct OutstandingCall {
    /// Told apart from all others of the binding, whose numbers are used again.
    id: u64,
    procedure: u16,
    begun: Instant,
    /// What became of it on connections before the present one.
    earlier: EarlierAttempts,
    /// The arguments behind room for the header, as long as they may have to be sent.
    packet: Vec<u8>,
    progress: Progress,
}

enum Progress {
    /// In the queue.
    Queued,
    /// A thread is sending it, fragment by fragment.
    Leaving,
    Sent(Arc<Session>, Arc<Mailbox>),
}

/// So many calls, or bytes of calls, are not held back any longer.
const HELD_BACK_MAX: (usize, usize) = (64, 64 * 1024);
/// Packets kept for calls to come, and bytes of the longest.
const SPARES: usize = 256;
const SPARE_MAX: usize = 4096;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamCalls {
    /// # Errors
    /// The system gives no thread for the background.
    pub(crate) fn new(binding: &Arc<StreamBinding>) -> io::Result<Self> {
        let state = State {
            slots: CallTable::default(),
            queue: VecDeque::new(),
            added: (0, 0),
            spares: Vec::new(),
            closing: false,
        };
        let flights = Arc::new(Outstanding {
            binding: Arc::clone(binding),
            state: Mutex::new(state),
            sending: Mutex::default(),
            to_wake: Mutex::default(),
            waiters: Mutex::default(),
            background: Background::default(),
            last_id: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        });
        flights.start_background()?;
        Ok(Self(flights))
    }
}

impl Drop for StreamCalls {
    /// What has been detached goes on; the background sees to it.
    fn drop(&mut self) {
        self.0.state().closing = true;
        self.0.launch(true);
        self.0.background.call();
    }
}

impl OutstandingCalls for StreamCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let limit = self.0.binding.options.max_message.min(u32::MAX as usize);
        CallBatch::new(vec![0; MAX_DATAGRAM], HEADER_LEN, limit, timeout_ns)
    }

    fn begin(&self, departure: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let Self(flights) = self;
        if departure.deadline <= departure.begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        let id = flights.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = flights.state();
        if state.added.0 == 0 {
            departure.read_clock();
        }
        let mut packet = state.spares.pop().unwrap_or_default();
        packet.resize(HEADER_LEN, 0);
        packet.extend_from_slice(&departure.packet[departure.start..departure.start + len]);
        let begun = departure.begun;
        let (earlier, progress) = (EarlierAttempts::default(), Progress::Queued);
        let flight = OutstandingCall { id, procedure, begun, earlier, packet, progress };
        let call = state.slots.open(departure.deadline.as_nanos(), flight);
        state.queue.push_back((call, id));
        let (calls, bytes) = &mut state.added;
        (*calls, *bytes) = (*calls + 1, *bytes + HEADER_LEN + len);
        let is_full = *calls >= HELD_BACK_MAX.0 || *bytes >= HELD_BACK_MAX.1;
        drop(state);
        if is_full {
            flights.launch(true);
        }
        flights.background.rouse();
        Ok(call)
    }

    fn submit(&self, _: CallBatch) {
        self.0.launch(true);
    }

    fn is_ready(&self, call: u32) -> bool {
        let Self(flights) = self;
        if flights.state().slots.has_ended(call) {
            return true;
        }
        flights.launch(true);
        flights.look_at_stream();
        flights.expire(clock::now_ns());
        flights.wake_all();
        flights.state().slots.has_ended(call)
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        let Self(flights) = self;
        // Nobody polls to wait until a long call has left: the background sees to that.
        flights.launch(false);
        let state = flights.state();
        if state.slots.has_ended(call) {
            return true;
        }
        if state.slots.is_registered(call, waker) {
            return false;
        }
        drop(state);
        let fresh = waker.clone();
        let mut state = flights.state();
        if state.slots.has_ended(call) {
            drop(state);
            return true;
        }
        let before = state.slots.register(call, fresh);
        drop(state);
        drop(before);
        flights.background.call();
        false
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        self.0.wait_any(calls, until.as_nanos())
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Result<Reader<'_>, CallError>)) -> bool {
        let mut state = self.0.state();
        if !state.slots.has_ended(call) {
            return false;
        }
        let outcome = state.slots.take(call);
        drop(state);
        match outcome {
            Ok(payload) => with(Ok(Reader::new(payload.bytes()))),
            Err(error) => with(Err(error)),
        }
        true
    }

    fn cancel(&self, call: u32) {
        let (given_up, waker) = self.0.state().slots.give_up(call);
        drop(waker);
        if let Some(OutstandingCall { id, progress: Progress::Sent(session, mailbox), .. }) = given_up {
            self.0.send_cancel(&session, &mailbox, (call, id));
        }
    }

    fn detach(&self, call: u32, calling_thread: Option<CallingThread>) {
        let waker = self.0.state().slots.detach(call, calling_thread);
        drop(waker);
    }

    fn has_left(&self, call: u32) -> bool {
        let mut state = self.0.state();
        let flight = state.slots.get_mut(call);
        flight.is_none_or(|flight| matches!(flight.progress, Progress::Sent(..)))
    }

    fn reclaim(&self, which: Selection) -> Option<(u32, Option<CallingThread>)> {
        self.0.state().slots.reclaim(which)
    }

    fn detached(&self) -> usize {
        self.0.state().slots.detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.0.state().slots.failures);
    }
}

impl BegunCalls for Arc<StreamCalls> {
    type Table = StreamCalls;
    type Ref = Self;

    #[inline]
    fn present(&self) -> Result<Self, SendError> {
        Ok(self.latest())
    }

    #[inline]
    fn latest(&self) -> Self {
        Arc::clone(self)
    }

    #[inline]
    fn reference(table: &Self) -> Self {
        Arc::clone(table)
    }

    fn counters(&self) -> CallCounters {
        let calls = self.0.answered.load(Ordering::Relaxed);
        CallCounters { calls, ..CallCounters::default() }
    }
}

impl Outstanding {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// The answer to a call has been received, by a thread that may hold the receive role. Its lane is free.
    pub(crate) fn arrived(&self, (call, id): (u32, u64), answer: Answer, message: Option<Message<'_>>) {
        let outcome = outcome(answer, message);
        self.end((call, id), outcome);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// A call ends, unless it has been given up.
    fn end(&self, (call, id): (u32, u64), outcome: Outcome) {
        let mut state = self.state();
        let known = state.slots.get_mut(call).filter(|flight| flight.id == id);
        let Some(flight) = known else { return };
        let outcome = outcome.map_err(|error| flight.explain(error));
        let packet = std::mem::take(&mut flight.packet);
        let notice = state.slots.end(call, outcome);
        state.keep_spare(packet);
        let more = !state.queue.is_empty();
        drop(state);
        self.tell(notice);
        if more {
            self.background.rouse();
        }
    }

    /// Tells a thread at once, and a waker when no lock is held.
    fn tell(&self, notice: Wakeup) {
        if let Some(waker) = notice.unpark() {
            locked(&self.to_wake).push(waker);
            self.background.call();
        }
    }

    /// Wakes whom it concerns. The calling thread holds no lock, nor the receive role.
    fn wake_all(&self) {
        let to_wake = std::mem::take(&mut *locked(&self.to_wake));
        to_wake.into_iter().for_each(Waker::wake);
    }

    /// Ends the calls whose deadlines have passed, except those whose answers have arrived. The calling thread does not hold the
    /// receive role.
    fn look_and_expire(self: &Arc<Self>, now_ns: u64) {
        if self.state().slots.earliest_ns() <= now_ns {
            self.look_at_stream();
            self.expire(now_ns);
        }
    }

    /// Ends the calls whose deadlines have passed.
    fn expire(&self, now_ns: u64) {
        let mut state = self.state();
        let mut notices = Vec::new();
        for call in state.slots.expired(now_ns) {
            let flight = state.slots.get_mut(call).expect("what expires is open");
            let error = match &flight.progress {
                // Whoever sends it sees it.
                Progress::Leaving => continue,
                Progress::Queued if self.binding.present().is_lost() => {
                    flight.explain(no_answer(&self.binding.uri, flight.waited()))
                }
                Progress::Queued => flight.explain(not_sent_in_time()),
                Progress::Sent(_, mailbox) => {
                    mailbox.abandon((call, flight.id));
                    flight.earlier.late(flight.waited())
                }
            };
            notices.push(state.slots.end(call, Err(error)));
        }
        drop(state);
        notices.into_iter().for_each(|notice| self.tell(notice));
    }
}

impl State {
    fn keep_spare(&mut self, packet: Vec<u8>) {
        if self.spares.len() < SPARES && (1..=SPARE_MAX).contains(&packet.capacity()) {
            self.spares.push(packet);
        }
    }
}

impl OutstandingCall {
    /// Time since it was begun.
    fn waited(&self) -> Duration {
        Instant::from_nanos(clock::now_ns()).since(self.begun)
    }

    /// What its caller is told when its last attempt ends with this error.
    fn explain(&self, error: CallError) -> CallError {
        self.earlier.or_not_run(error, self.waited())
    }
}

fn not_sent_in_time() -> CallError {
    let why = "no lane of the connection was free, or there was none, until the call's deadline";
    CallError::NotSent(SendError::Io(io::Error::new(io::ErrorKind::TimedOut, why)))
}

/// What an answer means to the caller.
fn outcome(answer: Answer, message: Option<Message<'_>>) -> Outcome {
    match (answer, message) {
        (Answer::Message(Header { kind: Kind::Result, .. }), Some(message)) => Ok(payload(message)),
        (answer, message) => Err(failure_of(answer, message.as_ref().map_or(&[], Message::payload))),
    }
}

/// The bytes of a result: a long one stays in its packet, a short one takes no more room than it needs.
fn payload(message: Message<'_>) -> Payload {
    let len = message.payload().len();
    if len <= SPARE_MAX {
        return Payload::new(message.payload().to_vec(), 0, len);
    }
    let mut packet = Vec::new();
    message.take(&mut packet);
    Payload::new(packet, HEADER_LEN, len)
}
