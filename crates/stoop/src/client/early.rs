//! Early calls: those that the asynchronous form of a client begins before it is bound.
//!
//! An early call waits in a table of its own. A thread (`stoop-bind`) binds the client, and then begins the waiting calls in the
//! table of the binding, in their order. From then on an early call is that call: its handle reaches it through this table. The
//! background thread ends early calls whose deadlines pass before. If binding fails, the calls that were begun before the attempt
//! end, and those begun meanwhile have an attempt of their own.

use crate::calling::background::{Background, Driven, Rest, hand_over, start, start_binding};
use crate::calling::begun::{BeginsCalls, CallBatch, Outcome, OutstandingCalls};
use crate::calling::call_table::{CallTable, Wakeup};
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::fate::not_bound;
use crate::calling::table_lock::{HasCalls, Registered, register, take};
use crate::calling::unpark::unparks_this_thread;
use crate::context::TimeBounds;
use crate::error::{BindError, CallError, SendError};
use crate::locked::locked;
use crate::transports::AnyCalls;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::EncodeError;
use stoop_net::clock;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// A client that may not be bound yet.
pub(crate) trait Binds: Send + Sync {
    fn uri(&self) -> &str;

    /// Why there is no binding after that time.
    fn not_bound_within(&self, waited: Duration) -> BindError;

    /// Bytes of the longest arguments that its options allow.
    fn max_message(&self) -> usize;

    /// The table for calls that are begun now. Binds until `deadline`, if the client is not bound.
    ///
    /// # Errors
    /// Why no call can be begun.
    fn calls_by(&self, deadline: Instant) -> Result<AnyCalls, SendError>;
}

/// The table of a client's early calls, as their handles see it.
pub(crate) struct EarlyCalls(Arc<Early>);

struct Early {
    client: Arc<dyn Binds>,
    state: Mutex<State>,
    background: Background,
}

#[derive(Default)]
struct State {
    calls: CallTable<EarlyCall>,
    /// The calls that wait, in the order in which they were begun. Some may have ended since.
    waiting: VecDeque<CallId>,
    last_id: u64,
}

/// A call that has not ended as an early one.
struct EarlyCall {
    id: u64,
    begun: Instant,
    stage: Stage,
}

enum Stage {
    Waiting(Arguments),
    /// The binding thread begins it in the table of the binding.
    Leaving,
    /// It has that number there.
    Begun(AnyCalls, u32),
}

struct Arguments {
    procedure: u16,
    /// They lie behind room for a header.
    packet: Vec<u8>,
    len: usize,
}

#[derive(Clone, Copy)]
struct CallId {
    number: u32,
    /// Tells it from other calls of that number.
    id: u64,
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

impl EarlyCalls {
    /// # Errors
    /// The system gives no thread for the background.
    pub(crate) fn new(client: Arc<dyn Binds>) -> io::Result<Self> {
        let early = Early { client, state: Mutex::default(), background: Background::default() };
        let early = Arc::new(early);
        start(&early)?;
        Ok(Self(early))
    }
}

impl Drop for EarlyCalls {
    /// Detached calls go on.
    fn drop(&mut self) {
        hand_over(&self.0);
    }
}

impl BeginsCalls for EarlyCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let limit = self.0.client.max_message().min(u32::MAX as usize);
        CallBatch::unclocked(vec![0; MAX_DATAGRAM], HEADER_LEN, limit, timeout_ns)
    }

    fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let bounds = TimeBounds::current(batch.timeout_ns);
        if !bounds.has_time() {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let packet = std::mem::replace(&mut batch.packet, vec![0; MAX_DATAGRAM]);
        let number = self.0.state().add(Arguments { procedure, packet, len }, bounds);
        self.0.wake_background();
        Ok(number)
    }

    fn submit(&self, _: CallBatch) {}
}

impl OutstandingCalls for EarlyCalls {
    fn server(&self) -> String {
        self.0.client.uri().into()
    }

    fn is_ready(&self, call: u32) -> bool {
        match self.0.begun(call) {
            Some((calls, begun)) => calls.is_ready(begun),
            None => self.0.state().calls.has_ended(call),
        }
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        if self.0.begun(call).is_none() && register(&self.0.state, call, waker) == Registered::Ended {
            return true;
        }
        // If it begins from now on, that wakes the waker.
        self.0.begun(call).is_some_and(|(calls, begun)| calls.poll(begun, waker))
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        let waker = unparks_this_thread();
        loop {
            if let Some((table, begun)) = self.0.begun_alike(calls) {
                return table.wait_any(&begun, until);
            }
            if let Some(place) = calls.iter().position(|&call| self.poll(call, &waker)) {
                return Some(place);
            }
            // One may have been begun since.
            if self.0.begun_alike(calls).is_none() {
                match until.since(now()) {
                    Duration::ZERO => return None,
                    left => thread::park_timeout(left),
                }
            }
        }
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let Some((calls, begun)) = self.0.begun(call) else {
            return take(self, &self.0.state, call, with);
        };
        let mut taken = Taken { early: &self.0, call: None };
        calls.take(begun, &mut |outcome| {
            taken.call = Some(call);
            with(outcome);
        })
    }

