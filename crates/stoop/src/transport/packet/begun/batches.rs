//! What leaves: calls that are begun and held back for each other, and those that are sent again.

use crate::calling::begun::CallBatch;
use crate::calling::submission_queue::SHORT_ARGUMENTS;
use crate::error::{CallError, SendError};
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::begun::calls::{Begun, Calls, KEPT_CAPACITY};
use crate::transport::packet::begun::slot::Stage;
use crate::transport::packet::begun::submissions::OpenBatch;
use crate::transport::packet::caller::PacketBinding;
use stoop_marshal::EncodeError;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// While no call is outstanding, a batch leaves with this many packets, so that the server works while the rest is written. Short
/// calls with short results wait for a full batch: there a second system call costs more than the server gains.
pub(crate) const HEAD_START: usize = 16;

impl Calls {
    /// Begins a call whose packet is the first `len` bytes of the departure's, and which could not just be put on its list.
    pub(crate) fn begin(
        &mut self,
        binding: &PacketBinding,
        departure: &mut CallBatch,
        procedure: u16,
        len: usize,
    ) -> Result<Begun, CallError> {
        self.disembark(departure);
        let begins_batch =
            self.batches.get(departure.batch as usize).is_none_or(|held| held.batch.count() == 0);
        if begins_batch && std::mem::replace(&mut departure.is_used, true) {
            departure.read_clock();
        }
        if departure.deadline <= departure.begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        self.next_deadline = self.next_deadline.min(departure.deadline);
        if self.generation != binding.generation() {
            self.note_session(binding);
        }
        if len > HEADER_LEN + binding.packet_data() {
            return self.begin_large(binding, departure, procedure, len);
        }
        if departure.batch == Batch::NONE {
            departure.batch = self.open_batch();
        }
        let held_in = departure.batch;
        let held = &self.batches[held_in as usize];
        let goes_with = held.batch.count() == 0 || held.generation == self.generation;
        let full = if held.batch.takes(len) && goes_with { None } else { self.take_batch(held_in) };
        self.batches[held_in as usize].generation = self.generation;
        let call = if len <= HEADER_LEN + SHORT_ARGUMENTS {
            self.embark(binding, departure, len)?;
            let submitter = departure.submitter.as_mut().expect("it was just made");
            let call = submitter.put(procedure, &departure.packet[HEADER_LEN..len]);
            if submitter.is_full() {
                self.disembark(departure);
            }
            call.expect("there is a place for the first")
        } else {
            let call = self.reserve(binding, held_in)?;
            self.put_in(held_in, call, procedure, departure, len);
            call
        };
        let full = full.or_else(|| self.take_full(held_in));
        Ok(Begun { call, full, is_large: false })
    }

    /// What a batch holds, if it should not wait for more.
    fn take_full(&mut self, held_in: u32) -> Option<Box<Batch>> {
        let batch = &self.batches[held_in as usize].batch;
        let leaves = batch.is_full() || self.out == 0 && batch.count() == HEAD_START;
        if leaves { self.take_batch(held_in) } else { None }
    }

    /// Puts a call into a batch, from the departure's packet.
    fn put_in(&mut self, held_in: u32, call: u32, procedure: u16, departure: &CallBatch, len: usize) {
        let batch = &mut self.batches[held_in as usize].batch;
        let slot = self.slots[call as usize].expand(self.path);
        slot.call.resize(len, 0);
        slot.call[HEADER_LEN..].copy_from_slice(&departure.packet[HEADER_LEN..len]);
        let packet = batch.place(len, Batch::segment_for(len));
        packet[HEADER_LEN..].copy_from_slice(&departure.packet[HEADER_LEN..len]);
        slot.procedure = procedure;
        let number = slot.session.bound.procedures[usize::from(procedure)];
        slot.brief.start(departure.begun, departure.deadline, number, packet);
        slot.stage = Stage::HeldBack(held_in);
        batch.enter(call, slot.brief.number());
        self.outstanding += 1;
        self.arm(call);
    }

