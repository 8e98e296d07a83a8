//! How begun calls get their slots, and how they leave.

use crate::calling::begun::CallBatch;
use crate::calling::submission_queue::SubmissionQueue;
use crate::error::{CallError, SendError};
use crate::transport::packet::begun::calls::{Calls, KEPT_CAPACITY};
use crate::transport::packet::begun::slot::{Owner, Stage};
use crate::transport::packet::link::PacketLink;
use std::sync::{Arc, Mutex};
use stoop_exchange::Instant;
use stoop_marshal::EncodeError;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// Slots that a submission queue gets at a time.
const RESERVED: usize = 32;

impl<L: PacketLink> Calls<L> {
    /// Gives `queue`, which has that number, slots for calls that leave with it. Makes a lane only for the first of them: the others
    /// may never come.
    pub(crate) fn reserve(&mut self, queue: &mut SubmissionQueue, number: u32) -> Result<(), CallError> {
        let first = self.take_slot()?;
        let binding = self.slots[first as usize].compact.binding();
        self.reserve_slot(first, queue, number);
        for _ in 1..RESERVED {
            let is_present = |call: &mut u32| self.slots[*call as usize].compact.binding() == binding;
            let Some(call) = self.free.pop_if(is_present) else { break };
            self.reserve_slot(call, queue, number);
        }
        Ok(())
    }

    #[inline]
    fn reserve_slot(&mut self, call: u32, queue: &mut SubmissionQueue, number: u32) {
        let slot = &mut self.slots[call as usize];
        (slot.stage, slot.owner) = (Stage::HeldBack(number), Owner::Handle);
        queue.reserve(call);
    }

    /// A free slot, with a lane of the present session.
    pub(super) fn take_slot(&mut self) -> Result<u32, CallError> {
        if self.free.len() < RESERVED {
            // The slots whose results handles have taken without the lock.
            self.completions.reclaim(&mut self.free);
        }
        let call = match self.free.pop() {
            Some(call) => call,
            None => self.add_slot()?,
        };
        if self.slots[call as usize].session.generation != self.generation {
            self.renew(call);
        }
        Ok(call)
    }

    /// Starts the calls of a queue, which leave now, from when their time runs: writes the headers of their packets. The other slots of the queue are free again.
    /// Calls that may not leave yet are taken out of the queue, and wait.
    pub(crate) fn start_all(&mut self, queue: &mut SubmissionQueue, clock: Instant) {
        for call in queue.take_reserved() {
            self.slots[call as usize].stage = Stage::Free;
            self.free.push(call);
        }
        queue.leave(clock);
        let Some(first) = queue.calls().first() else { return };
        if self.slots[first.call as usize].session.generation != self.generation {
            queue.calls().iter().for_each(|submitted| self.renew(submitted.call));
        }
        let session = Arc::clone(&self.slots[queue.calls()[0].call as usize].session);
        let (begun, deadline) = queue.times();
        self.outstanding += queue.calls().len();
        let mut next = Instant::NEVER;
        let room = self.room(clock);
        for (submitted, packet) in queue.packets_mut().skip(room) {
            self.hold(submitted.call, submitted.procedure, (begun, deadline), &packet[HEADER_LEN..]);
            next = deadline;
        }
        queue.keep_first(room);
        for (submitted, packet) in queue.packets_mut() {
            let slot = &mut self.slots[submitted.call as usize];
            if packet.len() > HEADER_LEN {
                slot.keep_arguments(&packet[HEADER_LEN..]);
            }
            slot.procedure = submitted.procedure;
            let number = session.bound.number(submitted.procedure);
            slot.compact.start(clock, deadline, number, packet);
            slot.stage = Stage::Sent;
            // The same for all of them.
            next = slot.compact.next_timeout(&self.path);
            self.timeouts[submitted.call as usize] = next.as_nanos();
            if slot.owner != Owner::Handle {
                let cancelled = slot.owner == Owner::Cancelled;
                let lane = &mut slot.expand(self.path).lane;
                if cancelled && let Some(cancel) = lane.cancel(clock) {
                    // It is as long as the call that it replaces, for packets that leave together are, but tells nothing of it.
                    let (header, arguments) = packet.split_at_mut(HEADER_LEN);
                    header.copy_from_slice(&cancel);
                    arguments.fill(0);
                }
            }
        }
        self.take_off(queue, clock);
        self.next_deadline = self.next_deadline.min(deadline);
        self.look_by(next);
    }

    /// Ends the calls of a queue that was held back beyond the deadline that they inherit. They have been started, and do not leave.
    #[cold]
    pub(crate) fn expire_all(&mut self, queue: &mut SubmissionQueue, clock: Instant) {
        for submitted in queue.calls() {
            self.expand(submitted.call).lane.abandon(clock);
            self.fail(submitted.call, CallError::not_sent(SendError::DeadlinePassed), clock);
        }
        queue.clear();
    }

    /// Begins a call of many packets. Its arguments stay where they have been written.
    #[cold]
    pub(crate) fn begin_large(
        &mut self,
        begin: &mut CallBatch,
        procedure: u16,
        len: usize,
    ) -> Result<u32, CallError> {
        if len > self.longest_call {
            // The arguments were written for a server that has been replaced by one that takes fewer.
            let why = EncodeError::TooLarge { needed_at_least: len, limit: self.longest_call };
            return Err(CallError::not_sent(SendError::Arguments(why)));
        }
        let call = self.take_slot()?;
        let mut packet = std::mem::replace(&mut begin.packet, vec![0; MAX_DATAGRAM]);
        packet.truncate(HEADER_LEN + len);
        let slot = self.slots[call as usize].expand(self.path);
        slot.owner = Owner::Handle;
        slot.begin_large(procedure, (begin.begun, begin.deadline), packet);
        slot.stage = Stage::Sent;
        self.outstanding += 1;
        self.next_deadline = self.next_deadline.min(begin.deadline);
        self.arm(call);
        self.large.sends(call);
        Ok(call)
    }

    /// An empty submission queue, and its number.
    pub(crate) fn open_queue(&mut self) -> (Arc<Mutex<SubmissionQueue>>, u32) {
        let number = self.free_queues.pop().unwrap_or_else(|| {
            self.queues.push(Arc::default());
            (self.queues.len() - 1) as u32
        });
        (Arc::clone(&self.queues[number as usize]), number)
    }

    /// Keeps the queue and the packet of a `Begin` for later ones.
    pub(crate) fn recycle(&mut self, begin: CallBatch) {
        self.free_queues.push(begin.batch);
        if begin.packet.capacity() <= KEPT_CAPACITY {
            self.unused_packets.push(begin.packet);
        }
    }
}
