//! Workers without work: they wait for orders.

use crate::serving::workers::{Endpoint, WorkerPool, locked};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// A worker without work leaves after so long.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// A worker without work.
pub(crate) struct IdleWorker {
    orders: AtomicU8,
    thread: Thread,
}

const REST: u8 = 0;
pub(crate) const RECEIVE: u8 = 1;
pub(crate) const HELP: u8 = 2;
pub(crate) const LEAVE: u8 = 3;

impl IdleWorker {
    pub(crate) fn order(&self, orders: u8) {
        self.orders.store(orders, Ordering::Release);
        self.thread.unpark();
    }
}

impl<E: Endpoint> WorkerPool<E> {
    /// Waits for orders: to receive, to help out or to leave.
    pub(crate) fn rest(&self) -> u8 {
        let idle_worker = Arc::new(IdleWorker { orders: AtomicU8::new(REST), thread: thread::current() });
        {
            let mut idle = locked(&self.idle);
            if self.is_stopping() {
                return LEAVE;
            }
            idle.push(Arc::clone(&idle_worker));
        }
        // Pairs with `keep_calls`, which first queues and then looks who rests.
        if self.queued.load(Ordering::SeqCst) > 0 && self.withdraw(&idle_worker) {
            return HELP;
        }
        loop {
            thread::park_timeout(IDLE_LIMIT);
            match idle_worker.orders.load(Ordering::Acquire) {
                // Nothing to do for so long (or woken for no reason, and little is lost).
                REST if self.withdraw(&idle_worker) => return LEAVE,
                REST => {}
                orders => return orders,
            }
        }
    }

    /// Takes a worker off the list of those that rest. `false`: it has been chosen, and its orders come.
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
