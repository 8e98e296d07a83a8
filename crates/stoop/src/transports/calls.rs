//! The table of outstanding calls of any transport. Each method is that of [`OutstandingCalls`].

use crate::calling::begun::{BeginsCalls, BegunCalls, CallBatch, Outcome, OutstandingCalls, PipeTerms};
use crate::calling::detached::{CallingThread, OrderedCall};
use crate::calling::detaching::{Awaited, Detaching};
use crate::calling::short_result::Short;
use crate::error::{CallError, CloseError, SendError};
use crate::pipes::contract::Ends;
use crate::transports::BegunOf;
use crate::transports::carriers_of_pipes;
use crate::transports::carrying::CarryingCalls;
use crate::transports::intercepted::InterceptedCalls;
use std::sync::Arc;
use std::task::Waker;
use stoop_exchange::Instant;

macro_rules! enums {
    (() $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        /// A table of outstanding calls. Each handle has a clone, which keeps the table.
        #[derive(Clone)]
        pub(crate) enum AnyCalls {
            $($(#[$meta])* $Name(Arc<<BegunOf<$Type> as BegunCalls>::Table>),)*
            /// Calls that were begun before their client was bound, and those of a client of Sun RPC. A thin pointer: handles are small.
            Boxed(Arc<Arc<dyn BeginsCalls>>),
            /// Those of a client with interceptors.
            Intercepted(Arc<InterceptedCalls>),
            /// Those that carry metadata.
            Carrying(Arc<CarryingCalls>),
        }

        impl AnyCalls {
            /// Whether both are the same table.
            pub(crate) fn is_same(&self, other: &Self) -> bool {
                match (self, other) {
                    $($(#[$meta])* (Self::$Name(one), Self::$Name(other)) => Arc::ptr_eq(one, other),)*
                    (Self::Boxed(one), Self::Boxed(other)) => Arc::ptr_eq(one, other),
                    (Self::Intercepted(one), Self::Intercepted(other)) => one.is_same(other),
                    (Self::Carrying(one), Self::Carrying(other)) => one.is_same(other),
                    _ => false,
                }
            }
        }
    };
}
list! { enums () }

/// The expression, in which `it` is the table of `value`.
macro_rules! on_table {
    (($value:expr, $it:ident => $then:expr) $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        match $value {
            $($(#[$meta])* AnyCalls::$Name($it) => $then,)*
            AnyCalls::Boxed($it) => $then,
            AnyCalls::Intercepted($it) => $then,
            AnyCalls::Carrying($it) => $then,
        }
    };
}

// A handle has one, and is moved to and fro.
const _: () = assert!(size_of::<AnyCalls>() == 16);

impl AnyCalls {
    pub(crate) fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        list! { on_table (self, calls => calls.open_batch(timeout_ns)) }
    }

    #[inline]
    pub(crate) fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        list! { on_table (self, calls => calls.begin(batch, procedure, len)) }
    }

    #[cold]
    pub(crate) fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), CallError> {
        let begun = list! { on_table (self, calls => calls.begin_with_pipes(batch, procedure, len, terms)) };
        begun.map_err(|why| {
            why.unwrap_or_else(|| CallError::not_sent(SendError::NoPipes { carried_by: carriers_of_pipes() }))
        })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn name(&self, error: CallError) -> CallError {
        list! { on_table (self, calls => calls.name(error)) }
    }

    pub(crate) fn submit(&self, batch: CallBatch) {
        list! { on_table (self, calls => calls.submit(batch)) }
    }

    pub(crate) fn let_go(&self, call: u32, ordered: Option<OrderedCall>) -> Result<(), CallError> {
        list! { on_table (self, calls => calls.let_go(call, ordered)) }
    }

    pub(crate) fn await_order(&self, thread: CallingThread, idempotent: bool, until: Instant) -> Awaited {
        list! { on_table (self, calls => calls.await_order(thread, idempotent, until)) }
    }

    pub(crate) fn flush(&self, until: Instant) -> Result<(), CloseError> {
        list! { on_table (self, calls => calls.flush(until)) }
    }

    pub(crate) fn has_left(&self, call: u32) -> bool {
        list! { on_table (self, calls => calls.has_left(call)) }
    }

    #[inline]
    pub(crate) fn is_ready(&self, call: u32) -> bool {
        list! { on_table (self, calls => calls.is_ready(call)) }
    }

    #[inline]
    pub(crate) fn take_short(&self, call: u32) -> Option<Short> {
        list! { on_table (self, calls => calls.take_short(call)) }
    }

    pub(crate) fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        list! { on_table (self, calls => calls.take(call, with)) }
    }

    pub(crate) fn poll(&self, call: u32, waker: &Waker) -> bool {
        list! { on_table (self, calls => calls.poll(call, waker)) }
    }

    pub(crate) fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        list! { on_table (self, table => table.wait_any(calls, until)) }
    }

    #[cold]
    pub(crate) fn distrust(&self, call: u32) {
        list! { on_table (self, calls => calls.distrust(call)) }
    }

    pub(crate) fn cancel(&self, call: u32) {
        list! { on_table (self, calls => calls.cancel(call)) }
    }

    pub(crate) fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        list! { on_table (self, calls => calls.detach(call, ordered)) }
    }
}
