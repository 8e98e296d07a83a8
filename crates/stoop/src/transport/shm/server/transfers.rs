//! How the endpoint moves long messages: it begins, continues, cancels and ends them.

use crate::context::cancelled;
use crate::error::{FailureCode, RefusalCode};
use crate::serving::message_memory::{Content, NO_MEMORY_FOR_ARGUMENTS, NO_MEMORY_FOR_RESULT};
use crate::transport::shm::server::ShmEndpoint;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::call::ShmCall;
use crate::transport::shm::server::long_messages::{
    Cancelled, LONG_MESSAGES, LongResult, NoMemory, Received,
};
use crate::transport::shm::server::worker::WorkerState;
use std::sync::atomic::Ordering;
use stoop_shm::{Disorder, Emptying, Request};

impl ShmEndpoint {
    /// Goes on with the long messages and pipes of a binding. Returns a call that has arrived whole.
    ///
    /// # Errors
    /// The peer has said something impossible.
    #[cold]
    pub(super) fn advance(
        &self,
        worker: &mut WorkerState,
        binding: &Binding,
    ) -> Result<Option<(Request, Vec<u8>)>, Disorder> {
        binding.advance_pipes()?;
        // Perhaps the last that was to be written.
        self.service.activity.announce_end();
        let mut moved = false;
        let left = {
            let mut outgoing = binding.outgoing();
            let left = outgoing.advance(&binding.segment, &binding.memory, &mut moved);
            binding.begin_waiting(&mut outgoing, worker.cpu);
            left
        };
        self.moved(binding, left);
        let ended = binding.incoming().advance(&binding.segment, &binding.memory, &mut moved)?;
        if moved {
            worker.moved_ns = worker.clock_ns;
            if self.service.activity.is_shutting_down() {
                self.moves.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (request, message) = match ended {
            Some(Received::Arrived(request, message)) => (request, message),
            Some(Received::NoMemory(request, emptying, why)) => {
                self.refuse_for_memory(worker, binding, (&request, &emptying), why);
                return Ok(None);
            }
            None => return Ok(None),
        };
        // The time that the copying of its arguments took is not the procedure's.
        worker.read_clock();
        self.moved(binding, 1);
        let is_admitted = self.admit(worker, binding, &request);
        if !is_admitted {
            binding.memory.give_back(Content::Arguments, message.capacity());
        }
        Ok(is_admitted.then_some((request, message)))
    }

    /// A call whose message comes in chunks.
    ///
    /// # Errors
    /// The peer has said something impossible. The call is forgotten: it neither runs nor is answered.
    pub(super) fn begin_arrival(&self, binding: &Binding, request: &Request) -> Result<(), Disorder> {
        let begun = binding.incoming().begin(*request, &binding.memory);
        match begun {
            Ok(()) => {
                binding.transfers.fetch_add(1, Ordering::SeqCst);
                self.moving.fetch_add(1, Ordering::SeqCst);
            }
            Err(Disorder) => binding.forget(request.lane, request.number),
        }
        begun
    }

    /// Refuses a call for the rest of which there is no memory.
    #[cold]
    fn refuse_for_memory(
        &self,
        worker: &WorkerState,
        binding: &Binding,
        (request, emptying): (&Request, &Emptying),
        why: NoMemory,
    ) {
        let detail = match why {
            NoMemory::Share => NO_MEMORY_FOR_ARGUMENTS.into(),
            NoMemory::Process => {
                format!("the server's process has no memory left for {} bytes of arguments", request.len)
            }
        };
        self.refuse_request(binding, request, RefusalCode::Overloaded, &detail, worker.cpu);
        emptying.decline(&binding.segment);
        self.moved(binding, 1);
    }

    /// So many long messages are under way no more.
    fn moved(&self, binding: &Binding, messages: usize) {
        if messages > 0 {
            binding.transfers.fetch_sub(messages, Ordering::SeqCst);
            self.moving.fetch_sub(messages, Ordering::SeqCst);
            self.service.activity.announce_end();
        }
    }

    /// Sends a result that is longer than a slot, as far as there is room; the rest goes as its reader takes it.
    #[cold]
    pub(super) fn send_long(
        &self,
        result: &mut Vec<u8>,
        call: &ShmCall,
        (len, told_ns): (usize, u32),
        cpu: u16,
    ) {
        let binding = &call.binding;
        let id = binding.call_id(call.request.lane, call.request.number);
        let packet = std::mem::take(result);
        let mut outgoing = binding.outgoing();
        if outgoing.is_full(packet.len(), self.service.message_max) {
            let detail = format!(
                "{} bytes of earlier results of this binding have not been taken yet, of at most {}; ask for less at a time, or \
                 raise Server::max_message",
                outgoing.bytes(),
                self.service.message_max.saturating_mul(LONG_MESSAGES),
            );
            drop(outgoing);
            return self.send_failure(call, FailureCode::ResultTooLarge, &detail, cpu);
        }
        if !binding.memory.take(Content::Results, packet.len()) {
            drop(outgoing);
            return self.send_failure(call, FailureCode::ResultTooLarge, NO_MEMORY_FOR_RESULT, cpu);
        }
        // Under the lock: a thread that closes the binding empties this list afterwards, and a cancel looks here.
        if binding.is_closed() {
            binding.memory.give_back(Content::Results, packet.len());
            return binding.forget(call.request.lane, call.request.number);
        }
        if cancelled::is_cancelled(id) {
            drop(outgoing);
            binding.memory.give_back(Content::Results, packet.len());
            *result = packet;
            return binding.answer_cancelled(call.request.lane, call.request.number);
        }
        binding.transfers.fetch_add(1, Ordering::SeqCst);
        self.moving.fetch_add(1, Ordering::SeqCst);
        let (lane, number) = (call.request.lane, call.request.number);
        outgoing.push(LongResult { lane, number, told_ns, len, packet });
        binding.begin_waiting(&mut outgoing, cpu);
        let left = outgoing.advance(&binding.segment, &binding.memory, &mut false);
        drop(outgoing);
        self.moved(binding, left);
        if binding.has_transfers() {
            self.notify(binding);
        }
    }

    /// Cancels a call for its caller.
    #[cold]
    pub(super) fn take_cancel(&self, worker: &WorkerState, binding: &Binding, request: &Request) {
        let (lane, number) = (request.lane, request.number);
        if binding.incoming().cancel(lane, number, &binding.memory) {
            self.refuse_request(binding, request, RefusalCode::Cancelled, "", worker.cpu);
            return self.moved(binding, 1);
        }
        binding.cancel_pipes(lane, number);
        // First: then a result that begins to leave at this moment is found below, or its worker sees the cancel.
        binding.cancel(lane, number);
        // The call may wait for a worker.
        self.service.background.wake_if_asleep();
        let mut outgoing = binding.outgoing();
        let cancelled = outgoing.cancel(&binding.segment, &binding.memory, lane, number);
        if let Cancelled::Unanswered = cancelled {
            binding.answer_cancelled(lane, number);
        }
        binding.begin_waiting(&mut outgoing, worker.cpu);
        drop(outgoing);
        if !matches!(cancelled, Cancelled::Nothing) {
            self.moved(binding, 1);
        }
    }

    /// The binding is closed: nothing of it is under way any more.
    pub(super) fn drop_transfers(&self, binding: &Binding) {
        let incoming = std::mem::take(&mut *binding.incoming());
        let outgoing = std::mem::take(&mut *binding.outgoing());
        binding.memory.give_back(Content::Arguments, incoming.counted());
        binding.memory.give_back(Content::Results, outgoing.bytes());
        // The calls of results that are leaving have been answered; calls that are arriving have not begun.
        incoming.calls().for_each(|request| binding.forget(request.lane, request.number));
        let calls = incoming.calls().count();
        let (results, unanswered) = outgoing.into_parts();
        unanswered.for_each(|(lane, number)| binding.forget(lane, number));
        self.moved(binding, calls + results);
    }
}
