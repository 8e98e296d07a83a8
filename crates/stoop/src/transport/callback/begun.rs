//! Callbacks that were begun and that no thread waits for yet.

use crate::calling::begun::{BeginsCalls, CallBatch, Outcome, OutstandingCalls};
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::table_lock::{Registered, register, take};
use crate::error::CallError;
use crate::transport::callback::handle::{ARGUMENTS, Handle, IfFull};
use std::sync::atomic::Ordering;
use std::task::Waker;
use stoop_exchange::Instant;

impl BeginsCalls for Handle {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        CallBatch::new(Vec::new(), ARGUMENTS, self.arguments_max(), timeout_ns)
    }

    fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        // A task that has no room must not wait for it.
        let if_full = if batch.in_background { IfFull::Fail } else { IfFull::Wait };
        self.begin_or(batch, procedure, len, if_full)
    }

    fn submit(&self, _: CallBatch) {}
}

impl Handle {
    /// As [`begin`](BeginsCalls::begin). A one-way callback takes the place of one with this key that has not left.
    pub(crate) fn begin_latest(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        key: u64,
    ) -> Result<u32, CallError> {
        match self.is_one_way(procedure) {
            true => self.begin_or(batch, procedure, len, IfFull::Replace(key)),
            false => self.begin(batch, procedure, len),
        }
    }

    fn begin_or(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        if_full: IfFull,
    ) -> Result<u32, CallError> {
        batch.read_clock();
        let times = (batch.begun, batch.deadline);
        let call = self.begin_call(&mut batch.packet, len, procedure, times, if_full)?;
        self.receive_in_background();
        Ok(call)
    }
}

impl OutstandingCalls for Handle {
    fn server(&self) -> String {
        self.client.to_string()
    }

    fn is_ready(&self, call: u32) -> bool {
        self.wait_for(&[call], Instant::default()).is_some()
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        if self.is_ready(call) {
            return true;
        }
        match register(self.calls(), call, waker) {
            Registered::Ended => return true,
            Registered::Before => return self.is_ready(call),
            Registered::Now => {}
        }
        let deadline_ns = self.table().deadline_ns(call);
        self.expire_by(deadline_ns);
        false
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        self.wait_for(calls, until)
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        take(self, self.calls(), call, with)
    }

    fn cancel(&self, call: u32) {
        self.has_given_up.store(true, Ordering::SeqCst);
        let mut table = self.table();
        let number = table.number_of(call);
        let (_, waker) = table.abandon(call);
        drop(table);
        drop(waker);
        if let Some(number) = number {
            self.send_cancel(number);
        }
    }

    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let waker = self.table().detach(call, ordered);
        drop(waker);
    }

    fn has_left(&self, _: u32) -> bool {
        true
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        self.table().reclaim(which)
    }

    fn detached(&self) -> usize {
        self.table().detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.table().failures);
    }
}
