//! Calls that came together: run one after the other, answered together.
//!
//! The worker that receives them puts them where every worker can take them, takes the first, and continues until none is left. Then the
//! answers leave, by one system call if they are alike. If a procedure takes long, the background thread gives the receive role to another
//! worker as usual; that worker first sends the answers that are there and then takes the rest of the calls. Calls of procedures known
//! to take long are left to the worker pool, which passes on the role before it begins one.

use crate::context::take_asked;
use crate::serving::dispatch::Outcome;
use crate::serving::workers::Endpoint;
use crate::transport::packet::checksum;
use crate::transport::packet::link::{
    MAX_SEGMENTS, MAX_SEGMENTS_LEN, ReceiveBuffers, Segments, ServerEndpoint,
};
use crate::transport::packet::server::PacketEndpoint;
use crate::transport::packet::server::answers::Answers;
use crate::transport::packet::server::arrivals::cancel_procedure;
use crate::transport::packet::server::call::{ANSWER_MAX, CallPacket, PacketCall, complete};
use crate::transport::packet::server::worker::{BatchState, WorkerState};
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_exchange::Instant;
use stoop_exchange::server::{Arrival, Assignment, Server};
use stoop_net::owner_lock::{Key, OwnerGuard, OwnerLock};
use stoop_net::{clock, prefetch};
use stoop_wire::MAX_DATAGRAM;

/// Answers wait for other answers at most this long, or as long as one procedure takes.
const ANSWERS_WAIT_NANOS: u64 = 50_000;

/// Calls that came together and have not begun, and the answers of those that have ended.
pub(super) struct Batch<P> {
    /// The worker that has the receive role locks it for each call; other workers hardly ever do.
    shared: OwnerLock<Shared<P>>,
    /// False: nothing is there, and each worker that runs a call from here will look again.
    pending: AtomicBool,
}

pub(super) struct Shared<P> {
    calls: VecDeque<PacketCall<P>>,
    /// The packets that brought the calls.
    packets: Option<Arc<[u8]>>,
    /// Calls that have ended. Their answers leave together; then the calls are given back to the exchange.
    finished: Vec<Finished<P>>,
    /// Bytes of their answers.
    answers_len: usize,
}

/// A call that has ended.
pub(super) struct Finished<P> {
    pub(super) assignment: Assignment<P>,
    /// Its answer is a result that has only been noted: how long the call was here is known when the answer leaves.
    is_noted: bool,
}

impl<P> Shared<P> {
    /// Adds a call that has ended with an answer of `len` bytes. Returns whether the answers fill a system call.
    #[inline]
    fn push(&mut self, finished: Finished<P>, len: usize) -> bool {
        self.finished.push(finished);
        self.answers_len += len;
        self.finished.len() >= MAX_SEGMENTS || self.answers_len + MAX_DATAGRAM > MAX_SEGMENTS_LEN
    }

    /// Takes the first of the calls and a reference to its packets: another worker may have received others while this worker ran a
    /// procedure.
    #[inline]
    fn take_first(&mut self, buffers: &mut ReceiveBuffers) -> Option<PacketCall<P>> {
        let call = self.calls.pop_front()?;
        let of_calls = &mut buffers.of_calls;
        let is_same =
            matches!((&*of_calls, &self.packets), (Some(own), Some(here)) if Arc::ptr_eq(own, here));
        if !is_same {
            of_calls.clone_from(&self.packets);
        }
        Some(call)
    }
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        let (calls, packets, finished) = (VecDeque::new(), None, Vec::new());
        let shared = Shared { calls, packets, finished, answers_len: 0 };
        Self { shared: OwnerLock::new(shared), pending: AtomicBool::new(false) }
    }
}

impl<P> Batch<P> {
    #[inline]
    fn shared<'a>(&'a self, key: &'a mut Key) -> OwnerGuard<'a, Shared<P>> {
        self.shared.lock(key)
    }

    /// For one more worker that takes calls from here.
    pub(super) fn key(&self) -> Key {
        self.shared.key()
    }

    /// Whether the worker that receives should look here first.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        // Calls and answers are read under the lock; and a worker that gets the receive role sees what its predecessor did.
        self.pending.load(Ordering::Relaxed)
    }
}

/// Packets of one peer that came together, as far as they have not been taken.
struct Arrived<'a> {
    packets: &'a [u8],
    segment: usize,
    /// Bytes taken.
    start: usize,
    /// Up to here checksums have been found right.
    intact: usize,
    /// Parts of a long call may come next.
    parts: bool,
}

