//! The worker pool: the threads of one endpoint, which receive calls and run procedures (Leader/Followers).
//!
//! Each endpoint has one *receive role*. The worker that holds it receives, and runs the procedure itself: the arriving packet
//! wakes the thread that does the work, with no thread in between (F10). While that worker runs a procedure, it is
//! *away*. A procedure that is known to take long is not begun before the role has been passed on. For the others
//! there is the *background thread*: asleep while the endpoint is idle, it looks once a millisecond while there are calls.
//! When the worker has been away too long, it takes the role and gives it to another worker, up to a bound. Beyond
//! that bound it holds the role itself: it answers probes, queues calls, and refuses them when the queue is full.

pub(crate) mod background;
pub(crate) mod idle;
pub(crate) mod role;

use crate::serving::counters::ServerCounters;
pub(crate) use crate::serving::workers::background::Background;
use crate::serving::workers::idle::{HELP, IdleWorker, LEAVE, RECEIVE};
use crate::serving::workers::role::{BACKGROUND, HELD, Role, STATE};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use stoop_net::fence;
use stoop_wire::Refused;

/// A source of calls and the way of their answers. Several threads may call any of these methods at once.
pub(crate) trait Endpoint: Send + Sync + 'static {
    /// A call that is ready to run, with the packet that brought it.
    type Call: Send;
    /// The state of a worker from one call to the next: its buffers and its way of waiting, nothing of the calls.
    type WorkerState;

    /// The state of a new worker.
    fn worker(&self) -> Self::WorkerState;

    /// Receives until there is a call to run, and answers by itself all that needs no procedure. `None` when there is
    /// nothing (if not `patient`) or `stopping` is set.
    fn receive(
        &self,
        worker: &mut Self::WorkerState,
        patient: bool,
        stopping: &AtomicBool,
    ) -> Option<Self::Call>;

    /// Whether the call's procedure is known to take so long that another worker should receive meanwhile.
    fn takes_long(&self, call: &Self::Call) -> bool;

    /// Runs a call and answers it. Returns the call that had to wait for this one to return, if there is one.
    fn run(&self, worker: &mut Self::WorkerState, call: Self::Call) -> Option<Self::Call>;

    /// Answers a call without running it. Returns what [`run`](Self::run) does.
    fn refuse(
        &self,
        worker: &mut Self::WorkerState,
        call: Self::Call,
        refused: Refused,
    ) -> Option<Self::Call>;

    /// Gives back what the worker holds for its next call: it has lost the role, or leaves.
    fn give_back(&self, worker: &mut Self::WorkerState) {
        let _ = worker;
    }

    /// Marks a call that will not run at once.
    fn defer(&self, call: &mut Self::Call);

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, in nanoseconds of the clock.
    fn next_timeout_ns(&self) -> u64;

    /// Does what is due.
    fn handle_timeout(&self, worker: &mut Self::WorkerState, now_ns: u64);

    /// Its background thread.
    fn background(&self) -> &Background;

    /// The background thread calls this at each of its looks; with `is_quiet` when it is about to go to sleep. Returns whether it has to
    /// go on looking. The endpoint wakes it after this has become true.
    fn look_after(&self, is_quiet: bool) -> bool {
        let _ = is_quiet;
        false
    }

    /// Frees the memory that it keeps for the next messages. The background thread calls this when nothing has happened for
    /// a while.
    fn release_memory(&self) {}

    /// Wakes the thread that is blocked in [`receive`](Self::receive), and lets no thread block there again.
    fn wake(&self);

    /// Refuses new calls from now on.
    fn shut_down(&self);

    /// Waits until every call has been answered, and until callers have read the answers, as long as they read on.
    fn drain(&self);

    /// The endpoint's counters at this moment.
    fn counters(&self) -> ServerCounters;
}

/// Most workers, and most calls that wait for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) workers: usize,
    pub(crate) queue: usize,
}

/// An endpoint and its threads.
pub(crate) struct WorkerPool<E: Endpoint> {
    pub(crate) endpoint: E,
    bounds: Bounds,
    role: Role,
    /// Idle workers, the latest last: its caches are warm.
    idle: Mutex<Vec<Arc<IdleWorker>>>,
    queue: Mutex<VecDeque<E::Call>>,
    queued: AtomicUsize,
    workers: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: AtomicBool,
    /// Held by the background thread while it receives a call and queues it.
    queueing: Mutex<()>,
}

