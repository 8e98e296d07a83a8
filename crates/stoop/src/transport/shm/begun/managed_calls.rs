//! The begun calls of a binding that the background thread manages, of all its sessions.

use crate::calling::background::{Background, Driven};
use crate::calling::begun::{CallBatch, Outcome, OutstandingCalls};
use crate::calling::call_table::{CallTable, Wakeup};
use crate::calling::detached::OrderedCall;
use crate::calling::table_lock::{self, HasCalls, Registered};
use crate::error::{BindError, CallError, SendError};
use crate::locked::locked;
use crate::message_buffer::keep_arguments;
use crate::transport::shm::begun::calls::SessionCalls;
use crate::transport::shm::begun::managed::{ManagedCall, Step};
use crate::transport::shm::begun::piped::PipedCall;
use crate::transport::shm::caller::ShmBinding;
use crate::transport::shm::caller::session::Session;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::thread;
use std::time::Duration;
use stoop_net::clock;
use stoop_shm::listening::Event;

/// The managed calls of a binding, and its tables.
pub(crate) struct ManagedCalls {
    pub(super) binding: Arc<ShmBinding>,
    state: Mutex<State>,
    pub(super) background: Background,
    /// The session on whose memory the background thread sleeps, or is about to.
    pub(super) listened: Mutex<Option<Arc<Session>>>,
    last_id: AtomicU64,
    /// Calls of tables that are gone.
    begun: AtomicU64,
    /// Calls that never had slots.
    queued: AtomicU64,
    /// Of all calls, those that did not end in a slot.
    slow: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: CallTable<ManagedCall>,
    /// Short calls that are not published, in the order in which they were begun; some may have been cancelled.
    pub(super) queue: VecDeque<CallKey>,
    /// The same of long calls, which need channels.
    pub(super) long: VecDeque<CallKey>,
    /// Calls that the server has refused because it is overloaded, and when they are queued again.
    pub(super) postponed: Vec<(u64, CallKey)>,
    /// Calls that are published; some may have been cancelled.
    pub(super) sent: Vec<CallKey>,
    /// Calls with pipes that have not ended, or whose ends are in use.
    pub(super) piped: Vec<PipedCall>,
    /// Calls that were published here, each counted as often as it was.
    pub(super) published: u64,
    tables: Vec<Weak<SessionCalls>>,
    /// The client is gone: the outstanding calls are detached.
    pub(super) closing: bool,
}

/// A call: its number, and the id that tells it apart from other calls with that number.
pub(super) type CallKey = (u32, u64);

/// Managed calls that are published at a time, besides the calls in slots.
const SENT_MAX: usize = 128;
/// With so many published calls, a thread that detaches another one first goes on with them.
const UNATTENDED_MAX: usize = 32;