    /// Begins a call of many packets. Its arguments stay where they have been written.
    #[cold]
    fn begin_large(
        &mut self,
        binding: &PacketBinding,
        departure: &mut CallBatch,
        procedure: u16,
        len: usize,
    ) -> Result<Begun, CallError> {
        if len - HEADER_LEN > self.longest_call {
            // Written for a server that has been replaced by one that takes less.
            let why = EncodeError::TooLarge { needed_at_least: len - HEADER_LEN, limit: self.longest_call };
            return Err(CallError::NotSent(SendError::Arguments(why)));
        }
        let call = self.reserve(binding, Batch::NONE)?;
        self.outstanding += 1;
        let slot = self.slots[call as usize].expand(self.path);
        let number = slot.note(procedure, (departure.begun, departure.deadline));
        slot.call = std::mem::replace(&mut departure.packet, vec![0; MAX_DATAGRAM]);
        slot.call.truncate(len);
        slot.start_large(departure.begun, number);
        slot.stage = Stage::Sent;
        self.out += 1;
        self.arm(call);
        self.large.sends(call);
        Ok(Begun { call, full: None, is_large: true })
    }

    pub(crate) fn open_batch(&mut self) -> u32 {
        self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(OpenBatch::default());
            (self.batches.len() - 1) as u32
        })
    }

    /// No call is put into this batch any more.
    pub(crate) fn close_batch(&mut self, batch: u32) {
        self.free_batches.push(batch);
    }

    /// What a batch holds; it is to be sent now.
    pub(crate) fn take_batch(&mut self, batch: u32) -> Option<Box<Batch>> {
        let held_back = self.batches.get(batch as usize)?.batch.count();
        self.enroll(batch, Stage::Sent);
        let held = &mut self.batches[batch as usize];
        if held.batch.count() == 0 {
            return None;
        }
        held.queue.note_leaving();
        let taken = std::mem::replace(&mut held.batch, self.spare_batches.pop().unwrap_or_default());
        for &(call, number) in &taken.calls()[..held_back] {
            let slot = &mut self.slots[call as usize];
            // Others have ended, and may have been followed by calls elsewhere.
            if slot.stage == Stage::HeldBack(batch) && slot.brief.number() == number {
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

    /// Calls that leave on a session that is no longer the present one.
    #[cold]
    fn await_rebind_of_batch(&mut self, batch: &Batch) {
        for &(call, number) in batch.calls() {
            let slot = &self.slots[call as usize];
            let is_there = slot.stage == Stage::Sent && slot.brief.number() == number;
            if is_there && slot.session.generation != self.generation {
                self.await_rebind(call);
            }
        }
    }

    /// The packet of a call is to be sent again.
    #[cold]
    pub(crate) fn send_later(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        if self.again.last().is_none_or(|batch| !batch.takes(slot.call.len())) {
            self.again.push(self.spare_batches.pop().unwrap_or_default());
        }
        let batch = self.again.last_mut().expect("there is one now");
        batch.push(call, slot.lane.number(), &slot.call);
    }

    /// What is to be sent again now.
    pub(crate) fn take_again(&mut self) -> Option<Box<Batch>> {
        self.again.pop()
    }

    /// Whether there may be something to send that nobody has in hand.
    pub(crate) fn has_more_to_send(&self) -> bool {
        !self.again.is_empty() || self.large.is_sending()
    }

    /// The memory of a batch that has been sent.
    pub(crate) fn reuse(&mut self, mut batch: Box<Batch>) {
        batch.clear();
        self.spare_batches.push(batch);
    }

    pub(crate) fn spare_packet(&mut self) -> Option<Vec<u8>> {
        self.spare_packets.pop()
    }

    pub(crate) fn spare(&mut self, packet: Vec<u8>) {
        if packet.capacity() <= KEPT_CAPACITY {
            self.spare_packets.push(packet);
        }
    }
}