thread_local! {
    /// The address of the pool to which this worker belongs.
    static POOL: Cell<usize> = const { Cell::new(0) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Endpoint> WorkerPool<E> {
    /// Starts the background thread and a first worker.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(endpoint: E, bounds: Bounds) -> std::io::Result<Arc<Self>> {
        let pool = Arc::new(Self {
            endpoint,
            bounds,
            role: Role::held(),
            idle: Mutex::default(),
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            threads: Mutex::default(),
            stopping: AtomicBool::new(false),
            queueing: Mutex::new(()),
        });
        fence::prepare();
        let background = Arc::clone(&pool);
        let thread = thread::Builder::new()
            .name("stoop-background".into())
            .spawn(move || background.run_background())?;
        let _ = pool.endpoint.background().thread.set(thread.thread().clone());
        locked(&pool.threads).push(thread);
        match pool.start_worker() {
            Ok(()) => Ok(pool),
            Err(error) => {
                pool.stop();
                Err(error)
            }
        }
    }

    /// Starts a worker, which holds the role from its beginning.
    fn start_worker(self: &Arc<Self>) -> std::io::Result<()> {
        let one_more = |workers: usize| (workers < self.bounds.workers).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            // A worker and the background thread have found room for one at the same time.
            return Err(std::io::ErrorKind::QuotaExceeded.into());
        }
        let pool = Arc::clone(self);
        let started = thread::Builder::new().name("stoop-worker".into()).spawn(move || pool.work());
        match started {
            Ok(thread) => {
                let mut threads = locked(&self.threads);
                // Threads that have ended need no joining; a server that lives long must not collect them.
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.workers.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Its address in memory, which stays the same from its start to its end.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the calling thread is one of its workers.
    pub(crate) fn is_own_thread(&self) -> bool {
        POOL.get() == self.address()
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends all threads; procedures that run are waited for.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.endpoint.wake();
        locked(&self.idle).drain(..).for_each(|idle_worker| idle_worker.command(LEAVE));
        self.endpoint.background().wake();
        let own = thread::current().id();
        loop {
            // Not under the lock: the background thread may be starting a worker.
            let Some(thread) = locked(&self.threads).pop() else { break };
            if thread.thread().id() != own {
                // A worker panics only by our own mistake, and has reported it.
                let _ = thread.join();
            }
        }
    }

    /// The main function of a worker. It begins with the role.
    fn work(self: &Arc<Self>) {
        let mut active = ActiveWorker { pool: self, holds_role: true };
        POOL.set(self.address());
        let mut worker = self.endpoint.worker();
        while !self.is_stopping() {
            if !active.holds_role {
                match self.await_command() {
                    RECEIVE => active.holds_role = true,
                    HELP => active.holds_role = self.help_out(&mut worker),
                    _ => break,
                }
                continue;
            }
            let call = match self.next_queued() {
                None => self.endpoint.receive(&mut worker, true, &self.stopping),
                queued => queued,
            };
            if let Some(call) = call {
                // If this worker panics in a procedure, the background thread takes the role: it is away.
                active.holds_role = false;
                active.holds_role = self.serve(&mut worker, call);
            }
        }
        self.endpoint.give_back(&mut worker);
    }

    /// Runs a call, and calls that wait for its end. Returns whether the worker still holds the role, or holds it again.
    #[inline]
    fn serve(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call) -> bool {
        if self.endpoint.takes_long(&call) {
            // Before another worker receives.
            self.endpoint.background().count_runner(true);
            if self.pass_on() {
                return self.serve_without_role(worker, call);
            }
            self.endpoint.background().count_runner(false);
        }
        let claim = self.role.leave();
        self.endpoint.background().wake_if_asleep();
        self.run_with_next(worker, call);
        self.role.change(claim, HELD) || self.help_out(worker)
    }

    /// Runs a call that is known to take long, and calls that wait for its end, after the role has been passed on.
    #[cold]
    fn serve_without_role(&self, worker: &mut E::WorkerState, call: E::Call) -> bool {
        self.endpoint.background().wake_if_asleep();
        self.run_with_next(worker, call);
        self.endpoint.background().count_runner(false);
        self.help_out(worker)
    }

    #[inline(always)]
    fn run_with_next(&self, worker: &mut E::WorkerState, call: E::Call) {
        if let Some(next) = self.endpoint.run(worker, call) {
            self.run_waiting(worker, next);
        }
    }

    /// Runs a call that has waited for the end of another, and calls that wait for its own.
    fn run_waiting(&self, worker: &mut E::WorkerState, call: E::Call) {
        let mut next = Some(call);
        while let Some(call) = next {
            next = self.endpoint.run(worker, call);
        }
    }

    /// Lets a worker without the role run queued calls, and take the role if only the background thread has it.
    #[cold]
    fn help_out(&self, worker: &mut E::WorkerState) -> bool {
        self.endpoint.give_back(worker);
        while let Some(call) = self.next_queued() {
            self.run_with_next(worker, call);
        }
        let word = self.role.word();
        let takes_role = word & STATE == BACKGROUND && self.role.change(word, HELD);
        if takes_role {
            // Waits until the background thread has queued what it has received: no other thread would run it
            // while this worker waits for the next call.
            drop(locked(&self.queueing));
        } else {
            // It may be idle for long: it holds nothing of the calls that it has run meanwhile.
            self.endpoint.give_back(worker);
        }
        takes_role
    }

    #[inline]
    fn next_queued(&self) -> Option<E::Call> {
        match self.queued.load(Ordering::Acquire) {
            0 => None,
            _ => self.take_queued(),
        }
    }

    #[cold]
    fn take_queued(&self) -> Option<E::Call> {
        let call = locked(&self.queue).pop_front()?;
        self.queued.fetch_sub(1, Ordering::AcqRel);
        Some(call)
    }

    /// Gives the role to another worker: an idle one, or a new one if there may be more.
    fn pass_on(self: &Arc<Self>) -> bool {
        match self.choose() {
            Some(idle_worker) => {
                idle_worker.command(RECEIVE);
                true
            }
            None => self.may_start_worker() && self.start_worker().is_ok(),
        }
    }

    fn may_start_worker(&self) -> bool {
        self.workers.load(Ordering::Relaxed) < self.bounds.workers && !self.is_stopping()
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

#[cfg(test)]
mod tests;
