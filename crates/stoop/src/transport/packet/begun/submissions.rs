//! Submission queues: how calls that a thread begins without the lock get into their batches.
//!
//! The first short call of a [`Begin`](crate::Begin) takes the lock and reserves slots for those that may follow, as many as are free
//! and fit into the batch; it makes no lane for a call that may never come. The calls that follow are put into the queue. They are
//! dequeued when the batch leaves, or when a thread that has the lock asks about one of them.

use crate::calling::begun::CallBatch;
use crate::calling::submission_queue::{SubmissionQueue, Submitter};
use crate::error::CallError;
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::Stage;
use crate::transport::packet::link::{MAX_SEGMENTS, PacketLink};
use crate::transport::packet::session::Session;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_wire::HEADER_LEN;

/// While no call is outstanding, a batch leaves with this many packets, so that the server works while the rest is written. Short
/// calls with short results wait for a full batch: there a second system call costs more than the server gains.
pub(crate) const HEAD_START: usize = 16;

/// A batch that is held back, and the queue of the calls that leave with it.
#[derive(Default)]
pub(crate) struct OpenBatch {
    pub(crate) batch: Box<Batch>,
    pub(crate) queue: Arc<SubmissionQueue>,
    /// The session of the calls in the queue.
    session: Option<Arc<Session>>,
    /// Calls of the queue that are in the batch.
    dequeued: usize,
    /// Bytes from one packet to the next, if a call of the queue is the first of the batch.
    segment: usize,
    /// The session when a call was last put into the batch or the queue: if that is the present one, all calls are of it.
    pub(crate) generation: u64,
    /// When the calls of the queue were begun, and their deadline.
    begun: Instant,
    pub(crate) deadline: Instant,
}

impl OpenBatch {
    /// Calls that are in the queue and not in the batch.
    fn queued(&self) -> usize {
        self.queue.count() - self.dequeued
    }
}

impl<L: PacketLink> Calls<L> {
    /// Opens the submission queue of `begin`, for calls that leave with one of `len` bytes.
    pub(crate) fn open_queue(&mut self, begin: &mut CallBatch, len: usize) -> Result<(), CallError> {
        let batch = begin.batch;
        let first = self.reserve(batch)?;
        let Self { batches, free, slots, completions, out, results_are_long, .. } = self;
        let open = &mut batches[batch as usize];
        let before = open.batch.count();
        let mut most = open.batch.room_or(MAX_SEGMENTS);
        if *results_are_long && *out == 0 && before < HEAD_START {
            most = most.min(HEAD_START - before);
        }
        // A slot of another session would have to be renewed.
        let session = Arc::clone(&slots[first as usize].session);
        let mut places = 1;
        open.queue.reopen(std::iter::once(first).chain(std::iter::from_fn(|| {
            let call = *free.last().filter(|_| places < most)?;
            let slot = &mut slots[call as usize];
            if slot.compact.binding() != session.bound.binding {
                return None;
            }
            free.pop();
            places += 1;
            slot.reserve(batch);
            completions.open(call);
            Some(call)
        })));
        open.session = Some(session);
        open.dequeued = 0;
        open.segment = match before {
            0 => Batch::segment_for(len),
            _ => open.batch.segment(),
        };
        (open.begun, open.deadline) = (begin.begun, begin.deadline);
        let longest = open.segment - HEADER_LEN;
        begin.submitter = Some(Submitter::new(Arc::clone(&open.queue), places, longest));
        self.look_by(begin.deadline);
        Ok(())
    }

    /// Closes the submission queue of `begin`, if there is one: its calls are in the batch, and the other slots are free again.
    pub(crate) fn close_queue(&mut self, begin: &mut CallBatch) {
        let Some(submitter) = begin.submitter.take() else { return };
        self.dequeue(begin.batch, Stage::HeldBack(begin.batch));
        for call in submitter.unused() {
            self.slots[call as usize].stage = Stage::Free;
            self.free.push(call);
        }
    }

    /// Puts the calls of all queues into their batches.
    pub(crate) fn dequeue_all(&mut self) {
        for batch in 0..self.batches.len() as u32 {
            self.dequeue(batch, Stage::HeldBack(batch));
        }
    }

    /// Puts the calls that are in a queue into its batch: held back, or to be sent now.
    #[inline]
    pub(crate) fn dequeue(&mut self, batch: u32, stage: Stage) {
        let open = &mut self.batches[batch as usize];
        let count = open.queue.count();
        if open.dequeued == count {
            return;
        }
        let OpenBatch { batch, queue, session, segment, begun, deadline, .. } = open;
        let procedures = &session.as_ref().expect("calls in a queue are of a session").bound.procedures;
        let (mut places, mut len) = (batch.open(count - open.dequeued, *segment), 0);
        let mut next = Instant::NEVER;
        for place in open.dequeued..count {
            let entry = queue.entry(place);
            len = HEADER_LEN + entry.len;
            let packet = places.next(len);
            let slot = &mut self.slots[entry.call as usize];
            if entry.len > 0 {
                queue.copy_arguments(place, &mut packet[HEADER_LEN..]);
                slot.keep_arguments(&packet[HEADER_LEN..]);
            }
            slot.procedure = entry.procedure;
            let number = procedures[usize::from(entry.procedure)];
            slot.compact.start(*begun, *deadline, number, packet);
            slot.stage = stage;
            places.enter(entry.call, slot.compact.number());
            // The same for all of them.
            next = slot.compact.next_timeout(&self.path);
            self.timeouts[entry.call as usize] = next.as_nanos();
        }
        batch.close(len);
        let dequeued = count - std::mem::replace(&mut open.dequeued, count);
        self.outstanding += dequeued;
        self.out += if stage == Stage::Sent { dequeued } else { 0 };
        self.look_by(next);
    }

    /// The queue of `begin` is full: closes it, and takes the batch if that has to leave.
    pub(crate) fn end_queue(&mut self, begin: &mut CallBatch) -> Option<Box<Batch>> {
        let open = &self.batches[begin.batch as usize];
        let (queued, count) = (open.queued(), open.batch.count() + open.queued());
        let is_full = open.batch.room_or(MAX_SEGMENTS) == queued;
        let leaves = is_full || self.results_are_long && self.out == 0 && count == HEAD_START;
        let full = if leaves { self.take_batch(begin.batch) } else { None };
        self.close_queue(begin);
        full
    }

    /// A slot, with a lane of the present session, for a call that leaves with that batch.
    pub(crate) fn reserve(&mut self, batch: u32) -> Result<u32, CallError> {
        if self.free.len() < MAX_SEGMENTS {
            // The slots whose results handles have taken without the lock.
            self.completions.reclaim(&mut self.free);
        }
        let call = match self.free.pop() {
            Some(call) => call,
            None => self.add_slot()?,
        };
        self.completions.open(call);
        if self.slots[call as usize].session.generation != self.generation {
            self.renew(call);
        }
        self.slots[call as usize].reserve(batch);
        Ok(call)
    }
}
