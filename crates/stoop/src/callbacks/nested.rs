//! Waits of a thread that runs a callback: while it waits for a call of its own, another thread runs the callbacks that this call makes.

use crate::metadata::served;
use std::cell::RefCell;
use std::sync::Arc;

/// Runs callbacks in threads.
pub(crate) trait RunsCallbacks: Send + Sync {
    /// A callback begins to wait for a call of its own.
    fn begin_wait(self: Arc<Self>);

    /// It goes on.
    fn end_wait(&self);
}

thread_local! {
    /// What runs callbacks in this thread; none while one waits.
    static RUNS: RefCell<Option<Arc<dyn RunsCallbacks>>> = const { RefCell::new(None) };
}

/// The thread runs callbacks, or is not to know of them, until this is dropped.
pub(crate) struct Serves(Option<Arc<dyn RunsCallbacks>>);

impl Serves {
    fn begin(runs: Option<Arc<dyn RunsCallbacks>>) -> Self {
        Self(RUNS.replace(runs))
    }
}

impl Drop for Serves {
    fn drop(&mut self) {
        let ended = RUNS.replace(self.0.take());
        drop(ended);
    }
}

/// The thread runs a callback until this is dropped; or, while one waits, none.
struct InCallback(bool);

impl InCallback {
    fn begin(is_in: bool) -> Self {
        Self(served::set_in_callback(is_in))
    }
}

impl Drop for InCallback {
    fn drop(&mut self) {
        served::set_in_callback(self.0);
    }
}

/// The callbacks that this thread runs, until that is dropped, are those of `runs`.
pub(crate) fn in_thread_of(runs: Arc<dyn RunsCallbacks>) -> Serves {
    Serves::begin(Some(runs))
}

/// Runs a callback in a thread [of](in_thread_of) its session.
pub(crate) fn running_here<R>(callback: impl FnOnce() -> R) -> R {
    let _in_callback = InCallback::begin(true);
    callback()
}

/// Runs a callback in any thread.
pub(crate) fn running<R>(runs: Arc<dyn RunsCallbacks>, callback: impl FnOnce() -> R) -> R {
    let _serves = in_thread_of(runs);
    running_here(callback)
}

/// Waits for a call. If this thread runs a callback, others may run meanwhile.
#[inline]
pub(crate) fn waiting<R>(wait: impl FnOnce() -> R) -> R {
    match served::is_in_callback() {
        true => waiting_in_callback(wait),
        false => wait(),
    }
}

#[cold]
fn waiting_in_callback<R>(wait: impl FnOnce() -> R) -> R {
    struct Waits(Arc<dyn RunsCallbacks>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.end_wait();
        }
    }
    let Some(runs) = RUNS.with_borrow(Clone::clone) else { return wait() };
    // Ends before the wait does: what the thread drops then may wait, too.
    let (_serves, _in_callback) = (Serves::begin(None), InCallback::begin(false));
    let _waits = Waits(Arc::clone(&runs));
    runs.begin_wait();
    wait()
}
