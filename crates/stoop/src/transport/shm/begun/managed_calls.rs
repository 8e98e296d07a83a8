//! The begun calls of a binding that the background thread manages, of all its sessions.

use crate::calling::background::{Background, Driven};
use crate::calling::begun::CallBatch;
use crate::calling::call_table::{CallTable, Wakeup};
use crate::calling::detached::CallingThread;
use crate::context::refined;
use crate::error::{BindError, CallError, SendError};
use crate::locked::locked;
use crate::transport::shm::begun::calls::SessionCalls;
use crate::transport::shm::begun::managed::{ManagedCall, Step};
use crate::transport::shm::caller::ShmBinding;
use crate::transport::shm::caller::session::Session;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use stoop_marshal::Reader;
use stoop_net::clock;

/// The managed calls, and what the tables of a binding's sessions share.
pub(crate) struct ManagedCalls {
    pub(super) binding: Arc<ShmBinding>,
    state: Mutex<State>,
    pub(super) background: Background,
    last_id: AtomicU64,
    /// Managed calls that were answered, and calls of tables that are gone.
    answered: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: CallTable<ManagedCall>,
    /// Calls that are not published, in the order in which they were begun; some may have been cancelled.
    queue: VecDeque<CallKey>,
    /// Calls that are published; some may have been cancelled.
    sent: Vec<CallKey>,
    /// The calls in the queue wait for channels only.
    waits_for_channel: bool,
    tables: Vec<Weak<SessionCalls>>,
    /// The client is gone: what is outstanding is detached.
    pub(super) closing: bool,
}

