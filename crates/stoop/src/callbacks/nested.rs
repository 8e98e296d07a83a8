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
    /// What runs the callback in this thread; none while the thread waits.
    static RUNS: RefCell<Option<Arc<dyn RunsCallbacks>>> = const { RefCell::new(None) };
}

/// The thread serves a callback until this is dropped.
struct Serves {
    before: Option<Arc<dyn RunsCallbacks>>,
    was_careful: bool,
}

impl Serves {
    fn begin(runs: Option<Arc<dyn RunsCallbacks>>) -> Self {
        let was_careful = served::set_in_callback(runs.is_some());
        Self { before: RUNS.replace(runs), was_careful }
    }
}

impl Drop for Serves {
    fn drop(&mut self) {
        served::set_in_callback(self.was_careful);
        let ended = RUNS.replace(self.before.take());
        drop(ended);
    }
}

/// Runs a callback.
pub(crate) fn running<R>(runs: Arc<dyn RunsCallbacks>, callback: impl FnOnce() -> R) -> R {
    let _serves = Serves::begin(Some(runs));
    callback()
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
    let _serves = Serves::begin(None);
    let _waits = Waits(Arc::clone(&runs));
    runs.begin_wait();
    wait()
}
