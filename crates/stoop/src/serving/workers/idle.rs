//! Idle workers, which wait for a command.

use crate::serving::workers::{Endpoint, WorkerPool, locked};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::memory;

/// An idle worker sees once in this time whether it has memory to give back, and leaves after so many times.
const IDLE_LOOK: Duration = Duration::from_secs(1);
const IDLE_LOOKS: u32 = 10;

/// An idle worker.
pub(crate) struct IdleWorker {
    command: AtomicU8,
    thread: Thread,
}

const NONE: u8 = 0;
pub(crate) const RECEIVE: u8 = 1;
pub(crate) const HELP: u8 = 2;
pub(crate) const LEAVE: u8 = 3;

impl IdleWorker {
    pub(crate) fn command(&self, command: u8) {
        self.command.store(command, Ordering::Release);
        self.thread.unpark();
    }
}

impl<E: Endpoint> WorkerPool<E> {
    /// Waits for a command: to receive, to help out or to leave.
    pub(crate) fn await_command(&self) -> u8 {
        let idle_worker = Arc::new(IdleWorker { command: AtomicU8::new(NONE), thread: thread::current() });
        {
            let mut idle = locked(&self.idle);
            if self.is_stopping() {
                return LEAVE;
            }
            idle.push(Arc::clone(&idle_worker));
        }
        // Pairs with `SharedQueue::with`: a thread first queues a call and then looks for idle workers.
        if self.queue.has_runnable() && self.withdraw(&idle_worker) {
            return HELP;
        }
        let mut looks = 0;
        loop {
            thread::park_timeout(IDLE_LOOK);
            looks += 1;
            match idle_worker.command.load(Ordering::Acquire) {
                NONE if looks < IDLE_LOOKS => memory::give_back_end_of_arena(),
                // Nothing to do for so long (or woken for no reason, and little is lost).
                NONE if self.withdraw(&idle_worker) => {
                    memory::give_back_before_leaving();
                    return LEAVE;
                }
                NONE => {}
                command => return command,
            }
        }
    }

    /// Takes a worker off the list of idle ones. `false`: it has been chosen, and its command comes.
    fn withdraw(&self, idle_worker: &Arc<IdleWorker>) -> bool {
        let mut idle = locked(&self.idle);
        let before = idle.len();
        idle.retain(|other| !Arc::ptr_eq(other, idle_worker));
        idle.len() < before
    }

    pub(crate) fn choose(&self) -> Option<Arc<IdleWorker>> {
        locked(&self.idle).pop()
    }
}
