//! A call table behind a lock: the operations of the handles of begun calls.

use crate::calling::begun::{Outcome, OutstandingCalls};
use crate::calling::call_table::CallTable;
use crate::locked::locked;
use std::sync::Mutex;
use std::task::Waker;
use std::thread;
use stoop_marshal::Reader;

/// A state with a call table in it.
pub(crate) trait HasCalls {
    /// The transport's state of a call.
    type Call;

    fn calls(&mut self) -> &mut CallTable<Self::Call>;
}

impl<T> HasCalls for CallTable<T> {
    type Call = T;

    fn calls(&mut self) -> &mut Self {
        self
    }
}

/// The result of [`register`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registered {
    /// The call has ended.
    Ended,
    /// An equal waker was registered before.
    Before,
    /// The waker is registered now.
    Now,
}

/// As [`OutstandingCalls::take`], from the table of `calls`.
pub(crate) fn take<S: HasCalls>(
    calls: &impl OutstandingCalls,
    state: &Mutex<S>,
    call: u32,
    with: &mut dyn FnMut(Outcome<'_>),
) -> bool {
    let mut guard = locked(state);
    if !guard.calls().has_ended(call) {
        return false;
    }
    let outcome = guard.calls().take(call);
    drop(guard);
    match outcome {
        Ok(payload) => with(Ok(Reader::new(payload.bytes()))),
        Err(error) => with(Err(calls.name(error))),
    }
    true
}

/// Registers the waker of a call. No lock is held while a waker is cloned or dropped.
pub(crate) fn register<S: HasCalls>(state: &Mutex<S>, call: u32, waker: &Waker) -> Registered {
    let mut guard = locked(state);
    if guard.calls().has_ended(call) {
        return Registered::Ended;
    }
    if guard.calls().is_registered(call, waker) {
        return Registered::Before;
    }
    drop(guard);
    let fresh = waker.clone();
    let mut guard = locked(state);
    if guard.calls().has_ended(call) {
        drop(guard);
        return Registered::Ended;
    }
    let before = guard.calls().register(call, fresh);
    drop(guard);
    drop(before);
    Registered::Now
}

/// Has `wait` sleep until the calling thread is unparked, which is done when one of these calls ends. `wait` gets the earliest of
/// their deadlines. `None`: one of them has ended already.
pub(crate) fn attend<S: HasCalls, R>(
    state: &Mutex<S>,
    calls: &[u32],
    wait: impl FnOnce(u64) -> R,
) -> Option<R> {
    let mut guard = locked(state);
    if guard.calls().ended_among(calls).is_some() {
        return None;
    }
    guard.calls().attend(calls, Some(&thread::current()));
    let deadline_ns = calls.iter().map(|&call| guard.calls().deadline_ns(call)).min();
    drop(guard);
    let waited = wait(deadline_ns.unwrap_or(u64::MAX));
    locked(state).calls().attend(calls, None);
    Some(waited)
}
