//! Calls in flight over shared memory.
//!
//! A call that is begun takes a [place](place), which has a lane, and is published with those that are begun together; the bell is
//! rung for all of them. Its answer stays where the server has written it until the handle takes it: while all goes well, that is
//! all, and there is no lock for a single call and no other thread in it. What cannot go this way the [background](background) sees to: calls for which there is no lane, long
//! arguments and results, wakers, handles that are gone, and servers that are lost.

pub(crate) mod background;
pub(crate) mod calls;
pub(crate) mod lane_slot;
pub(crate) mod lane_slots;
pub(crate) mod managed;
pub(crate) mod submission;
pub(crate) mod waiting;

use crate::calling::background::{self as background_thread, Background, Driven};
use crate::calling::begun::{BegunCalls, CallBatch};
use crate::calling::call_table::{CallTable, Wakeup};
use crate::calling::counters::CallCounters;
use crate::calling::detached::CallingThread;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::transport::shm::begun::calls::SessionCalls;
use crate::transport::shm::begun::managed::{ManagedCall, Step};
use crate::transport::shm::caller::ShmBinding;
use crate::transport::shm::caller::session::Session;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use stoop_marshal::Reader;
use stoop_net::clock;

/// Who carries the begun calls of a binding over shared memory: a calls for each session.
pub(crate) struct ShmCalls {
    flights: Arc<SharedCalls>,
    present: Mutex<Arc<SessionCalls>>,
}

/// What the tables of a binding have in common: the calls to which the background sees.
pub(crate) struct SharedCalls {
    binding: Arc<ShmBinding>,
    state: Mutex<State>,
    background: Background,
    last_id: AtomicU64,
    /// Calls that the background has seen answered, and those that tables of lost sessions have.
    answered: AtomicU64,
}

#[derive(Default)]
struct State {
    calls: CallTable<ManagedCall>,
    /// Those that have not been published, in the order in which they were begun; some may have been given up.
    queue: VecDeque<Known>,
    /// Those that have; some may have been given up.
    sent: Vec<Known>,
    /// Nothing but channels keeps what is queued from being published.
    waits_for_channel: bool,
    tables: Vec<Weak<SessionCalls>>,
    /// The client is gone: what is in flight is detached.
    closing: bool,
}

/// A call, by its number and by what tells it apart from others that have had it.
type Known = (u32, u64);

/// Calls that the background has on lanes at a time, beside those that have places.
const SENT_MAX: usize = 128;
/// Detached calls that are left lying before whoever detaches more looks after them.
const LEFT_LYING_MAX: usize = 32;

impl ShmCalls {
    /// # Errors
    /// The system gives no thread for the background.
    pub(crate) fn new(binding: &Arc<ShmBinding>) -> io::Result<Self> {
        let flights = Arc::new(SharedCalls {
            binding: Arc::clone(binding),
            state: Mutex::default(),
            background: Background::default(),
            last_id: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        });
        background_thread::start(&flights)?;
        let present = flights.calls(binding.present());
        Ok(Self { flights, present: Mutex::new(present) })
    }
}

impl BegunCalls for ShmCalls {
    type Table = SessionCalls;
    type Ref = Arc<SessionCalls>;

    #[inline]
    fn present(&self) -> Result<Arc<SessionCalls>, SendError> {
        Ok(self.latest())
    }

    #[inline]
    fn latest(&self) -> Arc<SessionCalls> {
        let mut present = locked(&self.present);
        if present.session.is_lost() {
            self.flights.replace(&mut present);
        }
        Arc::clone(&present)
    }

    #[inline]
    fn reference(table: &Arc<SessionCalls>) -> Arc<SessionCalls> {
        Arc::clone(table)
    }

    fn counters(&self) -> CallCounters {
        let tables: Vec<_> = self.flights.tables();
        let in_places: u64 = tables.iter().map(|calls| calls.counted()).sum();
        let calls = self.flights.answered.load(Ordering::Relaxed) + in_places;
        CallCounters { calls, ..CallCounters::default() }
    }
}

impl Drop for ShmCalls {
    /// What has been detached goes on; the background sees to it.
    fn drop(&mut self) {
        self.flights.state().closing = true;
        self.flights.wake_background();
    }
}

impl SharedCalls {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn calls(self: &Arc<Self>, session: Arc<Session>) -> Arc<SessionCalls> {
        let calls = Arc::new(SessionCalls::new(self, session));
        let mut state = self.state();
        state.tables.retain(|calls| calls.strong_count() > 0);
        state.tables.push(Arc::downgrade(&calls));
        calls
    }