    fn distrust(&self, call: u32) {
        if let Some((calls, begun)) = self.0.begun(call) {
            calls.distrust(begun);
        }
    }

    fn cancel(&self, call: u32) {
        let (known, waker) = self.0.state().calls.abandon(call);
        drop(waker);
        if let Some(EarlyCall { stage: Stage::Begun(calls, begun), .. }) = known {
            calls.cancel(begun);
        }
    }

    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let mut state = self.0.state();
        let is_begun = state.begun(call).is_some();
        let (known, waker) = match is_begun {
            true => state.calls.abandon(call),
            false => (None, state.calls.detach(call, ordered)),
        };
        drop(state);
        drop(waker);
        if let Some(EarlyCall { stage: Stage::Begun(calls, begun), .. }) = known {
            calls.detach(begun, ordered);
        }
    }

    fn has_left(&self, call: u32) -> bool {
        match self.0.begun(call) {
            Some((calls, begun)) => calls.has_left(begun),
            None => self.0.state().calls.has_ended(call),
        }
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        self.0.state().calls.reclaim(which)
    }

    fn detached(&self) -> usize {
        self.0.state().calls.detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.0.state().calls.failures);
    }
}

/// Frees the number of a call whose outcome has been taken, even if its decoder has panicked.
struct Taken<'a> {
    early: &'a Early,
    call: Option<u32>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            let abandoned = self.early.state().calls.abandon(call);
            drop(abandoned);
        }
    }
}

impl HasCalls for State {
    type Call = EarlyCall;

    fn calls(&mut self) -> &mut CallTable<EarlyCall> {
        &mut self.calls
    }
}

impl State {
    fn add(&mut self, arguments: Arguments, bounds: TimeBounds) -> u32 {
        let begun = now();
        self.last_id += 1;
        let (id, stage) = (self.last_id, Stage::Waiting(arguments));
        let number = self.calls.open(bounds.deadline_ns(begun.as_nanos()), EarlyCall { id, begun, stage });
        self.waiting.push_back(CallId { number, id });
        number
    }

    fn known(&mut self, CallId { number, id }: CallId) -> Option<&mut EarlyCall> {
        self.calls.get_mut(number).filter(|call| call.id == id)
    }

    /// The first call that waits.
    fn first_waiting(&mut self) -> Option<CallId> {
        while let Some(&id) = self.waiting.front() {
            if self.known(id).is_some_and(|call| matches!(call.stage, Stage::Waiting(_))) {
                return Some(id);
            }
            self.waiting.pop_front();
        }
        None
    }

    fn begun(&mut self, call: u32) -> Option<(AnyCalls, u32)> {
        match &self.calls.get_mut(call)?.stage {
            Stage::Begun(calls, begun) => Some((calls.clone(), *begun)),
            Stage::Waiting(_) | Stage::Leaving => None,
        }
    }

    /// The last deadline of the calls that wait; `None`: there are none.
    fn last_deadline(&mut self) -> Option<Instant> {
        self.first_waiting()?;
        let waiting = self.calls.open_where(|call| matches!(call.stage, Stage::Waiting(_)));
        waiting.into_iter().map(|call| Instant::from_nanos(self.calls.deadline_ns(call))).max()
    }
}

impl Driven for Early {
    type Memory = ();

    fn background(&self) -> &Background {
        &self.background
    }

    fn run_due(self: &Arc<Self>, (): &mut ()) -> Rest {
        self.expire();
        let mut state = self.state();
        if state.first_waiting().is_none() {
            return Rest::Idle;
        }
        let earliest = Instant::from_nanos(state.calls.earliest_ns());
        drop(state);
        if !self.background.is_binding() {
            start_binding(self);
        }
        Rest::For(earliest.since(now()))
    }

    fn has_nothing_to_do(&self) -> bool {
        self.state().first_waiting().is_none()
    }

    fn bind_again(self: &Arc<Self>) {
        let Some(deadline) = self.state().last_deadline() else { return };
        let attempted = now();
        match self.client.calls_by(deadline) {
            Ok(calls) => self.begin_waiting(&calls),
            Err(why) => self.fail_begun_by(attempted, &why),
        }
    }
}

