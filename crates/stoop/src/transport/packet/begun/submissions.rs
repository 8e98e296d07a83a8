//! Calls that are begun without the lock: their lists, and how they get into their batches.
//!
//! A departure's first short call takes the lock and reserves slots for those that may follow, as many as are free and fit
//! into the batch: no lane is made for a call that may never come. Those that follow are put down on the list. They become
//! calls when the batch leaves, or as soon as anybody who has the lock asks about one of them.

use crate::calling::begun::CallBatch;
use crate::calling::submission_queue::{SubmissionQueue, Submitter};
use crate::error::CallError;
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::begun::batches::HEAD_START;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::Stage;
use crate::transport::packet::caller::{PacketBinding, Session};
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_net::udp::MAX_SEGMENTS;
use stoop_wire::HEADER_LEN;

/// A batch that is held back, and the list of calls that go with it.
#[derive(Default)]
pub(crate) struct OpenBatch {
    pub(crate) batch: Box<Batch>,
    pub(crate) queue: Arc<SubmissionQueue>,
    /// The session that the calls of the list are of.
    session: Option<Arc<Session>>,
    /// Calls of the list that are in the batch.
    enrolled: usize,
    /// From one packet to the next, when one of the list is the first.
    segment: usize,
    /// The session when a call was last put into the batch or on the list: if that is the present one, all are of it.
    pub(crate) generation: u64,
    /// When the calls of the list were begun, and when they have to end.
    begun: Instant,
    pub(crate) deadline: Instant,
}

impl OpenBatch {
    /// Calls that are on the list and not in the batch.
    fn listed(&self) -> usize {
        self.queue.count() - self.enrolled
    }
}

impl Calls {
    /// Opens the departure's list, for calls that go with one of `len` bytes.
    pub(crate) fn embark(
        &mut self,
        binding: &PacketBinding,
        departure: &mut CallBatch,
        len: usize,
    ) -> Result<(), CallError> {
        let held_in = departure.batch;
        let first = self.reserve(binding, held_in)?;
        let Self { batches, free, slots, completions, out, results_are_long, .. } = self;
        let held = &mut batches[held_in as usize];
        let before = held.batch.count();
        let mut most = held.batch.room_or(MAX_SEGMENTS);
        if *results_are_long && *out == 0 && before < HEAD_START {
            most = most.min(HEAD_START - before);
        }
        // One of another session would have to be renewed.
        let session = Arc::clone(&slots[first as usize].session);
        let mut places = 1;
        held.queue.reopen(std::iter::once(first).chain(std::iter::from_fn(|| {
            let call = *free.last().filter(|_| places < most)?;
            let slot = &mut slots[call as usize];
            if slot.brief.binding() != session.bound.binding {
                return None;
            }
            free.pop();
            places += 1;
            slot.reserve(held_in);
            completions.open(call);
            Some(call)
        })));
        held.session = Some(session);
        held.enrolled = 0;
        held.segment = match before {
            0 => Batch::segment_for(len),
            _ => held.batch.segment(),
        };
        (held.begun, held.deadline) = (departure.begun, departure.deadline);
        let longest = held.segment - HEADER_LEN;
        departure.submitter = Some(Submitter::new(Arc::clone(&held.queue), places, longest));
        self.look_by(departure.deadline);
        Ok(())
    }

    /// Closes the departure's list, if there is one: its calls are in the batch, and other slots are free again.
    pub(crate) fn disembark(&mut self, departure: &mut CallBatch) {
        let Some(submitter) = departure.submitter.take() else { return };
        self.enroll(departure.batch, Stage::HeldBack(departure.batch));
        for call in submitter.unused() {
            self.slots[call as usize].stage = Stage::Free;
            self.free.push(call);
        }
    }

    /// The calls of all lists are put into their batches.
    pub(crate) fn enroll_all(&mut self) {
        for held_in in 0..self.batches.len() as u32 {
            self.enroll(held_in, Stage::HeldBack(held_in));
        }
    }

    /// The calls of a list, as far as they have been put down, are put into their batch: held back, or to be sent now.
    #[inline]
    pub(crate) fn enroll(&mut self, held_in: u32, stage: Stage) {
        let held = &mut self.batches[held_in as usize];
        let count = held.queue.count();
        if held.enrolled == count {
            return;
        }
        let OpenBatch { batch, queue, session, segment, begun, deadline, .. } = held;
        let procedures = &session.as_ref().expect("calls on a list are of a session").bound.procedures;
        let (mut places, mut len) = (batch.open(count - held.enrolled, *segment), 0);
        let mut next = Instant::NEVER;
        for place in held.enrolled..count {
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
            slot.brief.start(*begun, *deadline, number, packet);
            slot.stage = stage;
            places.enter(entry.call, slot.brief.number());
            // The same of all.
            next = slot.brief.next_timeout(&self.path);
            self.timeouts[entry.call as usize] = next.as_nanos();
        }
        batch.close(len);
        let enrolled = count - std::mem::replace(&mut held.enrolled, count);
        self.outstanding += enrolled;
        self.out += if stage == Stage::Sent { enrolled } else { 0 };
        self.look_by(next);
    }

    /// All places of the departure's list are taken: what has to leave because of it.
    pub(crate) fn end_boarding(&mut self, departure: &mut CallBatch) -> Option<Box<Batch>> {
        let held = &self.batches[departure.batch as usize];
        let (listed, count) = (held.listed(), held.batch.count() + held.listed());
        let is_full = held.batch.room_or(MAX_SEGMENTS) == listed;
        let leaves = is_full || self.results_are_long && self.out == 0 && count == HEAD_START;
        let full = if leaves { self.take_batch(departure.batch) } else { None };
        self.disembark(departure);
        full
    }

    /// A slot for a call that is to go with a batch, with a lane of the present session.
    pub(crate) fn reserve(&mut self, binding: &PacketBinding, held_in: u32) -> Result<u32, CallError> {
        if self.free.len() < MAX_SEGMENTS {
            // Those whose results have been taken without the lock.
            self.completions.reclaim(&mut self.free);
        }
        let call = match self.free.pop() {
            Some(call) => call,
            None => self.add_slot(binding)?,
        };
        self.completions.open(call);
        if self.slots[call as usize].session.generation != self.generation {
            self.renew(call, binding);
        }
        self.slots[call as usize].reserve(held_in);
        Ok(call)
    }
}