impl<'a> Arrived<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.packets[self.start..]
    }

    /// Bytes of the next packet.
    fn next_len(&self) -> usize {
        self.segment.min(self.packets.len() - self.start)
    }
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Takes packets that came together. Returns the first call that they bring; the others wait in the batch.
    #[inline(never)]
    pub(super) fn take_many(
        &self,
        worker: &mut WorkerState<S>,
        segments: Segments,
        patient: bool,
    ) -> Option<PacketCall<S::Peer>> {
        if patient && self.link.note_calls(&mut worker.link, segments.count() as u32, None) {
            self.rouse_background();
        }
        let packets = Arc::clone(worker.buffers.received());
        let segment = segments.segment.max(1);
        let mut arrived =
            Arrived { packets: &packets[..segments.len], segment, start: 0, intact: 0, parts: false };
        let (mut replies, mut attention) = (Answers::default(), false);
        let mut exchange = self.exchange();
        while !arrived.rest().is_empty() {
            attention |= self.take_next(worker, &mut exchange, &mut arrived, &mut replies);
        }
        match attention {
            true => self.attend_later(worker, exchange, 0),
            false => self.note_and_rouse(exchange),
        }
        for (peer, packets, segment) in replies.groups() {
            self.link.send_many(&worker.link, packets, segment, peer);
        }
        worker.batch.flushed_ns = worker.clock_ns;
        self.share(worker, packets)
    }

    /// Takes the next of packets that came together, and those behind it as far as they are alike. Returns whether it was no call and no
    /// question.
    #[inline]
    fn take_next(
        &self,
        worker: &mut WorkerState<S>,
        exchange: &mut Server<S::Peer>,
        arrived: &mut Arrived<'_>,
        replies: &mut Answers<S::Peer>,
    ) -> bool {
        let peer = self.link.peer(&worker.link);
        let (now, start, segment) = (Instant::from_nanos(worker.clock_ns), arrived.start, arrived.segment);
        let mut ready = arrived.rest();
        if checksum::is_expected(ready) {
            if start >= arrived.intact {
                arrived.intact = start + self.intact_len(ready, segment);
            }
            if start >= arrived.intact {
                arrived.start += arrived.next_len();
                return false;
            }
            ready = &arrived.packets[start..arrived.intact];
        }
        if mem::take(&mut arrived.parts) {
            arrived.start += exchange.take_parts(now, *peer, ready, segment, prefetch);
            return false;
        }
        let calls = &mut worker.batch.calls;
        let mut run = |assignment, at| {
            let packet = CallPacket::in_batch(start + at);
            calls.push_back(PacketCall { assignment, packet });
        };
        let taken = exchange.take_calls(now, peer, ready, segment, &mut run);
        if taken > 0 {
            arrived.start += taken;
            return false;
        }
        arrived.start += arrived.next_len();
        let packet = &arrived.packets[start..arrived.start];
        match exchange.handle_packet(now, peer, packet, &mut worker.reply) {
            Arrival::Run(assignment) => run(assignment, 0),
            Arrival::Reply => replies.push(peer, &worker.reply),
            Arrival::Cancelled(binding, lane, number) => {
                cancel_procedure(binding, lane, number);
                replies.push(peer, &worker.reply);
            }
            Arrival::Transmit | Arrival::Nothing => {
                arrived.parts = true;
                return true;
            }
        }
        false
    }

    /// Puts the worker's calls, which came in these packets, into the batch, except the first.
    fn share(&self, worker: &mut WorkerState<S>, packets: Arc<[u8]>) -> Option<PacketCall<S::Peer>> {
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

    /// For a worker that has just got the receive role: sends the answers that are there, and takes the next call of the batch.
    #[cold]
    pub(super) fn take_over(&self, worker: &mut WorkerState<S>) -> Option<PacketCall<S::Peer>> {
        let mut call = loop {
            self.flush(worker);
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

    /// Runs a call of the batch and those behind it. Returns a call that has waited for one of them to return, if there is one.
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
        if worker.batch.parked.is_empty() { None } else { self.run_parked(worker) }
    }

    /// Runs the calls that are parked in the worker's state. There is hardly ever one, let alone two.
    #[cold]
    fn run_parked(&self, worker: &mut WorkerState<S>) -> Option<PacketCall<S::Peer>> {
        let mut waited = worker.batch.parked.pop();
        while let Some(call) = waited {
            if worker.batch.parked.is_empty() {
                return Some(call);
            }
            waited = self.run_alone(worker, call).or_else(|| worker.batch.parked.pop());
        }
        None
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
        let mut assignment = call.assignment;
        let is_noted = match outcome {
            Outcome::Result(len) if !is_late => {
                assignment.note(len);
                true
            }
            outcome => {
                complete(&mut assignment, outcome, worker.clock_ns);
                false
            }
        };
        let mut shared = self.batch.shared(&mut worker.key);
        let len = assignment.answer_len();
        let is_full = shared.push(Finished { assignment, is_noted }, len);
        // Calls that are known to take long are left to the pool.
        let is_short = shared.calls.front().is_some_and(|next| !self.takes_long(next));
        let next = if is_short { shared.take_first(&mut worker.buffers) } else { None };
        (next, is_full)
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
            self.exports.took(call.assignment.interface, call.assignment.procedure, took);
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
        let BatchState { finished, answers, .. } = &mut worker.batch;
        for Finished { assignment, .. } in finished.iter_mut().filter(|each| each.is_noted) {
            assignment.complete_noted(now);
        }
        // In a second pass, because reading a header that has just been written stalls the processor.
        for Finished { assignment, .. } in finished {
            if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
                // The exchange sends it.
                assignment.leave_in_parts();
            } else {
                answers.push(&assignment.peer, assignment.answer());
            }
        }
        for (peer, packets, segment) in worker.batch.answers.groups() {
            self.link.send_many(&worker.link, packets, segment, peer);
        }
        worker.batch.answers.clear();
        self.finish_all(worker);
    }
}
