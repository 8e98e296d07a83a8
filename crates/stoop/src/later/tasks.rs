//! Tasks: the calls of procedures that are an `async fn`.
//!
//! A task is polled first where its call has arrived. If it is ready then, its answer leaves like that of any procedure. Otherwise its
//! call becomes an [open one](crate::later::open_calls), and the task goes to the [executor](Tasks) of the server, or else to threads of
//! its own, of which there are no more than workers.

use crate::context::{ServedContext, served_context};
use crate::error::Refusal;
use crate::later::deferred::{Put, deferred};
use crate::later::pipe_threads::PipeThreads;
use crate::later::pool::{Bounds, Job, Pool};
use crate::later::reply::Reply;
use crate::later::room::{OpenRoom, Place};
use crate::later::unserved::Unserved;
use crate::locked::locked;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use stoop_marshal::Writer;

/// The means of a server to run tasks.
///
/// ```
/// use std::sync::{Arc, Mutex, mpsc};
/// use std::task::{Context, Poll, Wake, Waker};
/// use stoop::Task;
///
/// /// A task that is queued again when something wakes it: an executor of one thread, for programs without a runtime.
/// struct Queued(Mutex<Option<Task>>, mpsc::Sender<Arc<Queued>>);
///
/// impl Wake for Queued {
///     fn wake(self: Arc<Self>) {
///         let _ = self.1.send(Arc::clone(&self));
///     }
/// }
///
/// let (queue, tasks) = mpsc::channel::<Arc<Queued>>();
/// std::thread::spawn(move || {
///     for queued in tasks {
///         let waker = Waker::from(Arc::clone(&queued));
///         let mut task = queued.0.lock().unwrap();
///         if let Some(mut polled) = task.take()
///             && Future::poll(std::pin::pin!(&mut polled), &mut Context::from_waker(&waker)).is_pending()
///         {
///             *task = Some(polled);
///         }
///     }
/// });
/// let queue = Mutex::new(queue);
/// let server = stoop::Server::new().executor(move |task| {
///     let queue = queue.lock().unwrap();
///     let _ = queue.send(Arc::new(Queued(Mutex::new(Some(task)), queue.clone())));
/// });
/// ```
pub struct Tasks {
    /// Takes a task and runs it.
    executor: Option<Executor>,
    /// Poll the tasks of a server without an executor.
    threads: Arc<Pool<Arc<PolledTask>>>,
    room: Arc<OpenRoom>,
    /// Run procedures with pipes that keep a thread.
    pub(super) pipe_threads: PipeThreads,
}

/// Takes tasks and runs them.
pub(crate) type Executor = Arc<dyn Fn(Task) + Send + Sync>;

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("has_executor", &self.executor.is_some()).finish_non_exhaustive()
    }
}

impl Tasks {
    /// For a server of so many workers, and so many threads for procedures with pipes.
    pub(crate) fn new(
        executor: Option<Executor>,
        (workers, pipe_threads): (usize, usize),
        room: &Arc<OpenRoom>,
    ) -> Self {
        // The room bounds the tasks.
        let bounds = Bounds { workers, queue: usize::MAX };
        let (threads, pipe_threads) = (Arc::new(Pool::new(bounds)), PipeThreads::new(pipe_threads));
        Self { executor, threads, room: Arc::clone(room), pipe_threads }
    }

    /// Has a task polled until it ends, by the executor or by threads of the server.
    pub(super) fn run(&self, task: Task) {
        match &self.executor {
            // If it panics, it has dropped the task, which has answered its call.
            Some(executor) => drop(catch_unwind(AssertUnwindSafe(|| executor(task)))),
            None => PolledTask::begin(task, &self.threads),
        }
    }
}

/// A call of a procedure that is an `async fn`, for the executor of a server ([`Server::executor`](crate::Server::executor)): a future that
/// ends when the procedure has returned and its answer has left.
///
/// Dropped before, it fails its call as [abandoned](crate::FailureCode::Abandoned); if it was never polled, also by a panic of the
/// executor, the procedure has not run, and the call is [refused](crate::RefusalCode::Denied).
#[must_use = "a task does nothing unless it is polled"]
pub struct Task {
    pub(super) run: Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(super) context: ServedContext,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

impl Task {
    /// Polls it once, here and now. `None`: it has ended, so that the answer of its call need not be sent by another thread. An executor
    /// that polls what it is given, as all do, may be given the rest.
    pub fn start(mut self) -> Option<Self> {
        let is_over = Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        (!is_over).then_some(self)
    }
}

impl Future for Task {
    type Output = ();

    /// In the procedure, [`current_call`](crate::current_call) is its call, whatever thread polls.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { run, context: served } = &mut *self;
        served.serving(|| run.as_mut().poll(context))
    }
}

/// How a task ended.
pub(super) enum Ended<R> {
    Returned(Result<R, Unserved>),
    Panicked(Box<dyn Any + Send>),
}

/// Writes the result of a task that has ended. A panic goes on, as if the procedure had panicked here.
pub(super) fn put<R>(
    (ended, put): (Ended<R>, PutAnswer<R>),
    result: &mut Writer<'_>,
) -> Result<(), Unserved> {
    match ended {
        Ended::Returned(returned) => returned.map(|value| put(value, result)),
        Ended::Panicked(panic) => resume_unwind(panic),
    }
}

