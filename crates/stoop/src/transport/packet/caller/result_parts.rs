//! The places of the parts of a large result: in the caller's memory, or in the lane's result buffer.

use crate::error::CallError;
use crate::transport::packet::steps::{check_result_len, result_memory};
use stoop_exchange::bulk::Span;
use stoop_exchange::caller::Part;
use stoop_marshal::GatherList;
use stoop_net::prefetch;
use stoop_wire::HEADER_LEN;

/// The result buffer begins at a multiple of this many bytes of the result, so that the bytes keep their alignment when the first of
/// them are in the caller's memory.
const ALIGNED: usize = 16;

/// The places of the parts of one result.
#[derive(Clone, Copy)]
pub(crate) struct ResultParts {
    /// Bytes at the beginning of the result that go to the caller's memory.
    scatter_len: usize,
}

impl ResultParts {
    /// For the result of which `part` has arrived first: makes `buffer` long enough for the bytes that do not go to the memory in
    /// `gather`.
    ///
    /// # Errors
    /// The result is longer than `longest`, or the process has no memory for it.
    #[cold]
    pub(crate) fn new(
        part: &Part,
        longest: usize,
        gather: &GatherList<'_, '_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Self, CallError> {
        check_result_len(part.message_len, longest)?;
        // A result that is shorter than the caller's memory is wrong; its reader reports that.
        let end = gather.scatter_end();
        let parts = Self { scatter_len: if part.message_len >= end { end } else { 0 } };
        let room = HEADER_LEN + parts.buffered_len(part.message_len);
        if buffer.len() < room {
            *buffer = result_memory(part.message_len, room)?;
        }
        Ok(parts)
    }

    /// Offset of the result buffer in the result.
    fn buffered_from(self) -> usize {
        self.scatter_len - self.scatter_len % ALIGNED
    }

    /// Bytes of a result of that length that are in the result buffer, behind the room of a header.
    pub(crate) fn buffered_len(self, message_len: usize) -> usize {
        message_len - self.buffered_from()
    }

    /// Offset, in the result buffer, of the bytes behind those in the caller's memory; `None` if none are there.
    pub(crate) fn scattered(self) -> Option<usize> {
        (self.scatter_len > 0).then_some(self.scatter_len % ALIGNED)
    }

    /// Copies `payload`, which begins at `offset` of the result, to its place.
    pub(crate) fn place(
        self,
        offset: usize,
        payload: &[u8],
        gather: &mut GatherList<'_, '_>,
        buffer: &mut [u8],
    ) {
        if offset < self.scatter_len {
            gather.scatter(offset, payload);
        }
        let end = offset + payload.len();
        if end > self.scatter_len {
            let from = offset.max(self.scatter_len);
            let at = HEADER_LEN + from - self.buffered_from();
            buffer[at..at + end - from].copy_from_slice(&payload[from - offset..]);
        }
    }

    /// As [`place`](Self::place), of parts that have arrived together, with which `datagrams` begin.
    #[inline]
    pub(crate) fn place_span(
        self,
        span: &Span,
        datagrams: &[u8],
        gather: &mut GatherList<'_, '_>,
        buffer: &mut [u8],
    ) {
        let (from, to) = (span.offset, span.offset + span.len);
        if from >= self.scatter_len {
            let at = HEADER_LEN + from - self.buffered_from();
            return span.copy_to(&mut buffer[at..], datagrams, prefetch);
        }
        if let Some(memory) = gather.memory_at(from, to) {
            return span.copy_to(memory, datagrams, prefetch);
        }
        // They reach over the end of one of the caller's buffers.
        for (offset, payload) in span.parts(datagrams) {
            self.place(offset, payload, gather, buffer);
        }
    }
}
