//! Binding as a future: a thread of its own binds, while the task waits.

use crate::error::BindError;
use crate::locked::locked;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use stoop_net::threads;

/// The state of binding, which the future and the thread share.
struct Attempt<T>(Mutex<State<T>>);

enum State<T> {
    /// The thread binds; its end wakes this.
    Binding(Option<Waker>),
    Ended(Result<T, BindError>),
    /// The future has given the result, or has been dropped.
    Void,
}

/// The future's share: no result is wanted once this is dropped.
struct Interest<T>(Arc<Attempt<T>>);

impl<T> Drop for Interest<T> {
    fn drop(&mut self) {
        drop(self.0.replace(State::Void));
    }
}

// A waker and a client are dropped when the lock has been released.
impl<T> Attempt<T> {
    fn replace(&self, state: State<T>) -> State<T> {
        mem::replace(&mut *locked(&self.0), state)
    }

    fn is_wanted(&self) -> bool {
        !matches!(*locked(&self.0), State::Void)
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<T, BindError>> {
        let waker = context.waker().clone();
        let mut state = locked(&self.0);
        if let State::Binding(registered) = &mut *state {
            let before = registered.replace(waker);
            drop(state);
            drop(before);
            return Poll::Pending;
        }
        drop(state);
        match self.replace(State::Void) {
            State::Ended(bound) => Poll::Ready(bound),
            State::Binding(_) | State::Void => unreachable!("the future has not ended, and the thread has"),
        }
    }

    fn end(&self, bound: Result<T, BindError>) {
        let mut state = locked(&self.0);
        let State::Binding(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = State::Ended(bound);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Binds to `uri` by `bind` in a thread of its own. `bind` can ask whether its result is still wanted.
///
/// # Errors
/// Those of `bind`; or the system gives no thread.
pub(crate) async fn bind_in_thread<T: Send + 'static>(
    uri: &str,
    bind: impl FnOnce(&dyn Fn() -> bool) -> Result<T, BindError> + Send + 'static,
) -> Result<T, BindError> {
    let attempt = Arc::new(Attempt(Mutex::new(State::Binding(None))));
    let interest = Interest(Arc::clone(&attempt));
    let thread = threads::start("stoop-bind", move || attempt.end(bind(&|| attempt.is_wanted())));
    thread.map_err(|cause| BindError::Unreachable { server: uri.into(), cause })?;
    poll_fn(|context| interest.0.poll(context)).await
}
