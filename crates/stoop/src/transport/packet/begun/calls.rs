//! All calls in flight of one binding: where each is, what arrives for it, and when something is to be done for it.

pub(crate) use crate::transport::packet::begun::timeouts::Next;

use crate::calling::completion_table::CompletionTable;
use crate::calling::counters::CallCounters;
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::error::CallError;
use crate::transport::packet::begun::background;
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::begun::closing::Closed;
use crate::transport::packet::begun::large::Large;
use crate::transport::packet::begun::receiver::{Receiver, Wakeups};
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::begun::submissions::OpenBatch;
use crate::transport::packet::caller::PacketBinding;
use std::task::Waker;
use std::thread::{Thread, ThreadId};
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::{HEADER_LEN, Header};

/// What the lock of a [`PacketCalls`](crate::transport::packet::begun::PacketCalls) is around.
#[allow(clippy::vec_box, reason = "batches are handed from one to the other, and stay where they are")]
pub(crate) struct Calls {
    pub(crate) slots: Vec<Slot>,
    /// When something is to be done for each, beside them, because they are looked through: nanoseconds.
    pub(crate) timeouts: Vec<u64>,
    pub(crate) free: Vec<u32>,
    /// The slot of each lane.
    pub(crate) by_lane: Vec<u32>,
    /// When the timeouts are looked through next.
    pub(crate) next_look: Instant,
    /// No deadline of a call is earlier.
    pub(crate) next_deadline: Instant,
    /// What can be seen without the lock: which have ended, and short results.
    pub(crate) completions: &'static CompletionTable,
    pub(crate) batches: Vec<OpenBatch>,
    pub(crate) free_batches: Vec<u32>,
    pub(crate) spare_batches: Vec<Box<Batch>>,
    /// What is to be sent again, together.
    pub(crate) again: Vec<Box<Batch>>,
    pub(crate) spare_packets: Vec<Vec<u8>>,
    /// Calls begun that have not ended.
    pub(crate) outstanding: usize,
    /// Of these, those that are on their way.
    pub(crate) out: usize,
    /// Whether the last result to arrive was long.
    pub(crate) results_are_long: bool,
    /// Of these, those that a task waits for.
    pub(crate) wakers: usize,
    /// Of these, those that wait for another binding.
    pub(crate) unbound: usize,
    /// A thread is about to bind again.
    pub(crate) is_binding: bool,
    /// Threads that wait while another receives.
    pub(crate) followers: Vec<Thread>,
    /// There while nobody has the receive role.
    pub(crate) reception: Option<Box<Receiver>>,
    /// How often the role was taken.
    pub(crate) receptions: u64,
    pub(crate) background: background::State,
    pub(crate) large: Large,
    /// Bytes of the longest arguments that the server takes.
    pub(crate) longest_call: usize,
    /// Bytes of the longest result.
    pub(crate) max_message: usize,
    /// The session whose lanes are in `by_lane`.
    pub(crate) generation: u64,
    /// What is known of the way to the server by calls that went well.
    pub(crate) path: RoundTrip,
    pub(crate) past: CallCounters,
    /// Of calls without handles.
    pub(crate) failures: Failures,
    /// The client has been dropped while calls went on.
    pub(crate) closed: Option<Closed>,
}

/// A call that has been begun, and the batch that has to leave because of it.
pub(crate) struct Begun {
    pub(crate) call: u32,
    pub(crate) full: Option<Box<Batch>>,
    /// It does not go with a batch, for it has many packets.
    pub(crate) is_large: bool,
}

/// What is left of a call that nobody is interested in: what the server is to be told, and what is to be dropped.
#[derive(Default)]
pub(crate) struct Leftovers {
    pub(crate) packet: Option<[u8; HEADER_LEN]>,
    _waker: Option<Waker>,
}

pub(crate) const NO_CALL: u32 = u32::MAX;

/// Results beyond this are not kept as memory for later ones.
pub(crate) const KEPT_CAPACITY: usize = 4096;

impl Calls {
    pub(crate) fn new(binding: &PacketBinding) -> Self {
        Self {
            slots: Vec::new(),
            timeouts: Vec::new(),
            free: Vec::new(),
            by_lane: Vec::new(),
            next_look: Instant::NEVER,
            next_deadline: Instant::NEVER,
            completions: CompletionTable::get(),
            batches: Vec::new(),
            free_batches: Vec::new(),
            spare_batches: Vec::new(),
            again: Vec::new(),
            spare_packets: Vec::new(),
            outstanding: 0,
            results_are_long: false,
            out: 0,
            wakers: 0,
            unbound: 0,
            is_binding: false,
            followers: Vec::new(),
            reception: Some(Box::new(Receiver::new(binding))),
            receptions: 0,
            background: background::State::default(),
            large: Large::default(),
            longest_call: binding.present().longest_call,
            max_message: binding.options.max_message,
            generation: binding.generation(),
            path: RoundTrip::default(),
            past: CallCounters::default(),
            failures: Failures::default(),
            closed: None,
        }
    }

