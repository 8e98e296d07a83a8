//! A call that has been sent, as its thread or its handle and the receiving thread share it.

use crate::calling::waiting_thread::WaitingThread;
use crate::error::CallError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use stoop_onc::Xid;

/// A call without a result yet, or whose result has not been taken.
pub(crate) struct OutstandingCall {
    pub(crate) xid: Xid,
    /// The message, where it may have to be sent again.
    pub(crate) message: Vec<u8>,
    pub(crate) begun_ns: u64,
    pub(crate) deadline_ns: u64,
    /// No thread waits for it as long as it has been begun.
    pub(crate) is_begun: bool,
    has_ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: Option<Ended>,
    thread: Option<Arc<WaitingThread>>,
    waker: Option<Waker>,
    /// Kept until the end: the connection of a call without a handle.
    kept: Option<Arc<dyn Send + Sync>>,
}

/// How a call ended: with a reply and the number of times that it was sent, or without.
pub(crate) type Ended = Result<(Vec<u8>, u32), CallError>;

impl OutstandingCall {
    pub(crate) fn new(xid: Xid, message: Vec<u8>, begun_ns: u64, deadline_ns: u64, is_begun: bool) -> Self {
        let (has_ended, state) = (AtomicBool::new(false), Mutex::default());
        Self { xid, message, begun_ns, deadline_ns, is_begun, has_ended, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Ends the call, and wakes the thread or the task that waits. The first end counts.
    pub(crate) fn end(&self, ended: Ended) {
        let (thread, waker, _kept) = {
            let mut state = self.state();
            if self.has_ended() {
                return;
            }
            state.ended = Some(ended);
            self.has_ended.store(true, Ordering::Release);
            (state.thread.take(), state.waker.take(), state.kept.take())
        };
        if let Some(thread) = thread {
            thread.notify();
        }
        // Not under the lock: it is code of the user.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The end, once.
    pub(crate) fn take(&self) -> Option<Ended> {
        self.state().ended.take()
    }

    /// Keeps something until the end.
    pub(crate) fn keep(&self, kept: Arc<dyn Send + Sync>) {
        let mut state = self.state();
        if !self.has_ended() {
            state.kept = Some(kept);
        }
    }

    /// That thread waits for the end from now on.
    pub(crate) fn set_thread(&self, thread: &Arc<WaitingThread>) {
        self.state().thread = Some(Arc::clone(thread));
    }

    /// Whether it has ended; if not, its end wakes `waker`.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = self.state();
        if self.has_ended() {
            return true;
        }
        let earlier = state.waker.replace(waker);
        drop(state);
        drop(earlier);
        false
    }
}
