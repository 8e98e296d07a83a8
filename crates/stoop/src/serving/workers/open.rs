//! The answers of a pool's open calls.

use crate::later::deferred::{Given, ReplyError};
use crate::later::open_calls::Answers;
use crate::serving::workers::{Endpoint, WorkerPool};

impl<E: Endpoint> Answers for WorkerPool<E> {
    type Call = E::Call;

    const GONE: ReplyError = ReplyError::ServerEnded;

    fn has_caller(&self, call: &E::Call) -> bool {
        self.endpoint.has_caller(call)
    }

    fn answer_open(&self, call: E::Call, given: Given<'_>) -> Result<(), ReplyError> {
        let (next, reached) = self.endpoint.answer_open(call, given);
        if let Some(next) = next {
            let terms = self.endpoint.terms(&next);
            self.admit(&mut self.endpoint.worker(), next, terms);
            self.wake_for_queue();
        }
        reached
    }

    fn note_open(&self) {
        self.endpoint.background().note_woken();
    }
}