    /// Whether calls wait for another binding, and nobody has begun to get one.
    #[inline]
    pub(crate) fn needs_binding(&self) -> bool {
        self.unbound > 0 && !self.is_binding
    }

    /// Which of these calls has ended, by its place among them.
    #[inline]
    pub(crate) fn ended(&self, wanted: &[u32]) -> Option<usize> {
        wanted.iter().position(|call| self.slots[*call as usize].has_ended())
    }

    /// A batch with one of these calls.
    #[inline]
    pub(crate) fn held_back(&self, wanted: &[u32]) -> Option<u32> {
        wanted.iter().map(|call| self.slots[*call as usize].batch()).find(|batch| *batch != Batch::NONE)
    }

    /// A call has ended with that result.
    #[inline]
    pub(crate) fn end_with(&mut self, call: u32, result: &[u8], news: &mut Wakeups) {
        let slot = &mut self.slots[call as usize];
        slot.result.clear();
        slot.result.extend_from_slice(result);
        self.end(call, None, news);
    }

    /// A call that was known in brief has ended with that result: as in [`end`](Self::end), but for what such a call does not
    /// have. It is still counted among those that have not ended.
    #[inline(always)]
    pub(crate) fn end_compact(&mut self, call: u32, result: &[u8]) {
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Ended;
        self.timeouts[call as usize] = u64::MAX;
        if !self.completions.end_short(call, result) {
            slot.result.clear();
            slot.result.extend_from_slice(result);
            self.completions.end(call);
        }
    }

    /// A call, of which more is to be known now than what is known of it in brief.
    pub(crate) fn expand(&mut self, call: u32) -> &mut Slot {
        if let Stage::Reserved(batch) = self.slots[call as usize].stage {
            self.enroll(batch, Stage::HeldBack(batch));
        }
        self.slots[call as usize].expand(self.path)
    }

    /// A call has ended: with the result that is in its slot, or for this reason.
    pub(crate) fn end(&mut self, call: u32, error: Option<CallError>, news: &mut Wakeups) {
        let slot = &mut self.slots[call as usize];
        debug_assert!(!slot.brief.is_outstanding(), "it has been taken up, or has ended in brief");
        match slot.stage {
            Stage::Sent => self.out -= 1,
            Stage::Unbound => {
                slot.refusal = None;
                self.unbound -= 1;
            }
            Stage::Free | Stage::Reserved(_) | Stage::HeldBack(_) | Stage::Ended => {}
        }
        if slot.is_large {
            slot.settle();
            slot.is_large = false;
            slot.call = Vec::new();
            self.large.retry();
        }
        if slot.is_receiving {
            self.stop_receiving(call);
        }
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Ended;
        match (slot.owner, error) {
            (Owner::Detached, Some(error)) => self.failures.note(error, slot.calling_thread),
            (_, error) => slot.error = error.map(Box::new),
        }
        let slot = &mut self.slots[call as usize];
        self.completions.end(call);
        self.timeouts[call as usize] = u64::MAX;
        self.outstanding -= 1;
        if let Some(thread) = slot.thread.take() {
            news.threads.push(thread);
        }
        if let Some(waker) = slot.waker.take() {
            self.wakers -= 1;
            news.wakers.push(waker);
        }
        let owner = slot.owner;
        if owner != Owner::Handle {
            self.free(call);
        }
        if owner == Owner::Detached {
            news.unneeded = self.hand_back().or(news.unneeded.take());
        }
    }

    /// A call ends with this error, as far as its caller can know.
    #[cold]
    pub(crate) fn fail(&mut self, call: u32, error: CallError, now: Instant, news: &mut Wakeups) {
        let slot = &self.slots[call as usize];
        // Not this time; but it is idempotent, and was sent before to a server that has forgotten.
        let not_run = matches!(error, CallError::NotSent(_) | CallError::Refused(_));
        let error = match slot.may_have_run && not_run {
            true => crate::transport::packet::caller::forgotten(&slot.lane, now.since(slot.begun)),
            false => error,
        };
        self.end(call, Some(error), news);
    }

    /// The outcome of a call has been taken, or nobody wants it.
    #[inline]
    pub(crate) fn free(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Free;
        slot.error = None;
        if slot.result.capacity() > KEPT_CAPACITY {
            slot.result = Vec::new();
        }
        self.free.push(call);
    }

    /// As [`free`](Self::free), with the memory of a result that was read elsewhere.
    pub(crate) fn give_back(&mut self, call: u32, result: Vec<u8>) {
        self.slots[call as usize].result = result;
        self.free(call);
    }

    /// Whether a call has ended; if not, `waker` is the one to be woken. Gives the waker that is needed no more.
    pub(crate) fn poll(&mut self, call: u32, waker: Waker) -> (bool, Option<Waker>) {
        if self.slots[call as usize].has_ended() {
            return (true, Some(waker));
        }
        let slot = self.expand(call);
        let old = slot.waker.replace(waker);
        self.wakers += usize::from(old.is_none());
        (false, old)
    }

