//! The worker pool: the threads of one endpoint, which receive calls and run procedures (Leader/Followers).
//!
//! Each endpoint has one *receive role*. The worker that holds it receives, and runs the procedure itself: the arriving packet
//! wakes the thread that does the work, with no thread in between (F10). While that worker runs a procedure, it is
//! *away*. A procedure that is known to take long is not begun before the role has been passed on. For the others
//! there is the *background thread*: asleep while the endpoint is idle, it looks once a millisecond while there are calls.
//! When the worker has been away too long, it takes the role and gives it to another worker, up to a bound. A procedure that waits for what
//! comes by its pipes may have the role as a [guest].
//!
//! **Overload.** A call waits in the [queue] if its owner has its share of the workers, or if more calls have come than the workers can
//! begin. As long as a waiting call could run, the background thread holds the role: once a millisecond it takes all calls that have
//! come out of the kernel's buffers, where no thread could see how old they are, and lets them wait or refuses them, while the workers
//! run calls of the queue.

pub(crate) mod background;
mod computing;
pub(crate) mod guest;
pub(crate) mod idle;
mod open;
mod queue;
mod quiet;
pub(crate) mod role;
mod rotation;
mod shared_queue;
mod worker;
mod worker_shares;

use crate::later::deferred::{Given, ReplyError};
use crate::later::lent::Lent;
use crate::later::open_calls::OpenCalls;
pub(crate) use crate::later::pool::Bounds;
use crate::serving::counters::{QueueCounters, ServerCounters};
use crate::serving::terms::CallTerms;
pub(crate) use crate::serving::workers::background::Background;
use crate::serving::workers::idle::{IdleWorker, LEAVE};
use crate::serving::workers::queue::Charge;
use crate::serving::workers::role::{Request, Role};
use crate::serving::workers::shared_queue::SharedQueue;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use stoop_exchange::shares::Owner;
use stoop_net::threads;
use stoop_net::{clock, fence};
use stoop_wire::Refused;

