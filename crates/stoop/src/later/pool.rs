//! Threads for jobs that no other thread waits for: begun calls to a server of this process, and tasks.
//!
//! No thread exists before the first job, and none ten seconds after the last; there are never more than the server allows.

use crate::locked::locked;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoop_net::threads;

/// Most workers, and most calls that wait for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) workers: usize,
    pub(crate) queue: usize,
}

/// A job for a pool.
pub(crate) trait Job: Send + 'static {
    /// Runs it.
    fn run(self);

    /// Whether its result is still wanted.
    fn is_wanted(&self) -> bool;
}

/// Threads, and the jobs that wait for one.
pub(crate) struct Pool<J> {
    bounds: Bounds,
    state: Mutex<State<J>>,
    has_work: Condvar,
}

struct State<J> {
    queue: VecDeque<J>,
    workers: usize,
    /// Workers that wait for a job, or have been woken and have not looked yet.
    idle: usize,
    closed: bool,
}

/// Why a job was not taken.
#[derive(Debug)]
pub(crate) enum Declined {
    /// All threads are busy, and as many jobs wait as may.
    Full,
    Closed,
    NoThread(io::Error),
}

/// After so long an idle thread ends.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

impl<J: Job> Pool<J> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let state = State { queue: VecDeque::new(), workers: 0, idle: 0, closed: false };
        Self { bounds, state: Mutex::new(state), has_work: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        locked(&self.state)
    }

    /// Queues a job for the next free thread.
    pub(crate) fn submit(self: &Arc<Self>, job: J) -> Result<(), Declined> {
        let mut state = self.state();
        if state.closed {
            return Err(Declined::Closed);
        }
        if state.queue.len() >= state.idle {
            if state.workers < self.bounds.workers {
                self.start_worker(&mut state)?;
            } else if self.is_full(&state) {
                state.queue.retain(J::is_wanted);
                if self.is_full(&state) {
                    return Err(Declined::Full);
                }
            }
        }
        state.queue.push_back(job);
        // An idle worker is woken for each of the first jobs. For further ones a system call would find none that sleeps.
        if state.queue.len() <= state.idle {
            self.has_work.notify_one();
        }
        Ok(())
    }

    fn is_full(&self, state: &State<J>) -> bool {
        state.queue.len().saturating_sub(state.idle) >= self.bounds.queue
    }

    fn start_worker(self: &Arc<Self>, state: &mut State<J>) -> Result<(), Declined> {
        let pool = Arc::clone(self);
        let hired = threads::start("stoop-worker", move || pool.work());
        match hired {
            Ok(_) => state.workers += 1,
            // One of the present threads will run the job.
            Err(_) if state.workers > 0 => {}
            Err(why) => return Err(Declined::NoThread(why)),
        }
        Ok(())
    }

    /// The main function of a thread.
    fn work(&self) {
        let place = ActiveWorker(self);
        let mut state = self.state();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                job.run();
                state = self.state();
                continue;
            }
            if state.closed {
                return;
            }
            state.idle += 1;
            let (woken, limit) =
                self.has_work.wait_timeout(state, IDLE_LIMIT).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if limit.timed_out() && state.queue.is_empty() {
                return place.leave(&mut state);
            }
        }
    }

    /// Whether a job would have to wait until another has been run.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state();
        state.workers >= self.bounds.workers && state.queue.len() > state.idle
    }

    /// Takes no more jobs. Returns those that have not been begun.
    pub(crate) fn close(&self) -> VecDeque<J> {
        let mut state = self.state();
        state.closed = true;
        self.has_work.notify_all();
        std::mem::take(&mut state.queue)
    }
}

/// Counts a thread of the pool until it ends, by a panic too.
struct ActiveWorker<'a, J: Job>(&'a Pool<J>);

impl<J: Job> ActiveWorker<'_, J> {
    /// The thread ends. Once another has the lock, it counts on it no more: it would leave a job to it.
    fn leave(self, state: &mut State<J>) {
        state.workers -= 1;
        std::mem::forget(self);
    }
}

impl<J: Job> Drop for ActiveWorker<'_, J> {
    fn drop(&mut self) {
        self.0.state().workers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::later::pool::*;
    use std::sync::mpsc::{self, Receiver, Sender};

    /// Says that it runs, and waits until it may end.
    struct Wait(Sender<u32>, Receiver<()>, u32);

    impl Job for Wait {
        fn run(self) {
            self.0.send(self.2).unwrap();
            let _ = self.1.recv();
        }

        fn is_wanted(&self) -> bool {
            self.2 != 2
        }
    }

    #[test]
    fn no_more_run_or_wait_than_may() {
        let pool = Arc::new(Pool::new(Bounds { workers: 2, queue: 1 }));
        let (begun, begins) = mpsc::channel();
        let job = |number| {
            let (end, ended) = mpsc::channel();
            (Wait(begun.clone(), ended, number), end)
        };
        let ends = [0, 1].map(|number| {
            let (job, end) = job(number);
            pool.submit(job).unwrap();
            assert_eq!(begins.recv(), Ok(number));
            end
        });
        assert!(!pool.is_busy());
        let (third, _) = job(2);
        pool.submit(third).unwrap();
        assert!(pool.is_busy());
        // It takes the place of one that is not wanted any more.
        let (fourth, _end) = job(3);
        pool.submit(fourth).unwrap();
        assert!(matches!(pool.submit(job(4).0), Err(Declined::Full)));
        drop(ends);
        assert_eq!(begins.recv(), Ok(3));
        assert_eq!(pool.close().len(), 0);
        assert!(matches!(pool.submit(job(5).0), Err(Declined::Closed)));
    }
}