    /// The session of a calls is lost: if there is another, it gets a calls.
    #[cold]
    fn replace(self: &Arc<Self>, calls: &mut Arc<SessionCalls>) {
        let session = self.binding.present();
        if !session.is_lost() {
            *calls = self.calls(session);
        }
    }

    /// Those of which there are still handles, or that are in use.
    fn tables(&self) -> Vec<Arc<SessionCalls>> {
        self.state().tables.iter().filter_map(Weak::upgrade).collect()
    }

    fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn is_idempotent(&self, procedure: u16) -> bool {
        self.binding.interface.procedures[usize::from(procedure)].idempotent
    }

    /// A call begins that cannot be published at once.
    #[cold]
    fn enqueue(&self, departure: &CallBatch, procedure: u16, len: usize) -> u32 {
        let arguments = departure.packet[departure.start..departure.start + len].to_vec();
        let id = self.new_id();
        let kept = ManagedCall::queued(id, procedure, departure.begun.as_nanos(), arguments);
        let mut state = self.state();
        let call = state.calls.open(departure.deadline.as_nanos(), kept);
        state.queue.push_back((call, id));
        drop(state);
        self.wake_background();
        call
    }

    fn has_ended(&self, call: u32) -> bool {
        self.state().calls.has_ended(call)
    }

    /// As [`OutstandingCalls::take`].
    fn take(&self, call: u32, with: &mut dyn FnMut(Result<Reader<'_>, CallError>)) -> bool {
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

    /// As [`OutstandingCalls::poll`].
    fn poll(&self, call: u32, waker: &Waker) -> bool {
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

    fn cancel(&self, call: u32) {
        let (given_up, waker) = self.state().calls.abandon(call);
        drop(waker);
        if let Some(mut kept) = given_up {
            kept.abandon();
        }
    }

    fn detach(&self, call: u32, calling_thread: Option<CallingThread>) {
        let mut state = self.state();
        let waker = state.calls.detach(call, calling_thread);
        let left_lying = state.sent.len();
        drop(state);
        drop(waker);
        if left_lying >= LEFT_LYING_MAX {
            self.advance();
        }
    }

    /// Goes on with all calls as far as that is possible without waiting, and ends those whose deadlines have passed.
    fn advance(&self) {
        // Most calls that end here are detached, and nothing waits for them: then this allocates nothing.
        let mut notices = Vec::new();
        let mut state = self.state();
        // The list keeps its memory: it is filled and emptied all the time.
        let mut sent = std::mem::take(&mut state.sent);
        sent.retain(|&(call, id)| {
            let Some(kept) = state.known((call, id)) else { return false };
            match kept.advance(self.is_idempotent(kept.procedure)) {
                Step::Open => return true,
                Step::Again => state.queue.push_back((call, id)),
                Step::Ended(outcome) => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    notices.extend(state.calls.end(call, outcome).if_awaited());
                }
            }
            false
        });
        state.sent = sent;
        for call in state.calls.expired(clock::now_ns()) {
            let kept = state.calls.get_mut(call).expect("what expires is open");
            let error = kept.expire(&self.binding);
            notices.extend(state.calls.end(call, Err(error)).if_awaited());
        }
        state.launch(&self.binding.present());
        drop(state);
        notices.into_iter().for_each(Wakeup::give);
    }
}

impl State {
    /// What is known of a call that has not ended, nor been given up.
    fn known(&mut self, (call, id): Known) -> Option<&mut ManagedCall> {
        self.calls.get_mut(call).filter(|kept| kept.id == id)
    }

    /// Publishes what is queued, as far as there are lanes and channels.
    fn launch(&mut self, session: &Arc<Session>) {
        let mut left = VecDeque::new();
        let mut has_channels = true;
        while let Some((call, id)) = self.queue.pop_front() {
            let Some(kept) = self.known((call, id)) else { continue };
            let is_long = kept.is_long();
            if session.is_lost() || self.sent.len() >= SENT_MAX {
                self.queue.push_front((call, id));
                break;
            }
            let channel = match is_long && has_channels {
                true => session.try_take_channel(),
                false => None,
            };
            if is_long && channel.is_none() {
                // What is short need not wait for it.
                has_channels = false;
                left.push_back((call, id));
                continue;
            }
            let Some(lane) = session.take_lane() else {
                if let Some((channel, base)) = channel {
                    session.give_unused_channel_back(channel, base);
                }
                self.queue.push_front((call, id));
                break;
            };
            let deadline_ns = self.calls.deadline_ns(call);
            let kept = self.known((call, id)).expect("it has just been there");
            kept.publish(session, lane, channel, deadline_ns);
            self.sent.push((call, id));
        }
        self.waits_for_channel = !left.is_empty() && self.queue.is_empty();
        left.append(&mut self.queue);
        self.queue = left;
    }
}
