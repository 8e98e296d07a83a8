//! The helper: a thread of the process that sends the bytes of pipes which gather, and wakes tasks.
//!
//! The first item after a pause is sent by the thread that has appended it. Items that follow it at once gather while the helper
//! sends those before them, so that one system call sends many. The helper also wakes tasks for threads that hold locks. It exists while
//! there is something to do, and ten seconds longer. A forked process has a helper of its own.

use crate::locked::locked;
use crate::pipes::waiters::Wakeup;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::fork::PerProcess;
use stoop_net::{clock, threads};

/// Sends the bytes of the pipes on one connection.
pub(crate) trait SendsPipes: Send + Sync {
    /// Sends what is there, as far as the connection takes it.
    fn send_pipes(&self);
}

/// When the bytes of the pipes on one connection are sent, and by which thread.
#[derive(Default)]
pub(crate) struct Gathering {
    /// When the last sending has ended; `u64::MAX` while a thread sends.
    sent_ns: AtomicU64,
    /// The helper is going to send.
    is_awaited: AtomicBool,
}

/// A thread sends what is there as long as this lives.
pub(crate) struct SendingNow<'a>(&'a Gathering);

enum Job {
    Send(Weak<dyn SendsPipes>),
    Wake(Waker),
}

#[derive(Default)]
struct Helper {
    jobs: VecDeque<Job>,
    thread: Option<Thread>,
    /// It looks for jobs by itself, and need not be woken.
    is_awake: bool,
}

/// An item that is appended so soon after a sending gathers with those behind it. An answer to an item comes later.
const SOON_NS: u64 = 2_000;
/// As many bytes are sent at once, by the thread that has appended them.
const MANY_BYTES: usize = 32 * 1024;
/// The helper looks for so long for another job before it sleeps.
const ATTENTION_NS: u64 = 30_000;
const LINGER: Duration = Duration::from_secs(10);

static HELPER: PerProcess<Mutex<Helper>> = PerProcess::new();
/// Jobs that wait, for looks without the lock.
static WAITING: AtomicUsize = AtomicUsize::new(0);

fn helper() -> MutexGuard<'static, Helper> {
    let Ok(helper) = HELPER.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
    locked(helper)
}

impl Gathering {
    /// Bytes were appended to a queue, which now has so many. They are sent by this thread, or soon by the helper.
    pub(crate) fn appended(&self, bytes: usize, sends: impl FnOnce() -> Weak<dyn SendsPipes>) {
        if bytes < MANY_BYTES {
            if self.is_awaited.load(Ordering::SeqCst) {
                return;
            }
            if clock::now_ns().saturating_sub(self.sent_ns.load(Ordering::Relaxed)) < SOON_NS {
                if !self.is_awaited.swap(true, Ordering::SeqCst) {
                    submit(Job::Send(sends()));
                }
                return;
            }
        }
        if let Some(sends) = sends().upgrade() {
            sends.send_pipes();
        }
    }

    /// The calling thread looks whether there are bytes to be sent. Those that are appended from now on are not left to it.
    pub(crate) fn looks(&self) {
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// The bytes that are there now are about to be sent.
    pub(crate) fn begin(&self) -> SendingNow<'_> {
        self.is_awaited.store(false, Ordering::SeqCst);
        self.sent_ns.store(u64::MAX, Ordering::Relaxed);
        SendingNow(self)
    }
}

impl Drop for SendingNow<'_> {
    fn drop(&mut self) {
        self.0.sent_ns.store(clock::now_ns(), Ordering::Relaxed);
    }
}

/// Sends the bytes of the pipes on a connection, in another thread.
pub(crate) fn send(sends: Weak<dyn SendsPipes>) {
    submit(Job::Send(sends));
}

/// Wakes a task, if one waits: in another thread, because the calling one holds locks.
pub(crate) fn wake(wakeup: Wakeup) {
    if let Some(waker) = wakeup.into_waker() {
        submit(Job::Wake(waker));
    }
}

/// The same, if the calling thread holds no lock: wakes the library's own task, which takes what has arrived, in the calling thread.
pub(crate) fn wake_unlocked(wakeup: Wakeup) {
    match wakeup.is_own() {
        true => wakeup.give(),
        false => wake(wakeup),
    }
}

/// Wakes these tasks, in another thread.
pub(crate) fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(|waker| submit(Job::Wake(waker)));
}

fn submit(job: Job) {
    let mut helper = helper();
    helper.jobs.push_back(job);
    WAITING.store(helper.jobs.len(), Ordering::SeqCst);
    if helper.thread.is_none() {
        // If the system gives none, the next job tries again.
        helper.thread = threads::start("stoop-pipes", run).ok().map(|started| started.thread().clone());
        helper.is_awake = true;
    } else if !mem::replace(&mut helper.is_awake, true)
        && let Some(thread) = &helper.thread
    {
        thread.unpark();
    }
}

fn run() {
    loop {
        let jobs = take_jobs();
        if jobs.is_empty() && !wait() {
            return;
        }
        for job in jobs {
            // A task that panics when it is woken must not end the helper.
            let _ = catch_unwind(AssertUnwindSafe(|| match job {
                Job::Wake(waker) => waker.wake(),
                Job::Send(sends) => {
                    if let Some(sends) = sends.upgrade() {
                        sends.send_pipes();
                    }
                }
            }));
        }
    }
}

fn take_jobs() -> VecDeque<Job> {
    if WAITING.load(Ordering::SeqCst) == 0 {
        return VecDeque::new();
    }
    let mut helper = helper();
    WAITING.store(0, Ordering::SeqCst);
    mem::take(&mut helper.jobs)
}

/// Waits for a job. `false`: there was none for long, and the thread ends.
fn wait() -> bool {
    let until_ns = clock::now_ns() + ATTENTION_NS;
    while clock::now_ns() < until_ns {
        if WAITING.load(Ordering::SeqCst) > 0 {
            return true;
        }
        thread::yield_now();
    }
    let mut own = helper();
    if !own.jobs.is_empty() {
        return true;
    }
    own.is_awake = false;
    drop(own);
    thread::park_timeout(LINGER);
    let mut own = helper();
    let stays = own.is_awake || !own.jobs.is_empty();
    if !stays {
        own.thread = None;
    }
    stays
}
