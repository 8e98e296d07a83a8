//! The calls of a binding that cannot have one just now: it is not bound, or the system gives no socket or no thread.

use crate::calling::begun::Outcome;
use crate::calling::begun::{CallBatch, OutstandingCalls};
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::error::{CallError, SendError};
use std::sync::Arc;
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_wire::{HEADER_LEN, PACKET_DATA};

/// Begins no call.
struct Unavailable(SendError);

/// A calls that says of each call why it cannot be begun.
pub(crate) fn unavailable(why: SendError) -> Arc<dyn OutstandingCalls> {
    Arc::new(Unavailable(why))
}

const NONE_BEGUN: &str = "no call has been begun";

impl OutstandingCalls for Unavailable {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        // However long the arguments are: why the call cannot be begun is what its caller is told.
        CallBatch::new(vec![0; HEADER_LEN + PACKET_DATA], HEADER_LEN, u32::MAX as usize, timeout_ns)
    }

    fn begin(&self, _: &mut CallBatch, _: u16, _: usize) -> Result<u32, CallError> {
        let Self(why) = self;
        Err(CallError::NotSent(why.clone()))
    }

    fn send(&self, _: CallBatch) {}

    fn is_ready(&self, _: u32) -> bool {
        unreachable!("{NONE_BEGUN}")
    }

    fn poll(&self, _: u32, _: &Waker) -> bool {
        unreachable!("{NONE_BEGUN}")
    }

    fn wait_any(&self, _: &[u32], _: Instant) -> Option<usize> {
        unreachable!("{NONE_BEGUN}")
    }

    fn take(&self, _: u32, _: &mut dyn FnMut(Outcome<'_>)) -> bool {
        unreachable!("{NONE_BEGUN}")
    }

    fn cancel(&self, _: u32) {
        unreachable!("{NONE_BEGUN}")
    }

    fn detach(&self, _: u32, _: Option<CallingThread>) {
        unreachable!("{NONE_BEGUN}")
    }

    fn has_left(&self, _: u32) -> bool {
        unreachable!("{NONE_BEGUN}")
    }

    fn reclaim(&self, _: Selection) -> Option<(u32, Option<CallingThread>)> {
        None
    }

    fn detached(&self) -> usize {
        0
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut Failures::default());
    }
}
