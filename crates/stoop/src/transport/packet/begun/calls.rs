//! The slots of a binding's begun calls, behind the lock of their table.

use crate::calling::completion_table::CompletionTable;
use crate::calling::counters::CallCounters;
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::submission_queue::SubmissionQueue;
use crate::calling::waiting_thread::WaitingThread;
use crate::error::CallError;
use crate::pipes::error::PipeError;
use crate::pipes::queue::PipeQueue;
use crate::transport::packet::begun::large::Large;
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::begun::wakeups::Wakeups;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, PacketLink};
use crate::transport::packet::session::Session;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use stoop_calls::life::Told;
use stoop_exchange::caller::Waits;
use stoop_exchange::outcome::Unbound;
use stoop_exchange::{Flow, Instant, RoundTrip};
use stoop_wire::Header;

/// A binding, and the endpoint of its begun calls.
pub(crate) struct BoundEndpoint<L: PacketLink> {
    pub(crate) binding: Arc<PacketBinding<L>>,
    pub(crate) endpoint: Endpoint<L>,
}

/// The calls, behind the lock of a [`PacketCalls`](crate::transport::packet::begun::PacketCalls).
pub(crate) struct Calls<L: PacketLink> {
    pub(crate) link: Arc<BoundEndpoint<L>>,
    pub(crate) slots: Vec<Slot>,
    /// The next timeout of each slot, in nanoseconds. A list of its own, because each look reads all of them.
    pub(crate) timeouts: Vec<u64>,
    pub(crate) free: Vec<u32>,
    /// The slot of each lane.
    pub(crate) by_lane: Vec<u32>,
    /// The time of the next look at all timeouts.
    pub(crate) next_look: Instant,
    /// No call has an earlier deadline.
    pub(crate) next_deadline: Instant,
    /// The ends and short results of calls, for handles to read without the lock.
    pub(crate) completions: Arc<CompletionTable>,
    /// The submission queues, and the numbers of those that no `Begin` uses.
    pub(crate) queues: Vec<Arc<Mutex<SubmissionQueue>>>,
    pub(crate) free_queues: Vec<u32>,
    /// Memory for the packets of later `Begin`s.
    pub(crate) unused_packets: Vec<Vec<u8>>,
    /// Calls that have left and have not ended.
    pub(crate) outstanding: usize,
    /// Of these, calls with a waker.
    pub(crate) wakers: usize,
    /// Of these, calls that wait for another session.
    pub(crate) unbound: usize,
    /// How often a thread has taken the receive role.
    pub(crate) receptions: u64,
    /// The calls that the server has acknowledged: it is asked about them together.
    pub(crate) waits: Waits,
    pub(crate) large: Large<Endpoint<L>>,
    pub(crate) flow: Flow,
    /// Calls that wait until the flow control lets them leave, and perhaps others; the oldest first.
    pub(crate) waiting: VecDeque<u32>,
    /// Bytes of the longest arguments that the server takes.
    pub(crate) longest_call: usize,
    /// The session whose lanes are in `by_lane`, and its generation.
    pub(crate) session: Arc<Session>,
    pub(crate) generation: u64,
    /// The server of that session shuts down: no more calls leave for it. The others leave for the next server when those that it
    /// has have ended.
    pub(crate) leaves: bool,
    /// The server is perhaps elsewhere.
    pub(crate) doubts: bool,
    /// How the server has refused a call with pipes because it does not know the session any more. No call waits for another then.
    pub(crate) unknown: Option<Unbound>,
    /// The round trip, as compact calls have measured it.
    pub(crate) path: RoundTrip,
    pub(crate) past: CallCounters,
    /// The failures of detached calls.
    pub(crate) failures: Failures,
    /// The threads and tasks to wake when the lock is released.
    pub(crate) wakeups: Wakeups,
    /// Calls for whose pipes packets have come that were not looked at.
    pub(crate) piped: Vec<u32>,
    /// Queues of pipes for which tasks wait, or have waited, by their places in memory.
    pub(crate) polled: HashMap<usize, Weak<PipeQueue>>,
}

/// Stands in `by_lane` for no slot.
pub(crate) const NO_CALL: u32 = u32::MAX;

/// Buffers with a larger capacity are freed and not used again.
pub(crate) const KEPT_CAPACITY: usize = 4096;

/// Bytes that the kernel counts for a packet of the usual length in a socket's buffer.
const PACKET_IN_BUFFER: u32 = 2304;

/// Results of one packet for which an endpoint with that window has room in any case: the kernel's buffer is twice the window.
fn own_credit(window: u32) -> u32 {
    window.saturating_mul(2) / PACKET_IN_BUFFER
}

