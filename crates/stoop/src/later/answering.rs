//! The threads that give answers: each has the endpoint until its answer has left, and a server that ends waits for them.

use crate::locked::locked;
use std::sync::{Condvar, Mutex, PoisonError};

/// How many threads answer open calls of an endpoint at this moment.
#[derive(Default)]
pub(crate) struct Answering {
    threads: Mutex<usize>,
    none: Condvar,
}

/// A thread answers until this is dropped.
pub(crate) struct AnsweringThread<'a>(&'a Answering);

impl Answering {
    pub(crate) fn begin(&self) -> AnsweringThread<'_> {
        *locked(&self.threads) += 1;
        AnsweringThread(self)
    }

    /// Waits until no thread answers.
    pub(crate) fn wait(&self) {
        let is_any = |threads: &mut usize| *threads > 0;
        drop(self.none.wait_while(locked(&self.threads), is_any).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for AnsweringThread<'_> {
    fn drop(&mut self) {
        let mut threads = locked(&self.0.threads);
        *threads -= 1;
        if *threads == 0 {
            self.0.none.notify_all();
        }
    }
}
