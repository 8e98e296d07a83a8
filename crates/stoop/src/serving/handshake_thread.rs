//! The thread of an address that makes the handshakes of its callers.
//!
//! No worker makes them: all may be in long procedures, and a handshake takes as long as many calls. The thread starts with the first
//! handshake and leaves when there has been none for a while. It gives way to workers where processors are few. Calls that end handshakes
//! take turns with those that begin some, of which a flood consists: a caller that has begun one does not wait behind all others again. The
//! beginnings of handshakes that do not end have a [share](Share) of the time of a processor.
//!
//! The latest call of a kind comes first, and the oldest is refused when too many wait. In a flood a call that waits for long has an answer
//! for which its caller's provisional binding does not live.

mod share;

use crate::later::lent::Lent;
use crate::locked::locked;
use crate::serving::handshake_thread::share::Share;
use crate::serving::workers::{Endpoint, WorkerPool};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use stoop_net::{clock, threads};

/// Calls of a kind that wait for the thread at most.
const QUEUE_MAX: usize = 32;

/// Time without a handshake after which the thread leaves.
const LINGER_NANOS: u64 = 10_000_000_000;

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

impl Step {
    fn other(self) -> Self {
        match self {
            Self::End => Self::Begin,
            Self::Begin => Self::End,
        }
    }
}

/// The thread, and the calls that wait for it.
pub(crate) struct HandshakeThread<C>(Arc<Queue<C>>);

impl<C: Send + 'static> HandshakeThread<C> {
    /// A thread that starts with the first call.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Queue { calls: Mutex::default(), arrived: Condvar::new() }))
    }

    /// A handshake has led to a binding.
    pub(crate) fn has_led_to_binding(&self) {
        locked(&self.0.calls).share.give_back();
    }

    /// Leaves a call to the thread. Returns the one that is to be refused, perhaps another: too many wait, or the system gives no thread.
    pub(crate) fn enqueue<E: Authenticates<Call = C>>(
        &self,
        (call, step): (C, Step),
        pool: impl FnOnce() -> Lent<WorkerPool<E>>,
    ) -> Option<C> {
        let mut waiting = locked(&self.0.calls);
        let calls = &mut waiting.calls[step as usize];
        calls.push_back(call);
        let refused = if calls.len() > QUEUE_MAX { calls.pop_front() } else { None };
        if !waiting.has_thread {
            let (queue, pool) = (Arc::clone(&self.0), pool());
            if threads::start("stoop-handshakes", move || serve(&queue, &pool)).is_err() {
                // Nothing would answer it, and a server that shuts down would wait for it.
                return waiting.calls[step as usize].pop_back();
            }
            waiting.has_thread = true;
        }
        let is_awaited = step == Step::End || !waiting.is_out_of_share;
        drop(waiting);
        if is_awaited {
            self.0.arrived.notify_one();
        }
        refused
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
    next: Step,
    has_thread: bool,
    share: Share,
    /// The thread waits until its share lets it begin another handshake.
    is_out_of_share: bool,
}

impl<C> Default for Waiting<C> {
    fn default() -> Self {
        Self {
            calls: [VecDeque::new(), VecDeque::new()],
            next: Step::End,
            has_thread: false,
            share: Share::default(),
            is_out_of_share: false,
        }
    }
}

impl<C> Waiting<C> {
    /// Takes the latest call of this kind.
    fn take(&mut self, step: Step) -> Option<(C, Step)> {
        let call = self.calls[step as usize].pop_back()?;
        self.next = step.other();
        Some((call, step))
    }

    /// The next call; or how long to wait for one, in nanoseconds.
    fn next(&mut self, now_ns: u64) -> Result<(C, Step), u64> {
        let wait_ns = self.share.wait_ns(now_ns);
        let in_turn = [self.next, self.next.other()];
        let mut may_come = in_turn.into_iter().filter(|step| *step == Step::End || wait_ns == 0);
        let next = may_come.find_map(|step| self.take(step));
        self.is_out_of_share = next.is_none() && !self.calls[Step::Begin as usize].is_empty();
        next.ok_or(if self.is_out_of_share { wait_ns } else { LINGER_NANOS })
    }
}

impl<C> Queue<C> {
    /// The next call; `None`: there has been none for a while, and the thread leaves.
    fn next(&self) -> Option<(C, Step)> {
        let mut waiting = locked(&self.calls);
        loop {
            let wait = match waiting.next(clock::now_ns()) {
                Ok(next) => return Some(next),
                Err(wait_ns) => Duration::from_nanos(wait_ns),
            };
            let waited = self.arrived.wait_timeout(waiting, wait).unwrap_or_else(PoisonError::into_inner);
            waiting = waited.0;
            if waited.1.timed_out() && waiting.calls.iter().all(VecDeque::is_empty) {
                waiting.has_thread = false;
                return None;
            }
        }
    }
}

/// The thread of handshakes.
fn serve<E: Authenticates>(queue: &Queue<E::Call>, pool: &Lent<WorkerPool<E>>) {
    threads::give_way();
    while let Some((call, step)) = queue.next() {
        // Not while it waits: the address is free again when the server has ended.
        let answered = pool.with(|pool| {
            let (pool, begun_ns) = (pool?, clock::own_time_ns());
            let mut next = pool.endpoint.answer_handshake(call);
            if step == Step::Begin {
                locked(&queue.calls).share.charge(clock::own_time_ns() - begun_ns);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_call_comes_first_and_ends_also_when_no_handshake_may_begin() {
        let calls = [VecDeque::from([1, 2, 3]), VecDeque::from([11, 12])];
        let mut waiting = Waiting { calls, ..Waiting::default() };
        assert_eq!(waiting.next(1), Ok((3, Step::End)));
        assert_eq!(waiting.next(1), Ok((12, Step::Begin)), "they take turns");
        waiting.share.charge(1_000_000_000);
        assert_eq!(waiting.next(1), Ok((2, Step::End)));
        assert_eq!(waiting.next(1), Ok((1, Step::End)));
        let wait_ns = waiting.next(1).unwrap_err();
        assert!(wait_ns < LINGER_NANOS * 100 && waiting.is_out_of_share);
        assert_eq!(waiting.next(1 + wait_ns), Ok((11, Step::Begin)));
        assert_eq!((waiting.next(1 + wait_ns), waiting.is_out_of_share), (Err(LINGER_NANOS), false));
    }
}
