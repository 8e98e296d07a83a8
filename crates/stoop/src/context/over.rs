//! Waiting until the caller of a call no longer waits.

use crate::context::ServedCall;
use crate::context::keeper::{self, Kept, Key};
use crate::locked::locked;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Is ready when the caller of a call no longer waits for its result: [`CurrentCall::cancelled`](crate::CurrentCall::cancelled).
#[must_use = "await it, or wait for it"]
pub struct Cancelled {
    watch: Arc<Watch>,
    key: Key,
    call: ServedCall,
}

#[derive(Default)]
struct Watch {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    waker: Option<Waker>,
}

impl Kept for Watch {
    fn expire(&self) {
        let mut state = locked(&self.state);
        state.is_over = true;
        let waker = state.waker.take();
        drop(state);
        self.over.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Cancelled {
    pub(super) fn of(call: ServedCall) -> Self {
        let watch = Arc::new(Watch::default());
        let kept: Weak<Watch> = Arc::downgrade(&watch);
        Self { key: keeper::keep(call.call, call.deadline_ns, kept), watch, call }
    }

    /// Blocks the thread until the caller no longer waits, but not longer than `limit`. Returns whether the caller no longer waits.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::CurrentCall;
    ///
    /// /// In a procedure: asks `is_done` every 10 ms; `false` if its caller has gone before.
    /// fn poll(call: CurrentCall, is_done: impl Fn() -> bool) -> bool {
    ///     let cancelled = call.cancelled();
    ///     while !is_done() {
    ///         if cancelled.wait_timeout(Duration::from_millis(10)) {
    ///             return false; // at once, not after the 10 ms
    ///         }
    ///     }
    ///     true
    /// }
    /// ```
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let state = locked(&self.watch.state);
        let waited = self.watch.over.wait_timeout_while(state, limit, |state| !state.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over || self.call.is_cancelled()
    }

    /// Awaits `future`, unless the caller stops waiting before: then the future is dropped where it waits. `None`: it was.
    ///
    /// ```
    /// use stoop::current_call;
    ///
    /// /// In an `async fn`: a query is dropped, and with it its place at the database, when nobody waits for it.
    /// async fn query(rows: impl Future<Output = Vec<u32>>) -> Vec<u32> {
    ///     match current_call() {
    ///         Some(call) => call.cancelled().or(rows).await.unwrap_or_default(), // goes nowhere
    ///         None => rows.await,
    ///     }
    /// }
    /// ```
    pub async fn or<T>(mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Pin::new(&mut self).poll(context).map(|()| None),
        })
        .await
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = locked(&self.watch.state);
        if state.is_over {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        keeper::forget(self.key);
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("is_over", &locked(&self.watch.state).is_over).finish()
    }
}
