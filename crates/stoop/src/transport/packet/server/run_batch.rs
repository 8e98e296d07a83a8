//! Calls that came together: run one after the other, answered together.
//!
//! The worker that receives them puts them where every worker can take them, takes the first, and continues until none is left. Then the
//! answers leave, by one system call if they are alike. If a procedure takes long, the background thread gives the receive role to another
//! worker as usual; that worker first sends the answers that are there and then takes the rest of the calls. Calls of procedures known
//! to take long are left to the worker pool, which passes on the role before it begins one.

use crate::context::take_asked;
use crate::serving::outcome::Outcome;
use crate::serving::workers::Endpoint;
use crate::transport::packet::link::{ReceiveBuffers, ServerEndpoint};
use crate::transport::packet::server::batch::{Finished, Shared};
use crate::transport::packet::server::call::{CallPacket, PacketCall};
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::run::ANSWER_MAX;
use crate::transport::packet::server::worker::{BatchState, WorkerState};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::server::Assignment;
use stoop_net::clock;
use stoop_wire::Kind;

/// Answers wait for other answers at most this long, or as long as one procedure takes.
const ANSWERS_WAIT_NANOS: u64 = 50_000;

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Puts the worker's calls, which came in these packets, into the batch, except the first.
    pub(super) fn share(
        &self,
        worker: &mut WorkerState<S>,
        packets: Arc<[u8]>,
    ) -> Option<PacketCall<S::Peer>> {
        let first = worker.batch.calls.pop_front();
        if !worker.batch.calls.is_empty() {
            let mut shared = self.batch.shared(&mut worker.key);
            let shared = &mut *shared;
            if shared.calls.is_empty() {
                mem::swap(&mut shared.calls, &mut worker.batch.calls);
            } else {
                // A worker takes the calls that are here before it receives others. The code does not rely on it.
                let others = shared.packets.take().unwrap_or_default();
                shared.calls.iter_mut().for_each(|call| call.keep_packet_of(&others));
                shared.calls.append(&mut worker.batch.calls);
            }
            shared.packets = Some(Arc::clone(&packets));
            self.batch.pending.store(true, Ordering::Relaxed);
        }
        worker.buffers.of_calls = Some(packets);
        first
    }

    /// For a worker that has just got the receive role: sends the answers that are there, unless it sent some just now, and takes the next
    /// call of the batch.
    #[cold]
    pub(super) fn take_over(&self, worker: &mut WorkerState<S>) -> Option<PacketCall<S::Peer>> {
        let now_ns = clock::now_ns();
        let mut may_wait = now_ns.saturating_sub(worker.batch.flushed_ns) < ANSWERS_WAIT_NANOS;
        let mut call = loop {
            if !(mem::take(&mut may_wait) && self.has_calls(worker)) {
                self.flush(worker);
            }
            let mut shared = self.batch.shared(&mut worker.key);
            shared.calls.extend(worker.batch.parked.drain(..));
            match shared.take_first(&mut worker.buffers) {
                Some(call) => break call,
                None if shared.finished.is_empty() => return None,
                // Another worker has added an answer meanwhile, and has taken the last call.
                None => {}
            }
        };
        self.batch.pending.store(true, Ordering::Relaxed);
        call.packet = call.packet.deferred();
        Some(call)
    }

    fn has_calls(&self, worker: &mut WorkerState<S>) -> bool {
        !self.batch.shared(&mut worker.key).calls.is_empty()
    }

    /// A call of the batch has ended without running. Its answer leaves with others.
    #[cold]
    pub(super) fn end_in_batch(
        &self,
        worker: &mut WorkerState<S>,
        assignment: Assignment<S::Peer>,
    ) -> Option<PacketCall<S::Peer>> {
        let mut shared = self.batch.shared(&mut worker.key);
        let len = assignment.answer_len();
        let is_full = shared.push(Finished::new(assignment, false, CallPacket::KEPT), len);
        let is_last = shared.calls.is_empty();
        drop(shared);
        if is_full || is_last {
            self.flush(worker);
        }
        // The pool takes the others that are parked.
        worker.batch.parked.pop()
    }

    /// Runs a call of the batch and those behind it. Returns a call that has waited for one of them to return, if there is one. Others that
    /// have are still parked in the worker's state.
    #[inline(never)]
    pub(super) fn run_batch(
        &self,
        worker: &mut WorkerState<S>,
        call: PacketCall<S::Peer>,
    ) -> Option<PacketCall<S::Peer>> {
        if call.packet.is_deferred() {
            worker.clock_ns = clock::now_ns();
        }
        let mut next = Some(call);
        while let Some(call) = next {
            let is_full;
            (next, is_full) = self.run_one_of_batch(worker, call);
            let is_due = next.is_none() || is_full;
            if is_due || worker.clock_ns - worker.batch.flushed_ns > ANSWERS_WAIT_NANOS {
                self.flush(worker);
            }
        }
        // The pool takes the others that are parked.
        worker.batch.parked.pop()
    }

    /// Runs a call and adds its answer to the batch. Returns the next call, and whether the answers fill a system call.
    #[inline]
    fn run_one_of_batch(
        &self,
        worker: &mut WorkerState<S>,
        mut call: PacketCall<S::Peer>,
    ) -> (Option<PacketCall<S::Peer>>, bool) {
        let outcome = self.perform(&mut call, &worker.buffers, worker.clock_ns);
        let is_late = self.note_time(worker, &call, outcome.ran());
        let packet = call.packet;
        let mut assignment = call.assignment;
        let is_noted = match outcome {
            Outcome::Result(len) if !is_late => {
                outcome.has_nothing_to_drop();
                assignment.note(len);
                true
            }
            Outcome::Later(later) => {
                self.leave_open(assignment, *later);
                let mut shared = self.batch.shared(&mut worker.key);
                return (self.next_short(&mut shared, &mut worker.buffers), false);
            }
            outcome => {
                self.complete(&mut assignment, outcome, worker.clock_ns);
                false
            }
        };
        let mut shared = self.batch.shared(&mut worker.key);
        let len = assignment.answer_len();
        let is_full = shared.push(Finished::new(assignment, is_noted, packet), len);
        (self.next_short(&mut shared, &mut worker.buffers), is_full)
    }

    /// Takes the next call of the batch, unless it is known to take long: such calls are left to the pool.
    #[inline(always)]
    fn next_short(
        &self,
        shared: &mut Shared<S::Peer>,
        buffers: &mut ReceiveBuffers,
    ) -> Option<PacketCall<S::Peer>> {
        let is_short = shared.calls.front().is_some_and(|next| !self.takes_long(next));
        if is_short { shared.take_first(buffers) } else { None }
    }

    /// Reads the clock if it is time to. Returns whether the call's deadline has passed then.
    #[inline]
    fn note_time(&self, worker: &mut WorkerState<S>, call: &PacketCall<S::Peer>, ran: bool) -> bool {
        if !(worker.batch.pacing.is_due() | take_asked()) {
            return false;
        }
        let now_ns = clock::now_ns();
        let took = now_ns - worker.clock_ns;
        worker.clock_ns = now_ns;
        if worker.batch.pacing.note_reading(took) && ran {
            self.exports.time(call.assignment.interface, call.assignment.procedure).took(took);
        }
        Instant::from_nanos(now_ns) >= call.assignment.deadline
    }

    /// Takes the calls that have ended from the batch.
    fn take_finished(&self, worker: &mut WorkerState<S>) {
        let mut shared = self.batch.shared(&mut worker.key);
        shared.answers_len = 0;
        mem::swap(&mut shared.finished, &mut worker.batch.finished);
        self.batch.pending.store(!shared.calls.is_empty(), Ordering::Relaxed);
        if shared.calls.is_empty() {
            shared.packets = None;
        }
    }

    /// Sends the answers of the batch and gives their calls back to the exchange. Calls that had to wait for them are then parked in the
    /// worker's state.
    fn flush(&self, worker: &mut WorkerState<S>) {
        self.take_finished(worker);
        if worker.batch.finished.is_empty() {
            return;
        }
        worker.clock_ns = clock::now_ns();
        worker.batch.flushed_ns = worker.clock_ns;
        let now = Instant::from_nanos(worker.clock_ns);
        let BatchState { finished, answers, bundled, .. } = &mut worker.batch;
        for Finished { assignment, .. } in finished.iter_mut().filter(|each| each.is_noted) {
            assignment.complete_noted(now);
        }
        // In a second pass, because reading a header that has just been written stalls the processor.
        for each in finished {
            let is_bundled = each.is_bundled();
            let assignment = &mut each.assignment;
            if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
                // The exchange sends it.
                assignment.leave_in_parts();
            } else if is_bundled {
                bundled.push_to_bundle(&assignment.peer, assignment.answer());
            } else {
                answers.push(&assignment.peer, assignment.answer(), &self.protection);
            }
        }
        for (peer, packets, segment) in worker.batch.answers.groups() {
            self.link.send_many(&worker.link, packets, segment, peer);
        }
        worker.batch.answers.clear();
        if cfg!(feature = "seal") && !worker.batch.bundled.is_empty() {
            self.send_bundled(worker);
        }
        self.finish_all(worker);
    }
    /// Sends the answers of calls that came in bundles, in bundles.
    #[inline(never)]
    fn send_bundled(&self, worker: &mut WorkerState<S>) {
        for (peer, answers, segment) in worker.batch.bundled.groups() {
            let (packets, segment, _) = self.protection.bundled(Kind::Result, answers, segment);
            self.link.send_many(&worker.link, &packets, segment, peer);
        }
        worker.batch.bundled.clear();
    }
}
