//! The *background*: a thread that sees to the calls that do not simply wait for their answers.
//!
//! It has nothing to do with a call that is published, answered and taken. While there are only such calls, it sleeps until a
//! server announces a long result, which would keep others from coming if nobody took it. As long as it has calls of its own, it
//! is woken by each answer. While nothing is in flight, it sleeps until it is called.

use crate::error::{BindError, CallError, SendError};
use crate::transport::shm::begun::SharedCalls;
use crate::transport::shm::begun::managed::long_results;
use crate::transport::shm::caller::session::Session;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_shm::listening::{self, Event};

/// The background, as others see it.
#[derive(Default)]
pub(super) struct Background {
    thread: OnceLock<Thread>,
    /// There is something for it to do.
    called: AtomicBool,
    /// It sleeps until it is called.
    asleep: AtomicBool,
    /// A thread binds again for the calls in the queue.
    binding: AtomicBool,
}

impl Background {
    /// Whether it is to be called for a call that has just been begun. Both sides write before they read.
    #[inline]
    pub(super) fn is_asleep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::SeqCst)
    }
}

/// What it does next.
enum Rest {
    /// Nothing, until it is called.
    Sleep,
    /// Sleeps until there is such an event.
    Listen(Event),
    /// There is something to be sent, and nobody to send it to.
    Bind,
    /// Sleeps until a thread has bound again, or a deadline has passed.
    AwaitBinding,
    Leave,
}

impl SharedCalls {
    pub(super) fn start_background(self: &Arc<Self>) -> io::Result<()> {
        let flights = Arc::clone(self);
        let thread = thread::Builder::new().name("stoop-background".into()).spawn(move || flights.keep())?;
        // Set once.
        let _ = self.background.thread.set(thread.thread().clone());
        Ok(())
    }

    /// There is something for the background to do.
    #[cold]
    pub(super) fn wake_background(&self) {
        if self.background.called.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(thread) = self.background.thread.get() {
            thread.unpark();
        }
        listening::wake(&self.binding.present().segment);
    }

    fn keep(self: Arc<Self>) {
        // Long results of that session that have been seen to.
        let (mut generation, mut seen) = (u64::MAX, 0);
        loop {
            self.background.called.store(false, Ordering::SeqCst);
            let session = self.binding.present();
            let announced = long_results(&session);
            if generation != session.generation || seen != announced || session.is_lost() {
                self.tables().iter().for_each(|calls| calls.hand_over());
                (generation, seen) = (session.generation, announced);
            }
            self.advance();
            match self.rest(&session) {
                Rest::Leave => return,
                Rest::Sleep => self.fall_asleep(),
                Rest::Listen(event) => self.listen(&session, event, seen),
                Rest::Bind => self.start_binding(&session),
                Rest::AwaitBinding => self.await_binding(),
            }
        }
    }

    fn rest(&self, session: &Session) -> Rest {
        let has_places_in_use =
            self.tables().iter().any(|calls| !calls.session.is_lost() && calls.is_in_use());
        let state = self.state();
        let has_queued = !state.queue.is_empty();
        let is_waited_for = state.calls.attended() > 0 || has_queued || state.closing;
        match () {
            () if has_queued && session.is_lost() && self.background.binding.load(Ordering::SeqCst) => {
                Rest::AwaitBinding
            }
            () if has_queued && session.is_lost() => Rest::Bind,
            // All that was in flight has ended.
            () if session.is_lost() && state.calls.open_count() == 0 && !state.closing => Rest::Sleep,
            () if state.calls.open_count() > 0 && is_waited_for => Rest::Listen(Event::Answer),
            () if state.calls.open_count() > 0 || has_places_in_use => Rest::Listen(Event::LongMessage),
            () if state.closing && state.tables.iter().all(|calls| calls.strong_count() == 0) => Rest::Leave,
            () => Rest::Sleep,
        }
    }

    fn fall_asleep(&self) {
        self.background.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // Of a lost one the handles know by themselves what has become of their calls.
        let is_needed = self.tables().iter().any(|calls| !calls.session.is_lost() && calls.is_in_use());
        if !is_needed && !self.background.called.load(Ordering::SeqCst) {
            thread::park();
        }
        self.background.asleep.store(false, Ordering::SeqCst);
    }

    fn listen(&self, session: &Session, event: Event, seen: u32) {
        let earliest_ns = self.state().calls.earliest_ns();
        let limit_ns = earliest_ns.saturating_sub(clock::now_ns());
        if limit_ns > 0 {
            listening::sleep(&session.segment, event, limit_ns, || {
                self.background.called.load(Ordering::SeqCst)
                    || long_results(session) != seen
                    || event == Event::Answer && self.can_advance(session)
            });
        }
    }

    /// Whether [`advance`](Self::advance) would do something.
    fn can_advance(&self, session: &Session) -> bool {
        let mut state = self.state();
        let sent = std::mem::take(&mut state.sent);
        let can_one = sent.iter().any(|&call| state.known(call).is_none_or(|kept| kept.can_advance()));
        state.sent = sent;
        // What is queued waits for one of these to end, or for a channel.
        can_one || state.waits_for_channel && session.has_free_channel()
    }

    /// Has a thread get another session: that may take longer than some calls have.
    fn start_binding(self: &Arc<Self>, lost: &Arc<Session>) {
        self.background.binding.store(true, Ordering::SeqCst);
        let (flights, session) = (Arc::clone(self), Arc::clone(lost));
        let binder = move || flights.bind_again(&session);
        if thread::Builder::new().name("stoop-bind".into()).spawn(binder).is_err() {
            // Late is better than not at all.
            self.bind_again(lost);
        }
    }

    /// Gets another session for all that are queued; each of them waits for it until its own deadline.
    fn bind_again(&self, lost: &Session) {
        if let Err(why) = self.binding.rebind(lost, Instant::NEVER) {
            self.give_up_queued(&why);
        }
        self.background.binding.store(false, Ordering::SeqCst);
        self.wake_background();
    }

    fn await_binding(&self) {
        let left_ns = self.state().calls.earliest_ns().saturating_sub(clock::now_ns());
        if left_ns > 0 && !self.background.called.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_nanos(left_ns));
        }
    }

    /// There is nobody to send them to.
    fn give_up_queued(&self, why: &BindError) {
        let mut notices = Vec::new();
        let mut state = self.state();
        for (call, id) in std::mem::take(&mut state.queue) {
            let Some(kept) = state.known((call, id)) else { continue };
            let error = kept.explain(CallError::NotSent(SendError::Bind(Box::new(why.clone()))));
            notices.push(state.calls.end(call, Err(error)));
        }
        drop(state);
        notices.into_iter().for_each(crate::calling::call_table::Wakeup::give);
    }
}