impl ManagedCalls {
    pub(super) fn new(binding: &Arc<ShmBinding>) -> Self {
        Self {
            binding: Arc::clone(binding),
            state: Mutex::default(),
            background: Background::default(),
            listened: Mutex::default(),
            last_id: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            slow: AtomicU64::new(0),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// A table for the calls of a session.
    pub(super) fn table_of(self: &Arc<Self>, session: Arc<Session>) -> Arc<SessionCalls> {
        let table = Arc::new(SessionCalls::new(self, session));
        let mut state = self.state();
        state.tables.retain(|table| table.strong_count() > 0);
        state.tables.push(Arc::downgrade(&table));
        table
    }

    /// The session of `table` is lost, or its server shuts down: puts the table of the present session in its place, if there is one.
    #[cold]
    pub(super) fn replace(self: &Arc<Self>, table: &mut Arc<SessionCalls>) {
        let session = self.binding.present();
        if !session.is_lost() && session.generation != table.session.generation {
            *table = self.table_of(session);
            // It may sleep until the session before moves on.
            self.wake_background();
        }
    }

    /// The tables that are in use, or have handles.
    pub(super) fn tables(&self) -> Vec<Arc<SessionCalls>> {
        self.state().tables.iter().filter_map(Weak::upgrade).collect()
    }

    /// Calls that were begun so far, in all tables.
    pub(super) fn begun(&self) -> u64 {
        self.begun_in_slots() + self.queued.load(Ordering::Relaxed)
    }

    fn begun_in_slots(&self) -> u64 {
        self.begun.load(Ordering::Relaxed) + self.tables().iter().map(|table| table.begun()).sum::<u64>()
    }

    /// Calls that have left so far, in all tables, each counted as often as it did.
    pub(super) fn left(&self) -> u64 {
        let held: u64 = self.tables().iter().map(|table| table.held()).sum();
        self.begun_in_slots().saturating_sub(held) + self.state().published
    }

    /// Calls that were answered in their slots, in all tables.
    pub(super) fn fast(&self) -> u64 {
        let open: u64 = self.tables().iter().map(|table| table.open()).sum();
        self.begun().saturating_sub(self.slow.load(Ordering::Relaxed) + open)
    }

    /// A call does not end in a slot.
    pub(super) fn count_slow(&self) {
        self.slow.fetch_add(1, Ordering::Relaxed);
    }

    /// So many calls were begun in a table that is gone.
    pub(super) fn count(&self, calls: u64) {
        self.begun.fetch_add(calls, Ordering::Relaxed);
    }

    /// A call begins that has no slot.
    pub(super) fn count_queued(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A call begins that cannot be published at once.
    #[cold]
    pub(super) fn enqueue(&self, batch: &CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let mut arguments = Vec::new();
        keep_arguments(&mut arguments, &batch.packet[batch.start..batch.start + len])?;
        let (id, begun_ns) = (self.new_id(), batch.begun.as_nanos());
        let deadline_ns = batch.deadline.as_nanos();
        let managed = ManagedCall::queued(id, procedure, begun_ns, arguments);
        let is_long = managed.is_long();
        let mut state = self.state();
        let call = state.calls.open(deadline_ns, managed);
        let queue = if is_long { &mut state.long } else { &mut state.queue };
        queue.push_back((call, id));
        drop(state);
        self.count_queued();
        self.count_slow();
        self.wake_background();
        Ok(call)
    }

    pub(super) fn has_ended(&self, call: u32) -> bool {
        self.state().calls.has_ended(call)
    }

    /// As [`OutstandingCalls::take`](crate::calling::begun::OutstandingCalls::take).
    pub(super) fn take(
        &self,
        all: &impl OutstandingCalls,
        call: u32,
        with: &mut dyn FnMut(Outcome<'_>),
    ) -> bool {
        table_lock::take(all, &self.state, call, with)
    }

    /// As [`OutstandingCalls::poll`](crate::calling::begun::OutstandingCalls::poll).
    pub(super) fn poll(&self, call: u32, waker: &Waker) -> bool {
        let registered = table_lock::register(&self.state, call, waker);
        if registered == Registered::Now {
            self.wake_background();
        }
        registered == Registered::Ended
    }

    /// Sleeps until one of these calls has ended, at most until that time or their earliest deadline.
    pub(super) fn sleep_until_ended(&self, calls: &[u32], until_ns: u64) {
        table_lock::attend(&self.state, calls, |deadline_ns| {
            self.wake_background();
            let left_ns = deadline_ns.min(until_ns).saturating_sub(clock::now_ns());
            thread::park_timeout(Duration::from_nanos(left_ns));
        });
    }

    pub(super) fn cancel(&self, call: u32) {
        let (cancelled, waker) = self.state().calls.abandon(call);
        drop(waker);
        if let Some(mut managed) = cancelled {
            // Before the server is told: it closes its pipe then.
            managed.cancel_pipes();
            managed.abandon();
            if self.state().has_queued() {
                // One of these may have waited for its lane.
                self.wake_background();
            }
        }
    }

    pub(super) fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let mut state = self.state();
        let waker = state.calls.detach(call, ordered);
        let unattended = state.sent.len();
        drop(state);
        drop(waker);
        if unattended >= UNATTENDED_MAX {
            self.advance();
        }
    }

    /// Whether a call has been published, or has ended.
    pub(super) fn has_left(&self, call: u32) -> bool {
        self.state().calls.get_mut(call).is_none_or(|managed| managed.has_left())
    }

    /// Whether [`advance`](Self::advance) would do something for a call.
    pub(super) fn can_advance_call(&self, call: u32) -> bool {
        self.state().calls.get_mut(call).is_none_or(|managed| managed.can_advance())
    }

    /// Whether [`advance`](Self::advance) would do something: if the thread waits for long messages only, for a call whose message
    /// moves on.
    pub(super) fn can_advance(&self, session: &Session, event: Event) -> bool {
        let State { calls, sent, queue, long, piped, .. } = &mut *self.state();
        let mut can_one = sent.iter().map(|&key| match (find(calls, key), event) {
            (Some(managed), Event::Answer) => managed.can_advance(),
            (Some(managed), Event::LongMessage) => managed.holds_channel() && managed.can_advance(),
            (None, _) => event == Event::Answer,
        });
        can_one.any(|can| can)
            || piped.iter().any(|piped| piped.can_advance(calls))
            || sent.len() < SENT_MAX
                && (!queue.is_empty() && session.has_room(false)
                    || !long.is_empty() && session.has_room(true))
    }

    /// Goes on with all calls as far as that is possible without waiting, and ends those whose deadlines have passed.
    pub(super) fn advance(&self) {
        // Most calls that end here are detached and wake nothing: then this allocates nothing.
        let (mut wakeups, mut refused, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = self.state();
        let State { calls, sent, queue, long, .. } = &mut *state;
        sent.retain(|&key| {
            let Some(managed) = find(calls, key) else { return false };
            match managed.advance(self.binding.is_idempotent(managed.procedure)) {
                Step::Open => return true,
                Step::Again if managed.is_long() => long.push_back(key),
                Step::Again => queue.push_back(key),
                Step::Refused(error) => refused.push((key, error)),
                Step::Ended(outcome) => wakeups.extend(calls.end(key.0, outcome).if_awaited()),
            }
            false
        });
        if !state.piped.is_empty() {
            state.advance_piped(&self.binding, &mut wakeups, &mut wakers);
        }
        for call in state.calls.expired(clock::now_ns()) {
            let managed = state.calls.get_mut(call).expect("a call that expires is open");
            if let Some(deadline_ns) = managed.next_deadline_ns() {
                state.calls.set_deadline(call, |_| Some(deadline_ns));
                continue;
            }
            let error = managed.expire(&self.binding);
            managed.end_pipes(Some(&error), &mut wakers);
            wakeups.extend(state.calls.end(call, Err(error)).if_awaited());
        }
        state.queue_postponed();
        state.publish_queued(&self.binding.present());
        drop(state);
        refused.into_iter().for_each(|(key, error)| wakeups.extend(self.end_or_come_again(key, error)));
        wakeups.into_iter().for_each(Wakeup::give);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the calls that wait to be published and were begun before an attempt to bind, which has failed. A call that was begun later
    /// has an attempt of its own.
    pub(super) fn end_queued(&self, attempted_ns: u64, why: &BindError) {
        let mut wakeups = Vec::new();
        let mut state = self.state();
        let State { calls, queue, long, .. } = &mut *state;
        let mut before = Vec::new();
        for queue in [queue, long] {
            queue.retain(|&key| {
                let is_later = find(calls, key).is_some_and(|managed| managed.begun_ns > attempted_ns);
                before.extend((!is_later).then_some(key));
                is_later
            });
        }
        for key in before {
            let Some(managed) = find(calls, key) else { continue };
            let unbound = || CallError::not_sent(SendError::Bind(Box::new(why.clone())));
            let error = managed.refused.take().map_or_else(unbound, |refused| *refused);
            let error = managed.explain(error);
            wakeups.push(calls.end(key.0, Err(error)));
        }
        drop(state);
        wakeups.into_iter().for_each(Wakeup::give);
    }
}

/// A call that has neither ended nor been cancelled.
pub(super) fn find(calls: &mut CallTable<ManagedCall>, (call, id): CallKey) -> Option<&mut ManagedCall> {
    calls.get_mut(call).filter(|managed| managed.id == id)
}

impl HasCalls for State {
    type Call = ManagedCall;

    fn calls(&mut self) -> &mut CallTable<ManagedCall> {
        &mut self.calls
    }
}

impl State {
    /// Whether calls wait to be published.
    pub(super) fn has_queued(&self) -> bool {
        !(self.queue.is_empty() && self.long.is_empty())
    }

    /// Publishes the queued calls, as far as there are lanes and channels.
    fn publish_queued(&mut self, session: &Arc<Session>) {
        let Self { calls, queue, long, sent, published, .. } = self;
        for (queue, is_long) in [(queue, false), (long, true)] {
            while let Some(&key) = queue.front() {
                if session.is_lost() || session.is_closing() || sent.len() >= SENT_MAX {
                    return;
                }
                let deadline_ns = calls.deadline_ns(key.0);
                if let Some(managed) = find(calls, key) {
                    let Some((lane, channel)) = session.take_lane_with(is_long) else { break };
                    managed.publish(session, lane, channel, deadline_ns);
                    sent.push(key);
                    *published += 1;
                }
                queue.pop_front();
            }
        }
    }
}
