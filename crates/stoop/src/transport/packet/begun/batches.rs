//! How calls begin: each is held back in a batch, for others to leave with it.

use crate::calling::begun::CallBatch;
use crate::calling::submission_queue::SHORT_ARGUMENTS;
use crate::error::{CallError, SendError};
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::begun::calls::{Calls, KEPT_CAPACITY};
use crate::transport::packet::begun::slot::Stage;
use crate::transport::packet::begun::submissions::{HEAD_START, OpenBatch};
use crate::transport::packet::link::PacketLink;
use stoop_marshal::EncodeError;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// A call that has been begun.
pub(crate) struct Begun {
    pub(crate) call: u32,
    /// A batch that has to leave because of it.
    pub(crate) full: Option<Box<Batch>>,
    /// It is in no batch, because it has many packets.
    pub(crate) is_large: bool,
}

impl<L: PacketLink> Calls<L> {
    /// Begins a call whose packet is the first `len` bytes of `begin`'s, and which its submission queue has not taken.
    pub(crate) fn begin(
        &mut self,
        begin: &mut CallBatch,
        procedure: u16,
        len: usize,
    ) -> Result<Begun, CallError> {
        self.close_queue(begin);
        let begins_batch = self.batches.get(begin.batch as usize).is_none_or(|open| open.batch.count() == 0);
        if begins_batch && std::mem::replace(&mut begin.is_used, true) {
            begin.read_clock();
        }
        if begin.deadline <= begin.begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        self.next_deadline = self.next_deadline.min(begin.deadline);
        self.note_session();
        if len > HEADER_LEN + self.link.binding.packet_data() {
            return self.begin_large(begin, procedure, len);
        }
        if begin.batch == Batch::NONE {
            begin.batch = self.open_batch();
        }
        let batch = begin.batch;
        let open = &self.batches[batch as usize];
        let same_session = open.batch.count() == 0 || open.generation == self.generation;
        let full = if open.batch.takes(len) && same_session { None } else { self.take_batch(batch) };
        self.batches[batch as usize].generation = self.generation;
        let call = if len <= HEADER_LEN + SHORT_ARGUMENTS {
            self.open_queue(begin, len)?;
            let submitter = begin.submitter.as_mut().expect("it was just made");
            let call = submitter.put(procedure, &begin.packet[HEADER_LEN..len]);
            if submitter.is_full() {
                self.close_queue(begin);
            }
            call.expect("there is a place for the first")
        } else {
            let call = self.reserve(batch)?;
            self.hold_back(call, procedure, begin, len);
            call
        };
        let full = full.or_else(|| self.take_full(batch));
        Ok(Begun { call, full, is_large: false })
    }

    /// The packets of a batch, if it should not wait for more.
    fn take_full(&mut self, batch: u32) -> Option<Box<Batch>> {
        let held = &self.batches[batch as usize].batch;
        let leaves = held.is_full() || self.out == 0 && held.count() == HEAD_START;
        if leaves { self.take_batch(batch) } else { None }
    }

    /// Puts a call into the batch of `begin`, from its packet.
    fn hold_back(&mut self, call: u32, procedure: u16, begin: &CallBatch, len: usize) {
        let batch = &mut self.batches[begin.batch as usize].batch;
        let slot = self.slots[call as usize].expand(self.path);
        let arguments = &begin.packet[HEADER_LEN..len];
        slot.keep_arguments(arguments);
        let packet = batch.place(len, Batch::segment_for(len));
        packet[HEADER_LEN..].copy_from_slice(arguments);
        slot.procedure = procedure;
        let number = slot.session.bound.procedures[usize::from(procedure)];
        slot.compact.start(begin.begun, begin.deadline, number, packet);
        slot.stage = Stage::HeldBack(begin.batch);
        batch.enter(call, slot.compact.number());
        self.outstanding += 1;
        self.arm(call);
    }

    /// Begins a call of many packets. Its arguments stay where they have been written.
    #[cold]
    fn begin_large(&mut self, begin: &mut CallBatch, procedure: u16, len: usize) -> Result<Begun, CallError> {
        if len - HEADER_LEN > self.longest_call {
            // The arguments were written for a server that has been replaced by one that takes fewer.
            let why = EncodeError::TooLarge { needed_at_least: len - HEADER_LEN, limit: self.longest_call };
            return Err(CallError::NotSent(SendError::Arguments(why)));
        }
        let call = self.reserve(Batch::NONE)?;
        let mut packet = std::mem::replace(&mut begin.packet, vec![0; MAX_DATAGRAM]);
        packet.truncate(len);
        let slot = self.slots[call as usize].expand(self.path);
        slot.begin_large(procedure, (begin.begun, begin.deadline), packet);
        slot.stage = Stage::Sent;
        self.outstanding += 1;
        self.out += 1;
        self.arm(call);
        self.large.sends(call);
        Ok(Begun { call, full: None, is_large: true })
    }

    fn open_batch(&mut self) -> u32 {
        self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(OpenBatch::default());
            (self.batches.len() - 1) as u32
        })
    }

    /// No call is put into this batch any more.
    pub(crate) fn close_batch(&mut self, batch: u32) {
        self.free_batches.push(batch);
    }

    /// Takes the packets of a batch, which are sent now.
    pub(crate) fn take_batch(&mut self, batch: u32) -> Option<Box<Batch>> {
        let held_back = self.batches.get(batch as usize)?.batch.count();
        self.dequeue(batch, Stage::Sent);
        let open = &mut self.batches[batch as usize];
        if open.batch.count() == 0 {
            return None;
        }
        open.queue.note_leaving();
        let taken = std::mem::replace(&mut open.batch, self.unused_batches.pop().unwrap_or_default());
        for &(call, number) in &taken.calls()[..held_back] {
            let slot = &mut self.slots[call as usize];
            // A call that is not there has ended, and its slot may have another.
            if slot.stage == Stage::HeldBack(batch) && slot.compact.number() == number {
                slot.stage = Stage::Sent;
                self.out += 1;
                self.arm(call);
            }
        }
        if self.batches[batch as usize].generation != self.generation {
            self.await_rebind_of_batch(&taken);
        }
        Some(taken)
    }

    /// The calls of a batch that leave on a session that is not the present one wait for another.
    #[cold]
    fn await_rebind_of_batch(&mut self, batch: &Batch) {
        for &(call, number) in batch.calls() {
            let slot = &self.slots[call as usize];
            let is_there = slot.stage == Stage::Sent && slot.compact.number() == number;
            if is_there && slot.session.generation != self.generation {
                self.await_rebind(call);
            }
        }
    }

    /// Keeps the memory of a batch that has been sent.
    pub(crate) fn recycle_batch(&mut self, mut batch: Box<Batch>) {
        batch.clear();
        self.unused_batches.push(batch);
    }

    /// Keeps the packet of a `Begin` for a later one.
    pub(crate) fn recycle_packet(&mut self, packet: Vec<u8>) {
        if packet.capacity() <= KEPT_CAPACITY {
            self.unused_packets.push(packet);
        }
    }
}
