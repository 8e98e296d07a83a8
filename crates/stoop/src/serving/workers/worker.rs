//! The life of a worker: it receives and runs calls while it has the role, and runs calls of the queue while it has not.

use crate::serving::terms::CallTerms;
use crate::serving::workers::idle::{HELP, RECEIVE};
use crate::serving::workers::queue::{Admitted, Charge};
use crate::serving::workers::role::{BACKGROUND, HELD, STATE};
use crate::serving::workers::{Endpoint, NO_TAG, POOL, WorkerPool, locked};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use stoop_net::{clock, memory, switches};
use stoop_wire::{RefusalCode, Refused, RetryAfter};

impl<E: Endpoint> WorkerPool<E> {
    /// The main function of a worker.
    pub(super) fn work(self: &Arc<Self>, holds_role: bool) {
        let mut active = ActiveWorker { pool: self, holds_role };
        POOL.set(self.address());
        memory::begin_thread();
        let mut worker = self.endpoint.worker();
        if !holds_role {
            active.holds_role = self.help_out(&mut worker);
        }
        while !self.is_stopping() {
            if !active.holds_role {
                match self.await_command() {
                    RECEIVE => active.holds_role = true,
                    HELP => active.holds_role = self.help_out(&mut worker),
                    _ => break,
                }
                continue;
            }
            if self.queue.is_saturated() {
                active.holds_role = self.leave_to_background(&mut worker);
                continue;
            }
            let mut received = self.endpoint.receive(&mut worker, true, &self.interrupted);
            if let Some(call) = &received {
                // If this worker panics in a procedure, the background thread takes the role: it is away.
                active.holds_role = false;
                active.holds_role = match self.needs_care(&mut worker, call) {
                    false => {
                        let tag = self.endpoint.tag(call);
                        self.serve_away(&mut worker, &mut received, tag)
                    }
                    true => self.serve_with_care(&mut worker, received),
                };
            } else if self.grant() {
                active.holds_role = false;
                self.endpoint.give_back(&mut worker);
            }
        }
        self.endpoint.give_back(&mut worker);
    }

    /// Whether more is to be done before a call is run than to be away meanwhile.
    #[inline(always)]
    fn needs_care(&self, worker: &mut E::WorkerState, call: &E::Call) -> bool {
        self.endpoint.takes_long(call) || self.queue.is_crowded() || self.endpoint.is_behind(worker, call)
    }

    /// Runs a call that [needs care](Self::needs_care). Returns whether the worker still holds the role, or holds it again.
    #[cold]
    fn serve_with_care(self: &Arc<Self>, worker: &mut E::WorkerState, call: Option<E::Call>) -> bool {
        let Some(call) = call else { return true };
        match self.endpoint.is_behind(worker, &call) {
            false => self.serve_counted(worker, call),
            true => self.serve_behind(worker, call),
        }
    }

    /// Runs a call of which it is not known that it takes long, and calls that wait for its end. `tag`: what is known of its caller while
    /// the worker is away. Returns whether the worker still holds the role, or holds it again.
    // In one piece, and taken out of its place only here: wherever a call is handed on by value, it is copied, which takes a dozen
    // instructions.
    #[inline(always)]
    fn serve_away(
        self: &Arc<Self>,
        worker: &mut E::WorkerState,
        call: &mut Option<E::Call>,
        tag: u64,
    ) -> bool {
        self.away.store(tag, Ordering::Relaxed);
        let claim = self.role.leave();
        self.endpoint.background().wake_if_asleep();
        if let Some(next) = call.take().and_then(|call| self.endpoint.run(worker, call)) {
            self.run_waiting(worker, next);
        }
        self.role.change(claim, HELD) || self.return_late(worker, claim)
    }

    /// The worker was away for so long that it has lost the role.
    #[cold]
    fn return_late(self: &Arc<Self>, worker: &mut E::WorkerState, claim: u64) -> bool {
        let charge = {
            let mut absences = locked(&self.absences);
            let index = absences.iter().position(|(absence, _)| *absence == claim);
            index.map(|index| absences.swap_remove(index).1)
        };
        if let Some(charge) = charge {
            self.queue.with(|queue| queue.end(charge, None));
        }
        self.help_out(worker)
    }

