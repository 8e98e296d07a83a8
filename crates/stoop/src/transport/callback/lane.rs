//! A blocking callback.

use crate::calling::call_table::Payload;
use crate::error::{CallError, Callee};
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use crate::transport::callback::handle::{Handle, Message};
use crate::transport::contract::Lane;
use std::sync::Arc;
use stoop_marshal::{GatherList, Writer};
use stoop_wire::metadata::{BLOCK_MAX, IN_PROCEDURE};

/// A callback, from its arguments to its result.
pub(crate) struct CallbackLane<'a> {
    handle: &'a Arc<Handle>,
    timeout_ns: u64,
    message: Message,
    result: Option<Payload>,
    /// Bytes of the result, without metadata.
    result_len: usize,
}

impl<'a> CallbackLane<'a> {
    pub(super) fn new(handle: &'a Arc<Handle>, timeout_ns: u64) -> Self {
        Self { handle, timeout_ns, message: handle.message(), result: None, result_len: 0 }
    }
}

// In a box, and out of line: the lanes of other transports are in the same enum, in the stubs.
impl Lane for Box<CallbackLane<'_>> {
    fn callee(&self, procedure: u16) -> Callee {
        Callee::new(self.handle.interface, procedure, &self.handle.client)
    }

    fn other_form(&self, procedure: u16, made: u16) -> Option<u16> {
        if self.handle.agreed_number(made).is_some() { None } else { self.handle.form(procedure) }
    }

    #[cold]
    #[inline(never)]
    fn arguments(&mut self) -> Writer<'_> {
        self.message.arguments()
    }

    #[cold]
    #[inline(never)]
    fn transport(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        let result = self.handle.call(&mut self.message, (procedure, len), self.timeout_ns)?;
        self.result_len = result.bytes().len();
        self.result = Some(result);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn transport_carrying(
        &mut self,
        procedure: u16,
        len: usize,
        _: &mut GatherList<'_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        let Some(outgoing) = Outgoing::new(carried, None, BLOCK_MAX)? else {
            return self.transport(procedure, len);
        };
        let len = self.message.append(len, outgoing.block())?;
        self.transport(procedure | IN_PROCEDURE, len)?;
        let (result, block) = block_of_result(self.result.as_ref().map_or(&[], Payload::bytes))?;
        carried.into_iter().for_each(|carried| carried.note_answer(block));
        self.result_len = result.len();
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn result(&self) -> &[u8] {
        self.result.as_ref().map_or(&[], |result| &result.bytes()[..self.result_len])
    }
}
