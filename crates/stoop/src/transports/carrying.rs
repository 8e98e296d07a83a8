//! The calls that a client begins with metadata: between their handles and the table of a transport.

use crate::calling::begun::{CallBatch, Outcome, PipeTerms};
use crate::calling::short_result::Short;
use crate::error::{CallError, MetadataError, SendError};
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use crate::metadata::trace::CurrentSpan;
use crate::pipes::contract::Ends;
use crate::transports::AnyCalls;
use std::ops::Deref;
use stoop_marshal::{Reader, Writer};
use stoop_wire::metadata::IN_PROCEDURE;

/// Calls in a table, with the metadata that they carry. Each method is that of [`AnyCalls`], and those that are not here are those of the
/// table.
pub(crate) struct CarryingCalls {
    pub(crate) table: AnyCalls,
    pub(crate) carried: Carried,
    /// `None`: the server knows no metadata.
    block: Result<Option<Outgoing>, MetadataError>,
}

impl Deref for CarryingCalls {
    type Target = AnyCalls;

    fn deref(&self) -> &AnyCalls {
        &self.table
    }
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