    /// Nobody wants the result of a call. Tells the server, or has it told with the batch.
    pub(crate) fn cancel(&mut self, call: u32, now: Instant) -> Leftovers {
        let waker = self.disown(call, Owner::Cancelled);
        let slot = &mut self.slots[call as usize];
        let packet = match slot.stage {
            Stage::Free | Stage::Reserved(_) | Stage::Ended => None,
            Stage::HeldBack(_) | Stage::Sent => slot.lane.cancel(now),
            Stage::Unbound => {
                self.end(call, None, &mut Wakeups::default());
                None
            }
        };
        let slot = &self.slots[call as usize];
        let packet = match (slot.stage, packet) {
            (Stage::HeldBack(batch), Some(packet)) => {
                self.batches[batch as usize].batch.replace(call, slot.lane.number(), &packet);
                None
            }
            (_, packet) => packet,
        };
        if slot.stage != Stage::Free {
            self.arm(call);
        }
        Leftovers { packet, _waker: waker }
    }

    /// The handle of a call is gone, and the call goes on. It may be an ordered one-way call of that thread. Returns whether it
    /// has ended already, and what is left of it.
    pub(crate) fn detach(&mut self, call: u32, calling_thread: Option<CallingThread>) -> (bool, Leftovers) {
        let slot = &mut self.slots[call as usize];
        let had_ended = slot.has_ended();
        slot.calling_thread = calling_thread;
        if had_ended && let Some(error) = slot.error.take() {
            self.failures.note(*error, calling_thread);
        }
        (had_ended, Leftovers { packet: None, _waker: self.disown(call, Owner::Detached) })
    }

    /// The calls that go on without handles.
    fn without_handles(&mut self) -> impl Iterator<Item = (usize, &mut Slot)> {
        let goes_on = |slot: &Slot| !matches!(slot.stage, Stage::Free | Stage::Ended);
        let is_so = move |(_, slot): &(_, &mut Slot)| slot.owner == Owner::Detached && goes_on(slot);
        self.slots.iter_mut().enumerate().filter(is_so)
    }

    /// As [`OutstandingCalls::reclaim`](crate::calling::begun::OutstandingCalls::reclaim).
    pub(crate) fn reclaim(&mut self, which: Selection) -> Option<(u32, Option<CallingThread>)> {
        let (call, slot) = self.without_handles().find(|(_, slot)| which.includes(slot.calling_thread))?;
        slot.owner = Owner::Handle;
        Some((call as u32, slot.calling_thread))
    }

    /// How many calls go on without handles.
    pub(crate) fn detached(&mut self) -> usize {
        self.without_handles().count()
    }

    fn disown(&mut self, call: u32, owner: Owner) -> Option<Waker> {
        let slot = self.expand(call);
        slot.owner = owner;
        let (waker, has_ended) = (slot.waker.take(), slot.has_ended());
        self.wakers -= usize::from(waker.is_some());
        if has_ended {
            self.free(call);
        }
        waker
    }

    /// The system would not send this packet of a call.
    pub(crate) fn not_sent(
        &mut self,
        call: u32,
        packet: &[u8],
        why: CallError,
        now: Instant,
        news: &mut Wakeups,
    ) {
        let Ok((header, _)) = Header::parse(packet) else { return };
        let slot = self.expand(call);
        // If it has ended meanwhile, another may be here; or the same, on another lane, which numbers its calls anew.
        let here = (slot.brief.binding(), slot.lane.id(), slot.lane.number());
        let is_here = here == (header.binding, header.lane, header.number);
        // If it was sent again meanwhile, it may have arrived.
        let only_once = slot.lane.last_transmissions() == 1 && !slot.lane.last_was_acknowledged();
        let is_there = slot.stage == Stage::Sent && is_here && only_once;
        if is_there && slot.lane.abandon(now).is_some() {
            self.fail(call, why, now, news);
        }
    }

    /// The calling thread waits for these calls while another receives.
    pub(crate) fn join_followers(&mut self, wanted: &[u32], thread: &Thread) {
        for call in wanted {
            self.expand(*call).thread = Some(thread.clone());
        }
        self.followers.push(thread.clone());
    }

    /// It waits no more.
    pub(crate) fn leave_followers(&mut self, wanted: &[u32], thread: ThreadId) {
        self.followers.retain(|other| other.id() != thread);
        for call in wanted {
            let slot = &mut self.slots[*call as usize];
            if slot.thread.as_ref().is_some_and(|other| other.id() == thread) {
                slot.thread = None;
            }
        }
    }

    /// What all lanes have seen.
    pub(crate) fn counters(&self) -> CallCounters {
        let mut sum = self.past;
        self.slots.iter().for_each(|slot| sum.add_lane(slot.lane.counters()));
        sum.calls += self.slots.iter().filter(|slot| slot.brief.is_outstanding()).count() as u64;
        if let Some(reception) = &self.reception {
            sum.add_waits(reception.wait_counts());
        }
        sum
    }
}

#[cfg(test)]
mod tests;