    /// Runs a call that takes long, or of which nothing may be known while some owner has its share of the workers; or lets it wait, if
    /// its owner or its procedure has as many workers as it may.
    #[cold]
    fn serve_counted(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call) -> bool {
        let (now_ns, terms) = (self.endpoint.time_of(worker, &call), self.endpoint.terms(&call));
        let keep = |call: &mut E::Call| self.endpoint.defer(worker, call);
        match self.queue.begin_or_admit(now_ns, call, terms, keep) {
            Err(admitted) => {
                self.answer_refused(worker, admitted);
                true
            }
            Ok((call, charge)) if !terms.is_long() => {
                let holds_role = self.serve_away(worker, &mut Some(call), NO_TAG);
                self.queue.with(|queue| queue.end(charge, None));
                holds_role
            }
            Ok((call, charge)) => self.serve_long(worker, call, charge),
        }
    }

    /// Runs a call that takes long, after the role has been passed on: to another worker, or to the background thread.
    fn serve_long(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call, charge: Charge) -> bool {
        // Before another worker receives.
        self.endpoint.background().count_runner(true);
        if !self.pass_on() {
            self.role.change(self.role.word(), BACKGROUND);
        }
        self.endpoint.background().wake_if_asleep();
        self.run_charged(worker, call, charge);
        self.endpoint.background().count_runner(false);
        self.help_out(worker)
    }

    /// More calls have come than can be run: the background thread receives from now on, and this worker runs calls of the queue.
    #[cold]
    fn serve_behind(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call) -> bool {
        let terms = self.endpoint.terms(&call);
        // The longest waits first: the others are behind it in the queue.
        self.admit(worker, call, terms);
        self.role.change(self.role.word(), BACKGROUND);
        self.endpoint.background().wake_if_asleep();
        self.queue_calls(worker);
        self.help_out(worker)
    }

    fn run_charged(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call, charge: Charge) {
        // A panic is our own mistake here; it must not take the place of a call for ever.
        let ended = Ended { pool: self, charge, slept_before: switches::voluntary() };
        self.run_waiting(worker, call);
        drop(ended);
    }

    /// Runs a call that has waited, and calls that wait for its end.
    fn run_waiting(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call) {
        let mut next = Some(call);
        while let Some(call) = next {
            self.queue_waited(worker);
            next = self.endpoint.run(worker, call);
        }
    }

    /// Lets other workers run the calls that have waited beside the one that this worker runs next, which may take long.
    fn queue_waited(self: &Arc<Self>, worker: &mut E::WorkerState) {
        while let Some(other) = self.endpoint.take_waited(worker) {
            let terms = self.endpoint.terms(&other);
            self.admit(worker, other, terms);
            self.wake_for_queue();
        }
    }

    /// Gives the role to the background thread, because calls wait, and helps out.
    #[cold]
    fn leave_to_background(self: &Arc<Self>, worker: &mut E::WorkerState) -> bool {
        self.role.change(self.role.word(), BACKGROUND);
        self.endpoint.background().wake_if_asleep();
        self.help_out(worker)
    }

    /// Lets a worker without the role run queued calls, and take the role if only the background thread has it.
    #[cold]
    fn help_out(self: &Arc<Self>, worker: &mut E::WorkerState) -> bool {
        self.endpoint.give_back(worker);
        loop {
            self.receive_if_due(worker);
            while let Some((call, charge)) = self.next_queued() {
                self.run_charged(worker, call, charge);
                self.receive_if_due(worker);
            }
            let word = self.role.word();
            let may_take = word & STATE == BACKGROUND && !self.queue.is_saturated();
            if !(may_take && self.role.change(word, HELD)) {
                // It may be idle for long: it holds nothing of the calls that it has run meanwhile.
                self.endpoint.give_back(worker);
                return false;
            }
            // Waits until the background thread has queued what it has received.
            drop(locked(&self.queueing));
            if !self.queue.is_saturated() {
                return true;
            }
            self.role.change(self.role.word(), BACKGROUND);
        }
    }

