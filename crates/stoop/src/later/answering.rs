//! The threads that give answers: each has the endpoint until its answer has left, and a server that ends waits for them.

use crate::locked::locked;
use std::sync::{Condvar, Mutex, PoisonError};

/// How many threads answer open calls of an endpoint at this moment.
#[derive(Default)]
pub(crate) struct Answering {
    state: Mutex<State>,
    none: Condvar,
}

#[derive(Default)]
struct State {
    threads: usize,
    /// A thread waits until there is none. To notify takes a system call, whether a thread waits or not.
    is_awaited: bool,
}

/// A thread answers until this is dropped.
pub(crate) struct AnsweringThread<'a>(&'a Answering);

impl Answering {
    pub(crate) fn begin(&self) -> AnsweringThread<'_> {
        locked(&self.state).threads += 1;
        AnsweringThread(self)
    }

    /// Waits until no thread answers.
    pub(crate) fn wait(&self) {
        let mut state = locked(&self.state);
        state.is_awaited = true;
        let is_any = |state: &mut State| state.threads > 0;
        drop(self.none.wait_while(state, is_any).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for AnsweringThread<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.threads -= 1;
        if state.threads == 0 && state.is_awaited {
            self.0.none.notify_all();
        }
    }
}
