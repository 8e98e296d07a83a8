//! The end of a call that waits for its answer: the first of several threads takes the call, and the others learn why it is over.

use crate::later::deferred::ReplyError;
#[cfg(all(test, loom))]
use loom::sync::{Mutex, MutexGuard};
use std::mem;
use std::sync::PoisonError;
#[cfg(not(all(test, loom)))]
use std::sync::{Mutex, MutexGuard};

/// A call that waits for its answer, or the reason for which an answer comes too late.
pub(crate) struct Waiting<C>(Mutex<State<C>>);

enum State<C> {
    /// It is about to wait, and a thread that would end it waits for that.
    Opening,
    Open(C),
    Over(ReplyError),
}

/// The thread that opens a call holds this: nothing ends the call before it [waits](Opening::wait).
pub(crate) struct Opening<'a, C>(MutexGuard<'a, State<C>>);

impl<C> Opening<'_, C> {
    /// Lets the call wait for its answer.
    pub(crate) fn wait(mut self, call: C) {
        *self.0 = State::Open(call);
    }
}

impl<C> Waiting<C> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Opening))
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self) -> Opening<'_, C> {
        Opening(self.state())
    }

    /// Takes the call to end it. Others learn the reason that `why` gives from now on.
    ///
    /// # Errors
    /// Another thread has taken it, for this reason.
    pub(crate) fn take(&self, why: impl FnOnce(&C) -> ReplyError) -> Result<C, ReplyError> {
        let mut state = self.state();
        let over = match &*state {
            State::Open(call) => State::Over(why(call)),
            State::Over(earlier) => return Err(*earlier),
            State::Opening => unreachable!("the thread that opens it holds the lock"),
        };
        match mem::replace(&mut *state, over) {
            State::Open(call) => Ok(call),
            State::Opening | State::Over(_) => unreachable!("it was open"),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state(), State::Over(_))
    }
}
