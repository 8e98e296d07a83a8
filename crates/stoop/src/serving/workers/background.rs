//! The background thread of an endpoint: takes the role from a worker that is long away, gives it to another, and
//! receives itself when there is no other.

use crate::serving::workers::idle::{HELP, RECEIVE};
use crate::serving::workers::role::{AWAY, BACKGROUND, HELD, STATE};
use crate::serving::workers::{Endpoint, WorkerPool, locked};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::{clock, fence, memory};
use stoop_wire::RefusalCode;

/// Time between two looks of the background thread. A worker that is away for longer loses the role.
const TICK: Duration = Duration::from_millis(1);
/// Looks without a call before the background thread goes to sleep.
const QUIET_TICKS: u32 = 20;

/// Time without work after which the endpoint gives back memory that it keeps for the next messages.
const QUIET_BEFORE_RELEASE: Duration = Duration::from_secs(2);

/// The background thread, as workers and the endpoint see it.
#[derive(Debug, Default)]
pub(crate) struct Background {
    pub(crate) thread: OnceLock<Thread>,
    asleep: AtomicBool,
    /// Workers that run a procedure while another has the role.
    runners: AtomicUsize,
}

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
        if self.runners.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
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
    /// Gives the role, if the background thread has it and a worker is there, to a worker.
    fn give_away(self: &Arc<Self>) {
        let word = self.role.word();
        if word & STATE != BACKGROUND {
            return;
        }
        if let Some(idle_worker) = self.choose() {
            // If a worker has taken the role meanwhile, the chosen one runs queued calls and is idle again.
            idle_worker.command(if self.role.change(word, HELD) { RECEIVE } else { HELP });
        } else if self.may_start_worker() && self.role.change(word, HELD) && self.start_worker().is_err() {
            self.role.change(word & !STATE | HELD, BACKGROUND);
        }
    }

    /// The main function of the background thread.
    pub(crate) fn run_background(self: &Arc<Self>) {
        let mut worker = self.endpoint.worker();
        let mut seen = HELD;
        let mut quiet = 0;
        while !self.is_stopping() {
            let now = clock::now_ns();
            if now >= self.endpoint.next_timeout_ns() {
                self.endpoint.handle_timeout(&mut worker, now);
            }
            let word = self.role.word();
            quiet = if word == seen && word & STATE == HELD { quiet + 1 } else { 0 };
            if word == seen && word & STATE == AWAY {
                // Away since the last look. If the worker comes back at this moment, the change fails.
                self.role.change(word, BACKGROUND);
            }
            self.give_away();
            self.queue_calls(&mut worker);
            seen = word;
            if quiet >= QUIET_TICKS {
                self.fall_asleep();
                quiet = 0;
            } else {
                self.endpoint.look_after(false);
                thread::park_timeout(TICK);
            }
        }
    }

    /// Receives in place of the workers, which are all busy: each call waits for one of them or is refused.
    fn queue_calls(&self, worker: &mut E::WorkerState) {
        loop {
            // Pairs with `help_out`: a worker that takes the role waits until what was received is queued.
            let queueing = locked(&self.queueing);
            if !self.role.is_with_background() {
                return;
            }
            let Some(mut call) = self.endpoint.receive(worker, false, &self.stopping) else { return };
            self.endpoint.defer(&mut call);
            let refused = self.enqueue(call);
            drop(queueing);
            if refused.is_none()
                && let Some(idle_worker) = self.choose()
            {
                // It has become idle just now.
                idle_worker.command(HELP);
            }
            let mut refused = refused;
            while let Some(call) = refused {
                refused = self.endpoint.refuse(worker, call, RefusalCode::Overloaded.into());
            }
        }
    }

    /// Lets a call wait for a worker. Returns it if too many wait already.
    fn enqueue(&self, call: E::Call) -> Option<E::Call> {
        let mut queue = locked(&self.queue);
        if queue.len() >= self.bounds.queue {
            return Some(call);
        }
        queue.push_back(call);
        self.queued.fetch_add(1, Ordering::SeqCst);
        None
    }

    /// Sleeps until it is woken or a timeout is due.
    fn fall_asleep(&self) {
        let asleep = &self.endpoint.background().asleep;
        asleep.store(true, Ordering::SeqCst);
        // Pairs with that in `Role::leave`, and with what endpoints store before they wake it.
        let sees_all = fence::heavy();
        let has_to_look = self.endpoint.look_after(true);
        let nothing_to_do =
            sees_all && self.role.word() & STATE == HELD && !self.is_stopping() && !has_to_look;
        if nothing_to_do && self.sleep_at_most(QUIET_BEFORE_RELEASE) {
            // Nothing has happened for a while.
            self.endpoint.release_memory();
            memory::give_back_freed();
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