    /// Receives what has come while the background thread has the role, if that has not been done for a while: among many workers that
    /// compute, the scheduler gives the background thread no more time than each of them.
    fn receive_if_due(self: &Arc<Self>, worker: &mut E::WorkerState) {
        if self.queue.is_saturated() && self.role.is_with_background() && self.is_receiving_due() {
            self.queue_calls(worker);
        }
    }

    /// The next call of the queue for a worker. If there is another, another worker is told.
    fn next_queued(self: &Arc<Self>) -> Option<(E::Call, Charge)> {
        if !self.queue.has_runnable() {
            return None;
        }
        let now_ns = clock::now_ns();
        let next = self.queue.next(now_ns)?;
        self.wake_for_queue();
        Some(next)
    }

    /// Has an idle worker run a call of the queue, if one waits that could run. If no worker is idle, the background thread starts one.
    pub(crate) fn wake_for_queue(&self) {
        if !self.queue.has_runnable() {
            return;
        }
        match self.choose() {
            Some(idle_worker) => idle_worker.command(HELP),
            None => self.endpoint.background().wake_if_asleep(),
        }
    }

    /// Lets a call wait, or refuses it or another.
    pub(crate) fn admit(&self, worker: &mut E::WorkerState, call: E::Call, terms: CallTerms) {
        let now_ns = clock::now_ns();
        let keep = |call: &mut E::Call| self.endpoint.defer(worker, call);
        let admitted = self.queue.admit(now_ns, call, terms, keep);
        self.answer_refused(worker, admitted);
    }

    /// Refuses the call for which there was no place, if there is one.
    fn answer_refused(&self, worker: &mut E::WorkerState, admitted: Admitted<E::Call>) {
        match admitted {
            Admitted::Waits => {}
            Admitted::InPlaceOf(call, retry_after) => {
                self.refuse(worker, call, RefusalCode::Overloaded, retry_after);
            }
            Admitted::Full(call, retry_after) => {
                return self.refuse(worker, call, RefusalCode::Overloaded, retry_after);
            }
        }
        // The background thread looks at what waits.
        self.endpoint.background().wake_if_asleep();
    }

    pub(super) fn refuse(
        &self,
        worker: &mut E::WorkerState,
        call: E::Call,
        code: RefusalCode,
        retry_after: RetryAfter,
    ) {
        let refused = Refused { code, retry_after };
        // Calls that were parked behind this one, or behind others whose answers have left with its own; there is none as a rule,
        // because a caller's lane has one call.
        let mut waited = self.endpoint.refuse(worker, call, refused);
        while let Some(next) = waited {
            let terms = self.endpoint.terms(&next);
            self.admit(worker, next, terms);
            waited = self.endpoint.take_waited(worker);
        }
    }

    /// Gives the role to another worker: an idle one, or a new one if there may be more.
    pub(super) fn pass_on(self: &Arc<Self>) -> bool {
        match self.choose() {
            Some(idle_worker) => {
                idle_worker.command(RECEIVE);
                true
            }
            None => self.may_start_worker() && self.start_worker(true).is_ok(),
        }
    }
}

/// Counts a call out when it has ended.
struct Ended<'a, E: Endpoint> {
    pool: &'a WorkerPool<E>,
    charge: Charge,
    /// How often its worker had slept when it began.
    slept_before: Option<u64>,
}

impl<E: Endpoint> Drop for Ended<'_, E> {
    fn drop(&mut self) {
        let slept = self.slept_before.zip(switches::voluntary()).map(|(before, after)| after > before);
        self.pool.queue.with(|queue| queue.end(self.charge, slept));
    }
}

/// The place of a worker in the pool. When it is dropped, the pool may start another worker. If it is dropped by a panic, which is
/// our own mistake and never a procedure's, the role goes to the background thread, and so to another worker.
struct ActiveWorker<'a, E: Endpoint> {
    pool: &'a WorkerPool<E>,
    holds_role: bool,
}

impl<E: Endpoint> Drop for ActiveWorker<'_, E> {
    fn drop(&mut self) {
        self.pool.workers.fetch_sub(1, Ordering::Relaxed);
        if thread::panicking() && self.holds_role {
            let word = self.pool.role.word();
            if word & STATE == HELD {
                self.pool.role.change(word, BACKGROUND);
            }
            self.pool.endpoint.background().wake();
        }
    }
}
