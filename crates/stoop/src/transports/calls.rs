//! The table of outstanding calls of any transport. Each method is that of [`OutstandingCalls`].

use crate::calling::begun::{BeginsCalls, BegunCalls, CallBatch, Outcome, OutstandingCalls};
use crate::calling::detached::CallingThread;
use crate::calling::detaching::{Awaited, Detaching};
use crate::calling::short_result::Short;
use crate::error::{CallError, CloseError};
use crate::transports::BegunOf;
use std::sync::Arc;
use std::task::Waker;
use stoop_exchange::Instant;

macro_rules! enums {
    (() $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        /// A table of outstanding calls. Each handle has a clone, which keeps the table.
        #[derive(Clone)]
        pub(crate) enum AnyCalls {
            $($(#[$meta])* $Name(Arc<<BegunOf<$Type> as BegunCalls>::Table>),)*
        }

        impl AnyCalls {
            /// Whether both are the same table.
            pub(crate) fn is_same(&self, other: &Self) -> bool {
                match (self, other) {
                    $($(#[$meta])* (Self::$Name(one), Self::$Name(other)) => Arc::ptr_eq(one, other),)*
                    _ => false,
                }
            }
        }
    };
}
list! { enums () }

// A handle has one, and is moved to and fro.
const _: () = assert!(size_of::<AnyCalls>() == 16);

impl AnyCalls {
    pub(crate) fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        on!(AnyCalls, self, calls => calls.open_batch(timeout_ns))
    }

    #[inline]
    pub(crate) fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        on!(AnyCalls, self, calls => calls.begin(batch, procedure, len))
    }

    pub(crate) fn submit(&self, batch: CallBatch) {
        on!(AnyCalls, self, calls => calls.submit(batch));
    }

    pub(crate) fn let_go(&self, call: u32, thread: Option<CallingThread>) -> Result<(), CallError> {
        on!(AnyCalls, self, calls => calls.let_go(call, thread))
    }

    pub(crate) fn await_order(&self, thread: CallingThread, until: Instant) -> Awaited {
        on!(AnyCalls, self, calls => calls.await_order(thread, until))
    }

    pub(crate) fn flush(&self, until: Instant) -> Result<(), CloseError> {
        on!(AnyCalls, self, calls => calls.flush(until))
    }

    #[inline]
    pub(crate) fn is_ready(&self, call: u32) -> bool {
        on!(AnyCalls, self, calls => calls.is_ready(call))
    }

    #[inline]
    pub(crate) fn take_short(&self, call: u32) -> Option<Short> {
        on!(AnyCalls, self, calls => calls.take_short(call))
    }

    pub(crate) fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        on!(AnyCalls, self, calls => calls.take(call, with))
    }

    pub(crate) fn poll(&self, call: u32, waker: &Waker) -> bool {
        on!(AnyCalls, self, calls => calls.poll(call, waker))
    }

    pub(crate) fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        on!(AnyCalls, self, table => table.wait_any(calls, until))
    }

    #[cold]
    pub(crate) fn distrust(&self, call: u32) {
        on!(AnyCalls, self, calls => calls.distrust(call));
    }

    pub(crate) fn cancel(&self, call: u32) {
        on!(AnyCalls, self, calls => calls.cancel(call));
    }

    pub(crate) fn detach(&self, call: u32, thread: Option<CallingThread>) {
        on!(AnyCalls, self, calls => calls.detach(call, thread));
    }
}
