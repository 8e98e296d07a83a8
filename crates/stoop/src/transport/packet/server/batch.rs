//! Calls that came together: run one after the other, answered together.
//!
//! Whoever receives them puts them where every worker can take from them, takes the first, and goes on until none is
//! left; then the answers go out, by one system call if they are alike. If a procedure takes long, the background gives
//! the receive role to another worker as always, and that one first sends the answers that are there and then takes the
//! rest of the calls. Calls of procedures known to take long are left for the pool, which passes on the role before
//! it begins one.

use crate::context::take_asked;
use crate::serving::dispatch::Outcome;
use crate::serving::workers::Endpoint;
use crate::transport::packet::checksum;
use crate::transport::packet::server::answers::Answers;
use crate::transport::packet::server::arrivals::tell_procedure;
use crate::transport::packet::server::call::{ANSWER_MAX, CallPacket, DatagramCall, complete};
use crate::transport::packet::server::worker::{BatchState, WorkerState};
use crate::transport::packet::server::{DatagramEndpoint, From};
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_exchange::Instant;
use stoop_exchange::server::{Arrival, Assignment};
use stoop_net::owner_lock::{Key, OwnerGuard, OwnerLock};
use stoop_net::udp::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, Peer, Segments};
use stoop_net::{clock, prefetch};
use stoop_wire::MAX_DATAGRAM;

/// Answers wait for others at most this long, or as long as one procedure takes.
const ANSWERS_WAIT_NANOS: u64 = 50_000;

/// Calls that came together and have not begun, and the answers of those that have ended.
pub(super) struct Batch {
    /// Whoever has the receive role takes it for each call, and hardly ever anybody else.
    shared: OwnerLock<Shared>,
    /// False: nothing is there, and nobody has a call from there in hand but those who will look again.
    pending: AtomicBool,
}

#[derive(Default)]
pub(super) struct Shared {
    calls: VecDeque<DatagramCall>,
    /// The datagrams that brought them.
    datagrams: Option<Arc<[u8]>>,
    /// Those that have ended. Their answers leave together, and then they are given back to the exchange.
    finished: Vec<Finished>,
    /// Bytes of their answers.
    answers_len: usize,
}

/// A call that has ended.
pub(super) struct Finished {
    pub(super) assignment: Assignment<From>,
    /// Its answer is a result that has only been noted: how long it was here is known when it leaves.
    is_noted: bool,
}

impl Shared {
    /// A call has ended with an answer of so many bytes. Tells whether so much is here that it should leave.
    #[inline]
    fn push(&mut self, finished: Finished, len: usize) -> bool {
        self.finished.push(finished);
        self.answers_len += len;
        self.finished.len() >= MAX_SEGMENTS || self.answers_len + MAX_DATAGRAM > MAX_SEGMENTS_LEN
    }

    /// Takes the first of the calls, and what it came in: another worker may have received others while this one was in a
    /// procedure.
    #[inline]
    fn take_first(&mut self, of_calls: &mut Option<Arc<[u8]>>) -> Option<DatagramCall> {
        let call = self.calls.pop_front()?;
        let is_same = matches!((&*of_calls, &self.datagrams), (Some(at_desk), Some(here)) if Arc::ptr_eq(at_desk, here));
        if !is_same {
            of_calls.clone_from(&self.datagrams);
        }
        Some(call)
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { shared: OwnerLock::new(Shared::default()), pending: AtomicBool::new(false) }
    }
}

impl Batch {
    #[inline]
    fn shared<'a>(&'a self, key: &'a mut Key) -> OwnerGuard<'a, Shared> {
        self.shared.lock(key)
    }

    /// For one more worker that takes calls from here.
    pub(super) fn key(&self) -> Key {
        self.shared.key()
    }

    /// Whether whoever receives should look here first.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        // What it tells of is read under the lock; and whoever gets the receive role sees what its last calls did.
        self.pending.load(Ordering::Relaxed)
    }
}