/// A source of calls and the way of their answers. Several threads may call any of these methods at once.
pub(crate) trait Endpoint: Send + Sync + 'static {
    /// A call that is ready to run, with the packet that brought it.
    type Call: Send;
    /// The state of a worker from one call to the next: its buffers and its way of waiting, nothing of the calls.
    type WorkerState: Send;

    /// The state of a new worker.
    fn worker(&self) -> Self::WorkerState;

    /// Receives until there is a call to run, and answers by itself all that needs no procedure. `None` when there is
    /// nothing, if not `patient` or `interrupted` is set.
    fn receive(
        &self,
        worker: &mut Self::WorkerState,
        patient: bool,
        interrupted: &AtomicBool,
    ) -> Option<Self::Call>;

    /// Receives once what is there, for a [guest](guest) with the role. If nothing is, it sleeps before for `sleep_ns` at most, until
    /// something is; `None`: it cannot.
    fn look(&self, worker: &mut Self::WorkerState, sleep_ns: u64) -> Option<Looked<Self::Call>> {
        let _ = (worker, sleep_ns);
        unreachable!("it has no guests")
    }

    /// Whether the call's procedure is known to take so long that another worker should receive meanwhile.
    fn takes_long(&self, call: &Self::Call) -> bool;

    /// The time, in nanoseconds of the clock, for a call that this worker has received. Of a call that came just now the worker knows it.
    fn time_of(&self, worker: &Self::WorkerState, call: &Self::Call) -> u64 {
        let _ = (worker, call);
        clock::now_ns()
    }

    /// The terms of the call for the queue.
    fn terms(&self, call: &Self::Call) -> CallTerms;

    /// A word by which [`owner_of`](Self::owner_of) finds the call's owner while it runs.
    fn tag(&self, call: &Self::Call) -> u64 {
        let _ = call;
        NO_TAG
    }

    /// The owner of the call with this tag; `None` if its binding has gone.
    fn owner_of(&self, tag: u64) -> Option<Owner> {
        let _ = tag;
        None
    }

    /// Whether more calls have come than the worker that receives could begin in a few milliseconds. Asked after each call, so that it
    /// takes no time when not even that much time has passed since nothing was there to receive.
    fn is_behind(&self, worker: &mut Self::WorkerState, call: &Self::Call) -> bool {
        let _ = (worker, call);
        false
    }

    /// Whether nothing has been heard on this binding for so long that its caller has ended or is cut off. Silence before `since_ns` proves
    /// nothing.
    fn is_quiet(&self, binding: u64, now_ns: u64, since_ns: u64) -> bool {
        let _ = (binding, now_ns, since_ns);
        false
    }

    /// Runs a call and answers it. Returns the call that had to wait for this one to return, if there is one.
    fn run(&self, worker: &mut Self::WorkerState, call: Self::Call) -> Option<Self::Call>;

    /// Returns one more call that had to wait for those that the worker has [run](Self::run) or [refused](Self::refuse), if several had to.
    /// Any worker may run it.
    fn take_waited(&self, worker: &mut Self::WorkerState) -> Option<Self::Call> {
        let _ = worker;
        None
    }

    /// Answers a call that has been [open](OpenCalls). Returns what [`run`](Self::run) does, and what the giver of the answer learns.
    fn answer_open(
        &self,
        call: Self::Call,
        given: Given<'_>,
    ) -> (Option<Self::Call>, Result<(), ReplyError>) {
        let _ = (call, given);
        unreachable!("it leaves no call open")
    }

    /// Whether the caller of an open call can still receive an answer.
    fn has_caller(&self, call: &Self::Call) -> bool {
        let _ = call;
        true
    }

    /// Its open calls, if it leaves calls open.
    fn open_calls(&self) -> Option<&OpenCalls<WorkerPool<Self>>>
    where
        Self: Sized,
    {
        None
    }

    /// The pool is about to start.
    fn belong_to(&self, pool: &Arc<WorkerPool<Self>>)
    where
        Self: Sized,
    {
        if let Some(open_calls) = self.open_calls() {
            open_calls.belong_to(pool.lent.clone());
        }
    }

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

    /// Prepares a call that this worker has received to wait, and to run on another worker.
    fn defer(&self, worker: &mut Self::WorkerState, call: &mut Self::Call);

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, in nanoseconds of the clock.
    fn next_timeout_ns(&self) -> u64;

    /// Does what is due.
    fn handle_timeout(&self, worker: &mut Self::WorkerState, now_ns: u64);

    /// Its background thread.
    fn background(&self) -> &Background;

    /// Calls wait in the queue that could run, so that others may wait in the kernel for longer than usual; or that has been over for a
    /// while. Called at each look of the background thread, and before calls are received in place of the workers.
    fn note_backlog(&self, is_there: bool) {
        let _ = is_there;
    }

    /// The background thread calls this at each of its looks; with `is_quiet` when it is about to go to sleep. Returns whether it has to
    /// go on looking. The endpoint wakes it after this has become true.
    fn look_after(&self, is_quiet: bool) -> bool {
        let _ = is_quiet;
        false
    }

    /// Sees whether some caller holds much memory. The background thread calls this at most once a second, and before it goes to sleep.
    fn look_at_memory(&self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Frees the memory that it keeps for the next messages. The background thread calls this when nothing has happened for
    /// a while.
    fn release_memory(&self) {}

    /// Has the worker that is blocked in [`receive`](Self::receive) [give back](stoop_net::memory::give_back_end_of_arena) what it has
    /// freed. The background thread calls this after [`release_memory`](Self::release_memory), if the process has grown.
    fn notify_of_growth(&self) {}

    /// Wakes the thread that is blocked in [`receive`](Self::receive), and lets no thread block there again.
    fn wake(&self);

    /// Refuses new calls from now on.
    fn shut_down(&self);

    /// Waits until every call has been answered, and until callers have read the answers, as long as they read on.
    fn drain(&self);

    /// The endpoint's counters at this moment.
    fn counters(&self) -> ServerCounters;
}

