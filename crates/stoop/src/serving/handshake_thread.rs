//! The thread of an address that makes the handshakes of its callers.
//!
//! No worker makes them: all may be in long procedures, and a handshake takes as long as many calls. The thread starts with the first
//! handshake and leaves when there has been none for a while. Its time is all that a flood of handshakes takes, and it gives way to workers
//! where processors are few. Calls that end handshakes take turns with those that begin some, of which a
//! flood consists: a caller that has begun one does not wait behind all others again.

use crate::later::lent::Lent;
use crate::locked::locked;
use crate::serving::workers::{Endpoint, WorkerPool};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use stoop_net::threads;

/// Calls of a kind that wait for the thread at most.
const QUEUE_MAX: usize = 64;

/// Time without a handshake after which the thread leaves.
const LINGER: Duration = Duration::from_secs(10);

/// An endpoint at which callers authenticate themselves.
pub(crate) trait Authenticates: Endpoint {
    /// Answers a call of a handshake. Returns the call that has waited for it, if there is one.
    fn answer_handshake(&self, call: Self::Call) -> Option<Self::Call>;
}

/// What a call does to a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It ends one that goes on.
    End,
    /// It begins one.
    Begin,
}

/// The thread, and the calls that wait for it.
pub(crate) struct HandshakeThread<C>(Arc<Queue<C>>);

impl<C: Send + 'static> HandshakeThread<C> {
    /// A thread that starts with the first call.
    pub(crate) fn new() -> Self {
        let calls =
            Mutex::new(Waiting { calls: [VecDeque::new(), VecDeque::new()], next: 0, has_thread: false });
        Self(Arc::new(Queue { calls, arrived: Condvar::new() }))
    }

    /// Leaves a call to the thread. Returns the call if too many wait, or the system gives no thread.
    pub(crate) fn enqueue<E: Authenticates<Call = C>>(
        &self,
        (call, step): (C, Step),
        pool: impl FnOnce() -> Lent<WorkerPool<E>>,
    ) -> Option<C> {
        let mut waiting = locked(&self.0.calls);
        let calls = &mut waiting.calls[step as usize];
        if calls.len() >= QUEUE_MAX {
            return Some(call);
        }
        calls.push_back(call);
        if !waiting.has_thread {
            let (queue, pool) = (Arc::clone(&self.0), pool());
            if threads::start("stoop-handshakes", move || serve(&queue, &pool)).is_err() {
                // Nothing would answer it, and a server that shuts down would wait for it.
                return waiting.calls[step as usize].pop_back();
            }
            waiting.has_thread = true;
        }
        drop(waiting);
        self.0.arrived.notify_one();
        None
    }
}

/// Calls on their way to the thread.
struct Queue<C> {
    calls: Mutex<Waiting<C>>,
    arrived: Condvar,
}

struct Waiting<C> {
    /// Those that end handshakes, and those that begin some.
    calls: [VecDeque<C>; 2],
    /// Which of the two come next, if there are some.
    next: usize,
    has_thread: bool,
}

impl<C> Queue<C> {
    /// The next call; `None`: there has been none for a while, and the thread leaves.
    fn next(&self) -> Option<C> {
        let waiting = locked(&self.calls);
        let is_empty = |waiting: &mut Waiting<C>| waiting.calls.iter().all(VecDeque::is_empty);
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(waiting, LINGER, is_empty)
            .unwrap_or_else(PoisonError::into_inner);
        let (first, other) = (waiting.next, 1 - waiting.next);
        waiting.next = other;
        let call = waiting.calls[first].pop_front().or_else(|| waiting.calls[other].pop_front());
        waiting.has_thread = call.is_some();
        call
    }
}

/// The thread of handshakes.
fn serve<E: Authenticates>(queue: &Queue<E::Call>, pool: &Lent<WorkerPool<E>>) {
    threads::give_way();
    while let Some(call) = queue.next() {
        // Not while it waits: the address is free again when the server has ended.
        let answered = pool.with(|pool| {
            let (pool, mut next) = (pool?, Some(call));
            while let Some(call) = next {
                next = pool.endpoint.answer_handshake(call);
            }
            Some(())
        });
        if answered.is_none() {
            return;
        }
    }
}