impl DatagramEndpoint {
    /// Takes datagrams that came together. Returns the first call that they bring; the others wait in the batch.
    pub(super) fn take_many(
        &self,
        worker: &mut WorkerState,
        segments: Segments,
        peer: Peer,
    ) -> Option<DatagramCall> {
        let now = Instant::from_nanos(worker.clock_ns);
        let from = From(peer);
        let batch = &mut worker.batch;
        let (mut replies, mut attention) = (Answers::default(), false);
        let mut exchange = self.exchange();
        let datagrams = Arc::clone(batch.received());
        let (mut rest, segment) = (&datagrams[..segments.len], segments.segment.max(1));
        // So far their checksums are right; and whether parts of a message may come next.
        let (mut intact, mut parts) = (0, false);
        while !rest.is_empty() {
            let start = segments.len - rest.len();
            let mut ready = rest;
            if checksum::is_expected(rest) {
                if start >= intact {
                    intact = start + self.intact_len(rest, segment);
                }
                if start >= intact {
                    rest = &rest[segment.min(rest.len())..];
                    continue;
                }
                ready = &rest[..intact - start];
            }
            if mem::take(&mut parts) {
                rest = &rest[exchange.take_parts(now, from, ready, segment, prefetch)..];
                continue;
            }
            let run = |assignment, at| {
                batch.calls.push_back(DatagramCall { assignment, packet: CallPacket::in_batch(start + at) });
            };
            let calls = exchange.take_calls(now, &from, ready, segment, run);
            if calls > 0 {
                rest = &rest[calls..];
                continue;
            }
            let (datagram, behind) = rest.split_at(segment.min(rest.len()));
            rest = behind;
            match exchange.handle_packet(now, &from, datagram, &mut worker.reply) {
                Arrival::Run(assignment) => {
                    batch.calls.push_back(DatagramCall { assignment, packet: CallPacket::in_batch(start) });
                }
                Arrival::Reply => replies.push(&peer, &worker.reply),
                Arrival::Cancelled(binding, lane, number) => {
                    tell_procedure(binding, lane, number);
                    replies.push(&peer, &worker.reply);
                }
                Arrival::Transmit | Arrival::Nothing => {
                    attention = true;
                    // The next ones of a long call.
                    parts = true;
                }
            }
        }
        if attention {
            self.attend_later(worker, exchange);
        } else {
            self.note_and_rouse(exchange);
        }
        for (peer, datagrams, segment) in replies.groups() {
            self.send_together(worker, datagrams, segment, peer);
        }
        worker.batch.flushed_ns = worker.clock_ns;
        self.share(worker, datagrams)
    }

    /// Puts the worker's calls, which came in these datagrams, into the batch, but for the first.
    fn share(&self, worker: &mut WorkerState, datagrams: Arc<[u8]>) -> Option<DatagramCall> {
        let first = worker.batch.calls.pop_front();
        if !worker.batch.calls.is_empty() {
            let mut shared = self.batch.shared(&mut worker.key);
            let shared = &mut *shared;
            if shared.calls.is_empty() {
                mem::swap(&mut shared.calls, &mut worker.batch.calls);
            } else {
                // Whoever has the role has taken those calls before it received others; but nothing here depends on that.
                let others = shared.datagrams.take().unwrap_or_default();
                shared.calls.iter_mut().for_each(|call| call.keep_packet_of(&others));
                shared.calls.append(&mut worker.batch.calls);
            }
            shared.datagrams = Some(Arc::clone(&datagrams));
            self.batch.pending.store(true, Ordering::Relaxed);
        }
        worker.batch.of_calls = Some(datagrams);
        first
    }

