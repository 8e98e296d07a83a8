//! The *background*: a thread that sees to what nobody waits for.
//!
//! Asleep while nothing is in flight. Otherwise it looks once a millisecond: it receives if nobody else has, ends calls
//! at their deadlines, launches what can be launched, connects again. As long as wakers wait, it receives for them.

use crate::error::{BindError, CallError, SendError};
use crate::transport::stream::begun::Outstanding;
use crate::transport::stream::caller::session::{Lost, Session};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// The background, as others see it.
#[derive(Default)]
pub(super) struct Background {
    thread: OnceLock<Thread>,
    /// It sleeps until it is roused.
    asleep: AtomicBool,
    /// A thread binds again for the calls in the queue.
    binding: AtomicBool,
}

/// Between two looks.
const TICK: Duration = Duration::from_millis(1);
/// Looks with nothing in flight before it goes to sleep.
const QUIET_TICKS: u32 = 20;
/// How long it receives before it looks at the rest: about so long, and at most so long. A call that is begun meanwhile may have
/// a deadline before all others.
const LISTEN_NS: u64 = 5_000_000;
const LISTEN_MAX_NS: u64 = 10_000_000;

impl Background {
    /// There is something in flight: it looks now and then from now on. Pairs with `Outstanding::fall_asleep`: both sides
    /// write before they read.
    #[inline]
    pub(super) fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.call();
        }
    }

    /// There is something for it to do.
    #[cold]
    pub(super) fn call(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// What it does next.
enum Rest {
    /// Nothing, until it is roused.
    Sleep,
    Tick,
    /// Receives for those who are woken.
    Listen,
    Leave,
}

impl Outstanding {
    pub(super) fn start_background(self: &Arc<Self>) -> io::Result<()> {
        let flights = Arc::clone(self);
        let thread = thread::Builder::new().name("stoop-background".into()).spawn(move || flights.keep())?;
        // Set once.
        let _ = self.background.thread.set(thread.thread().clone());
        Ok(())
    }

    fn keep(self: Arc<Self>) {
        let mut quiet = 0;
        let (mut looked_ns, mut generation) = (0, 0);
        loop {
            let session = self.binding.present();
            let rest = self.rest(&session, &mut quiet);
            match rest {
                Rest::Leave => return,
                Rest::Sleep => self.fall_asleep(),
                Rest::Listen => self.listen(&session),
                Rest::Tick => thread::park_timeout(TICK),
            }
            let now_ns = clock::now_ns();
            if matches!(rest, Rest::Tick) && !session.was_heard_since(looked_ns) {
                self.look_at_stream();
            }
            looked_ns = now_ns;
            if std::mem::replace(&mut generation, session.generation) != session.generation {
                // A blocking call has found that the one before was lost, and has got another.
                self.see_to_lost();
            }
            self.look_after(&session);
        }
    }

    fn rest(&self, session: &Session, quiet: &mut u32) -> Rest {
        let state = self.state();
        let in_flight = state.slots.open_count() > 0;
        *quiet = if in_flight { 0 } else { *quiet + 1 };
        match () {
            () if in_flight && state.slots.is_polled() && !session.is_lost() => Rest::Listen,
            () if in_flight => Rest::Tick,
            () if state.closing => Rest::Leave,
            () if *quiet < QUIET_TICKS => Rest::Tick,
            () => Rest::Sleep,
        }
    }

    fn fall_asleep(&self) {
        self.background.asleep.store(true, Ordering::SeqCst);
        let state = self.state();
        let nothing_to_do = state.slots.open_count() == 0 && !state.closing;
        drop(state);
        if nothing_to_do {
            thread::park();
        }
        self.background.asleep.store(false, Ordering::SeqCst);
    }

    /// What is due, whoever receives.
    fn look_after(self: &Arc<Self>, session: &Arc<Session>) {
        if session.is_lost() || session.outgoing.flush(&session.stream).is_err() {
            session.lose();
            self.see_to_lost();
            self.start_binding(session);
        } else {
            self.launch(true);
        }
        self.look_and_expire(clock::now_ns());
        self.wake_all();
    }

    /// Receives until something has come, a deadline has passed, or there is something else to look at.
    fn listen(self: &Arc<Self>, session: &Session) {
        let Some(mut role) = session.role.try_take() else { return thread::park_timeout(TICK) };
        let now_ns = clock::now_ns();
        let due_ns = self.state().slots.earliest_ns();
        let left_ns = due_ns.saturating_sub(now_ns).max(1);
        let came = session.receive_about(&mut role, LISTEN_NS.min(left_ns), LISTEN_MAX_NS.min(left_ns));
        let lost = match came {
            Ok(true) => {
                session.heard(clock::now_ns());
                session.deliver_all(&mut role).is_err()
            }
            Ok(false) => false,
            Err(Lost) => true,
        };
        drop(role);
        if lost {
            session.lose();
        }
    }

    /// Has a thread get another connection, if there is anything to be sent on it: that may take longer than some calls have.
    fn start_binding(self: &Arc<Self>, lost: &Arc<Session>) {
        if !self.state().has_queued() || self.background.binding.swap(true, Ordering::SeqCst) {
            return;
        }
        let (flights, session) = (Arc::clone(self), Arc::clone(lost));
        let binder = move || flights.bind_again(&session);
        if thread::Builder::new().name("stoop-bind".into()).spawn(binder).is_err() {
            // Late is better than not at all.
            self.bind_again(lost);
        }
    }

    /// Gets another connection for all that are queued; each of them waits for it until its own deadline.
    fn bind_again(&self, lost: &Session) {
        if let Err(why) = self.binding.rebind(lost, Instant::NEVER) {
            self.give_up_queued(&why);
        }
        self.background.binding.store(false, Ordering::SeqCst);
        self.background.call();
    }

    /// There is nobody to send them to.
    fn give_up_queued(&self, why: &BindError) {
        let queued = std::mem::take(&mut self.state().queue);
        for (call, id) in queued {
            self.end((call, id), Err(CallError::NotSent(SendError::Bind(Box::new(why.clone())))));
        }
    }
}