impl<L: PacketLink> Calls<L> {
    /// `session`: the one to whose server the endpoint leads.
    pub(crate) fn new(link: Arc<BoundEndpoint<L>>, session: &Arc<Session>) -> Self {
        let endpoint_window = link.endpoint.window();
        Self {
            link,
            slots: Vec::new(),
            timeouts: Vec::new(),
            free: Vec::new(),
            by_lane: Vec::new(),
            next_look: Instant::NEVER,
            next_deadline: Instant::NEVER,
            completions: Arc::default(),
            queues: Vec::new(),
            free_queues: Vec::new(),
            unused_packets: Vec::new(),
            outstanding: 0,
            wakers: 0,
            unbound: 0,
            receptions: 0,
            waits: Waits::default(),
            large: Large::default(),
            flow: Flow::new(session.bound.credit, own_credit(endpoint_window), session.round_trip),
            waiting: VecDeque::new(),
            longest_call: session.longest_call,
            session: Arc::clone(session),
            generation: session.generation,
            leaves: false,
            doubts: false,
            unknown: None,
            path: RoundTrip::default(),
            past: CallCounters::default(),
            failures: Failures::default(),
            wakeups: Wakeups::default(),
            piped: Vec::new(),
            polled: HashMap::new(),
        }
    }

    /// The index in `wanted` of a call that has ended.
    #[inline]
    pub(crate) fn ended(&self, wanted: &[u32]) -> Option<usize> {
        wanted.iter().position(|call| self.slots[*call as usize].has_ended())
    }

    /// The number of a submission queue with one of these calls.
    #[inline]
    pub(crate) fn held_back(&self, wanted: &[u32]) -> Option<u32> {
        wanted.iter().find_map(|call| match self.slots[*call as usize].stage {
            Stage::HeldBack(queue) => Some(queue),
            _ => None,
        })
    }

    /// Ends a call with that result.
    #[inline]
    pub(crate) fn end_with(&mut self, call: u32, result: &[u8]) {
        let slot = &mut self.slots[call as usize];
        slot.result.clear();
        slot.result.extend_from_slice(result);
        self.end(call, None);
    }

    /// Ends a compact call with that result. `deliver_all` adjusts the counters, once for several calls.
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

    /// [Expands](Slot::expand) a call.
    pub(crate) fn expand(&mut self, call: u32) -> &mut Slot {
        self.slots[call as usize].expand(self.path)
    }

    /// Ends a call with the result that is in its slot, or with this error.
    pub(crate) fn end(&mut self, call: u32, error: Option<CallError>) {
        let slot = &mut self.slots[call as usize];
        debug_assert!(!slot.compact.is_outstanding(), "it has been expanded, or has ended as a compact call");
        if slot.stage == Stage::Unbound {
            slot.refusal = None;
            self.unbound -= 1;
        }
        slot.refused = None;
        if slot.pipes.is_some() {
            self.end_pipes(call, error.as_ref());
        }
        let slot = &self.slots[call as usize];
        if slot.is_large || slot.is_receiving {
            self.end_large(call);
        }
        self.land(call, None);
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Ended;
        match (slot.owner, error) {
            (Owner::Detached, Some(error)) => self.failures.note(error, slot.ordered),
            (_, error) => slot.error = error.map(Box::new),
        }
        self.completions.end(call);
        self.timeouts[call as usize] = u64::MAX;
        self.outstanding -= 1;
        self.wakeups.threads.extend(slot.thread.take());
        if let Some(waker) = slot.waker.take() {
            self.wakers -= 1;
            self.wakeups.wakers.push(waker);
        }
        if slot.owner != Owner::Handle {
            self.free(call);
        }
    }

    /// Ends a call with this error of its latest attempt.
    #[cold]
    pub(crate) fn fail(&mut self, call: u32, error: CallError, now: Instant) {
        self.doubts |= self.link.binding.note_failure(&error);
        let slot = &self.slots[call as usize];
        let error = slot.fate.error(Told::Latest, Some(error), || now.since(slot.begun));
        self.fail_with(call, error);
    }

    /// Ends a call with this error, and notes the failure.
    #[cold]
    pub(crate) fn fail_with(&mut self, call: u32, error: CallError) {
        let binding = &self.link.binding;
        if let Some(recorder) = &binding.recorder {
            recorder.record_failure(self.slots[call as usize].procedure, 1);
        }
        self.doubts |= binding.note_failure(&error);
        self.end(call, Some(error));
    }

    /// Frees the slot of a call whose outcome was taken or is not wanted.
    #[inline]
    pub(crate) fn free(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Free;
        slot.is_reclaimed = false;
        slot.error = None;
        if slot.result.capacity() > KEPT_CAPACITY {
            slot.result = Vec::new();
        }
        self.completions.open(call);
        self.free.push(call);
    }

    /// As [`free`](Self::free); returns the memory of the result to the slot.
    pub(crate) fn give_back(&mut self, call: u32, result: Vec<u8>) {
        self.slots[call as usize].result = result;
        self.free(call);
    }

    /// Whether a call has ended; if not, its end will wake `waker`. Returns a waker to drop.
    pub(crate) fn poll(&mut self, call: u32, waker: Waker) -> (bool, Option<Waker>) {
        if self.slots[call as usize].has_ended() {
            return (true, Some(waker));
        }
        let slot = self.expand(call);
        let old = slot.waker.replace(waker);
        self.wakers += usize::from(old.is_none());
        (false, old)
    }