    /// For whoever has just got the receive role: sends what answers are there, and takes the next call of the batch.
    #[cold]
    pub(super) fn take_over(&self, worker: &mut WorkerState) -> Option<DatagramCall> {
        let mut call = loop {
            self.flush(worker);
            let mut shared = self.batch.shared(&mut worker.key);
            shared.calls.extend(worker.batch.parked.drain(..));
            match shared.take_first(&mut worker.batch.of_calls) {
                Some(call) => break call,
                None if shared.finished.is_empty() => return None,
                // Another has left an answer since they were sent, and has taken the last call.
                None => {}
            }
        };
        self.batch.pending.store(true, Ordering::Relaxed);
        call.packet = call.packet.deferred();
        Some(call)
    }

    /// Runs a call of the batch and those behind it. Returns one that has waited for one of them to return, if there is
    /// one.
    pub(super) fn run_batch(&self, worker: &mut WorkerState, call: DatagramCall) -> Option<DatagramCall> {
        if call.packet.is_deferred() {
            worker.clock_ns = clock::now_ns();
        }
        let mut next = Some(call);
        while let Some(call) = next {
            let full;
            (next, full) = self.run_one_of_batch(worker, call);
            let due = next.is_none() || full;
            if due || worker.clock_ns - worker.batch.flushed_ns > ANSWERS_WAIT_NANOS {
                self.flush(worker);
            }
        }
        if worker.batch.parked.is_empty() { None } else { self.run_parked(worker) }
    }

    /// Runs the calls that are parked at the worker. Hardly ever is there one, let alone two.
    #[cold]
    fn run_parked(&self, worker: &mut WorkerState) -> Option<DatagramCall> {
        let mut waited = worker.batch.parked.pop();
        while let Some(call) = waited {
            if worker.batch.parked.is_empty() {
                return Some(call);
            }
            waited = self.run_alone(worker, call).or_else(|| worker.batch.parked.pop());
        }
        None
    }

    /// Runs a call and leaves its answer in the batch. Returns the next call, and whether there is no room for its
    /// answer.
    #[inline]
    fn run_one_of_batch(
        &self,
        worker: &mut WorkerState,
        mut call: DatagramCall,
    ) -> (Option<DatagramCall>, bool) {
        let outcome = self.perform(&mut call, worker, worker.clock_ns);
        let mut is_late = false;
        if worker.batch.pace.is_due() | take_asked() {
            let now_ns = clock::now_ns();
            let took = now_ns - worker.clock_ns;
            worker.clock_ns = now_ns;
            is_late = Instant::from_nanos(now_ns) >= call.assignment.deadline;
            if worker.batch.pace.looked(took) && outcome.ran() {
                self.exports.took(call.assignment.interface, call.assignment.procedure, took);
            }
        }
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
        let full = shared.push(Finished { assignment, is_noted }, len);
        // Calls that are known to take long are left to the pool.
        let is_short = shared.calls.front().is_some_and(|next| !self.takes_long(next));
        let next = if is_short { shared.take_first(&mut worker.batch.of_calls) } else { None };
        drop(shared);
        (next, full)
    }

    /// Sends the answers of the batch and gives their calls back to the exchange. Calls that had to wait for them are
    /// then parked at the worker.
    fn flush(&self, worker: &mut WorkerState) {
        {
            let mut shared = self.batch.shared(&mut worker.key);
            shared.answers_len = 0;
            mem::swap(&mut shared.finished, &mut worker.batch.finished);
            self.batch.pending.store(!shared.calls.is_empty(), Ordering::Relaxed);
            if shared.calls.is_empty() {
                shared.datagrams = None;
            }
        }
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
        // Not at once, for a header that is read while it is being written keeps its reader waiting.
        for Finished { assignment, .. } in finished {
            // A longer one is sent by the exchange.
            if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
                assignment.leave_in_parts();
            } else {
                answers.push(&assignment.peer.0, assignment.answer());
            }
        }
        for (peer, datagrams, segment) in worker.batch.answers.groups() {
            self.send_together(worker, datagrams, segment, peer);
        }
        worker.batch.answers.clear();
        self.finish_all(worker);
    }
}
