//! The calls that a client begins with metadata: between their handles and the table of a transport.

use crate::calling::begun::{CallBatch, Outcome, PipeTerms};
use crate::calling::detached::{CallingThread, OrderedCall};
use crate::calling::detaching::Awaited;
use crate::calling::short_result::Short;
use crate::error::MetadataError;
use crate::error::{CallError, CloseError, SendError};
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use crate::metadata::trace::CurrentSpan;
use crate::pipes::contract::Ends;
use crate::transports::AnyCalls;
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::{Reader, Writer};
use stoop_wire::metadata::IN_PROCEDURE;

/// Calls in a table, with the metadata that they carry. Each method is that of [`AnyCalls`].
pub(crate) struct CarryingCalls {
    pub(crate) table: AnyCalls,
    pub(crate) carried: Carried,
    /// `None`: the server knows no metadata.
    block: Result<Option<Outgoing>, MetadataError>,
}

impl CarryingCalls {
    /// The metadata that the calls carry is this, the identity of the span, and what goes on of the call that this thread serves now. The
    /// server takes blocks of `most` bytes.
    pub(crate) fn new(table: AnyCalls, carried: Carried, span: Option<&CurrentSpan>, most: usize) -> Self {
        let block = Outgoing::new(Some(&carried), span, most);
        Self { table, carried, block }
    }

    /// Whether both are calls of the same table, whose results have the same metadata behind them, or none.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.table.is_same(&other.table)
    }

    #[cold]
    pub(crate) fn name(&self, error: CallError) -> CallError {
        self.table.name(error)
    }

    pub(crate) fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        self.table.open_batch(timeout_ns)
    }

    pub(crate) fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let (procedure, len) = match &self.block {
            Ok(None) => (procedure, len),
            Ok(Some(outgoing)) => (procedure | IN_PROCEDURE, append(batch, len, outgoing.block())?),
            Err(why) => return Err((*why).into()),
        };
        match (&self.table, self.carried.latest) {
            (AnyCalls::Callback(object), Some(key)) => object.begin_latest(batch, procedure, len, key),
            (table, _) => table.begin(batch, procedure, len),
        }
    }

    pub(crate) fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        let begun = match &self.block {
            Ok(None) => self.table.begin_with_pipes(batch, procedure, len, terms),
            Ok(Some(outgoing)) => append(batch, len, outgoing.block())
                .and_then(|len| self.table.begin_with_pipes(batch, procedure | IN_PROCEDURE, len, terms)),
            Err(why) => Err((*why).into()),
        };
        begun.map_err(Some)
    }

    pub(crate) fn submit(&self, batch: CallBatch) {
        self.table.submit(batch);
    }

    pub(crate) fn let_go(&self, number: u32, ordered: Option<OrderedCall>) -> Result<(), CallError> {
        self.table.let_go(number, ordered)
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

    /// None: the metadata is behind the result.
    pub(crate) fn take_short(&self, _: u32) -> Option<Short> {
        None
    }

    #[inline(never)]
    pub(crate) fn take(&self, number: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let has_block = matches!(self.block, Ok(Some(_)));
        self.table.take(number, &mut |outcome| match outcome {
            Ok(result) if has_block => {
                let split = block_of_result(result.into_payload());
                with(match split {
                    Ok((result, block)) => {
                        self.carried.note_answer(block);
                        Ok(Reader::new(result))
                    }
                    Err(error) => Err(self.table.name(error)),
                });
            }
            outcome => with(outcome),
        })
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
        self.table.cancel(number);
    }

    pub(crate) fn detach(&self, number: u32, ordered: Option<OrderedCall>) {
        self.table.detach(number, ordered);
    }
}

/// Writes a block behind the arguments in the batch. Returns the length of both.
///
/// # Errors
/// There is no room for it.
pub(super) fn append(batch: &mut CallBatch, len: usize, block: &[u8]) -> Result<usize, CallError> {
    let mut writer = Writer::new(&mut batch.packet, batch.start, batch.limit).behind(len, 0);
    writer.scalars(block);
    writer.finish().map_err(|why| CallError::not_sent(SendError::Arguments(why)))
}
