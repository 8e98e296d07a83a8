//! The begun calls of a binding as clients begin them and handles see them.

use crate::calling::background::Driven;
use crate::calling::begun::{BeginsCalls, CallBatch, OutstandingCalls, PipeTerms};
use crate::calling::completion_table::CompletionTable;
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::short_result::Short;
use crate::context::TimeBounds;
use crate::error::{CallError, SendError};
use crate::pipes::contract::Ends;
use crate::pipes::error::PipeError;
use crate::pipes::waiters::Wakeup as PipeWakeup;
use crate::transport::stream::begun::piped::CallerPipes;
use crate::transport::stream::begun::{BegunCall, Progress, StreamCalls};
use crate::transport::stream::caller::lane_table::CallId;
use std::sync::Arc;
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

impl BeginsCalls for StreamCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let limit = self.0.binding.options.max_message.min(u32::MAX as usize);
        CallBatch::unclocked(vec![0; MAX_DATAGRAM], HEADER_LEN, limit, timeout_ns)
    }

    fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        self.begin_any(batch, (procedure, len), None)
    }

    fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        let pipes = CallerPipes::new(&terms, batch.timeout_ns);
        let call = self.begin_any(batch, (procedure, len), Some(&pipes)).map_err(Some)?;
        Ok((call, self.0.binding.counted(procedure, self.0.ends_of(&pipes, call))))
    }

    fn submit(&self, _: CallBatch) {
        self.0.submit();
    }
}

impl StreamCalls {
    #[inline]
    fn begin_any(
        &self,
        batch: &mut CallBatch,
        (procedure, len): (u16, usize),
        pipes: Option<&Arc<CallerPipes>>,
    ) -> Result<u32, CallError> {
        if !TimeBounds::current(batch.timeout_ns).has_time() {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let mut state = self.0.state();
        let place = state.queue_call(batch, procedure, len, pipes)?;
        let is_full = state.holds_enough();
        drop(state);
        if is_full {
            self.0.submit();
        }
        if self.0.background.is_idle() {
            self.0.wake_background();
        }
        Ok(place)
    }
}

impl OutstandingCalls for StreamCalls {
    fn server(&self) -> String {
        self.0.binding.uri.clone()
    }

    fn is_ready(&self, call: u32) -> bool {
        let Self(calls) = self;
        if calls.has_ended(call) {
            return true;
        }
        calls.submit();
        calls.receive_all();
        calls.expire(clock::now_ns());
        calls.wake_all();
        calls.has_ended(call)
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        if CompletionTable::covers(call) { self.0.completions.take(call) } else { None }
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        let Self(calls) = self;
        calls.submit();
        let state = calls.state();
        if state.calls.has_ended(call) {
            return true;
        }
        if state.calls.is_registered(call, waker) {
            return false;
        }
        // No lock is held while a waker is cloned or dropped.
        drop(state);
        let fresh = waker.clone();
        let mut state = calls.state();
        if state.calls.has_ended(call) {
            drop(state);
            return true;
        }
        let before = state.calls.register(call, fresh);
        drop(state);
        drop(before);
        calls.wake_background();
        false
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        self.0.wait_any(calls, until.as_nanos())
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Result<Reader<'_>, CallError>)) -> bool {
        let mut state = self.0.state();
        if !state.calls.has_ended(call) {
            return false;
        }
        let outcome = state.calls.take(call);
        drop(state);
        match outcome {
            Ok(payload) => with(Ok(Reader::new(payload.bytes()))),
            Err(error) => with(Err(self.name(error))),
        }
        true
    }

    fn cancel(&self, call: u32) {
        let (given_up, waker) = self.0.state().calls.abandon(call);
        drop(waker);
        let Some(BegunCall { id, progress, pipes, .. }) = given_up else { return };
        if let Progress::Sent { generation, lane } = progress {
            self.0.send_cancel(generation, lane, CallId { place: call, id });
        }
        if let Some(pipes) = pipes {
            pipes.fail(&PipeError::Cancelled).into_iter().for_each(PipeWakeup::give);
        }
    }

    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let waker = self.0.state().calls.detach(call, ordered);
        drop(waker);
    }

    fn has_left(&self, call: u32) -> bool {
        let mut state = self.0.state();
        let call = state.calls.get_mut(call);
        call.is_none_or(|call| matches!(call.progress, Progress::Sent { .. }))
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        self.0.state().calls.reclaim(which)
    }

    fn detached(&self) -> usize {
        self.0.state().calls.detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.0.state().calls.failures);
    }
}
