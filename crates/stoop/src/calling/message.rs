//! The memory of a call whose procedure may run in the thread that makes it: its arguments, and its result.

use crate::calling::call_table::Payload;
use crate::error::{CallError, SendError};
use crate::metadata::Metadata;
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use std::cell::Cell;
use std::mem;
use std::ops::Range;
use stoop_marshal::Writer;
use stoop_wire::HEADER_LEN;
use stoop_wire::metadata::{BLOCK_MAX, IN_PROCEDURE};

/// Bytes of memory that a thread keeps of a call for its next one, each for arguments and for the result.
const KEPT_MAX: usize = 64 * 1024;

thread_local! {
    /// Memory for the arguments and the result of this thread's next call.
    static UNUSED: Cell<Option<(Vec<u8>, Vec<u8>)>> = const { Cell::new(None) };
}

/// The arguments of a call, behind the place of a head, and its result.
pub(crate) struct Message {
    pub(crate) arguments: Vec<u8>,
    /// Bytes before the arguments.
    head: usize,
    limit: usize,
    /// Has the result, which a procedure that runs in this thread leaves behind the place of a header.
    pub(crate) packet: Vec<u8>,
    result: Range<usize>,
}

impl Message {
    /// Memory for arguments of at most `limit` bytes behind so many others.
    pub(crate) fn new(head: usize, limit: usize) -> Self {
        // A thread that ends has none.
        let unused = UNUSED.try_with(Cell::take).ok().flatten();
        let (arguments, packet) = unused.unwrap_or_else(|| (Vec::new(), vec![0; HEADER_LEN]));
        Self { arguments, head, limit, packet, result: HEADER_LEN..HEADER_LEN }
    }

    pub(crate) fn writer(&mut self) -> Writer<'_> {
        Writer::new(&mut self.arguments, self.head, self.limit)
    }

    /// The result lies in the packet, behind the place of a header.
    pub(crate) fn set_result_len(&mut self, len: usize) {
        self.result = HEADER_LEN..HEADER_LEN + len;
    }

    /// The result has come in another packet.
    pub(crate) fn set_result(&mut self, result: Payload) {
        match result {
            Payload::Short(short) => {
                self.packet.truncate(HEADER_LEN);
                self.packet.extend_from_slice(short.bytes());
                self.set_result_len(short.bytes().len());
            }
            Payload::Packet { packet, start, len } => {
                self.packet = packet;
                self.result = start..start + len;
            }
        }
    }

    pub(crate) fn result(&self) -> &[u8] {
        &self.packet[self.result.clone()]
    }

    /// Makes a call with `len` bytes of arguments by `make`, which is told a procedure and a length; with metadata, if it carries some. That
    /// of its answer is left in `answer`.
    pub(crate) fn make(
        &mut self,
        (procedure, len): (u16, usize),
        carried: Option<&Carried>,
        answer: &mut Metadata,
        make: impl FnOnce(&mut Self, u16, usize) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let Some(outgoing) = Outgoing::new(carried, None, BLOCK_MAX)? else {
            return make(self, procedure, len);
        };
        let mut arguments = self.writer().behind(len, 0);
        arguments.scalars(outgoing.block());
        let len = arguments.finish().map_err(|why| CallError::not_sent(SendError::Arguments(why)))?;
        make(self, procedure | IN_PROCEDURE, len)?;
        let (result, block) = block_of_result(&self.packet[self.result.clone()])?;
        *answer = Metadata::of(block);
        carried.into_iter().for_each(|carried| carried.note_answer(block));
        self.result.end = self.result.start + result.len();
        Ok(())
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let (arguments, packet) = (mem::take(&mut self.arguments), mem::take(&mut self.packet));
        if arguments.capacity().max(packet.capacity()) <= KEPT_MAX && packet.len() >= HEADER_LEN {
            // A thread that ends has no place for them any more.
            let _ = UNUSED.try_with(|unused| unused.set(Some((arguments, packet))));
        }
    }
}
