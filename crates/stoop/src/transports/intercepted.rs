//! The calls that a client with interceptors begins: between their handles and the table of a transport.

use crate::calling::begun::{CallBatch, Outcome, PipeTerms};
use crate::calling::detached::OrderedCall;
use crate::calling::short_result::Short;
use crate::context::bounded_deadline;
use crate::error::CallError;
use crate::intercept::InterceptedCall;
use crate::intercept::client::ClientChain;
use crate::locked::locked;
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use crate::metadata::{Metadata, has_metadata, without_metadata};
use crate::pipes::contract::Ends;
use crate::transports::AnyCalls;
use crate::transports::carrying::append;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_wire::metadata::{BLOCK_MAX, IN_PROCEDURE};

/// Calls in a table, and the interceptors through which they go. Each method is that of [`AnyCalls`], and those that are not here are those
/// of the table.
pub(crate) struct InterceptedCalls {
    table: AnyCalls,
    interceptors: Arc<ClientChain>,
    /// Bytes of the longest block of metadata that the server takes.
    metadata_max: usize,
    /// The calls that have handles, by their numbers. A handle's number is taken out before the table has it back, and may give it to
    /// another call.
    outstanding: Mutex<HashMap<u32, InterceptedCall>>,
}

impl Deref for InterceptedCalls {
    type Target = AnyCalls;

    fn deref(&self) -> &AnyCalls {
        &self.table
    }
}

impl InterceptedCalls {
    pub(crate) fn new(table: AnyCalls, interceptors: &Arc<ClientChain>, metadata_max: usize) -> Self {
        let interceptors = Arc::clone(interceptors);
        Self { table, interceptors, metadata_max, outstanding: Mutex::default() }
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

    pub(crate) fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let begin = |table: &AnyCalls, batch: &mut CallBatch, procedure, len| {
            table.begin(batch, procedure, len).map(|number| (number, ()))
        };
        self.begin_by(batch, procedure, len, begin).map(|(number, ())| number)
    }

    pub(crate) fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        let begin = |table: &AnyCalls, batch: &mut CallBatch, procedure, len| {
            table.begin_with_pipes(batch, procedure, len, terms)
        };
        self.begin_by(batch, procedure, len, begin).map_err(Some)
    }

    fn begin_by<E>(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        begin: impl FnOnce(&AnyCalls, &mut CallBatch, u16, usize) -> Result<(u32, E), CallError>,
    ) -> Result<(u32, E), CallError> {
        let deadline_ns = bounded_deadline(clock::now_ns(), batch.timeout_ns);
        let (procedure, has_metadata) = (without_metadata(procedure), has_metadata(procedure));
        let (len, carried) = match has_metadata {
            true => {
                let (arguments, block) = block_of_result(&batch.packet[batch.start..batch.start + len])?;
                (arguments.len(), Some(Carried { metadata: Metadata::of(block), ..Carried::default() }))
            }
            false => (len, None),
        };
        let mut call = self.interceptors.begin(procedure, deadline_ns, carried)?;
        call.asks_for_metadata = has_metadata;
        match self.begin_carrying(batch, (procedure, len), &mut call, begin) {
            Ok((number, ends)) => {
                self.keep(number, call);
                Ok((number, ends))
            }
            Err(error) => Err(self.interceptors.fail(call, error)),
        }
    }

    /// The call carries what the client and the interceptors have added.
    fn begin_carrying<E>(
        &self,
        batch: &mut CallBatch,
        (procedure, len): (u16, usize),
        call: &mut InterceptedCall,
        begin: impl FnOnce(&AnyCalls, &mut CallBatch, u16, usize) -> Result<(u32, E), CallError>,
    ) -> Result<(u32, E), CallError> {
        let most = if call.asks_for_metadata { BLOCK_MAX } else { self.metadata_max };
        let Some(outgoing) = Outgoing::new(call.carried.as_ref(), None, most)? else {
            return begin(&self.table, batch, procedure, len);
        };
        call.brings_metadata = true;
        let len = append(batch, len, outgoing.block())?;
        begin(&self.table, batch, procedure | IN_PROCEDURE, len)
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

    /// None: an interceptor's panic could not become an error of the call.
    pub(crate) fn take_short(&self, _: u32) -> Option<Short> {
        None
    }

    #[inline(never)]
    pub(crate) fn take(&self, number: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let mut call = self.give_up(number);
        let has_ended = self.table.take(number, &mut |outcome| {
            with(match (call.take(), outcome) {
                (Some(call), Ok(result)) => self.end(call, result).map_err(|error| self.table.name(error)),
                (Some(call), Err(error)) => Err(self.interceptors.fail(call, error)),
                (None, outcome) => outcome,
            });
        });
        if let Some(call) = call {
            self.keep(number, call);
        }
        has_ended
    }

    /// A call has ended with this result.
    fn end<'r>(&self, mut call: InterceptedCall, result: Reader<'r>) -> Outcome<'r> {
        if !call.brings_metadata {
            return self.interceptors.end(call, Ok(())).map(|()| result);
        }
        let message = result.into_payload();
        let split = block_of_result(message);
        if let Ok((_, block)) = &split {
            call.answer = Metadata::of(*block);
        }
        let asks = call.asks_for_metadata;
        match (self.interceptors.end(call, split.as_ref().map(drop).map_err(CallError::clone)), split) {
            (Ok(()), Ok((result, _))) => Ok(Reader::new(if asks { message } else { result })),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
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
