//! An alarm that wakes a task after some time, for tasks whose runtime, if there is one, is not known.

use crate::context::cancelled::CallId;
use crate::context::keeper::{self, Kept, Key};
use crate::locked::locked;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stoop_net::clock;

/// An alarm that has been set, until it is dropped.
pub(super) struct Alarm {
    rings: Arc<Rings>,
    key: Key,
    set_ns: u64,
}

#[derive(Default)]
struct Rings(Mutex<State>);

#[derive(Default)]
struct State {
    has_rung: bool,
    waker: Option<Waker>,
}

impl Kept for Rings {
    fn expire(&self) {
        let mut state = locked(&self.0);
        state.has_rung = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Alarm {
    /// Sets one that rings after so many nanoseconds.
    pub(super) fn set(nanos: u64) -> Self {
        let (rings, set_ns) = (Arc::new(Rings::default()), clock::now_ns());
        let kept: Weak<Rings> = Arc::downgrade(&rings);
        let key = keeper::keep(CallId::NONE, set_ns.saturating_add(nanos), kept);
        Self { rings, key, set_ns }
    }

    /// How long ago it was set, once it has rung. Otherwise the task is woken when it rings.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Duration> {
        // No lock is held while a waker is cloned or dropped.
        let fresh = context.waker().clone();
        let mut state = locked(&self.rings.0);
        if state.has_rung {
            return Poll::Ready(Duration::from_nanos(clock::now_ns().saturating_sub(self.set_ns)));
        }
        let before = state.waker.replace(fresh);
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        keeper::forget(self.key);
    }
}
