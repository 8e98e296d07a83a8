//! All calls in flight of one binding: where each is, what arrives for it, and when something is to be done for it.

mod arrivals;
mod timeouts;

use super::batch::Batch;
use super::keeper;
use super::large::Large;
use super::reception::{News, Reception};
use super::slot::{Owner, Slot, Stage};
use crate::client::counters::CallCounters;
use crate::client::datagram::DatagramBinding;
use crate::client::flight::Departure;
use crate::error::{CallError, SendError};
use std::sync::Arc;
use std::task::Waker;
use std::thread::{Thread, ThreadId};
use stoop_exchange::Instant;
use stoop_marshal::EncodeError;
use stoop_wire::{CallNumber, HEADER_LEN, MAX_DATAGRAM};

/// What the lock of a [`Flight`](super::Flight) is around.
pub(super) struct Calls {
    pub(super) slots: Vec<Slot>,
    /// When something is to be done for each, beside them, because they are looked through: nanoseconds.
    timeouts: Vec<u64>,
    free: Vec<u32>,
    /// The slot of each lane.
    by_lane: Vec<u32>,
    /// When the timeouts are looked through next.
    pub(super) next_look: Instant,
    batches: Vec<Batch>,
    free_batches: Vec<u32>,
    spare_batches: Vec<Batch>,
    /// What is to be sent again, together.
    again: Vec<Batch>,
    spare_packets: Vec<Vec<u8>>,
    /// Calls begun that have not ended.
    pub(super) outstanding: usize,
    /// Of these, those that are on their way.
    out: usize,
    /// Of these, those that a task waits for.
    pub(super) wakers: usize,
    /// Of these, those that wait for another binding.
    pub(super) unbound: usize,
    /// Threads that wait while another receives.
    pub(super) followers: Vec<Thread>,
    /// There while nobody has the receive role.
    pub(super) reception: Option<Box<Reception>>,
    /// How often the role was taken.
    pub(super) receptions: u64,
    pub(super) keeper: keeper::State,
    pub(super) large: Large,
    /// Bytes of the longest arguments that the server takes.
    pub(super) longest_call: usize,
    /// Bytes of the longest result.
    pub(super) max_message: usize,
    /// The session whose lanes are in `by_lane`.
    generation: u64,
    past: CallCounters,
}

/// A call that has been begun, and the batch that has to leave because of it.
pub(super) struct Begun {
    pub(super) call: u32,
    pub(super) full: Option<Batch>,
    /// It does not go with a batch, for it has many packets.
    pub(super) is_large: bool,
}

/// What is left of a call that nobody is interested in: what the server is to be told, and what is to be dropped.
#[derive(Default)]
pub(super) struct Leftovers {
    pub(super) packet: Option<[u8; HEADER_LEN]>,
    _waker: Option<Waker>,
}

const NO_CALL: u32 = u32::MAX;

/// While nothing is on its way, so many packets leave at once, that the server begins while the rest is being written.
const HEAD_START: usize = 16;

/// Results beyond this are not kept as memory for later ones.
const KEPT_CAPACITY: usize = 4096;

impl Calls {
    pub(super) fn new(binding: &DatagramBinding) -> Self {
        Self {
            slots: Vec::new(),
            timeouts: Vec::new(),
            free: Vec::new(),
            by_lane: Vec::new(),
            next_look: Instant::NEVER,
            batches: Vec::new(),
            free_batches: Vec::new(),
            spare_batches: Vec::new(),
            again: Vec::new(),
            spare_packets: Vec::new(),
            outstanding: 0,
            out: 0,
            wakers: 0,
            unbound: 0,
            followers: Vec::new(),
            reception: Some(Box::new(Reception::new(binding))),
            receptions: 0,
            keeper: keeper::State::default(),
            large: Large::default(),
            longest_call: binding.present().longest_call,
            max_message: binding.options.max_message,
            generation: binding.generation(),
            past: CallCounters::default(),
        }
    }