impl Early {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn begun(&self, call: u32) -> Option<(AnyCalls, u32)> {
        self.state().begun(call)
    }

    /// The numbers of these calls in one table of the binding, if all have been begun there.
    fn begun_alike(&self, calls: &[u32]) -> Option<(AnyCalls, Vec<u32>)> {
        let mut state = self.state();
        let (table, _) = state.begun(*calls.first()?)?;
        let in_table =
            |&call: &u32| state.begun(call).filter(|(other, _)| table.is_same(other)).map(|(_, begun)| begun);
        let begun = calls.iter().map(in_table).collect::<Option<Vec<u32>>>()?;
        Some((table, begun))
    }

    /// Ends the waiting calls whose deadlines have passed.
    fn expire(&self) {
        let now = now();
        let mut state = self.state();
        let expired = state.calls.expired(now.as_nanos());
        let mut wakeups = Vec::new();
        for number in expired {
            // Others have deadlines elsewhere.
            if let Some(EarlyCall { begun, stage: Stage::Waiting(_), .. }) = state.calls.get_mut(number) {
                let error = not_bound(self.client.not_bound_within(now.since(*begun)));
                wakeups.push(state.calls.end(number, Err(error)));
            }
        }
        drop(state);
        wakeups.into_iter().for_each(Wakeup::give);
    }

    /// Begins all calls that wait in the table of the binding, in their order.
    fn begin_waiting(&self, calls: &AnyCalls) {
        loop {
            let mut state = self.state();
            let Some(id) = state.first_waiting() else { return };
            let deadline_ns = state.calls.deadline_ns(id.number);
            let call = state.known(id).expect("it waits");
            let Stage::Waiting(arguments) = std::mem::replace(&mut call.stage, Stage::Leaving) else {
                unreachable!("it waits");
            };
            // It ends there at its deadline.
            state.calls.set_deadline(id.number, |_| Some(u64::MAX));
            drop(state);
            let begun = arguments.begin_in(calls, deadline_ns);
            self.has_begun(id, calls, begun);
        }
    }

    /// A call has been begun in the table of the binding, or could not be.
    fn has_begun(&self, id: CallId, calls: &AnyCalls, begun: Result<u32, CallError>) {
        let mut state = self.state();
        if state.known(id).is_none() {
            drop(state);
            // It was cancelled meanwhile.
            return begun.into_iter().for_each(|begun| calls.cancel(begun));
        }
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let wakeup = state.calls.end(id.number, Err(error));
                drop(state);
                return wakeup.give();
            }
        };
        if let Some(ordered) = state.calls.detached_as(id.number) {
            // Under the lock: a thread that waits for all detached calls finds it in one of the two tables. It has no waker in either.
            calls.detach(begun, ordered);
            state.calls.abandon(id.number);
            return;
        }
        if let Some(call) = state.known(id) {
            call.stage = Stage::Begun(calls.clone(), begun);
        }
        let wakeup = state.calls.take_wakeup(id.number);
        drop(state);
        wakeup.give();
    }

    /// Ends the waiting calls that were begun by that time.
    fn fail_begun_by(&self, attempted: Instant, why: &SendError) {
        let mut state = self.state();
        let is_older = |call: &EarlyCall| matches!(call.stage, Stage::Waiting(_)) && call.begun <= attempted;
        let older = state.calls.open_where(is_older);
        let end = |call| state.calls.end(call, Err(CallError::not_sent(why.clone())));
        let wakeups: Vec<Wakeup> = older.into_iter().map(end).collect();
        drop(state);
        wakeups.into_iter().for_each(Wakeup::give);
    }
}

impl Arguments {
    /// Begins the call in a table of the binding.
    fn begin_in(self, calls: &AnyCalls, deadline_ns: u64) -> Result<u32, CallError> {
        let Self { procedure, packet, len } = self;
        let left_ns = deadline_ns.saturating_sub(clock::now_ns());
        if left_ns == 0 {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let mut batch = calls.open_batch(left_ns);
        let limit = batch.limit;
        let begun = match len > limit {
            // They were written before the limit of the server was known.
            true => Err(too_large(len, limit)),
            false => {
                (batch.packet, batch.start) = (packet, HEADER_LEN);
                calls.begin(&mut batch, procedure, len)
            }
        };
        calls.submit(batch);
        begun
    }
}

fn too_large(len: usize, limit: usize) -> CallError {
    CallError::not_sent(SendError::Arguments(EncodeError::TooLarge { needed_at_least: len, limit }))
}
