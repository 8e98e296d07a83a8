//! The background thread of an endpoint: takes the role from a worker that is long away, gives it to another, and
//! receives itself when there is no other.

use crate::context::cancelled;
use crate::serving::workers::idle::{HELP, RECEIVE};
use crate::serving::workers::queue::CallQueue;
use crate::serving::workers::quiet::{LOOK_INTERVAL, QuietWatch};
use crate::serving::workers::role::{AWAY, BACKGROUND, HELD, STATE};
use crate::serving::workers::{Endpoint, NO_TAG, WorkerPool, locked};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, TryLockError};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::{clock, fence, memory};
use stoop_wire::{RefusalCode, RetryAfter};

/// Time between two looks of the background thread. A worker that is away for longer loses the role.
const TICK: Duration = Duration::from_millis(1);
/// Looks without a call before the background thread goes to sleep.
const QUIET_TICKS: u32 = 20;
/// Looks without a call in the queue after which a backlog is over.
const BACKLOG_TICKS: u32 = 10;
/// Calls that it receives in one look: then it sees to the timers before it receives more.
const RECEIVED_AT_ONCE: u32 = 1024;

/// While calls wait for a worker, time from one receipt of others to the next: at least so much, and so many times what the last
/// took, but not more than this. So callers that are refused and call again at once leave most of the processor to procedures.
const RECEIVES_EVERY_NS: (u64, u64) = (1_000_000, 10_000_000);
const RECEIVING_PART: u64 = 5;

/// Time without work after which the endpoint gives back memory that it keeps for the next messages.
const QUIET_BEFORE_RELEASE: Duration = Duration::from_secs(2);

/// The background thread, as workers and the endpoint see it.
#[derive(Debug, Default)]
pub(crate) struct Background {
    pub(crate) thread: OnceLock<Thread>,
    asleep: AtomicBool,
    /// Workers that run a procedure while another has the role.
    runners: AtomicUsize,
    /// How often the receiving worker still lets others run while it spins.
    yields: AtomicU32,
}

/// Looks after another thread was woken at which that thread runs first.
const YIELDS: u32 = 4;