    /// Begins a call whose packet is the first `len` bytes of the departure's.
    #[inline]
    pub(super) fn begin(
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
        self.note_session(binding);
        if len > MAX_DATAGRAM && len - HEADER_LEN > self.longest_call {
            // Written for a server that has been replaced by one that takes less.
            let why = EncodeError::TooLarge { needed_at_least: len - HEADER_LEN, limit: self.longest_call };
            return Err(CallError::NotSent(SendError::Arguments(why)));
        }
        let call = match self.free.pop() {
            Some(call) => call,
            None => self.add_slot(binding)?,
        };
        if self.slots[call as usize].session.generation != self.generation {
            self.renew(call, binding);
        }
        let slot = &mut self.slots[call as usize];
        slot.owner = Owner::Handle;
        slot.procedure = procedure;
        slot.may_have_run = false;
        (slot.begun, slot.sent, slot.deadline) = (departure.begun, departure.begun, departure.deadline);
        let number = slot.session.bound.procedures[usize::from(procedure)];
        self.outstanding += 1;
        if len > MAX_DATAGRAM {
            return Ok(self.begin_large(call, departure, number, len));
        }
        slot.call.clear();
        slot.call.extend_from_slice(&departure.packet[..len]);
        slot.lane.start(departure.begun, departure.deadline, number, &mut slot.call);
        self.arm(call);
        let full = self.hold_back(call, departure);
        Ok(Begun { call, full, is_large: false })
    }