/// Writes an answer of this type.
pub(super) type PutAnswer<R> = fn(R, &mut Writer<'_>);

/// Runs a procedure, as the task of the call that this thread serves. If it returns at once, `put` writes its result.
///
/// # Errors
/// It has not run, or its answer comes later.
pub fn run_task<R, F>(
    tasks: &OnceLock<Arc<Tasks>>,
    run: F,
    result: &mut Writer<'_>,
    put: PutAnswer<R>,
) -> Result<(), Unserved>
where
    R: Send + 'static,
    F: Future<Output = Result<R, Unserved>> + Send + 'static,
{
    let tasks = tasks.get();
    let mut run = Box::pin(run);
    if tasks.is_none_or(|tasks| tasks.executor.is_none())
        && let Poll::Ready(returned) = run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    {
        return returned.map(|value| put(value, result));
    }
    run_later(tasks, run, result, put)
}

#[cold]
fn run_later<R, F>(
    tasks: Option<&Arc<Tasks>>,
    run: Pin<Box<F>>,
    result: &mut Writer<'_>,
    put: PutAnswer<R>,
) -> Result<(), Unserved>
where
    R: Send + 'static,
    F: Future<Output = Result<R, Unserved>> + Send + 'static,
{
    let (reply, deferred) = deferred();
    // It counts for its caller until it has ended, which may be long after its call.
    let place = tasks.and_then(|tasks| tasks.room.enter_task());
    let reply = Unstarted::new(reply, put);
    let task = Task { run: Box::pin(answering(run, place, reply)), context: served_context() };
    match tasks {
        Some(tasks) => tasks.run(task),
        // Without a server, as in a test of a stub.
        None => wait_for(task),
    }
    let answered = deferred.put(result, self::put as Put<(Ended<R>, PutAnswer<R>)>);
    answered.map_err(|why| match why {
        Unserved::Later(later) => Unserved::Later(later.counted()),
        why => why,
    })
}

/// The answer of a task, which refuses its call if it is dropped before the task is polled first.
pub(super) struct Unstarted<R> {
    /// `None`: the task has been polled.
    reply: Option<Reply<(Ended<R>, PutAnswer<R>)>>,
    put: PutAnswer<R>,
}

const NOT_STARTED: &str = "the executor of the server did not start it: it dropped the task, or it panicked, as a runtime does that is not \
                           entered or has ended (the server's standard error has the message)";

impl<R> Unstarted<R> {
    pub(super) fn new(reply: Reply<(Ended<R>, PutAnswer<R>)>, put: PutAnswer<R>) -> Self {
        Self { reply: Some(reply), put }
    }
}

impl<R> Drop for Unstarted<R> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let refused = Unserved::Refused(Refusal::denied(NOT_STARTED));
            let _ = reply.send((Ended::Returned(Err(refused)), self.put));
        }
    }
}

/// Runs a procedure to its end, and gives its answer.
pub(super) async fn answering<R, F>(mut run: Pin<Box<F>>, place: Option<Place>, mut unstarted: Unstarted<R>)
where
    F: Future<Output = Result<R, Unserved>>,
{
    let (reply, put) = (unstarted.reply.take(), unstarted.put);
    let ended =
        std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ended::Returned),
            Err(panic) => Poll::Ready(Ended::Panicked(panic)),
        });
    let ended = ended.await;
    // Before its caller has the answer and may make the next call.
    drop((run, place));
    // The procedure could have asked whether its caller still waits.
    let _ = reply.map(|reply| reply.send((ended, put)));
}

/// A task that threads of the server poll.
struct PolledTask {
    /// `None`: it has ended.
    task: Mutex<Option<Task>>,
    state: AtomicU8,
    threads: Arc<Pool<Arc<PolledTask>>>,
}

/// States of a [`PolledTask`]: nothing is to be done until it is woken;
const WAITS: u8 = 0;
/// it is among the jobs of the threads, or is about to be;
const QUEUED: u8 = 1;
/// a thread polls it;
const POLLED: u8 = 2;
/// a thread polls it, and will once more.
const WOKEN: u8 = 3;

impl PolledTask {
    /// Polls a task here, and goes on elsewhere.
    fn begin(task: Task, threads: &Arc<Pool<Arc<Self>>>) {
        let state = AtomicU8::new(QUEUED);
        let task = Arc::new(Self { task: Mutex::new(Some(task)), state, threads: Arc::clone(threads) });
        task.run();
    }

    /// `false`: the system gives no thread, not even the first.
    fn queue(self: &Arc<Self>) -> bool {
        self.threads.submit(Arc::clone(self)).is_ok()
    }
}

impl Job for Arc<PolledTask> {
    fn run(self) {
        let waker = Waker::from(Arc::clone(&self));
        loop {
            self.state.store(POLLED, Ordering::SeqCst);
            let mut task = locked(&self.task);
            let Some(polled) = task.as_mut() else { return };
            // The procedure's own panics are caught within.
            if Pin::new(polled).poll(&mut Context::from_waker(&waker)).is_ready() {
                let ended = task.take();
                drop(task);
                return drop(ended);
            }
            drop(task);
            if self.state.compare_exchange(POLLED, WAITS, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
            // It was woken meanwhile.
            self.state.store(QUEUED, Ordering::SeqCst);
            if self.queue() {
                return;
            }
        }
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

impl Wake for PolledTask {
    fn wake(self: Arc<Self>) {
        let woken = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| match state {
            WAITS => Some(QUEUED),
            POLLED => Some(WOKEN),
            _ => None,
        });
        if woken == Ok(WAITS) && !self.queue() {
            self.run();
        }
    }
}

/// Wakes the thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future in this thread until it ends.
pub(crate) fn wait_for<R>(future: impl Future<Output = R>) -> R {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ended) => return ended,
            Poll::Pending => thread::park(),
        }
    }
}