impl Background {
    /// Wakes it, if it sleeps. Pairs with the check in `WorkerPool::fall_asleep`: both sides write before they read, so one
    /// of them sees the other.
    #[inline]
    pub(crate) fn wake_if_asleep(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Lets workers without the role run, for the receiving worker while it spins: they may be on this very processor.
    /// Otherwise a procedure that once counted as long would last until the scheduler's next look each time, and would
    /// count as long for ever.
    #[inline]
    pub(crate) fn yield_to_running_procedures(&self) {
        let yields = self.yields.load(Ordering::Relaxed);
        if yields > 0 {
            self.yields.store(yields - 1, Ordering::Relaxed);
        }
        if yields > 0 || self.runners.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }

    /// Most likely another thread has just been woken: a call waits for the answer that it is to give, or something has come by a pipe of its
    /// call. See [`yield_to_running_procedures`](Self::yield_to_running_procedures).
    pub(crate) fn note_woken(&self) {
        self.yields.store(YIELDS, Ordering::Relaxed);
    }

    /// A worker begins to run without the role, or has ended.
    pub(crate) fn count_runner(&self, begins: bool) {
        match begins {
            true => self.runners.fetch_add(1, Ordering::Relaxed),
            false => self.runners.fetch_sub(1, Ordering::Relaxed),
        };
    }

    #[cold]
    pub(crate) fn wake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl<E: Endpoint> WorkerPool<E> {
    /// Takes the role from a worker that is away since the last look, and counts its call among those of its owner.
    fn take_role(&self, word: u64) {
        let tag = self.away.load(Ordering::Relaxed);
        // If the worker comes back at this moment, one of the two has the lock first: it sees the other's change.
        let mut absences = locked(&self.absences);
        if !self.role.change(word, BACKGROUND) || tag == NO_TAG {
            return;
        }
        if let Some(owner) = self.endpoint.owner_of(tag) {
            absences.push((word, self.queue.with(|queue| queue.charge_owner(owner, tag))));
        }
    }

    /// Gives the role, if the background thread has it, to a worker. While calls wait that could run, workers run those.
    fn give_away(self: &Arc<Self>) {
        let word = self.role.word();
        if self.queue.has_runnable() {
            return self.start_helper();
        }
        if word & STATE != BACKGROUND || self.queue.is_saturated() {
            return;
        }
        // While a worker receives in place of the others, none of them gets the role: it would find nothing, sleep, and not learn of the
        // calls that came together with the one that is being queued.
        let Some(_queueing) = self.try_queueing() else { return };
        if let Some(idle_worker) = self.choose() {
            // If a worker has taken the role meanwhile, the chosen one runs queued calls and is idle again.
            idle_worker.command(if self.role.change(word, HELD) { RECEIVE } else { HELP });
        } else if self.may_start_worker() && self.role.change(word, HELD) && self.start_worker(true).is_err()
        {
            self.role.change(word & !STATE | HELD, BACKGROUND);
        }
    }

    /// Has one more worker run queued calls.
    fn start_helper(self: &Arc<Self>) {
        if let Some(idle_worker) = self.choose() {
            idle_worker.command(HELP);
        } else if self.may_start_worker() {
            // If the system gives no thread, the workers that are there run the calls.
            let _ = self.start_worker(false);
        }
    }

    /// The main function of the background thread.
    pub(crate) fn run_background(self: &Arc<Self>) {
        let mut worker = self.endpoint.worker();
        let mut seen = HELD;
        let mut quiet = 0;
        let mut backlog = 0_u32;
        let mut watch = QuietWatch::default();
        while !self.is_stopping() {
            let now = clock::now_ns();
            if now >= self.endpoint.next_timeout_ns() {
                self.endpoint.handle_timeout(&mut worker, now);
            }
            let word = self.role.word();
            let is_quiet = backlog == 0 && word == seen && word & STATE == HELD && !self.queue.is_saturated();
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if word == seen && word & STATE == AWAY {
                self.take_role(word);
            }
            self.give_away();
            let is_due = !self.queue.is_saturated() || self.is_receiving_due();
            let is_all = !is_due || self.queue_calls(&mut worker);
            self.look_for_quiet(&mut worker, &mut watch, now);
            self.refuse_ended_calls(&mut worker, now);
            backlog = if self.queue.is_saturated() { BACKLOG_TICKS } else { backlog.saturating_sub(1) };
            self.endpoint.note_backlog(backlog > 0);
            seen = word;
            if quiet >= QUIET_TICKS {
                self.fall_asleep();
                quiet = 0;
            } else if is_all {
                self.endpoint.look_after(false);
                thread::park_timeout(TICK);
            } else {
                self.endpoint.look_after(false);
                thread::yield_now();
            }
        }
    }

    /// Receives in place of the workers, which are all busy: each call waits for one of them or is refused. Returns whether nothing is
    /// left to receive, or another thread receives.
    pub(super) fn queue_calls(self: &Arc<Self>, worker: &mut E::WorkerState) -> bool {
        if !self.queue.is_saturated() && !self.role.is_with_background() {
            return true;
        }
        let begun_ns = clock::now_ns();
        self.receive_at_ns.store(begun_ns + RECEIVES_EVERY_NS.0, Ordering::Relaxed);
        let is_all = self.queue_some_calls(worker);
        let ended_ns = clock::now_ns();
        let pause_ns =
            (RECEIVING_PART * (ended_ns - begun_ns)).clamp(RECEIVES_EVERY_NS.0, RECEIVES_EVERY_NS.1);
        self.receive_at_ns.store(ended_ns + pause_ns, Ordering::Relaxed);
        is_all
    }

    /// Whether enough time has passed since calls were last received in place of the workers. While few calls wait, little is
    /// enough.
    pub(super) fn is_receiving_due(&self) -> bool {
        let pause_ns = if self.queue.is_short() { RECEIVES_EVERY_NS.1 - RECEIVES_EVERY_NS.0 } else { 0 };
        clock::now_ns() + pause_ns >= self.receive_at_ns.load(Ordering::Relaxed)
    }

    fn queue_some_calls(self: &Arc<Self>, worker: &mut E::WorkerState) -> bool {
        if self.queue.is_saturated() {
            let now_ns = clock::now_ns();
            self.queue.with(|queue| queue.look(now_ns));
            self.refuse_ended_calls(worker, now_ns);
            // Before calls are received, so that it is known how old they are.
            self.endpoint.note_backlog(true);
        }
        for _ in 0..RECEIVED_AT_ONCE {
            // Pairs with `help_out`: a worker that takes the role waits until what was received is queued.
            let Some(queueing) = self.try_queueing() else { return true };
            if !self.role.is_with_background() {
                return true;
            }
            let Some(call) = self.endpoint.receive(worker, false, &self.stopping) else { return true };
            let terms = self.endpoint.terms(&call);
            self.admit(worker, call, terms);
            drop(queueing);
            // A worker may have become idle just now.
            self.wake_for_queue();
        }
        false
    }

    /// The right to receive in place of the workers. `None`: another thread does.
    fn try_queueing(&self) -> Option<MutexGuard<'_, ()>> {
        match self.queueing.try_lock() {
            Ok(queueing) => Some(queueing),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Refuses the calls that still wait shortly before their deadlines, and those that were cancelled.
    fn refuse_ended_calls(&self, worker: &mut E::WorkerState, now_ns: u64) {
        // Also while none waits: a call that comes later may be cancelled already, which is seen before it runs.
        let cancels = cancelled::cancels();
        let is_new = self.cancels_seen.swap(cancels, Ordering::Relaxed) != cancels;
        if self.queue.is_empty() {
            return;
        }
        for call in self.queue.take(|queue| queue.take_overdue(now_ns)) {
            self.refuse(worker, call, RefusalCode::DeadlinePassed, RetryAfter::NOT_SAID);
        }
        if is_new {
            for call in self.queue.take(CallQueue::take_cancelled) {
                self.refuse(worker, call, RefusalCode::Cancelled, RetryAfter::NOT_SAID);
            }
        }
    }

    /// Sleeps until it is woken or a timeout is due.
    fn fall_asleep(&self) {
        let asleep = &self.endpoint.background().asleep;
        asleep.store(true, Ordering::SeqCst);
        // Pairs with that in `Role::leave`, and with what endpoints store before they wake it.
        let sees_all = fence::heavy();
        let has_to_look = self.endpoint.look_after(true);
        // Recent calls may have left work that the thread has to look at.
        self.endpoint.look_at_memory(clock::now_ns());
        let nothing_to_do = sees_all
            && self.role.word() & STATE == HELD
            && !self.is_stopping()
            && !has_to_look
            && !self.queue.is_saturated()
            // Who cancels a call from now on wakes this thread.
            && (self.queue.is_empty() || self.cancels_seen.load(Ordering::Relaxed) == cancelled::cancels());
        if nothing_to_do && !self.queue.is_empty() {
            // Until it looks for quiet bindings, or for calls that have waited too long.
            let overdue_ns = self.queue.with(|queue| queue.until_overdue_ns(clock::now_ns()));
            self.sleep_at_most(LOOK_INTERVAL.min(Duration::from_nanos(overdue_ns)));
        } else if nothing_to_do && self.sleep_at_most(QUIET_BEFORE_RELEASE) {
            // Nothing has happened for a while.
            self.endpoint.release_memory();
            if memory::give_back_freed() {
                self.endpoint.notify_of_growth();
            }
            if asleep.load(Ordering::SeqCst) {
                self.sleep_at_most(Duration::MAX);
            }
        }
        asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps until it is woken, a timeout is due or `limit` has passed. Returns whether it was the limit.
    fn sleep_at_most(&self, limit: Duration) -> bool {
        let begun = clock::now_ns();
        let due = Duration::from_nanos(self.endpoint.next_timeout_ns().saturating_sub(begun));
        if !due.is_zero() {
            thread::park_timeout(due.min(limit));
        }
        due >= limit && clock::now_ns().saturating_sub(begun) >= limit.as_nanos() as u64
    }
}