    /// Begins a call of many packets. Its arguments stay where they have been written.
    #[cold]
    fn begin_large(&mut self, call: u32, departure: &mut Departure, number: u16, len: usize) -> Begun {
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

    /// Puts a call into the departure's batch. Gives the batch that has to leave now.
    #[inline]
    fn hold_back(&mut self, call: u32, departure: &mut Departure) -> Option<Batch> {
        if departure.batch == Batch::NONE {
            departure.batch = self.open_batch();
        }
        let index = departure.batch;
        let len = self.slots[call as usize].call.len();
        let full = if self.batches[index as usize].takes(len) { None } else { self.take_batch(index) };
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::HeldBack(index);
        let batch = &mut self.batches[index as usize];
        batch.push(call, slot.lane.number(), &slot.call);
        let is_full = !batch.takes(batch.segment()) || self.out == 0 && batch.count() == HEAD_START;
        if full.is_none() && is_full { self.take_batch(index) } else { full }
    }

    fn open_batch(&mut self) -> u32 {
        self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(self.spare_batches.pop().unwrap_or_default());
            (self.batches.len() - 1) as u32
        })
    }

    /// No call is put into this batch any more.
    pub(super) fn close_batch(&mut self, batch: u32) {
        self.free_batches.push(batch);
    }

    /// What a batch holds; it is to be sent now.
    pub(super) fn take_batch(&mut self, batch: u32) -> Option<Batch> {
        let held = self.batches.get_mut(batch as usize).filter(|held| held.count() > 0)?;
        let taken = std::mem::replace(held, self.spare_batches.pop().unwrap_or_default());
        for (call, number) in taken.calls() {
            let slot = &mut self.slots[*call as usize];
            if slot.stage != Stage::HeldBack(batch) || slot.lane.number() != *number {
                continue;
            }
            slot.stage = Stage::Sent;
            self.out += 1;
            let is_lost = slot.session.generation != self.generation;
            if is_lost { self.strand(*call) } else { self.arm(*call) }
        }
        Some(taken)
    }

    /// The packet of a call is to be sent again.
    #[cold]
    fn send_later(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        if self.again.last().is_none_or(|batch| !batch.takes(slot.call.len())) {
            self.again.push(self.spare_batches.pop().unwrap_or_default());
        }
        let batch = self.again.last_mut().expect("there is one now");
        batch.push(call, slot.lane.number(), &slot.call);
    }

    /// What is to be sent again now.
    pub(super) fn take_again(&mut self) -> Option<Batch> {
        self.again.pop()
    }

    /// Whether there may be something to send that nobody has in hand.
    pub(super) fn has_more_to_send(&self) -> bool {
        !self.again.is_empty() || self.large.is_sending()
    }

    /// The memory of a batch that has been sent.
    pub(super) fn reuse(&mut self, batch: Batch) {
        self.spare_batches.push(batch.cleared());
    }

    pub(super) fn spare_packet(&mut self) -> Option<Vec<u8>> {
        self.spare_packets.pop()
    }

    pub(super) fn spare(&mut self, packet: Vec<u8>) {
        if packet.capacity() <= KEPT_CAPACITY {
            self.spare_packets.push(packet);
        }
    }

    /// A place for one more call, on a lane of its own.
    #[cold]
    fn add_slot(&mut self, binding: &DatagramBinding) -> Result<u32, CallError> {
        let session = binding.present();
        let lane = session
            .another_lane(&binding.options)
            .ok_or(CallError::NotSent(SendError::TooManyCalls { in_flight: self.outstanding }))?;
        let call = self.slots.len() as u32;
        self.slots.push(Slot::new(lane, session));
        self.timeouts.push(u64::MAX);
        self.map_lane(call);
        self.note_session(binding);
        Ok(call)
    }

    /// If the binding has another session: what was sent on an earlier one will not be answered any more, for its server
    /// does not know that, and its lanes' numbers are those of others now.
    pub(super) fn note_session(&mut self, binding: &DatagramBinding) {
        if self.generation == binding.generation() {
            return;
        }
        self.generation = binding.generation();
        self.longest_call = binding.present().longest_call;
        for call in 0..self.slots.len() as u32 {
            let slot = &self.slots[call as usize];
            if slot.stage == Stage::Sent && slot.session.generation != self.generation {
                self.strand(call);
            }
        }
    }

    /// A call that is out has to wait for another binding.
    #[cold]
    fn strand(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        slot.lane.abandon(Instant::default());
        if slot.is_large {
            slot.settle();
        }
        if slot.is_receiving {
            self.stop_receiving(call);
        }
        let slot = &mut self.slots[call as usize];
        self.out -= 1;
        slot.stage = Stage::Unbound;
        self.unbound += 1;
        if slot.owner == Owner::Cancelled {
            return self.end(call, None, &mut News::default());
        }
        self.timeouts[call as usize] = slot.deadline.as_nanos();
        self.next_look = self.next_look.min(slot.deadline);
    }

    /// Puts a lane of the present session into a slot that has no call.
    #[cold]
    fn renew(&mut self, call: u32, binding: &DatagramBinding) {
        let slot = &mut self.slots[call as usize];
        self.past.add_lane(slot.lane.counters());
        slot.session = binding.present();
        slot.lane = slot.session.lane(&binding.options);
        self.map_lane(call);
        self.note_session(binding);
    }

    /// What arrives for the lane of a slot is for this slot from now on.
    fn map_lane(&mut self, call: u32) {
        let lane = usize::from(self.slots[call as usize].lane.id().0);
        if lane >= self.by_lane.len() {
            self.by_lane.resize(lane + 1, NO_CALL);
        }
        self.by_lane[lane] = call;
    }

    /// Which of these calls has ended, by its place among them.
    #[inline]
    pub(super) fn ended(&self, wanted: &[u32]) -> Option<usize> {
        wanted.iter().position(|call| self.slots[*call as usize].has_ended())
    }

    /// A batch with one of these calls.
    #[inline]
    pub(super) fn held_back(&self, wanted: &[u32]) -> Option<u32> {
        wanted.iter().map(|call| self.slots[*call as usize].batch()).find(|batch| *batch != Batch::NONE)
    }

    /// A call has ended: with the result that is in its slot, or for this reason.
    #[inline]
    pub(super) fn end(&mut self, call: u32, error: Option<CallError>, news: &mut News) {
        let slot = &mut self.slots[call as usize];
        match slot.stage {
            Stage::Sent => self.out -= 1,
            Stage::Unbound => self.unbound -= 1,
            Stage::Free | Stage::HeldBack(_) | Stage::Ended => {}
        }
        if slot.is_large {
            slot.settle();
            slot.is_large = false;
            slot.call = Vec::new();
        }
        if slot.is_receiving {
            self.stop_receiving(call);
        }
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Ended;
        slot.error = error;
        self.timeouts[call as usize] = u64::MAX;
        self.outstanding -= 1;
        if let Some(thread) = slot.thread.take() {
            news.threads.push(thread);
        }
        if let Some(waker) = slot.waker.take() {
            self.wakers -= 1;
            news.wakers.push(waker);
        }
        if slot.owner != Owner::Handle {
            self.free(call);
        }
    }

    /// A call ends with this error, as far as its caller can know.
    #[cold]
    pub(super) fn fail(&mut self, call: u32, error: CallError, now: Instant, news: &mut News) {
        let slot = &self.slots[call as usize];
        // Not this time; but it is idempotent, and was sent before to a server that has forgotten.
        let not_run = matches!(error, CallError::NotSent(_) | CallError::Refused(_));
        let error = match slot.may_have_run && not_run {
            true => crate::client::datagram::forgotten(&slot.lane, now.since(slot.begun)),
            false => error,
        };
        self.end(call, Some(error), news);
    }

    /// The outcome of a call has been taken, or nobody wants it.
    #[inline]
    pub(super) fn free(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Free;
        slot.error = None;
        if slot.result.capacity() > KEPT_CAPACITY {
            slot.result = Vec::new();
        }
        self.free.push(call);
    }

    /// As [`free`](Self::free), with the memory of a result that was read elsewhere.
    pub(super) fn give_back(&mut self, call: u32, result: Vec<u8>) {
        self.slots[call as usize].result = result;
        self.free(call);
    }

    /// Whether a call has ended; if not, `waker` is the one to be woken. Gives the waker that is needed no more.
    pub(super) fn poll(&mut self, call: u32, waker: Waker) -> (bool, Option<Waker>) {
        let slot = &mut self.slots[call as usize];
        if slot.has_ended() {
            return (true, Some(waker));
        }
        let old = slot.waker.replace(waker);
        self.wakers += usize::from(old.is_none());
        (false, old)
    }

    /// Nobody wants the result of a call. Tells the server, or has it told with the batch.
    pub(super) fn cancel(&mut self, call: u32, now: Instant) -> Leftovers {
        let waker = self.disown(call, Owner::Cancelled);
        let slot = &mut self.slots[call as usize];
        let packet = match slot.stage {
            Stage::Free | Stage::Ended => None,
            Stage::HeldBack(_) | Stage::Sent => slot.lane.cancel(now),
            Stage::Unbound => {
                self.end(call, None, &mut News::default());
                None
            }
        };
        let slot = &self.slots[call as usize];
        let packet = match (slot.stage, packet) {
            (Stage::HeldBack(batch), Some(packet)) => {
                self.batches[batch as usize].replace(call, &packet);
                None
            }
            (_, packet) => packet,
        };
        if slot.stage != Stage::Free {
            self.arm(call);
        }
        Leftovers { packet, _waker: waker }
    }

    /// Nobody wants the result of a call, but it goes on.
    pub(super) fn detach(&mut self, call: u32) -> Leftovers {
        Leftovers { packet: None, _waker: self.disown(call, Owner::Detached) }
    }

    fn disown(&mut self, call: u32, owner: Owner) -> Option<Waker> {
        let slot = &mut self.slots[call as usize];
        slot.owner = owner;
        let waker = slot.waker.take();
        self.wakers -= usize::from(waker.is_some());
        if slot.has_ended() {
            self.free(call);
        }
        waker
    }

    /// The system would not send the packet of a call.
    pub(super) fn not_sent(
        &mut self,
        (call, number): (u32, CallNumber),
        why: CallError,
        now: Instant,
        news: &mut News,
    ) {
        let slot = &mut self.slots[call as usize];
        // If it has ended meanwhile, another may be here.
        if slot.stage == Stage::Sent && slot.lane.number() == number && slot.lane.abandon(now).is_some() {
            self.fail(call, why, now, news);
        }
    }

    /// The calling thread waits for these calls while another receives.
    pub(super) fn join_followers(&mut self, wanted: &[u32], thread: &Thread) {
        for call in wanted {
            self.slots[*call as usize].thread = Some(thread.clone());
        }
        self.followers.push(thread.clone());
    }

    /// It waits no more.
    pub(super) fn leave_followers(&mut self, wanted: &[u32], thread: ThreadId) {
        self.followers.retain(|other| other.id() != thread);
        for call in wanted {
            let slot = &mut self.slots[*call as usize];
            if slot.thread.as_ref().is_some_and(|other| other.id() == thread) {
                slot.thread = None;
            }
        }
    }

    /// What all lanes have seen.
    pub(super) fn counters(&self) -> CallCounters {
        let mut sum = self.past;
        self.slots.iter().for_each(|slot| sum.add_lane(slot.lane.counters()));
        if let Some(reception) = &self.reception {
            sum.add_waits(reception.wait_counts());
        }
        sum
    }

    /// The session of a call that waits for another one, and when the last of these calls has to end.
    pub(super) fn lost(&self) -> Option<(Arc<crate::client::datagram::Session>, Instant)> {
        let unbound = || self.slots.iter().filter(|slot| slot.stage == Stage::Unbound);
        let deadline = unbound().map(|slot| slot.deadline).max()?;
        unbound().next().map(|slot| (Arc::clone(&slot.session), deadline))
    }
}