/// What one look of a [guest](guest) has found.
pub(crate) enum Looked<C> {
    Nothing,
    /// Packets, but no call.
    Packets,
    Call(C),
}

/// An endpoint and its threads.
pub(crate) struct WorkerPool<E: Endpoint> {
    pub(crate) endpoint: E,
    /// For threads that are not its own.
    pub(crate) lent: Lent<Self>,
    bounds: Bounds,
    role: Role,
    /// Idle workers, the latest last: its caches are warm.
    idle: Mutex<Vec<Arc<IdleWorker>>>,
    queue: SharedQueue<E::Call>,
    /// The tag of the call that the worker with the role runs.
    away: AtomicU64,
    /// Calls for which a worker has lost the role: the number of its absence, and how the call was counted.
    absences: Mutex<Vec<(u64, Charge)>>,
    workers: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: AtomicBool,
    /// The pool is stopping, or a guest asks for the role.
    interrupted: AtomicBool,
    request: Mutex<Option<Request>>,
    /// What a guest receives with, from the first one on. Guests have ends of pipes, which programs may keep for longer than the server.
    of_guest: Mutex<Option<Box<E::WorkerState>>>,
    /// Held by the background thread, or a worker in its place, while it receives a call and queues it, and while the background thread
    /// gives the role away.
    queueing: Mutex<()>,
    /// The number of [cancels](crate::context::cancelled::cancels) of which the queue knows.
    cancels_seen: AtomicU64,
    /// When calls are to be received again in place of the workers.
    receive_at_ns: AtomicU64,
}

/// Of a call that is counted already.
const NO_TAG: u64 = 0;

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
        let pool = Arc::new_cyclic(|own| Self {
            endpoint,
            lent: Lent::new(own.clone()),
            bounds,
            role: Role::held(),
            idle: Mutex::default(),
            queue: SharedQueue::new(bounds.workers, bounds.queue),
            away: AtomicU64::new(NO_TAG),
            absences: Mutex::default(),
            workers: AtomicUsize::new(0),
            threads: Mutex::default(),
            stopping: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            request: Mutex::default(),
            of_guest: Mutex::default(),
            queueing: Mutex::new(()),
            cancels_seen: AtomicU64::new(0),
            receive_at_ns: AtomicU64::new(0),
        });
        pool.endpoint.belong_to(&pool);
        fence::prepare();
        let background = Arc::clone(&pool);
        let thread = threads::start("stoop-background", move || background.run_background())?;
        let _ = pool.endpoint.background().thread.set(thread.thread().clone());
        locked(&pool.threads).push(thread);
        match pool.start_worker(true) {
            Ok(()) => Ok(pool),
            Err(error) => {
                pool.stop();
                Err(error)
            }
        }
    }

    /// Starts a worker, which holds the role from its beginning or else helps out.
    fn start_worker(self: &Arc<Self>, holds_role: bool) -> std::io::Result<()> {
        let one_more = |workers: usize| (workers < self.bounds.workers).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            // A worker and the background thread have found room for one at the same time.
            return Err(std::io::ErrorKind::QuotaExceeded.into());
        }
        let pool = Arc::clone(self);
        let started = threads::start("stoop-worker", move || pool.work(holds_role));
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
        self.interrupted.store(true, Ordering::SeqCst);
        self.endpoint.wake();
        // They may start workers.
        self.lent.call_in();
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

    /// Counters of the calls that waited for a worker.
    pub(crate) fn queue_counters(&self) -> QueueCounters {
        self.queue.with(|queue| QueueCounters { waiting: queue.len() as u64, ..queue.counters })
    }

    fn may_start_worker(&self) -> bool {
        self.workers.load(Ordering::Relaxed) < self.bounds.workers && !self.is_stopping()
    }
}

#[cfg(test)]
mod tests;