/// A call: its number, and the id that tells it apart from other calls with that number.
type CallKey = (u32, u64);

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
            last_id: AtomicU64::new(0),
            answered: AtomicU64::new(0),
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

    /// The session of `table` is lost: puts the table of the present session in its place, if there is one.
    #[cold]
    pub(super) fn replace(self: &Arc<Self>, table: &mut Arc<SessionCalls>) {
        let session = self.binding.present();
        if !session.is_lost() {
            *table = self.table_of(session);
        }
    }

    /// The tables that are in use, or have handles.
    pub(super) fn tables(&self) -> Vec<Arc<SessionCalls>> {
        self.state().tables.iter().filter_map(Weak::upgrade).collect()
    }

    /// Calls that were answered so far, in all tables.
    pub(super) fn answered(&self) -> u64 {
        let in_slots: u64 = self.tables().iter().map(|table| table.answered()).sum();
        self.answered.load(Ordering::Relaxed) + in_slots
    }

    /// A table is gone in which so many calls were answered.
    pub(super) fn add_answered(&self, calls: u64) {
        self.answered.fetch_add(calls, Ordering::Relaxed);
    }

    fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn is_idempotent(&self, procedure: u16) -> bool {
        self.binding.is_idempotent(procedure)
    }

    /// A call begins that cannot be published at once.
    #[cold]
    pub(super) fn enqueue(&self, batch: &CallBatch, procedure: u16, len: usize) -> u32 {
        let arguments = batch.packet[batch.start..batch.start + len].to_vec();
        let (id, begun_ns) = (self.new_id(), batch.begun.as_nanos());
        let deadline_ns = refined(begun_ns, batch.deadline.as_nanos(), clock::now_ns());
        let managed = ManagedCall::queued(id, procedure, begun_ns, arguments);
        let mut state = self.state();
        let call = state.calls.open(deadline_ns, managed);
        state.queue.push_back((call, id));
        drop(state);
        self.wake_background();
        call
    }

    /// Takes over a published call from its slot: `take` gives the call its new id, and its deadline; `confirm` tells the slot the
    /// number. `None` or `false`: the call is not there any more.
    pub(super) fn take_over(
        &self,
        take: impl FnOnce(u64) -> Option<(ManagedCall, u64)>,
        confirm: impl FnOnce(u32) -> bool,
    ) {
        let id = self.new_id();
        let mut state = self.state();
        let Some((managed, deadline_ns)) = take(id) else { return };
        let call = state.calls.open(deadline_ns, managed);
        if confirm(call) {
            state.sent.push((call, id));
        } else {
            // Its handle has taken the answer at this moment.
            let _ = state.calls.abandon(call);
        }
    }

    pub(super) fn has_ended(&self, call: u32) -> bool {
        self.state().calls.has_ended(call)
    }

    /// As [`OutstandingCalls::take`](crate::calling::begun::OutstandingCalls::take).
    pub(super) fn take(&self, call: u32, with: &mut dyn FnMut(Result<Reader<'_>, CallError>)) -> bool {
        let mut state = self.state();
        if !state.calls.has_ended(call) {
            return false;
        }
        let outcome = state.calls.take(call);
        drop(state);
        match outcome {
            Ok(payload) => with(Ok(Reader::new(payload.bytes()))),
            Err(error) => with(Err(error)),
        }
        true
    }

    /// As [`OutstandingCalls::poll`](crate::calling::begun::OutstandingCalls::poll).
    pub(super) fn poll(&self, call: u32, waker: &Waker) -> bool {
        let state = self.state();
        if state.calls.has_ended(call) {
            return true;
        }
        if state.calls.is_registered(call, waker) {
            return false;
        }
        drop(state);
        // No lock is held while a waker is cloned or dropped.
        let fresh = waker.clone();
        let mut state = self.state();
        if state.calls.has_ended(call) {
            drop(state);
            return true;
        }
        let before = state.calls.register(call, fresh);
        drop(state);
        drop(before);
        self.wake_background();
        false
    }

    pub(super) fn cancel(&self, call: u32) {
        let (cancelled, waker) = self.state().calls.abandon(call);
        drop(waker);
        if let Some(mut managed) = cancelled {
            managed.abandon();
        }
    }

    pub(super) fn detach(&self, call: u32, calling_thread: Option<CallingThread>) {
        let mut state = self.state();
        let waker = state.calls.detach(call, calling_thread);
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

    /// Whether [`advance`](Self::advance) would do something.
    pub(super) fn can_advance(&self, session: &Session) -> bool {
        let mut state = self.state();
        let sent = std::mem::take(&mut state.sent);
        let can_one = sent.iter().any(|&call| state.find(call).is_none_or(|managed| managed.can_advance()));
        state.sent = sent;
        // The calls in the queue wait for one of these to end, or for a channel.
        can_one || state.waits_for_channel && session.has_free_channel()
    }

    /// Goes on with all calls as far as that is possible without waiting, and ends those whose deadlines have passed.
    pub(super) fn advance(&self) {
        // Most calls that end here are detached and wake nothing: then this allocates nothing.
        let mut wakeups = Vec::new();
        let mut state = self.state();
        // The list keeps its memory: it is filled and emptied all the time.
        let mut sent = std::mem::take(&mut state.sent);
        sent.retain(|&(call, id)| {
            let Some(managed) = state.find((call, id)) else { return false };
            match managed.advance(self.is_idempotent(managed.procedure)) {
                Step::Open => return true,
                Step::Again => state.queue.push_back((call, id)),
                Step::Ended(outcome) => {
                    self.add_answered(1);
                    wakeups.extend(state.calls.end(call, outcome).if_awaited());
                }
            }
            false
        });
        state.sent = sent;
        for call in state.calls.expired(clock::now_ns()) {
            let managed = state.calls.get_mut(call).expect("a call that expires is open");
            let error = managed.expire(&self.binding);
            wakeups.extend(state.calls.end(call, Err(error)).if_awaited());
        }
        state.publish_queued(&self.binding.present());
        drop(state);
        wakeups.into_iter().for_each(Wakeup::give);
    }

    /// Ends the calls that wait to be published: there is no server.
    pub(super) fn end_queued(&self, why: &BindError) {
        let mut wakeups = Vec::new();
        let mut state = self.state();
        for (call, id) in std::mem::take(&mut state.queue) {
            let Some(managed) = state.find((call, id)) else { continue };
            let error = managed.explain(CallError::NotSent(SendError::Bind(Box::new(why.clone()))));
            wakeups.push(state.calls.end(call, Err(error)));
        }
        drop(state);
        wakeups.into_iter().for_each(Wakeup::give);
    }
}

impl State {
    /// Whether calls wait to be published.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A call that has neither ended nor been cancelled.
    fn find(&mut self, (call, id): CallKey) -> Option<&mut ManagedCall> {
        self.calls.get_mut(call).filter(|managed| managed.id == id)
    }

    /// Publishes the calls in the queue, as far as there are lanes and channels. Short calls overtake calls that wait for channels.
    fn publish_queued(&mut self, session: &Arc<Session>) {
        let mut waiting = VecDeque::new();
        while let Some(&key) = self.queue.front() {
            let Some(managed) = self.find(key) else {
                self.queue.pop_front();
                continue;
            };
            let is_long = managed.is_long();
            if session.is_lost() || self.sent.len() >= SENT_MAX {
                break;
            }
            // Once there is no channel, there is none for the others.
            let channel = if is_long && waiting.is_empty() { session.try_take_channel() } else { None };
            if is_long && channel.is_none() {
                self.queue.pop_front();
                waiting.push_back(key);
                continue;
            }
            let Some(lane) = session.take_lane() else {
                if let Some((channel, base)) = channel {
                    session.give_unused_channel_back(channel, base);
                }
                break;
            };
            self.queue.pop_front();
            let deadline_ns = self.calls.deadline_ns(key.0);
            let managed = self.find(key).expect("it is open, as was just seen");
            managed.publish(session, lane, channel, deadline_ns);
            self.sent.push(key);
        }
        self.waits_for_channel = !waiting.is_empty() && self.queue.is_empty();
        waiting.append(&mut self.queue);
        self.queue = waiting;
    }
}
