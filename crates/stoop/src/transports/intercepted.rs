//! The calls that a client with interceptors begins: between their handles and the table of a transport.

use crate::calling::begun::{CallBatch, Outcome};
use crate::calling::detached::{CallingThread, OrderedCall};
use crate::calling::detaching::Awaited;
use crate::calling::short_result::Short;
use crate::context::bounded_deadline;
use crate::error::{CallError, CloseError};
use crate::intercept::InterceptedCall;
use crate::intercept::client::ClientChain;
use crate::locked::locked;
use crate::transports::AnyCalls;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_net::clock;

/// Calls in a table, and the interceptors through which they go. Each method is that of [`AnyCalls`].
pub(crate) struct InterceptedCalls {
    table: AnyCalls,
    interceptors: Arc<ClientChain>,
    /// The calls that have handles, by their numbers. A handle's number is taken out before the table has it back, and may give it to
    /// another call.
    outstanding: Mutex<HashMap<u32, InterceptedCall>>,
}

impl InterceptedCalls {
    pub(crate) fn new(table: AnyCalls, interceptors: &Arc<ClientChain>) -> Self {
        Self { table, interceptors: Arc::clone(interceptors), outstanding: Mutex::default() }
    }

    /// Whether both are calls of the same table.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.table.is_same(&other.table)
    }

    fn keep(&self, number: u32, call: InterceptedCall) {
        locked(&self.outstanding).insert(number, call);
    }

    fn give_up(&self, number: u32) -> Option<InterceptedCall> {
        locked(&self.outstanding).remove(&number)
    }

    pub(crate) fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        self.table.open_batch(timeout_ns)
    }

    pub(crate) fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let deadline_ns = bounded_deadline(clock::now_ns(), batch.timeout_ns);
        let call = self.interceptors.begin(procedure, deadline_ns)?;
        match self.table.begin(batch, procedure, len) {
            Ok(number) => {
                self.keep(number, call);
                Ok(number)
            }
            Err(error) => Err(self.interceptors.fail(call, error)),
        }
    }

    pub(crate) fn submit(&self, batch: CallBatch) {
        self.table.submit(batch);
    }

    pub(crate) fn let_go(&self, number: u32, ordered: Option<OrderedCall>) -> Result<(), CallError> {
        let call = self.give_up(number);
        let left = self.table.let_go(number, ordered);
        match (call, left) {
            (Some(call), Ok(())) => {
                self.interceptors.let_go(call);
                Ok(())
            }
            (Some(call), Err(error)) => Err(self.interceptors.fail(call, error)),
            (None, left) => left,
        }
    }

    pub(crate) fn await_order(&self, thread: CallingThread, idempotent: bool, until: Instant) -> Awaited {
        self.table.await_order(thread, idempotent, until)
    }

    pub(crate) fn flush(&self, until: Instant) -> Result<(), CloseError> {
        self.table.flush(until)
    }

    pub(crate) fn has_left(&self, number: u32) -> bool {
        self.table.has_left(number)
    }

    pub(crate) fn is_ready(&self, number: u32) -> bool {
        self.table.is_ready(number)
    }

    /// None: an interceptor's panic could not become an error of the call.
    pub(crate) fn take_short(&self, _: u32) -> Option<Short> {
        None
    }

    pub(crate) fn take(&self, number: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let mut call = self.give_up(number);
        let has_ended = self.table.take(number, &mut |outcome| {
            with(match (call.take(), outcome) {
                (Some(call), Ok(result)) => self.interceptors.end(call, Ok(())).map(|()| result),
                (Some(call), Err(error)) => Err(self.interceptors.fail(call, error)),
                (None, outcome) => outcome,
            });
        });
        if let Some(call) = call {
            self.keep(number, call);
        }
        has_ended
    }

    pub(crate) fn poll(&self, number: u32, waker: &Waker) -> bool {
        self.table.poll(number, waker)
    }

    pub(crate) fn wait_any(&self, numbers: &[u32], until: Instant) -> Option<usize> {
        self.table.wait_any(numbers, until)
    }

    pub(crate) fn distrust(&self, number: u32) {
        self.table.distrust(number);
    }

    pub(crate) fn cancel(&self, number: u32) {
        let call = self.give_up(number);
        self.table.cancel(number);
        self.let_go_known(call);
    }

    pub(crate) fn detach(&self, number: u32, ordered: Option<OrderedCall>) {
        let call = self.give_up(number);
        self.table.detach(number, ordered);
        self.let_go_known(call);
    }

    fn let_go_known(&self, call: Option<InterceptedCall>) {
        call.into_iter().for_each(|call| self.interceptors.let_go(call));
    }
}