    /// Cancels a call, finished or not, and tells the server. Returns a waker to drop.
    pub(crate) fn cancel(&mut self, call: u32, now: Instant) -> Option<Waker> {
        let waker = self.disown(call, Owner::Cancelled);
        let slot = &mut self.slots[call as usize];
        match slot.stage {
            // A call that is held back leaves as a cancelled one.
            // Nor can one be stopped that another thread makes.
            Stage::Free | Stage::HeldBack(_) | Stage::Apart | Stage::Ended => return waker,
            Stage::Unbound | Stage::Waiting | Stage::Postponed => {
                self.end(call, None);
                return waker;
            }
            Stage::Draining => unreachable!("its call has its outcome in another slot"),
            Stage::Sent => {
                self.waits.leave(&mut slot.lane);
                if let Some(packet) = slot.lane.cancel(now) {
                    // The lane repeats a packet that is lost.
                    let _ = slot.session.protection.send(&self.link.endpoint, &packet);
                }
            }
        }
        self.fail_pipes(call, &PipeError::Cancelled);
        self.arm(call);
        waker
    }

    /// Detaches a call from its handle: it goes on. `ordered`: the thread whose ordered one-way call it is, if any. Returns a
    /// waker to drop.
    pub(crate) fn detach(&mut self, call: u32, ordered: Option<OrderedCall>) -> Option<Waker> {
        let slot = &mut self.slots[call as usize];
        slot.ordered = ordered;
        if slot.has_ended()
            && let Some(error) = slot.error.take()
        {
            self.failures.note(*error, ordered);
        }
        self.disown(call, Owner::Detached)
    }

    /// The detached calls that have not ended, and those that are reclaimed.
    fn without_handles(&mut self) -> impl Iterator<Item = (usize, &mut Slot)> {
        let goes_on = |slot: &Slot| !matches!(slot.stage, Stage::Free | Stage::Ended);
        // If a reclaimed call has ended, the thread that waits for it has not noted yet how.
        let is_so = move |(_, slot): &(_, &mut Slot)| {
            slot.is_reclaimed || slot.owner == Owner::Detached && goes_on(slot)
        };
        self.slots.iter_mut().enumerate().filter(is_so)
    }

    /// As [`OutstandingCalls::reclaim`](crate::calling::begun::OutstandingCalls::reclaim).
    pub(crate) fn reclaim(&mut self, which: Selection) -> Reclaimed {
        let mut found = Reclaimed::None;
        for (call, slot) in self.without_handles().filter(|(_, slot)| which.includes(slot.ordered)) {
            if !std::mem::replace(&mut slot.is_reclaimed, true) {
                slot.owner = Owner::Handle;
                return Reclaimed::Call(call as u32, slot.ordered);
            }
            found = Reclaimed::ByOthers;
        }
        found
    }

    /// The number of these.
    pub(crate) fn detached(&mut self) -> usize {
        self.without_handles().count()
    }

    fn disown(&mut self, call: u32, owner: Owner) -> Option<Waker> {
        let slot = self.expand(call);
        (slot.owner, slot.is_reclaimed) = (owner, false);
        let (waker, has_ended) = (slot.waker.take(), slot.has_ended());
        self.wakers -= usize::from(waker.is_some());
        if has_ended {
            self.free(call);
        }
        waker
    }

    /// The system has refused to send this packet of a call.
    pub(crate) fn not_sent(&mut self, call: u32, packet: &[u8], why: CallError, now: Instant) {
        let Ok((header, _)) = Header::parse(packet) else { return };
        let slot = self.expand(call);
        // The call may have ended, and another may use the slot; or the call may be on another lane, whose numbers begin anew.
        let here = (slot.compact.binding(), slot.lane.id(), slot.lane.number());
        let is_here = here == (header.binding, header.lane, header.number);
        // A call that was sent again may have arrived.
        let only_once = slot.lane.last_transmissions() == 1 && !slot.lane.last_was_acknowledged();
        let is_there = slot.stage == Stage::Sent && is_here && only_once;
        if is_there && slot.lane.abandon(now).is_some() {
            self.fail(call, why, now);
        }
    }

    /// Enters the thread as waiting for these calls while another thread receives.
    pub(crate) fn add_waiting(&mut self, wanted: &[u32], thread: &Arc<WaitingThread>) {
        for call in wanted {
            self.expand(*call).thread = Some(Arc::clone(thread));
        }
    }

    /// Removes the thread from these calls.
    pub(crate) fn remove_waiting(&mut self, wanted: &[u32], thread: &Arc<WaitingThread>) {
        for call in wanted {
            let slot = &mut self.slots[*call as usize];
            if slot.thread.as_ref().is_some_and(|other| Arc::ptr_eq(other, thread)) {
                slot.thread = None;
            }
        }
    }

    /// The counters of all lanes.
    pub(crate) fn counters(&self) -> CallCounters {
        let mut sum = self.past;
        self.slots.iter().for_each(|slot| sum.add_lane(slot.lane.counters()));
        sum.calls += self.slots.iter().filter(|slot| slot.compact.is_outstanding()).count() as u64;
        sum
    }
}

#[cfg(test)]
mod tests;
