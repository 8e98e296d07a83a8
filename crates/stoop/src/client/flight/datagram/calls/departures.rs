//! What leaves: calls that are begun and held back for each other, and those that are sent again.

use super::{Begun, Calls, KEPT_CAPACITY};
use crate::client::datagram::DatagramBinding;
use crate::client::flight::Departure;
use crate::client::flight::datagram::batch::Batch;
use crate::client::flight::datagram::slot::{Owner, Stage};
use crate::error::{CallError, SendError};
use stoop_marshal::EncodeError;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// While nothing is on its way, so many packets leave at once, that the server begins while the rest is being written.
const HEAD_START: usize = 16;

impl Calls {
    /// Begins a call whose packet is the first `len` bytes of the departure's.
    #[inline]
    pub(in super::super) fn begin(
        &mut self,
        binding: &DatagramBinding,
        departure: &mut Departure,
        procedure: u16,
        len: usize,
    ) -> Result<Begun, CallError> {
        let begins_batch = self.batches.get(departure.batch as usize).is_none_or(|batch| batch.count() == 0);
        if begins_batch && std::mem::replace(&mut departure.is_used, true) {
            departure.read_clock();
        }
        if departure.deadline <= departure.begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        if self.generation != binding.generation() {
            self.note_session(binding);
        }
        if len > MAX_DATAGRAM && len - HEADER_LEN > self.longest_call {
            // Written for a server that has been replaced by one that takes less.
            let why = EncodeError::TooLarge { needed_at_least: len - HEADER_LEN, limit: self.longest_call };
            return Err(CallError::NotSent(SendError::Arguments(why)));
        }
        let call = match self.free.pop() {
            Some(call) => call,
            None => self.find_slot(binding)?,
        };
        self.board.open(call);
        if self.slots[call as usize].session.generation != self.generation {
            self.renew(call, binding);
        }
        self.outstanding += 1;
        let is_large = len > MAX_DATAGRAM;
        let mut full = None;
        if departure.batch == Batch::NONE && !is_large {
            departure.batch = self.open_batch();
        }
        let held_in = departure.batch;
        if !is_large && !self.batches[held_in as usize].takes(len) {
            full = self.take_batch(held_in);
        }
        let slot = &mut self.slots[call as usize];
        slot.owner = Owner::Handle;
        slot.procedure = procedure;
        slot.may_have_run = false;
        (slot.begun, slot.sent, slot.deadline) = (departure.begun, departure.begun, departure.deadline);
        let number = slot.session.bound.procedures[usize::from(procedure)];
        if is_large {
            return Ok(self.begin_large(call, departure, number, len));
        }
        if slot.call.len() != len {
            slot.call.resize(len, 0);
        }
        if len > HEADER_LEN {
            slot.call[HEADER_LEN..].copy_from_slice(&departure.packet[HEADER_LEN..len]);
        }
        slot.lane.start(departure.begun, departure.deadline, number, &mut slot.call);
        let next = slot.lane.next_timeout();
        self.timeouts[call as usize] = next.as_nanos();
        self.next_look = self.next_look.min(next);
        // Held back for others.
        slot.stage = Stage::HeldBack(held_in);
        let batch = &mut self.batches[held_in as usize];
        batch.push(call, slot.lane.number(), &slot.call);
        if batch.is_full() || self.out == 0 && batch.count() == HEAD_START {
            full = full.or_else(|| self.take_batch(held_in));
        }
        Ok(Begun { call, full, is_large: false })
    }

    /// A slot for a call, when none has been given back.
    #[inline(never)]
    fn find_slot(&mut self, binding: &DatagramBinding) -> Result<u32, CallError> {
        // Those whose results have been taken without the lock.
        self.board.reclaim(&mut self.free);
        match self.free.pop() {
            Some(call) => Ok(call),
            None => self.add_slot(binding),
        }
    }

    /// Begins a call of many packets. Its arguments stay where they have been written.
    #[cold]
    pub(super) fn begin_large(
        &mut self,
        call: u32,
        departure: &mut Departure,
        number: u16,
        len: usize,
    ) -> Begun {
        let slot = &mut self.slots[call as usize];
        slot.call = std::mem::replace(&mut departure.packet, vec![0; MAX_DATAGRAM]);
        slot.call.truncate(len);
        slot.start_large(departure.begun, number);
        slot.stage = Stage::Sent;
        self.out += 1;
        self.arm(call);
        self.large.sends(call);
        Begun { call, full: None, is_large: true }
    }

    pub(super) fn open_batch(&mut self) -> u32 {
        self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(self.spare_batches.pop().unwrap_or_default());
            (self.batches.len() - 1) as u32
        })
    }

    /// No call is put into this batch any more.
    pub(in super::super) fn close_batch(&mut self, batch: u32) {
        self.free_batches.push(batch);
    }

    /// What a batch holds; it is to be sent now.
    pub(in super::super) fn take_batch(&mut self, batch: u32) -> Option<Box<Batch>> {
        let held = self.batches.get_mut(batch as usize).filter(|held| held.count() > 0)?;
        let taken = std::mem::replace(held, self.spare_batches.pop().unwrap_or_default());
        for &(call, number) in taken.calls() {
            let slot = &mut self.slots[call as usize];
            if slot.stage != Stage::HeldBack(batch) || slot.lane.number() != number {
                continue;
            }
            slot.stage = Stage::Sent;
            self.out += 1;
            if slot.session.generation != self.generation {
                self.strand(call);
                continue;
            }
            let next = slot.lane.next_timeout();
            self.timeouts[call as usize] = next.as_nanos();
            self.next_look = self.next_look.min(next);
        }
        Some(taken)
    }

    /// The packet of a call is to be sent again.
    #[cold]
    pub(super) fn send_later(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        if self.again.last().is_none_or(|batch| !batch.takes(slot.call.len())) {
            self.again.push(self.spare_batches.pop().unwrap_or_default());
        }
        let batch = self.again.last_mut().expect("there is one now");
        batch.push(call, slot.lane.number(), &slot.call);
    }

    /// What is to be sent again now.
    pub(in super::super) fn take_again(&mut self) -> Option<Box<Batch>> {
        self.again.pop()
    }

    /// Whether there may be something to send that nobody has in hand.
    pub(in super::super) fn has_more_to_send(&self) -> bool {
        !self.again.is_empty() || self.large.is_sending()
    }

    /// The memory of a batch that has been sent.
    pub(in super::super) fn reuse(&mut self, mut batch: Box<Batch>) {
        batch.clear();
        self.spare_batches.push(batch);
    }

    pub(in super::super) fn spare_packet(&mut self) -> Option<Vec<u8>> {
        self.spare_packets.pop()
    }

    pub(in super::super) fn spare(&mut self, packet: Vec<u8>) {
        if packet.capacity() <= KEPT_CAPACITY {
            self.spare_packets.push(packet);
        }
    }
}
